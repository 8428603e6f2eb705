"""Replace folders atomically, and delete only files that the program wrote.

A new folder is filled beside the old one, under a temporary name, and the two are exchanged. On
Linux that is a single step (renameat2): there is always either the old folder or the new one.
Elsewhere there are two renames, between which the folder is missing; `set_aside` finds it then. The
old folder is deleted file by file, and only files that the caller recognises.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rnnparse.files import fcntl, sync

_LOG = logging.getLogger("rnnparse")
_ABANDONED = 3600.0  # seconds after which an idle folder counts as left by a killed process

Known = Callable[[str], bool]
"""Whether the program writes a file with this path (`a/b`) inside the folder."""


def foreign_file(folder: Path, known: Known) -> Path | None:
    """The first entry of a folder that the program did not write, or None.

    All but regular files with known names, and folders of such files, are foreign.

    Raises:
        OSError: the folder cannot be read.
    """
    for path, is_file in _walk(folder):
        if not is_file or not known(path.relative_to(folder).as_posix()):
            return path
    return None


def remove_known(folder: Path, known: Known) -> bool:
    """Remove the files that the program wrote, then the folders that are empty.

    Returns:
        Whether the folder was removed; foreign entries, and folders that contain them, stay.
    """
    if folder.is_symlink() or not folder.is_dir():
        return not os.path.lexists(folder)
    with contextlib.suppress(OSError):
        for path, is_file in list(_walk(folder)):
            if is_file and known(path.relative_to(folder).as_posix()):
                path.unlink()
        for parent, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):  # it has foreign entries
                os.rmdir(parent)
    return not folder.exists()


@contextmanager
def replacement(folder: Path, known: Known) -> Iterator[Path]:
    """Yield a new, empty folder, which replaces `folder` at the end of the block.

    If the block raises, the old folder stays. The new content is on the drive before it replaces
    the old one, so that also a power failure leaves one of them complete.

    Args:
        folder: the folder, which may be missing; its parents are made.
        known: which old files may be deleted; the caller has checked with `foreign_file` that there
            are no others.

    Raises:
        OSError: a folder cannot be made or renamed.
    """
    _tidy(folder, known)
    new, lock = _new_folder(folder)
    try:
        yield new
        for path, _ in _walk(new):
            sync(path)
        sync(new)
        _swap(new, folder)
        sync(folder.parent)
    finally:
        os.close(lock)
        if not remove_known(new, known):
            _LOG.warning("%s: kept, because it contains a file that rnnparse did not write", new)


def set_aside(folder: Path) -> Path | None:
    """The old folder, if a replacement is between its two renames or was killed there."""
    old = [path for path in _siblings(folder, "old") if path.is_dir()]
    return max(old, key=lambda path: path.stat().st_mtime, default=None)


def _walk(folder: Path) -> Iterator[tuple[Path, bool]]:
    """All entries below a folder except folders, and whether each is a regular file."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            else:
                yield Path(entry.path), entry.is_file(follow_symlinks=False)


def _tidy(folder: Path, known: Known) -> None:
    """Clean up after a killed process: restore the old folder, remove unfinished new ones."""
    old = set_aside(folder)
    if old is not None and not folder.exists():
        old.rename(folder)
    for path in (*_siblings(folder, "new"), *_siblings(folder, "old")):
        with contextlib.suppress(OSError):
            if _is_abandoned(path) and foreign_file(path, known) is None:
                remove_known(path, known)


def _new_folder(folder: Path) -> tuple[Path, int]:
    """A new folder beside the given one, and a descriptor that locks it while it is open."""
    while True:
        new = _beside(folder, "new")
        new.mkdir(parents=True)
        lock = os.open(new, os.O_RDONLY) if fcntl else os.open(os.devnull, os.O_RDONLY)
        with contextlib.suppress(OSError):  # no locks on this drive
            if fcntl:
                fcntl.flock(lock, fcntl.LOCK_EX)
        if new.exists():  # and was not removed as abandoned before it was locked
            return new, lock
        os.close(lock)


def _is_abandoned(path: Path) -> bool:
    """Whether no process fills a folder: it is not locked or, without locks, an hour old."""
    if fcntl:
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        except OSError:
            pass  # no locks on this drive
        finally:
            os.close(lock)
    return time.time() - path.stat().st_mtime > _ABANDONED


def _beside(folder: Path, end: str) -> Path:
    return folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.{end}")


def _siblings(folder: Path, end: str) -> list[Path]:
    """Folders beside the given one with a name of `_beside`."""
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}\.{end}")
    with contextlib.suppress(OSError):
        return sorted(
            Path(entry.path)
            for entry in os.scandir(folder.parent)
            if pattern.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )
    return []


def _swap(new: Path, folder: Path) -> None:
    """Exchange `new` and `folder`; the old folder then has the path `new`."""
    if not folder.exists():
        new.rename(folder)
        return
    if _exchange(new, folder):
        return
    old = _beside(folder, "old")
    folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    old.rename(new)


_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; False if the system cannot do that."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))
