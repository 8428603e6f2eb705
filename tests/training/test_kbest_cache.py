from __future__ import annotations

import errno
import os
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse.errors import ConfigError
from rnnparse.files import private_folder, read_arrays, write_arrays
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.search import Search
from rnnparse.training import kbest_cache
from rnnparse.training.kbest_cache import CachedLists, cache_folder, candidate_lists
from rnnparse.trees.cleaning import words
from tests.grammar.small import small_grammar, trees

K = 7


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kbest_cache, "PART", 4)


SENTENCES = [[".", ".", "."], *(words(tree) for tree in trees(13, "dev"))]
"""The first one cannot be spanned by the grammar."""
SEARCH = Search(max_length=17)
"""Two of the sentences are longer."""


class Counting:
    """Makes a decoder and counts how often it was asked to."""

    def __init__(self) -> None:
        self.calls, self.lock = 0, threading.Lock()

    def __call__(self) -> Decoder:
        with self.lock:
            self.calls += 1
        return Decoder(small_grammar(), SEARCH)


def made(
    folder: Path, decoder: Counting, jobs: int = 1, sentences: Any = None, backend: str = "threads"
) -> list[Parse]:
    return list(cached(folder, decoder, jobs, sentences, backend))


def cached(
    folder: Path, decoder: Counting, jobs: int = 1, sentences: Any = None, backend: str = "threads"
) -> CachedLists:
    return candidate_lists(
        SENTENCES if sentences is None else sentences,
        decoder,
        K,
        categories=len(small_grammar().pcfg.categories),
        folder=folder,
        n_jobs=jobs,
        progress=False,
        what="lists",
        backend=backend,
    )


def assert_equal(one: list[Parse], other: list[Parse]) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.glued is b.glued and a.divided is b.divided
        for x, y in zip(vars(a.forest).values(), vars(b.forest).values(), strict=True):
            np.testing.assert_array_equal(x, y)
            assert x.dtype == y.dtype


@pytest.fixture(scope="module")
def expected() -> list[Parse]:
    decoder = Decoder(small_grammar(), SEARCH)
    return [decoder.parse(tokens, K) for tokens in SENTENCES]


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_lists_are_the_decoders_and_come_from_the_cache_the_next_time(
    tmp_path: Path, expected: list[Parse], jobs: int
) -> None:
    decoder = Counting()
    assert_equal(made(tmp_path / "lists", decoder, jobs), expected)
    assert decoder.calls == 1
    assert len(list((tmp_path / "lists").iterdir())) == 4
    assert expected[0].glued and not expected[0].divided and not expected[1].glued
    assert sum(parse.divided for parse in expected) == 2
    assert_equal(made(tmp_path / "lists", decoder, jobs), expected)
    assert decoder.calls == 1


def test_only_missing_parts_are_made(tmp_path: Path, expected: list[Parse]) -> None:
    made(tmp_path, Counting())
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    (tmp_path / "000002.npz").unlink()
    decoder = Counting()
    assert_equal(made(tmp_path, decoder, 2), expected)
    assert decoder.calls == 1
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("damage", ["empty", "half", "flipped", "another part", "no arrays"])
def test_damaged_parts_are_made_again(tmp_path: Path, expected: list[Parse], damage: str) -> None:
    made(tmp_path, Counting())
    whole = {file: file.read_bytes() for file in sorted(tmp_path.iterdir())}
    last = list(whole)[-1]
    for file, content in whole.items():
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 1
        damaged = {
            "empty": b"",
            "half": content[: len(content) // 2],
            "flipped": bytes(flipped),
            "another part": whole[last] if file != last else b"",
            "no arrays": b"PK\x05\x06" + 18 * b"\0",
        }
        file.write_bytes(damaged[damage])
    decoder = Counting()
    assert_equal(made(tmp_path, decoder), expected)
    assert decoder.calls == 1  # one for all parts, not one a sentence
    assert {file: file.read_bytes() for file in sorted(tmp_path.iterdir())} == whole


def test_no_sentence_no_list(tmp_path: Path) -> None:
    decoder = Counting()
    assert made(tmp_path / "lists", decoder, sentences=[]) == []
    assert decoder.calls == 0


def test_the_cache_is_the_users_unless_another_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(None) == tmp_path / "xdg" / "rnnparse"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder(None) == tmp_path / "home" / ".cache" / "rnnparse"


def test_a_cache_that_cannot_be_made_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(ConfigError, match="choose another with --cache"):
        cache_folder(str(tmp_path / "file" / "cache"))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("cat", lambda a: a + 10**6),
        ("cat", lambda a: a[::-1].copy()),
        ("cat", lambda a: -a - 1),
        ("left", lambda a: a + 1),
        ("right", lambda a: a * 0 + 10**6),
        ("start", lambda a: a + 10**6),
        ("end", lambda a: a + 1),
        ("root", lambda a: a * 0),
        ("root", lambda a: a + 10**6),
        ("logp", lambda a: a * np.nan),
        ("logp", lambda a: -a),
        ("logp", lambda a: a.astype(np.float32)),
        ("nodes", lambda a: a + 1),
        ("nodes", lambda a: a * 0 - 5),
        ("trees", lambda a: a + 1),
        ("glued", lambda a: a[:-1]),
        ("glued", lambda a: a.astype(np.int64)),
        ("divided", lambda a: a[:-1]),
    ],
)
def test_lists_that_no_decoder_makes_are_made_again_with_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, change: Any
) -> None:
    first = made(tmp_path, Counting())
    file = sorted(tmp_path.glob("*.npz"))[1]
    whole = file.read_bytes()
    arrays = read_arrays(file)
    array = change(arrays[name])
    kept = array if array.dtype.kind == "f" or name == "glued" else array.astype(arrays[name].dtype)
    write_arrays(file, {**arrays, name: kept})
    assert_equal(made(tmp_path, Counting()), first)
    assert caplog.messages == [
        f"{tmp_path}: recomputed the candidate lists of 1 damaged file(s)"
    ]
    assert file.read_bytes() == whole


