from __future__ import annotations

import errno
import os
import socket
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rnnparse import files
from rnnparse.files import (
    parse_json,
    read_arrays,
    read_json,
    read_regular,
    write_arrays,
    write_atomically,
    write_json,
)

ARRAYS = {
    "a": np.arange(5, dtype=np.int32),
    "W": np.ones((2, 3)),
    "text": np.frombuffer("Ærø".encode(), np.uint8),
    "none": np.empty((0, 2), np.float32),
    "flag": np.array([True, False]),
}


def assert_equal(arrays: dict[str, np.ndarray]) -> None:
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_arrays_come_back(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", ARRAYS)
    assert_equal(read_arrays(tmp_path / "a.npz"))


def test_equal_arrays_give_equal_bytes_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arrays(tmp_path / "a.npz", ARRAYS)
    later = time.time() + 1e6
    monkeypatch.setattr(time, "time", lambda: later)
    write_arrays(tmp_path / "b.npz", ARRAYS)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_objects_are_neither_read_nor_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (marker.write_text, ("ran",))

    objects = np.empty(1, object)
    objects[0] = Evil()
    with open(tmp_path / "evil.npz", "wb") as file:
        np.savez(file, a=objects)
    with pytest.raises(ValueError, match="not an array of numbers"):
        read_arrays(tmp_path / "evil.npz")
    (tmp_path / "evil.npy").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ValueError):
        read_arrays(tmp_path / "evil.npy")
    assert not marker.exists()


def test_damage_anywhere_is_a_value_error_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_arrays(path, ARRAYS)
    whole = path.read_bytes()
    noticed = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            arrays = read_arrays(path)
        except (OSError, ValueError):
            noticed += 1
            continue
        if list(arrays) == list(ARRAYS):  # else a name is damaged, and whoever asks for it notices
            assert_equal(arrays)
    assert noticed > len(whole) // 2


def test_no_part_of_a_file_passes_for_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_arrays(path, ARRAYS)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError):
            read_arrays(path)


def test_a_file_of_one_array_is_no_file_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(ValueError):
        read_arrays(tmp_path / "one.npy")
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "absent.npz")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(file: object) -> None:
        path_now = sorted(p.name for p in tmp_path.iterdir())
        assert len(path_now) == 2  # the old file, and the new one under another name
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="POSIX has such files")
def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, arrays = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: arrays.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, lambda file: file.write(b"text"))
    reader.join()
    assert arrays == [b"text"] and pipe.is_fifo()


def test_errors_name_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    for path, error in (
        (tmp_path / "absent" / "a", FileNotFoundError),
        (tmp_path, IsADirectoryError),
    ):
        with pytest.raises(error) as caught:
            write_atomically(path, lambda file: file.write(b"text"))
        assert caught.value.filename in (path, str(path))
    assert list(tmp_path.iterdir()) == []


def test_on_a_drive_that_is_only_read_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(files, "open", refuse, raising=False)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OSError, match="Read-only") as caught:
        write_atomically(tmp_path / "a", lambda file: file.write(b"text"))
    assert caught.value.filename == str(tmp_path / "a")


def test_json_is_written_as_people_read_it(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "Ærø"})
    assert (tmp_path / "a.json").read_bytes() == '{\n  "name": "Ærø"\n}\n'.encode()


def test_a_file_that_looks_like_a_temporary_one_is_not_touched(tmp_path: Path) -> None:
    mine = tmp_path / f".a.{os.getpid()}.tmp"
    mine.write_text("years of work")
    write_atomically(tmp_path / "a", lambda file: file.write(b"text"))
    assert mine.read_text() == "years of work"


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_atomically(tmp_path / "link", lambda file: file.write(b"text"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"text"


def test_durable_files_are_synchronised_before_they_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("fsync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), replace(a, b)))
    write_arrays(tmp_path / "a.npz", ARRAYS, durable=True)
    assert events == ["fsync", "rename", "fsync"]  # the content, then the name
    events.clear()
    write_json(tmp_path / "a.json", {})
    assert events == ["rename"]


# -- what a stranger may send ------------------------------------------------------------------


def npz(path: Path, *members: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def npy(header: str, data: bytes) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def header(shape: str, descr: str = "<i4", fortran: bool = False) -> str:
    return f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(header("(2,)"), b"\0" * 12), "differs from its header"),
        (npy(header("(4,)"), b"\0" * 12), "differs from its header"),
        (npy(header("(1000000000000,)"), b"\0" * 12), "differs from its header"),
        (npy(header("(-1, -3)"), b"\0" * 12), "an array of numbers in C order"),
        (npy(header("(3,)", ">i4"), b"\0" * 12), "another byte order"),
        (npy(header("(3,)", "<U1"), b"\0" * 12), "an array of numbers in C order"),
        (npy(header("(3,)", "|O"), b"\0" * 24), "an array of numbers in C order"),
        (npy(header("(3,)", "<M8[s]"), b"\0" * 24), "an array of numbers in C order"),
        (npy(header("(3, 1)", fortran=True), b"\0" * 12), "C order"),
        (npy(header("(2,)", "|b1"), b"\1\2"), "other values than 0 and 1"),
        (npy("(" * 100, b""), "an array of numbers in C order"),
        (npy("9" * 110, b""), "an array of numbers in C order"),
        (b"\x93NUMPY\x03\x00" + b"\0" * 20, "an array of numbers in C order"),
        (b"", "an array of numbers in C order"),
    ],
)
def test_arrays_that_numpy_would_not_write_are_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read_arrays(npz(tmp_path / "a.npz", ("a.npy", content)))


def test_an_archive_cannot_unpack_to_more_than_its_size(tmp_path: Path) -> None:
    bomb = npy(header("(40000000,)", "|u1"), bytes(40_000_000))
    path = npz(tmp_path / "a.npz", ("a.npy", bomb), compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match="compressed"):
        read_arrays(path)


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    one = npy(header("(1,)"), b"\0" * 4)
    with pytest.warns(UserWarning, match="Duplicate"):
        path = npz(tmp_path / "a.npz", ("a.npy", one), ("a.npy", one))
    with pytest.raises(ValueError, match="twice"):
        read_arrays(path)


@pytest.mark.skipif(os.name != "posix", reason="POSIX has such files")
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A pipe would wait for a writer, /dev/zero would never end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "zero", tmp_path, tmp_path / "socket"):
            with pytest.raises(OSError):
                read_regular(path)
            with pytest.raises(OSError, match="not a regular file"):
                write_arrays(path, ARRAYS)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a": ' * 100_000,
        '{"a": 1, "a": 2}',
        "NaN",
        "[-Infinity]",
        "1e999",
        "9" * 5000,
        "\xff",
        "",
        "{",
    ],
)
def test_json_that_python_would_not_write_is_a_value_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text.encode("latin-1"))
    (tmp_path / "a.json").write_text(text, "latin-1")
    with pytest.raises(ValueError):
        read_json(tmp_path / "a.json")
