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
print(njit()(names["one"])(1), njit()(names["two"])(1))
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
    (code,), (index,) = folder.rglob("*one*.nbc"), folder.rglob("*two*.nbi")
    for file in (code, index):
        file.write_bytes(damaged)
    assert run(tmp_path)[0] == "2 3\n"
    assert damaged not in (code.read_bytes(), index.read_bytes())


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


# The files of a program: a function calls one in the second file, which calls one in the third.
MODULES = {
    "outer.py": """
from rnnparse.compiled import njit
from middle import twice
from values import Pair

@njit()
def total(pair, x):
    return 1000 * pair.a + twice(x)

print(total(Pair(b=7, a=5), 1), *(len(counts) for counts in (
    total.stats.cache_hits, total.stats.cache_misses)))
""",
    "middle.py": """
from rnnparse.compiled import njit
from inner import add
from values import OFFSET

@njit()
def twice(x):
    return add(add(x)) + OFFSET
""",
    "inner.py": """
from rnnparse.compiled import njit

@njit()
def add(x):
    return x + 1
""",
    "values.py": """
from typing import NamedTuple
OFFSET = 10

class Pair(NamedTuple):
    a: int
    b: int
""",
}


def run_program(folder: Path) -> list[int]:
    """The number that the program prints, and how many functions it loads and compiles."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-B", "outer.py"]
    done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_changes_in_any_file_reach_cached_code(tmp_path: Path) -> None:
    """A function, one between, the fields of a tuple and a constant, one after the other."""
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    assert run_program(tmp_path) == [5013, 0, 1]
    for file, old, new, result in (
        ("inner.py", "x + 1", "x + 2", 5015),
        ("middle.py", "add(add(x))", "add(x)", 5013),
        ("values.py", "    a: int\n    b: int", "    b: int\n    a: int", 5013),
        ("values.py", "10", "20", 5023),
    ):
        text = (tmp_path / file).read_text()
        assert text.count(old) == 1
        (tmp_path / file).write_text(text.replace(old, new))
        assert run_program(tmp_path) == [result, 0, 1], old
    assert run_program(tmp_path) == [5023, 1, 0]


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
