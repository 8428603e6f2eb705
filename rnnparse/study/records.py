"""The records of a study: one JSON object a finished trial, one line each, in one file.

A record has these keys, in this order:

    id        16 hexadecimal digits that depend on config and seed alone
    config    the settings of the trial, by axis
    seed      a whole number
    status    one of `STATUSES`
    error     null, or {"type", "message"}
    updates   lists with one number an update: `objective`, `loss`, ...; null is not finite
    epochs    one object an epoch: {"epoch", ..., "seconds"}
    convex    null, or how far the iterates are from the optimum
    data      null, or a hash of the data
    versions  of rnnparse, Python, and the packages that numbers depend on
    seconds   that the trial took
    host      where it ran

Records of equal trials are equal but for `seconds`, those within `epochs` too, and `host`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from rnnparse.errors import StudyError
from rnnparse.files import hold_lock, write_atomically, write_json
from rnnparse.study.curve import Curve, plain

STATUSES = ("finished", "diverged", "failed", "out of memory")
"""How a trial ended."""

RECORDS, STUDY, LOCK = "records.jsonl", "study.json", ".lock"
"""Files of a study folder."""

FAILURES = ("failed", "out of memory")
"""Statuses of trials that gave no result, and might another time."""

FORMAT = 1

_KEYS = (
    *("id", "config", "seed", "status", "error", "updates", "epochs", "convex"),
    *("data", "versions", "seconds", "host"),
)
_HEAD = {"id", "config", "seed", "status", "error", "data", "seconds", "host"}
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
_START = re.compile(rb'\{"id":"[0-9a-f]{16}","config":\{')
_ID = slice(len('{"id":"'), len('{"id":"') + 16)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_AFTER_ERROR = b',"updates":{'
_BEFORE_DATA, _AFTER_DATA = b',"data":', b',"versions":{'
_BEFORE_SECONDS = b',"seconds":'
_NUMBERS = {int, float, type(None)}
_ABOUT: dict[str, tuple[type, ...]] = {
    **{"name": (str,), "space": (dict,), "created": (str,), "versions": (dict,)},
    **{"data": (dict, type(None)), "gold": (list, type(None)), "measure": (dict, type(None))},
    **{"sizes": (dict, type(None)), "baselines": (dict, type(None))},
}


def canonical(value: Any) -> str:
    """JSON of a value, the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def trial_id(config: Mapping[str, Any], seed: int) -> str:
    """What a trial is known by: equal for equal settings and seed, whatever the order of keys."""
    text = canonical({"config": plain(config), "seed": seed})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def data_hash(data: Mapping[str, Any]) -> str | None:
    """A hash of the hashes of a study's data, as records have it; None for no data."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:16] if data else None


def make_record(
    config: Mapping[str, Any],
    seed: int,
    status: str,
    curve: Curve,
    *,
    error: Mapping[str, str] | None = None,
    data: str | None = None,
    versions: Mapping[str, str] | None = None,
    seconds: float = 0.0,
    host: str = "",
) -> dict[str, Any]:
    """A record of a trial; see the head of this module.

    Raises:
        TypeError: the curve has something that JSON cannot hold.
        ValueError: no such status.
    """
    if status not in STATUSES:
        raise ValueError(f"status must be one of {', '.join(STATUSES)}, not {status!r}")
    return {
        "id": trial_id(config, seed),
        "config": plain(config),
        "seed": seed,
        "status": status,
        "error": None if error is None else dict(error),
        "updates": plain(curve.updates),
        "epochs": [{"epoch": i, **plain(epoch)} for i, epoch in enumerate(curve.epochs, 1)],
        "convex": plain(curve.convex),
        "data": data,
        "versions": dict(versions or {}),
        "seconds": round(seconds, 3),
        "host": host,
    }


def without_times(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without what differs between equal runs."""
    kept = {name: value for name, value in record.items() if name not in ("seconds", "host")}
    kept["epochs"] = [
        {name: value for name, value in epoch.items() if name != "seconds"}
        for epoch in record["epochs"]
    ]
    return kept


