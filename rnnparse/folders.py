"""Folders that are replaced whole, and in which nothing is deleted that we did not write.

A new folder is filled beside the old one, under a name of its own, and the two change places. On
Linux that is a single step (renameat2): at every moment there is the old folder or the new one.
Elsewhere there are two renames, between which the folder is missing; `set_aside` finds it then.
The old one is deleted file by file, and only files that the caller knows.
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
_ABANDONED = 3600.0  # seconds after which a folder that nobody fills was left by a killed process

Known = Callable[[str], bool]
"""Whether a path inside a folder (`a/b`) is that of a file that the program writes there."""


def foreign_file(folder: Path, known: Known) -> Path | None:
    """The first thing in a folder that the program did not write; None where there is none.

    Whatever is neither a regular file of a known name nor a folder of such files is foreign.

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
        Whether the folder is gone. Where something foreign is in it, that and the folder stay.
    """
    if folder.is_symlink() or not folder.is_dir():
        return not os.path.lexists(folder)
    with contextlib.suppress(OSError):
        for path, is_file in list(_walk(folder)):
            if is_file and known(path.relative_to(folder).as_posix()):
                path.unlink()
        for parent, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):  # something foreign is in it
                os.rmdir(parent)
    return not folder.exists()


@contextmanager
def replacement(folder: Path, known: Known) -> Iterator[Path]:
    """Give a new, empty folder to fill, and put it in the place of `folder` at the end.

    Where the block raises, what was there stays. The new content is on the drive before it takes
    its place, so that a power failure leaves the old folder or the new one, too.

    Args:
        folder: the folder, which may be missing; its parents are made.
        known: what may be deleted of the old content; the caller has made sure with
            `foreign_file` that there is nothing else.

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
            _LOG.warning("%s: kept, since a file in it is not ours; move the file elsewhere", new)


def set_aside(folder: Path) -> Path | None:
    """The old folder, if a replacement by two renames has just renamed it or was killed then."""
    old = [path for path in _siblings(folder, "old") if path.is_dir()]
    return max(old, key=lambda path: path.stat().st_mtime, default=None)


def _walk(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Everything in a folder but the folders in it, and whether it is a regular file."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            else:
                yield Path(entry.path), entry.is_file(follow_symlinks=False)


def _tidy(folder: Path, known: Known) -> None:
    """Undo what a killed process left: bring the old folder back, remove half-filled new ones."""
    old = set_aside(folder)
    if old is not None and not folder.exists():
        old.rename(folder)
    for path in (*_siblings(folder, "new"), *_siblings(folder, "old")):
        with contextlib.suppress(OSError):
            if _is_abandoned(path) and foreign_file(path, known) is None:
                remove_known(path, known)


def _new_folder(folder: Path) -> tuple[Path, int]:
    """A folder beside one, and a descriptor that holds its lock as long as it is open."""
    while True:
        new = _beside(folder, "new")
        new.mkdir(parents=True)
        lock = os.open(new, os.O_RDONLY) if fcntl else os.open(os.devnull, os.O_RDONLY)
        with contextlib.suppress(OSError):  # no locks on this drive
            if fcntl:
                fcntl.flock(lock, fcntl.LOCK_EX)
        if new.exists():  # and was not taken for an abandoned one before it was locked
            return new, lock
        os.close(lock)


def _is_abandoned(path: Path) -> bool:
    """Whether no process fills a folder: none holds its lock, or without locks, not for an hour."""
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
    """Folders beside one that have a name of `_beside`."""
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}\.{end}")
    with contextlib.suppress(OSError):
        return sorted(
            Path(entry.path)
            for entry in os.scandir(folder.parent)
            if pattern.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )
    return []


def _swap(new: Path, folder: Path) -> None:
    """Put `new` in the place of `folder`; what was there is then called `new`."""
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
    """Let two folders change names in one step; False where system or drive cannot do that."""
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
