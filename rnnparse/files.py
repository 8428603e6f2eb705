"""Write single files atomically, and read files that are not trusted.

Files may come from a stranger. Only regular files are opened, so that no pipe or device can block;
nothing is executed; an archive cannot unpack to more than its own size; and contents that
`write_arrays` or `write_json` never write are a ValueError.

A rename survives a kill, but not a power failure: the drive may keep the new name and lose the
content. `durable=True` waits until both are on the drive (fsync), which takes a few milliseconds
per file. Models, checkpoints and the state of a run are durable. Caches and reports are not: they
can be made again, and readers detect damage to a cache.
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

    The target of a symbolic link is replaced, not the link. Pipes and devices are written to, not
    replaced.

    Args:
        path: the file.
        write: writes the content to the open file.
        durable: return only when the file survives a power failure.

    Raises:
        OSError: the file cannot be written; the error has its name, not the temporary one.
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
    """The final name of a file that a kill left under its temporary name; other names unchanged."""
    temporary = _TEMPORARY.fullmatch(name)
    return temporary["name"] if temporary else name


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the drive, if possible."""
    with contextlib.suppress(OSError):  # some drives do not support it, nor Windows for folders
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
    """Make a folder and its parents, and check that files can be written there.

    Raises:
        OSError: files cannot be written there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def private_folder() -> Path:
    """A temporary folder of this user that others cannot enter.

    Raises:
        OSError: it cannot be made, or another user has made it.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"  # Windows: one per user
    folder = Path(tempfile.gettempdir()) / f"rnnparse-{user}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(folder))
    if user != "user" and (state.st_uid != user or state.st_mode & 0o077):
        raise PermissionError(errno.EPERM, "other users can access it", str(folder))
    make_writable(folder)
    return folder


def hold_lock(path: Path) -> IO[bytes]:
    """Open a file that one process at a time can hold, until it is closed or the process ends.

    Raises:
        BlockingIOError: another process holds it. Without file locks (Windows, some network
            drives) this is never raised.
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
    """Read a file of `write_arrays`; see `parse_arrays`.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it is damaged, or has contents that `write_arrays` never writes.
    """
    return parse_arrays(read_regular(path))


def parse_arrays(content: bytes) -> dict[str, np.ndarray]:
    """The arrays in the bytes of an `.npz` file. No code in it is executed.

    Returns:
        Arrays of booleans or numbers, contiguous and writable, in the order of the file.

    Raises:
        ValueError: the file is damaged, or has contents that `write_arrays` never writes.
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
    # The errors of zipfile and NumPy, depending on the damage.
    except (zipfile.BadZipFile, EOFError, RuntimeError, struct.error, OverflowError) as error:
        raise ValueError(f"not a complete file of arrays: {error}") from error


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
    """The array in the bytes of an `.npy` file: numbers or booleans in C order."""
    header = _NPY.match(bytes(content[:_NPY_HEADER]))
    if header is None or int.from_bytes(content[8:10], "little") != header.end() - 10:
        raise ValueError("not an array of numbers in C order")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in header[2].split(b",") if size)
    if not dtype.isnative:
        raise ValueError("an array in another byte order")
    if math.prod(shape) * dtype.itemsize != len(content) - header.end():
        raise ValueError("the size of an array differs from its header")
    array = np.ndarray(shape, dtype, content, header.end()).copy()
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError("an array of booleans has other values than 0 and 1")
    return array


def read_json(path: Path) -> Any:
    """Read a file of `write_json`; see `parse_json`.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it is damaged, or has contents that `write_json` never writes.
    """
    return parse_json(read_regular(path))


def parse_json(content: bytes) -> Any:
    """The value in the bytes of a JSON file.

    Raises:
        ValueError: it is not JSON in UTF-8, a member occurs twice, a number is not finite, or the
            nesting is too deep for Python.
    """
    # Python's own conversion is faster, and safe if no number is long.
    number = _finite if _LONG_NUMBER.search(content) else None
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_members,
            parse_float=number,
            parse_constant=_not_finite,
        )
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        raise ValueError(on_digits(error)) from None


_LONG_NUMBER = re.compile(rb"[eE]\+?\d{3}|\d{300}")


def on_digits(error: ValueError) -> str:
    """The message of an error; reworded if Python refuses a number for its length."""
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