class RecordFile:
    """The records of a study folder; one driver at a time can add to them.

    Anybody may read while a driver writes: a last line without its end is not there yet.

    Args:
        folder: of the study.

    Example:
        >>> with RecordFile("study") as file:
        ...     file.append(record)
        >>> len(RecordFile("study").load())
        1
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / RECORDS
        self._lock: IO[bytes] | None = None
        self._descriptor = -1

    def __enter__(self) -> RecordFile:
        """Make the folder, keep others from adding, cut off what a kill left half written.

        Raises:
            StudyError: another process adds to it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = hold_lock(self.folder / LOCK)
        except BlockingIOError:
            raise StudyError(
                f"{self.folder}: another process runs this study; wait for its end, or give "
                "another folder"
            ) from None
        self._open()
        os.ftruncate(self._descriptor, _whole_lines(self.path))
        return self

    def _open(self) -> None:
        self._descriptor = os.open(self.path, _APPENDING, 0o666)

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        if self._lock is not None:
            self._lock.close()

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record: it is on the disk as a whole, or not in the file.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        size = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise

    def remove(self, ids: Container[str]) -> None:
        """Take records out, so that their trials run again; a kill leaves all or none of them."""
        kept = [line for _, line in self._lines() if line[_ID].decode() not in ids]
        os.close(self._descriptor)
        try:
            write_atomically(self.path, lambda file: file.writelines(kept))
        finally:
            self._open()

    def heads(self, measure: str | None = None) -> Iterator[dict[str, Any]]:
        """Of each record id, config, seed, status, error, data, seconds, host, but not its curve.

        Args:
            measure: also give the latest value of this quantity, as `value`; see `Curve.last`.

        Raises:
            StudyError: a line is damaged.
        """
        for number, line in self._lines():
            middle, tail = line.find(_AFTER_ERROR), line.rfind(_BEFORE_SECONDS)
            if not _START.match(line) or min(middle, tail) < 0:
                raise self._damaged(number)
            data, end = line.rfind(_BEFORE_DATA), line.rfind(_AFTER_DATA)
            try:
                head = json.loads(line[:middle] + line[data:end] + line[tail:])
            except ValueError:
                head = self._parse(number, line)  # an axis is called `updates`
            if not _is_head(head):
                raise self._damaged(number)
            if measure is not None:
                head["value"] = _latest(line, measure)
            yield head

    def finished_ids(self) -> set[str]:
        """The ids of all records. Raises StudyError where a line is damaged."""
        return {head["id"] for head in self.heads()}

    def load(self) -> list[dict[str, Any]]:
        """All records, in the order in which their trials ended.

        Raises:
            StudyError: a line is damaged.
        """
        return list(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The records one by one, as `load` does."""
        for number, line in self._lines():
            yield self._parse(number, line)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with open(self.path, "rb", buffering=1 << 20) as file:
                for number, line in enumerate(file, 1):
                    if line.endswith(b"\n"):
                        yield number, line
        except FileNotFoundError:
            return

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(line, parse_constant=_refuse_constant)
        except ValueError:
            raise self._damaged(number) from None
        if not _is_record(record):
            raise self._damaged(number)
        return record

    def _damaged(self, number: int) -> StudyError:
        return StudyError(
            f"{self.path}:{number}: the line is damaged; remove it, and its trial runs again"
        )


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and the like are no JSON


def _is_head(head: Any) -> bool:
    """Whether all but the curve is as `make_record` has it, with the id of config and seed."""
    if not (isinstance(head, dict) and set(head) >= _HEAD and isinstance(head["config"], dict)):
        return False
    error = head["error"]
    return (
        type(head["seed"]) is int
        and head["id"] == trial_id(head["config"], head["seed"])
        and head["status"] in STATUSES
        and (error is None or (isinstance(error, dict) and {"type", "message"} <= set(error)))
        and type(head["seconds"]) in (int, float)
    )


def _is_record(record: Any) -> bool:
    """Whether all is as `make_record` has it."""
    if not (isinstance(record, dict) and tuple(record) == _KEYS and _is_head(record)):
        return False
    updates, epochs = record["updates"], record["epochs"]
    return (
        isinstance(updates, dict)
        and all(isinstance(x, list) and set(map(type, x)) <= _NUMBERS for x in updates.values())
        and isinstance(epochs, list)
        and all(isinstance(x, dict) and type(x.get("dev_f1")) in _NUMBERS for x in epochs)
        and isinstance(record["convex"], (dict, type(None)))
    )


def _latest(line: bytes, name: str) -> float | None:
    """The last number that a record has under a name, alone or at the end of a list."""
    key = json.dumps(name).encode() + b":"
    start = line.rfind(key)
    if start < 0:
        return None
    start += len(key)
    if line.startswith(b"[", start):
        end = line.find(b"]", start)
        start = max(start, line.rfind(b",", start, end)) + 1
    number = _NUMBER.match(line, start)
    return None if number is None else float(number[0])


def _whole_lines(path: Path) -> int:
    """The size of a file up to the end of its last whole line."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - (1 << 16))
            file.seek(begin)
            place = file.read(end - begin).rfind(b"\n")
            if place >= 0:
                return begin + place + 1
            end = begin
    return 0


def write_study(folder: Path, about: Mapping[str, Any]) -> None:
    """Write what a study is about: name, space, data and so on; see `Study`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / STUDY, {"format": FORMAT, **about})


def read_study(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_study` wrote.

    Raises:
        StudyError: there is none, it is damaged, or of another format.
    """
    path = Path(folder) / STUDY
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{folder}: no study is there (no {STUDY})") from None
    except ValueError as error:
        raise _damaged_study(path, str(error)) from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise StudyError(f"{path}: expected a study of format {FORMAT}")
    for name, kinds in _ABOUT.items():
        if not isinstance(about.get(name), kinds):
            raise _damaged_study(path, f"{name} is missing, or of another type")
    if not {"axes", "seeds", "fixed"} <= set(about["space"]):
        raise _damaged_study(path, "the space lacks axes, seeds or fixed")
    if about.get("measure") and not {"name", "maximize"} <= set(about["measure"]):
        raise _damaged_study(path, "the measure lacks name or maximize")
    for name in ("sizes", "baselines"):
        if not set(map(type, (about.get(name) or {}).values())) <= {int, float}:
            raise _damaged_study(path, f"{name} are no numbers")
    return about


def _damaged_study(path: Path, what: str) -> StudyError:
    return StudyError(
        f"{path}: the file is damaged: {what}; remove it, and the command that began the study "
        "writes it again"
    )
