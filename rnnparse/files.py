"""Writing files so that a kill at any moment leaves the old ones or the new ones, whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file under a temporary name beside it, then rename it.

    What is there and is no file, as a pipe or a device, is written to, not replaced.

    Raises:
        OSError: the file cannot be written; it is named, not the temporary one.
    """
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            write(file)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
        os.replace(temporary, path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(OSError):  # on drives that cannot be written
            temporary.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as `.npz`; equal arrays give equal bytes."""
    named: Mapping[str, Any] = arrays
    write_atomically(path, lambda file: np.savez(file, **named))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote; never executes code from the file.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it is damaged, or holds something else than arrays of plain types.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, EOFError, RuntimeError, AttributeError, TypeError) as error:
        # What NumPy and zipfile raise, by where the damage is; a file of one array has no names.
        raise ValueError(f"not a whole file of arrays: {error}") from error


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def hold_lock(path: Path) -> IO[bytes]:
    """Open a file that one process at a time can hold, until it is closed or the process ends.

    Raises:
        BlockingIOError: another process holds it. Where there are no locks (Windows, some
            network drives), all are let in.
        OSError: the file cannot be written.
    """
    file = open(path, "ab")  # noqa: SIM115
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise
        except OSError:
            pass  # no locks on this drive
    return file


def replace_folder(folder: Path, new: Path, old: Path) -> None:
    """Put the folder `new` in the place of `folder`, which is called `old` for a moment.

    All three lie in one folder. A kill at any moment leaves what was there, as `folder` or as
    `old`, or the new one, whole.
    """
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def checksum(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
