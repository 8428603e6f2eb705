"""Compiled code where it cannot be kept: read-only installations, full disks, folders of others."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rnnparse.files import private_folder

# A function whose file lies where nobody can write, in a process without a home.
SCRIPT = """
import logging, sys
logging.basicConfig(format="%(message)s")
from rnnparse.compiled import njit
names = {}
exec(compile("def one(x): return x + 1\\ndef two(x): return x + 2", "/proc/version", "exec"), names)
if len(sys.argv) > 1:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
print(njit(cache=True)(names["one"])(1), njit(cache=True)(names["two"])(1))
"""

linux = pytest.mark.skipif(not Path("/proc/version").exists(), reason="for Linux")


def run(folder: Path, *arguments: str) -> tuple[str, list[str]]:
    places = ("HOME", "XDG_CACHE_HOME")
    environment = {**os.environ, **dict.fromkeys(places, "/proc/none"), "TMPDIR": str(folder)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], env=environment, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()


@linux
def test_a_private_folder_takes_the_place_of_those_that_cannot_be_written_to(
    tmp_path: Path,
) -> None:
    for _ in range(2):
        out, (note,) = run(tmp_path)
        (folder,) = tmp_path.iterdir()
        assert out == "2 3\n" and str(folder) in note and "set NUMBA_CACHE_DIR" in note
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(list(folder.rglob("*.nbi"))) == 2
    damaged = b"damaged"
    for pattern in ("*.nbc", "*.nbi"):
        for file in folder.rglob(pattern):
            file.write_bytes(damaged)
        assert run(tmp_path)[0] == "2 3\n"
        assert all(file.read_bytes() != damaged for file in folder.rglob(pattern))


@linux
def test_a_full_disk_does_not_stop_compiled_code(tmp_path: Path) -> None:
    out, notes = run(tmp_path, "full")
    assert out == "2 3\n" and "set NUMBA_CACHE_DIR" in notes[-1]
    assert not list(tmp_path.rglob("*.nbc"))


@linux
def test_without_any_folder_code_is_compiled_each_time(tmp_path: Path) -> None:
    (tmp_path / f"rnnparse-{os.getuid()}").touch()
    out, (note,) = run(tmp_path)
    assert out == "2 3\n" and "cannot be kept" in note and "set NUMBA_CACHE_DIR" in note


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="for users as POSIX has them")
def test_a_folder_that_others_can_enter_is_not_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = private_folder()
    assert folder == private_folder()
    folder.chmod(0o755)
    with pytest.raises(PermissionError):
        private_folder()
    folder.rmdir()
    (tmp_path / "other").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "other")
    with pytest.raises(NotADirectoryError):
        private_folder()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    (tmp_path / "rnnparse-12345").mkdir(mode=0o700)
    with pytest.raises(PermissionError) as error:
        private_folder()
    assert error.value.errno == errno.EPERM
