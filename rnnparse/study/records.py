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
from rnnparse.files import hold_lock, open_regular, parse_json, write_atomically
from rnnparse.study.curve import Curve, leaves_bounds, objective, plain
from rnnparse.study.schema import (
    FAILURES,
    HEAD,
    HEAD_NAMES,
    RECORD,
    STATUSES,
    Wrong,
    has_large_number,
)

RECORDS, LOCK = "records.jsonl", ".lock"
"""Files of a study folder."""

LONGEST = 2**28
"""Bytes that a line may have."""

_KEYS = (
    *("id", "config", "seed", "status", "error", "updates", "epochs", "convex"),
    *("data", "versions", "seconds", "host"),
)
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
_BEGIN = b'{"id":"'
_START = re.compile(_BEGIN + rb'[0-9a-f]{16}","config":\{')
_ID = slice(len(_BEGIN), len(_BEGIN) + 16)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_AFTER_ERROR = b',"updates":{'
_BEFORE_DATA, _AFTER_DATA = b',"data":', b',"versions":{'
_BEFORE_SECONDS = b',"seconds":'


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
        ValueError: no such status, or an error that does not go with it.
    """
    if status not in STATUSES:
        raise ValueError(f"status must be one of {', '.join(STATUSES)}, not {status!r}")
    if (error is not None) != (status in FAILURES):
        raise ValueError(f"{', '.join(FAILURES)} need an error, other statuses have none")
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
            StudyError: another process adds to it, or the files are not those of a study.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in (self.path, self.folder / LOCK):
            if path.exists() and not path.is_file():
                raise StudyError(f"{path}: not a regular file; give another folder")
        try:
            self._lock = hold_lock(self.folder / LOCK)
        except BlockingIOError:
            raise StudyError(
                f"{self.folder}: another process runs this study; wait for its end, or give "
                "another folder"
            ) from None
        self._open()
        try:
            os.ftruncate(self._descriptor, self._whole_lines())
        except BaseException:
            self.__exit__()
            raise
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
            StudyError: it is larger than a line may be.
        """
        line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        if len(line) > LONGEST:
            raise StudyError(
                f"{self.path}: the record of trial {record['id']} has {len(line):,} bytes, more "
                f"than {LONGEST:,}; let trials record fewer numbers"
            )
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
            try:
                head = _read_head(line)
            except ValueError as error:
                raise self._damaged(number, error) from None
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
            try:
                record = _read_record(line)
            except ValueError as error:
                raise self._damaged(number, error) from None
            yield record

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with open_regular(self.path) as file:
                for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
                    if line.endswith(b"\n"):
                        yield number, line
                    elif len(line) == LONGEST:
                        raise self._damaged(number, f"it has more than {LONGEST:,} bytes")
        except FileNotFoundError:
            return
        except OSError as error:
            reason = f"{self.path}: {error.strerror.lower()}" if error.strerror else str(error)
            raise StudyError(reason) from None

    def _whole_lines(self) -> int:
        """The size of the file up to the end of its last whole line.

        Raises:
            StudyError: what follows is nothing that a driver has left when it was killed.
        """
        with open_regular(self.path) as file:
            end = place = file.seek(0, os.SEEK_END)
            while place:
                begin = max(0, place - (1 << 16))
                file.seek(begin)
                line = file.read(place - begin).rfind(b"\n")
                place = begin + line + 1 if line >= 0 else begin
                if line >= 0:
                    break
            file.seek(place)
            tail = file.read(len(_BEGIN))
        # A crash of the machine may leave zeros.
        if end > place and not _BEGIN.startswith(tail.rstrip(b"\0")):
            raise StudyError(
                f"{self.path}: after its last whole line it has what is no record; remove that, or "
                "give another folder"
            )
        return place

    def _damaged(self, number: int, what: object) -> StudyError:
        return StudyError(
            f"{self.path}:{number}: the line is damaged: {what}; remove the line, and its trial "
            "runs again"
        )


def _read_head(line: bytes) -> dict[str, Any]:
    """A record without its curve, which is cut out of the line and not looked at."""
    middle, tail = line.find(_AFTER_ERROR), line.rfind(_BEFORE_SECONDS)
    if not _START.match(line) or min(middle, tail) < 0:
        raise Wrong("it does not have the parts of a record in their order")
    data, end = line.rfind(_BEFORE_DATA), line.rfind(_AFTER_DATA)
    try:
        head = parse_json(line[:middle] + line[data:end] + line[tail:])
        HEAD(head)
    except ValueError:  # the line is damaged, or an axis is called `updates`
        record = _read_record(line)
        return {name: record[name] for name in HEAD_NAMES}
    _check_head(head)
    return dict(head)


def _read_record(line: bytes) -> dict[str, Any]:
    """The record on a line. ValueError where `make_record` could not have made it."""
    record: dict[str, Any] = parse_json(line)
    if isinstance(record, dict) and has_large_number(line):
        # Written before such numbers counted as infinite.
        curve = {name: plain(record.get(name)) for name in ("updates", "epochs", "convex")}
        record = {**record, **curve}
    RECORD(record)
    if tuple(record) != _KEYS:
        raise Wrong(f"the order of its names is not {', '.join(_KEYS)}")
    _check_head(record)
    diverged = leaves_bounds(objective(record["updates"], record["epochs"]))
    if record["status"] not in FAILURES and diverged != (record["status"] == "diverged"):
        raise Wrong(f"status: it is {record['status']}, but its objective tells otherwise")
    return record


def _check_head(head: Mapping[str, Any]) -> None:
    """Whether the parts of a record, but for its curve, agree. Raises Wrong where they do not."""
    if head["id"] != trial_id(head["config"], head["seed"]):
        raise Wrong("id: it is that of another config or seed")
    if (head["error"] is not None) != (head["status"] in FAILURES):
        raise Wrong(f"error: it does not go with the status {head['status']}")


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
