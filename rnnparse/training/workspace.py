"""The folder `<model>.partial`, which holds what an unfinished run has done so far."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnparse.errors import ConfigError, ModelError
from rnnparse.files import hold_lock, write_atomically, write_json

_LOG = logging.getLogger("rnnparse")
_STATE, _LOGS, _LOCK = ("run.json", "*.npz", ".*.tmp"), ("*.jsonl",), "lock"


class Workspace:
    """States and logs of a run, by name; one process at a time works in it.

    Args:
        out: the model folder that the run will write.
        resume: keep what an earlier run has left; otherwise it is removed.

    Raises:
        ConfigError: the folder cannot be made, or another run works in it.
    """

    def __init__(self, out: Path, resume: bool) -> None:
        self.folder = out.with_name(out.name + ".partial")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = hold_lock(self.folder / _LOCK)
            if not resume:
                if self._files("*.npz"):
                    _LOG.warning("%s: the unfinished run is discarded and begun anew", self.folder)
                self._remove(*_STATE, *_LOGS)
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.folder}: another run works here; wait for it, or give another --out"
            ) from error
        except OSError as error:
            raise ConfigError(f"cannot write to {self.folder}: {error.strerror}") from error

    def state_file(self, name: str) -> Path:
        """Where the state of a network's training is kept."""
        return self.folder / f"{name}.npz"

    def agree(self, run: Mapping[str, Any]) -> None:
        """Note what decides the result of a run, or compare it with what is noted.

        Raises:
            ConfigError: the earlier run was another one; the message names what differs.
            ModelError: the note is damaged.
        """
        note = self.folder / "run.json"
        if not note.exists():
            write_json(note, run)
            return
        try:
            noted = dict(json.loads(note.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"{note}: damaged ({error}); train without --resume") from error
        differing = [
            f"{name} was {noted.get(name)}, is {run.get(name)}"
            for name in dict.fromkeys([*noted, *run])
            if noted.get(name) != run.get(name)
        ]
        if differing:
            raise ConfigError(
                f"{self.folder}: the interrupted run had other data or settings "
                f"({'; '.join(differing)}); give the same ones, or train without --resume"
            )

    def log(self, name: str, history: list[dict[str, Any]]) -> None:
        """Write the log of a network's training, one line an epoch."""
        lines = "".join(json.dumps(entry) + "\n" for entry in history)
        file = self.folder / f"{name}.jsonl"
        write_atomically(file, lambda stream: stream.write(lines.encode("utf-8")))

    def finish(self, model: Path) -> None:
        """Copy the logs to the model, which is written, and remove the rest."""
        for log in self._files(*_LOGS):
            shutil.copy(log, model / log.name)
        self._remove(*_STATE, *_LOGS, _LOCK)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def close(self) -> None:
        """Let other processes in."""
        self._lock.close()

    def _files(self, *patterns: str) -> list[Path]:
        return sorted(file for pattern in patterns for file in self.folder.glob(pattern))

    def _remove(self, *patterns: str) -> None:
        # File by file, so that nothing is lost that happens to lie in a folder of this name.
        for file in self._files(*patterns):
            file.unlink()
