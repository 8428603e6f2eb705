"""The records of a study: `records.jsonl` holds one JSON object per trial that has ended.

A record has these keys, in this order:

    id        16 hexadecimal digits that depend on config and seed only
    config    the settings of the trial, by axis
    seed      a non-negative integer
    status    one of `STATUSES`
    error     null, or {"type", "message"}
    updates   lists with one number per update: `objective`, `loss`, ...; null is not finite
    epochs    one object per epoch: {"epoch", ..., "seconds"}
    convex    null, or how far the iterates are from the optimum
    data      null, or a hash of the data
    versions  of rnnparse, Python, and the packages that results depend on
    seconds   run time of the trial
    host      where it ran

Records of equal trials differ only in `seconds`, also those within `epochs`, and in `host`.

`index.jsonl` repeats each record without its curve, so that a study with gigabytes of curves
resumes at once. It is derived data: `RecordFile` trusts only those of its lines that match the
records, and makes the others again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from rnnparse.errors import StudyError
from rnnparse.files import hold_lock, open_regular, parse_json, write_atomically
from rnnparse.study import schema
from rnnparse.study.curve import (
    Curve,
    count_updates,
    latest_values,
    leaves_bounds,
    objective,
    plain,
)
from rnnparse.study.schema import FAILURES, STATUSES, Wrong

RECORDS, INDEX_FILE, LOCK = "records.jsonl", "index.jsonl", ".lock"
"""Files of a study folder."""

LONGEST = 2**28
"""The longest line, in bytes."""

_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
_BEGIN = b'{"id":"'


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


def without_times(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without the values that differ between equal trials."""
    kept = {name: value for name, value in record.items() if name not in ("seconds", "host")}
    kept["epochs"] = [
        {name: value for name, value in epoch.items() if name != "seconds"}
        for epoch in record["epochs"]
    ]
    return kept


@dataclass(frozen=True)
class Entry:
    """A line of the index: a record without its curve.

    Attributes:
        id, config, seed, status, error, data, seconds, host: as in the record.
        updates: the number of updates.
        latest: the latest value of each metric; see `latest_values`.
        end: offset in bytes of the end of the record's line in `records.jsonl`.
    """

    id: str
    config: dict[str, Any]
    seed: int
    status: str
    error: dict[str, str] | None
    data: str | None
    seconds: float
    host: str
    updates: int
    latest: dict[str, float | None]
    end: int

    @classmethod
    def of(cls, record: Mapping[str, Any], end: int) -> Entry:
        """The entry of a record."""
        return cls(
            **{name: record[name] for name in schema.INDEXED},
            updates=count_updates(record["updates"]),
            latest=latest_values(record["updates"], record["epochs"]),
            end=end,
        )

    @classmethod
    def parse(cls, line: bytes) -> Entry:
        """The entry on a line. Raises ValueError if it is not one."""
        entry = parse_json(line)
        schema.INDEX(entry)
        _check_ends(entry)
        return cls(**entry)

    def line(self) -> bytes:
        """The entry as a line of the index."""
        return _line(vars(self))


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
        self.path, self.index = self.folder / RECORDS, self.folder / INDEX_FILE
        self._lock: IO[bytes] | None = None
        self._descriptor = -1

    def __enter__(self) -> RecordFile:
        """Make the folder, lock it, remove what a kill left half written, update the index.

        Raises:
            StudyError: another process runs the study, or the files are not those of a study.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in (self.path, self.index, self.folder / LOCK):
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
            self._write_index(self.entries())
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
        entry = Entry.of(record, size + len(line))
        # A line that is missing or torn is made again.
        with contextlib.suppress(OSError), open(self.index, "ab") as index:
            index.write(entry.line())
        return entry

    def remove(self, ids: Container[str]) -> None:
        """Remove records, so that their trials run again. A kill leaves all of them or none."""
        entries, lines, end = [], [], 0
        for entry, (_, line) in zip(self.entries(), self._lines(), strict=True):
            if entry.id not in ids:
                end += len(line)
                entries.append(replace(entry, end=end))
                lines.append(line)
        os.close(self._descriptor)
        try:
            write_atomically(self.path, lambda file: file.writelines(lines))
        finally:
            self._open()
        self._write_index(entries)

    def entries(self) -> list[Entry]:
        """The records without their curves, in the order in which the trials ended.

        Raises:
            StudyError: a record that is not in the index is damaged.
        """
        entries = self._indexed()
        end = entries[-1].end if entries else 0
        for number, line in self._lines(len(entries), end):
            end += len(line)
            entries.append(Entry.of(self._parse(number, line), end))
        return entries

    def _indexed(self) -> list[Entry]:
        """The entries of the index up to the first one that does not match the records."""
        entries: list[Entry] = []
        begin = 0
        with (
            contextlib.suppress(OSError, ValueError),  # missing, torn or damaged
            open_regular(self.index) as index,
            open_regular(self.path) as records,
        ):
            while line := index.readline(LONGEST):
                entry = Entry.parse(line)
                start = _BEGIN + entry.id.encode()
                records.seek(begin)
                if entry.end <= begin or records.read(len(start)) != start:
                    break
                records.seek(entry.end - 1)
                if records.read(1) != b"\n":
                    break
                entries.append(entry)
                begin = entry.end
        return entries

    def _write_index(self, entries: Sequence[Entry]) -> None:
        content = b"".join(entry.line() for entry in entries)
        if not self.index.exists() or self.index.read_bytes() != content:
            write_atomically(self.index, lambda file: file.write(content))

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

    def _lines(self, skipped: int = 0, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """The whole lines after some that are skipped and end at `start`, with their numbers."""
        try:
            with open_regular(self.path) as file:
                file.seek(start)
                lines = iter(lambda: file.readline(LONGEST), b"")
                for number, line in enumerate(lines, skipped + 1):
                    if line.endswith(b"\n"):
                        yield number, line
                    elif len(line) == LONGEST:
                        raise self._damaged(number, f"longer than {LONGEST:,} bytes")
        except FileNotFoundError:
            return
        except OSError as error:
            reason = f"{self.path}: {error.strerror.lower()}" if error.strerror else str(error)
            raise StudyError(reason) from None

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


def _parse_record(line: bytes) -> dict[str, Any]:
    """The record on a line. Raises ValueError if `make_record` could not have made it."""
    record: dict[str, Any] = parse_json(line)
    if isinstance(record, dict) and schema.has_large_number(line):
        # Written before such numbers counted as infinite.
        curve = {name: plain(record.get(name)) for name in ("updates", "epochs", "convex")}
        record = {**record, **curve}
    schema.RECORD(record)
    if tuple(record) != schema.KEYS:
        raise Wrong(f"its keys are not in the order {', '.join(schema.KEYS)}")
    _check_ends(record)
    diverged = leaves_bounds(objective(record["updates"], record["epochs"]))
    if record["status"] not in FAILURES and diverged != (record["status"] == "diverged"):
        raise Wrong(f"status: it is {record['status']}, which its objective contradicts")
    return record


def _check_ends(record: Mapping[str, Any]) -> None:
    """Raise Wrong if the id does not fit config and seed, or the error the status."""
    if record["id"] != trial_id(record["config"], record["seed"]):
        raise Wrong("id: it belongs to another config or seed")
    if (record["error"] is not None) != (record["status"] in FAILURES):
        raise Wrong(f"error: it does not fit the status {record['status']}")
