"""The records of a study: `records.jsonl` holds one JSON object per trial that has ended.

`rnnparse.study.schema.Record` declares a line. Records of equal trials differ only in `seconds`,
also those within `epochs`, and in `host`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from rnnparse.errors import StudyError
from rnnparse.files import hold_lock, open_regular, parse_json, write_atomically
from rnnparse.study.curve import Curve, leaves_bounds, objective, plain
from rnnparse.study.schema import (
    CURVE,
    FAILURES,
    KEYS,
    STATUSES,
    Ended,
    Entry,
    Record,
    Wrong,
    check,
    check_any,
    check_names_and_others,
)

RECORDS, LOCK = "records.jsonl", ".lock"
"""Files of a study folder."""

LONGEST = 2**28
"""The longest line, in bytes."""

_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
_BEGIN = b'{"id":"'
_ENTRIES = msgspec.json.Decoder(Entry)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]..")


def canonical(value: Any) -> str:
    """JSON of a value; equal values have equal JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def trial_id(config: Mapping[str, Any], seed: int) -> str:
    """The id of a trial: a hash of its config and seed. The order of keys does not matter."""
    content = canonical({"config": plain(config), "seed": seed})
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def data_hash(data: Mapping[str, Any]) -> str | None:
    """A hash of all hashes of a study's data, as records store it; None for no data."""
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
    """The record of a trial, as a dict with the keys of a line of `records.jsonl`.

    Raises:
        TypeError: the curve holds a value that JSON cannot hold.
        ValueError: unknown status, or an error that does not fit it.
    """
    if status not in STATUSES:
        raise ValueError(f"status must be one of {', '.join(STATUSES)}, not {status!r}")
    if (error is not None) != (status in FAILURES):
        raise ValueError(f"only the statuses {', '.join(FAILURES)} have an error, and need one")
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


class RecordFile:
    """The records of a study folder. Only one process at a time can add to them.

    Other processes may read meanwhile. They ignore a last line that has no end yet.

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

    def __repr__(self) -> str:
        return f"RecordFile({str(self.folder)!r})"

    def __enter__(self) -> RecordFile:
        """Make the folder, lock it, remove what a kill left half written.

        Raises:
            StudyError: another process runs the study, or the files are not those of a study.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in (self.path, self.folder / LOCK):
            if path.exists() and not path.is_file():
                raise StudyError(f"{path}: not a regular file; give another folder")
        try:
            self._lock = hold_lock(self.folder / LOCK)
        except BlockingIOError:
            raise StudyError(
                f"{self.folder}: another process runs this study; wait until it ends, or give "
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

    def append(self, record: Mapping[str, Any]) -> Entry:
        """Add a record: the whole record is on the disk when this returns, or none of it.

        Raises:
            OSError: the disk is full, or cannot be written.
            StudyError: the record is longer than `LONGEST`.
        """
        line = _line(record)
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
        return self._entry(0, line)

    def remove(self, ids: Container[str]) -> None:
        """Remove records, so that their trials run again. A kill leaves all of them or none."""
        lines = [line for n, line in self._lines() if self._entry(n, line).id not in ids]
        os.close(self._descriptor)
        try:
            write_atomically(self.path, lambda file: file.writelines(lines))
        finally:
            self._open()

    def entries(self) -> list[Entry]:
        """The records without their curves, in the order in which the trials ended.

        Raises:
            StudyError: a line is damaged. Numbers of curves are not checked.
        """
        return [self._entry(number, line) for number, line in self._lines()]

    def load(self) -> list[dict[str, Any]]:
        """All records, in the order in which the trials ended.

        Raises:
            StudyError: a line is damaged.
        """
        return list(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The records one by one, as `load` returns them."""
        for number, line in self._lines():
            yield self._parse(number, line)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """The whole lines with their numbers."""
        try:
            with open_regular(self.path) as file:
                lines = iter(lambda: file.readline(LONGEST), b"")
                for number, line in enumerate(lines, 1):
                    if line.endswith(b"\n"):
                        yield number, line
                    elif len(line) == LONGEST:
                        raise self._damaged(number, f"longer than {LONGEST:,} bytes")
        except FileNotFoundError:
            return
        except OSError as error:
            raise unreadable(error, self.path) from None

    def _whole_lines(self) -> int:
        """The offset of the end of the last whole line.

        Raises:
            StudyError: the bytes after it are not the start of a record.
        """
        if not os.fstat(self._descriptor).st_size:
            return 0
        with (
            open_regular(self.path) as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            end = content.rfind(b"\n") + 1
            tail = content[end : end + len(_BEGIN)]
        if not _BEGIN.startswith(tail.rstrip(b"\0")):  # a crash of the machine may leave zeros
            raise StudyError(
                f"{self.path}: the text after its last whole line is not a record; remove it, or "
                "give another folder"
            )
        return end

    def _entry(self, number: int, line: bytes) -> Entry:
        try:
            entry = _ENTRIES.decode(line)
            _check_ends(entry)
            return entry
        except (ValueError, RecursionError):  # damaged, or names that msgspec cannot read
            self._parse(number, line)
            return _ENTRIES.decode(_SURROGATE.sub(rb"\\ufffd", line))

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            return _parse_record(line)
        except ValueError as error:
            raise self._damaged(number, error) from None

    def _damaged(self, number: int, what: object) -> StudyError:
        return StudyError(
            f"{self.path}:{number}: the line is damaged: {what}; remove the line to run its trial "
            "again"
        )


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def unreadable(error: OSError, path: Path) -> StudyError:
    """The error for a file of a study that cannot be read."""
    return StudyError(f"{path}: {error.strerror.lower()}" if error.strerror else str(error))


def _parse_record(line: bytes) -> dict[str, Any]:
    """The record on a line. Raises ValueError if `make_record` could not have made it."""
    record: dict[str, Any] = parse_json(line)
    try:
        _check_record(record)
    except Wrong as wrong:
        try:  # perhaps it was written before larger numbers than `HUGE` counted as infinite
            record = {name: plain(x) if name in CURVE else x for name, x in record.items()}
            _check_record(record)
        except (AttributeError, TypeError, Wrong):
            raise wrong from None
    return record


def _check_record(record: dict[str, Any]) -> None:
    typed = check(record, Record)
    if tuple(record) != KEYS:
        raise Wrong(f"its keys are not in the order {', '.join(KEYS)}")
    check_any({name: value for name, value in record.items() if name not in CURVE})
    check_names_and_others(*(record[name] for name in CURVE))
    _check_ends(typed)
    diverged = leaves_bounds(objective(record["updates"], record["epochs"]))
    if typed.status not in FAILURES and diverged != (typed.status == "diverged"):
        raise Wrong(f"status: it is {typed.status}, which its objective contradicts")


def _check_ends(record: Ended) -> None:
    """Raise Wrong if the id does not fit config and seed, or the error the status."""
    if record.id != trial_id(record.config, record.seed):
        raise Wrong("id: it belongs to another config or seed")
    if (record.error is not None) != (record.status in FAILURES):
        raise Wrong(f"error: it does not fit the status {record.status}")
