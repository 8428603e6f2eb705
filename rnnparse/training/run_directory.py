"""The folders of a training run; `<model>.partial` holds the state of an unfinished run."""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path
from typing import Any

from rnnparse.config import TrainingConfig, with_present_names
from rnnparse.errors import ConfigError, ModelError
from rnnparse.files import (
    hold_lock,
    read_json,
    without_temporary,
    write_atomically,
    write_json,
)
from rnnparse.json_text import to_json
from rnnparse.telemetry.tensorboard import require_tensorboard
from rnnparse.training.kbest_cache import cache_folder

_LOG = logging.getLogger("rnnparse")
_DESCRIPTION, _LOCK = "run.json", "lock"
_STATE = re.compile(r"(spans-)?(network|fold-\d+)\.npz")
_LOG_FILE = re.compile(r"(network|telemetry|fold-\d+|telemetry-fold-\d+)\.jsonl")


class RunDirectory:
    """The folder `<model>.partial` with the states and logs of a run, for one process at a time.

    The file `lock` marks a folder that a run has made. Other files in it are never removed.

    Args:
        out: the model folder that the run will write.
        resume: whether to keep the files of an earlier run; otherwise they are removed.

    Raises:
        ConfigError: the folder cannot be written to, is in use by another run, or holds files that
            no run has written.
    """

    def __init__(self, out: Path, resume: bool) -> None:
        self.folder = _folder(out)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign()
            self._lock = hold_lock(self.folder / _LOCK)
            if not resume:
                if _files(self.folder, _STATE):
                    _LOG.warning("%s: the unfinished run is discarded", self.folder)
                self._remove()
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.folder}: another run is using this folder; wait for it, or change --out"
            ) from error
        except OSError as error:
            raise ConfigError(f"cannot write to {self.folder}: {error.strerror}") from error

    def _refuse_foreign(self) -> None:
        """Raise ConfigError if a file with the name of a run's file is not from a run."""
        marked = (self.folder / _LOCK).is_file()
        for path in sorted(self.folder.iterdir()):
            if _is_ours(path.name) and not (marked and path.is_file()):
                raise ConfigError(
                    f"{self.folder}: {path.name} in it was not written by a run of rnnparse; move "
                    "it elsewhere, or choose another --out"
                )

    def state_file(self, name: str) -> Path:
        """The file for the state of a network's training."""
        return self.folder / f"{name}.npz"

    def check_description(self, run: dict[str, Any]) -> dict[str, Any]:
        """Record what decides the result of a run, or compare it with an earlier record.

        Returns:
            The record, which may give settings their former names.

        Raises:
            ConfigError: the earlier run had other data or settings; the message names them.
            ModelError: the record is damaged.
        """
        file = self.folder / _DESCRIPTION
        if not file.exists():
            write_json(file, run, durable=True)
            return run
        try:
            recorded = dict(read_json(file))
            noted = with_present_names(recorded)
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"{file}: damaged ({error}); train without --resume") from error
        differing = [
            f"{name} was {noted.get(name)}, is {run.get(name)}"
            for name in dict.fromkeys([*noted, *run])
            if noted.get(name) != run.get(name)
        ]
        if differing:
            raise ConfigError(
                f"{self.folder}: the interrupted run had other data or settings "
                f"({'; '.join(differing)}); use the same ones, or train without --resume"
            )
        return recorded

    def log(self, name: str, history: list[dict[str, Any]]) -> None:
        """Write the log of a network's training, with one line per epoch."""
        lines = "".join(to_json(entry) + "\n" for entry in history)
        file = self.folder / f"{name}.jsonl"
        write_atomically(file, lambda stream: stream.write(lines.encode("utf-8")))

    def copy_logs(self, model: Path) -> None:
        """Copy the logs to the model folder."""
        for log in _files(self.folder, _LOG_FILE):
            shutil.copy(log, model / log.name)

    def finish(self) -> None:
        """Remove the run's files, once the model is written."""
        self._remove()
        (self.folder / _LOCK).unlink()
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def _remove(self) -> None:
        # File by file, so that no other file in the folder is lost.
        for file in self.folder.iterdir():
            if _is_ours(file.name) and file.name != _LOCK and file.is_file():
                file.unlink()


def check_places(config: TrainingConfig, out: Path) -> None:
    """Create the other folders that a run writes to, before any work begins.

    Args:
        config: the settings.
        out: the model folder, resolved.

    Raises:
        ConfigError: a folder cannot be written to, or lies inside the model folder or the folder of
            the unfinished run.
        MissingExtraError: TensorBoard is not installed.
    """
    for name in ("tensorboard", "cache"):
        given = getattr(config, name)
        if given is None:
            continue
        place = Path(given).resolve()
        for taken in (out, _folder(out)):
            if place.is_relative_to(taken):
                raise ConfigError(
                    f"the {name} folder {given} is inside {taken}, which only the model may use; "
                    f"choose another folder with --{name}"
                )
    require_tensorboard(config.tensorboard)
    cache_folder(config.cache)


def is_written(out: Path) -> bool:
    """Whether the model folder is the result of the unfinished run: it has the same logs."""
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
    """Whether a run gives files this name."""
    name = without_temporary(name)
    known = name in (_DESCRIPTION, _LOCK) or _STATE.fullmatch(name) or _LOG_FILE.fullmatch(name)
    return bool(known)
