"""Single files: written so that a kill leaves the old one or the new one, and read with distrust.

What is read may come from a stranger. Only regular files are opened, so that no pipe or device can
block; nothing is executed; an archive cannot unpack to more than its own size; and whatever
`write_arrays` or `write_json` could not have written is a ValueError.

A rename alone survives a kill, but not a power failure: the drive may keep the new name and lose
the content. `durable=True` therefore waits until both are on the drive (fsync), at the cost of
some milliseconds a file. What took work to make is written in this way: models, checkpoints and
the notes of a run (study records are synchronised one by one, see `rnnparse.study.records`). Caches
and reports are not: they can be made again, and damage to a cache is noticed when it is read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from rnnparse.json_text import to_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.tmp", re.DOTALL)

# -- writing -----------------------------------------------------------------------------------


def write_atomically(
    path: Path, write: Callable[[IO[bytes]], Any], *, durable: bool = False
) -> None:
    """Write a file under a temporary name beside it, then rename it.

    A symbolic link stays, and the file that it names is replaced. A pipe or a device is written
    to, not replaced.

    Args:
        path: the file.
        write: writes the content to the open file.
        durable: return only when the file would survive a power failure.

    Raises:
        OSError: the file cannot be written; it is named, not the temporary one.
    """
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            write(file)
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        file = open(temporary, "xb")  # noqa: SIM115 (never a file that is there already)
        try:
            with file:
                write(file)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):  # on drives that cannot be written
                temporary.unlink(missing_ok=True)
        if durable:
            sync(target.parent)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def without_temporary(name: str) -> str:
    """The name of the file that a kill left under a temporary name; other names as they are."""
    temporary = _TEMPORARY.fullmatch(name)
    return temporary["name"] if temporary else name


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the drive, where it can."""
    with contextlib.suppress(OSError):  # Windows has no such thing for folders, nor some drives
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], *, durable: bool = False) -> None:
    """Write arrays as `.npz`, uncompressed and in C order; equal arrays give equal bytes.

    Raises:
        OSError: the file cannot be written, or a folder, a pipe or a device has its name.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "exists and is not a regular file", str(path))
    named: dict[str, Any] = {name: np.asarray(a, order="C") for name, a in arrays.items()}
    write_atomically(path, lambda file: np.savez(file, **named), durable=durable)


def write_json(path: Path, value: Any, *, durable: bool = False) -> None:
    """Write a value as JSON, by `to_json`."""
    text = to_json(value, indent=2) + "\n"
    write_atomically(path, lambda file: file.write(text.encode("utf-8")), durable=durable)


def make_writable(folder: Path) -> None:
    """Make a folder, with those above it, and see whether files can be written there.

    Raises:
        OSError: they cannot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def private_folder() -> Path:
    """A folder among the temporary ones that belongs to this user, and that others cannot enter.

    Raises:
        OSError: it cannot be made, or somebody else has made it.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"  # on Windows each user has an own one
    folder = Path(tempfile.gettempdir()) / f"rnnparse-{user}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(folder))
    if user != "user" and (state.st_uid != user or state.st_mode & 0o077):
        raise PermissionError(errno.EPERM, "others have access to it", str(folder))
    make_writable(folder)
    return folder


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


# -- reading -----------------------------------------------------------------------------------


def read_regular(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: it is missing, cannot be read, or is a folder, a pipe or a device.
    """
    with open_regular(path) as file:
        return file.read()


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file for reading.

    Raises:
        OSError: it is missing, cannot be read, or is a folder, a pipe or a device.
    """
    # Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return open(descriptor, "rb")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote; see `parse_arrays`.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it is damaged, or not what `write_arrays` could have written.
    """
    return parse_arrays(read_regular(path))


def parse_arrays(content: bytes) -> dict[str, np.ndarray]:
    """The arrays in the bytes of an `.npz` file; never executes code from it.

    Returns:
        Arrays of booleans or numbers, contiguous and writable, in the order of the file.

    Raises:
        ValueError: the file is damaged, or not what `write_arrays` could have written.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if len({member.filename for member in members}) < len(members):
                raise ValueError("a name occurs twice in the archive")
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise ValueError("a part of the archive is compressed")
            if sum(member.file_size for member in members) > len(content):
                raise ValueError("the archive is shorter than its parts")
            view = memoryview(content)
            return {m.filename.removesuffix(".npy"): _array(_stored(view, m)) for m in members}
    # What zipfile and NumPy raise, by where the damage is.
    except (zipfile.BadZipFile, EOFError, RuntimeError, struct.error, OverflowError) as error:
        raise ValueError(f"not a whole file of arrays: {error}") from error


_NPY_HEADER = 1024
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][biuf][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,18}, )*(?:\d{1,18},?)?)\), \} *\n",
    re.DOTALL,
)


def _stored(content: memoryview, member: zipfile.ZipInfo) -> memoryview:
    """The bytes of an uncompressed part of an archive; unlike `ZipFile.read`, without a copy."""
    place = member.header_offset
    signature, name, extra = struct.unpack("<4s22xHH", content[place : place + 30])
    start = place + 30 + name + extra
    part = content[start : start + member.file_size]
    if signature != b"PK\3\4" or zlib.crc32(part) != member.CRC:
        raise zipfile.BadZipFile(f"bad checksum of {member.filename}")
    return part


def _array(content: memoryview) -> np.ndarray:
    """The array in the bytes of an `.npy` file as NumPy writes it: plain numbers in C order."""
    header = _NPY.match(bytes(content[:_NPY_HEADER]))
    if header is None or int.from_bytes(content[8:10], "little") != header.end() - 10:
        raise ValueError("not an array of plain numbers in C order")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in header[2].split(b",") if size)
    if not dtype.isnative:
        raise ValueError("an array of a machine with another order of bytes")
    if math.prod(shape) * dtype.itemsize != len(content) - header.end():
        raise ValueError("an array that is shorter or longer than its header says")
    array = np.ndarray(shape, dtype, content, header.end()).copy()
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError("an array of booleans that are neither true nor false")
    return array


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote; see `parse_json`.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it is damaged, or not what `write_json` could have written.
    """
    return parse_json(read_regular(path))


def parse_json(content: bytes) -> Any:
    """The value in the bytes of a JSON file.

    Raises:
        ValueError: no JSON in UTF-8; a member that occurs twice; a number that is not finite;
            nesting so deep that Python cannot follow it.
    """
    # Where no number is long, Python's own and faster function for them will do.
    number = _finite if _LONG_NUMBER.search(content) else None
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_members,
            parse_float=number,
            parse_constant=_not_finite,
        )
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        raise ValueError(on_digits(error)) from None


_LONG_NUMBER = re.compile(rb"[eE]\+?\d{3}|\d{300}")


def on_digits(error: ValueError) -> str:
    """The message of an error, in other words where Python refuses a number for its length."""
    if "integer string conversion" not in str(error):
        return str(error)
    return f"a number has more than {sys.get_int_max_str_digits():,} digits"


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is there twice")
    return members


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _not_finite(digits)


def _not_finite(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is not a finite number")


def checksum(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
