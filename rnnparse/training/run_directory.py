"""The folder `<model>.partial`, which holds what an unfinished run has done so far."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnparse.errors import ConfigError, ModelError
from rnnparse.files import (
    hold_lock,
    read_json,
    without_temporary,
    write_atomically,
    write_json,
)
from rnnparse.json_text import to_json

_LOG = logging.getLogger("rnnparse")
_NOTE, _LOCK = "run.json", "lock"
_STATE = re.compile(r"(network|fold-\d+)\.npz")
_LOG_FILE = re.compile(r"(network|telemetry|fold-\d+|telemetry-fold-\d+)\.jsonl")


class RunDirectory:
    """States and logs of a run, by name; one process at a time works in it.

    The file `lock` marks the folder as one of ours; what else is in it stays.

    Args:
        out: the model folder that the run will write.
        resume: keep what an earlier run has left; otherwise it is removed.

    Raises:
        ConfigError: the folder cannot be made, is not ours, or another run works in it.
    """

    def __init__(self, out: Path, resume: bool) -> None:
        self.folder = _folder(out)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign()
            self._lock = hold_lock(self.folder / _LOCK)
            if not resume:
                if _files(self.folder, _STATE):
                    _LOG.warning("%s: the unfinished run is discarded and begun anew", self.folder)
                self._remove()
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.folder}: another run works here; wait for it, or give another --out"
            ) from error
        except OSError as error:
            raise ConfigError(f"cannot write to {self.folder}: {error.strerror}") from error

    def _refuse_foreign(self) -> None:
        """Raise ConfigError where something of the name of one of our files is not ours."""
        marked = (self.folder / _LOCK).is_file()
        for path in sorted(self.folder.iterdir()):
            if _is_ours(path.name) and not (marked and path.is_file()):
                raise ConfigError(
                    f"{self.folder}: {path.name} in it was not written by a run of rnnparse; move "
                    "it to another place, or give another --out"
                )

    def state_file(self, name: str) -> Path:
        """Where the state of a network's training is kept."""
        return self.folder / f"{name}.npz"

    def agree(self, run: Mapping[str, Any]) -> None:
        """Note what decides the result of a run, or compare it with what is noted.

        Raises:
            ConfigError: the earlier run was another one; the message names what differs.
            ModelError: the note is damaged.
        """
        note = self.folder / _NOTE
        if not note.exists():
            write_json(note, run, durable=True)
            return
        try:
            noted = dict(read_json(note))
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
        lines = "".join(to_json(entry) + "\n" for entry in history)
        file = self.folder / f"{name}.jsonl"
        write_atomically(file, lambda stream: stream.write(lines.encode("utf-8")))

    def copy_logs(self, model: Path) -> None:
        """Copy the logs to the folder of the model."""
        for log in _files(self.folder, _LOG_FILE):
            shutil.copy(log, model / log.name)

    def finish(self) -> None:
        """Remove what was kept, as the model is written."""
        self._remove()
        (self.folder / _LOCK).unlink()
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def close(self) -> None:
        """Let other processes in."""
        self._lock.close()

    def _remove(self) -> None:
        # File by file, so that nothing is lost that happens to lie in a folder of this name.
        for file in self.folder.iterdir():
            if _is_ours(file.name) and file.name != _LOCK and file.is_file():
                file.unlink()


def is_written(out: Path) -> bool:
    """Whether the model folder is there and has the logs of the unfinished run, so is its own."""
    try:
        logs = _files(_folder(out), _LOG_FILE)
        return bool(logs) and all((out / log.name).read_bytes() == log.read_bytes() for log in logs)
    except OSError:
        return False


def _folder(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


def _files(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    files = (file for file in folder.iterdir() if pattern.fullmatch(file.name))
    return sorted(file for file in files if file.is_file())


def _is_ours(name: str) -> bool:
    """Whether a file of a workspace has a name that runs give."""
    name = without_temporary(name)
    known = name in (_NOTE, _LOCK) or _STATE.fullmatch(name) or _LOG_FILE.fullmatch(name)
    return bool(known)