@pytest.mark.skipif(os.name != "posix", reason="POSIX has such files")
def test_a_pipe_in_a_cache_is_neither_read_nor_written(tmp_path: Path) -> None:
    first = made(tmp_path, Counting())
    one, other, *_ = sorted(tmp_path.glob("*.npz"))
    one.unlink()
    os.mkfifo(one)
    other.unlink()
    other.mkdir()
    assert_equal(made(tmp_path, Counting()), first)
    assert one.is_fifo() and other.is_dir()


def test_an_unwritable_home_is_replaced_with_one_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders = {cache_folder(None), cache_folder(None)}
    assert folders == {private_folder()} and private_folder().parent == tmp_path
    (record,) = caplog.records
    assert "cannot write k-best lists" in record.getMessage()
    assert "choose another with --cache" in record.getMessage()


def test_lists_that_cannot_be_kept_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kbest_cache, "write_arrays", full)
    decoder = Counting()
    assert len(made(tmp_path, decoder)) == len(SENTENCES) and decoder.calls == 1
    (record,) = caplog.records
    assert "No space left on device" in record.getMessage()


CLUSTERS = [
    pytest.param(backend, marks=pytest.mark.slow, id=backend) for backend in ("ray", "dask")
]


@pytest.mark.parametrize("backend", ["loky", *CLUSTERS])
def test_other_workers_make_the_same_files(
    tmp_path: Path, expected: list[Parse], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend != "loky":
        monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        pytest.importorskip({"ray": "ray", "dask": "distributed"}[backend])
    decoder = Counting()
    assert_equal(made(tmp_path / "threads", decoder), expected)
    assert_equal(made(tmp_path / "others", decoder, 2, backend=backend), expected)
    assert decoder.calls == 2
    files = [sorted((tmp_path / name).iterdir()) for name in ("threads", "others")]
    assert len(files[0]) > 1
    for one, other in zip(*files, strict=True):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())
    (tmp_path / "others" / files[1][0].name).unlink()
    assert_equal(made(tmp_path / "others", decoder, 2, backend=backend), expected)
    assert decoder.calls == 3


@pytest.mark.parametrize("backend", ["loky", "ray", "dask"])
def test_lists_in_the_cache_need_no_workers(
    tmp_path: Path, expected: list[Parse], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, Counting())
    monkeypatch.setattr(kbest_cache, "open_remote", None)
    decoder = Counting()
    assert_equal(made(tmp_path, decoder, 2, backend=backend), expected)
    assert decoder.calls == 0


# -- lists that are read when they are needed --------------------------------------------------


def test_lists_are_read_from_the_cache_in_any_order(tmp_path: Path, expected: list[Parse]) -> None:
    lists = cached(tmp_path, Counting(), 2)
    assert len(lists) == len(SENTENCES)
    assert_equal([lists[i] for i in (13, 0, 5, 4)], [expected[i] for i in (13, 0, 5, 4)])
    assert_equal(lists[2:9], expected[2:9])
    assert_equal([lists[-1]], expected[-1:])
    assert lists.flags.tolist() == [[parse.glued, parse.divided] for parse in expected]
    with pytest.raises(IndexError):
        lists[len(SENTENCES)]


def test_one_file_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    lists = cached(tmp_path, Counting())
    original = kbest_cache.read_arrays

    def counted(file: Path) -> dict[str, np.ndarray]:
        reads.append(file.name)
        return original(file)

    monkeypatch.setattr(kbest_cache, "read_arrays", counted)
    first = weakref.ref(lists[0])
    assert first() is not None  # the file is not read again for its other sentences
    for i in range(len(lists)):
        lists[i]
    assert reads == [f"{part:06d}.npz" for part in range(4)]
    assert first() is None


def test_the_lists_of_parts_are_joined(tmp_path: Path, expected: list[Parse]) -> None:
    parts = [
        cached(tmp_path / str(a), Counting(), sentences=SENTENCES[a:b])
        for a, b in ((0, 1), (1, 4), (4, len(SENTENCES)))
    ]
    lists = CachedLists.joined(parts)
    assert_equal(list(lists), expected)
    assert lists.flags.tolist() == [[parse.glued, parse.divided] for parse in expected]


@pytest.mark.parametrize("damage", ["removed", "damaged", "of other sentences"])
def test_a_cache_that_changes_while_it_is_in_use_is_an_error(tmp_path: Path, damage: str) -> None:
    lists = cached(tmp_path, Counting())
    first, second, *_ = sorted(tmp_path.glob("*.npz"))
    assert_equal([lists[0]], [lists[0]])
    if damage == "removed":
        second.unlink()
    else:
        second.write_bytes(b"" if damage == "damaged" else first.read_bytes())
    with pytest.raises(ConfigError, match=r"000001\.npz: .* removed or changed .*; start again"):
        list(lists)


def test_lists_that_cannot_be_kept_stay_in_memory(
    tmp_path: Path, expected: list[Parse], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cached(tmp_path, Counting())
    (tmp_path / "000002.npz").unlink()
    monkeypatch.setattr(kbest_cache, "write_arrays", full)
    lists = cached(tmp_path, Counting())
    assert not (tmp_path / "000002.npz").exists()
    assert_equal(list(lists), expected)
