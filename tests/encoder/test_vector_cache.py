"""Vectors are computed once, survive interruptions and damage, and are read one by one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

from rnnparse.encoder import CachedVectors, cached_vectors
from rnnparse.errors import EncoderError


class Lengths:
    """A plugged-in encoder that counts the sentences; a vector is a function of its token."""

    def __init__(self, checksum: str = "lengths", fails_after: int = 10**9) -> None:
        self.checksum, self.encoded, self.fails_after = checksum, 0, fails_after
        self._lock = Lock()

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        with self._lock:
            self.encoded += 1
            if self.encoded > self.fails_after:
                raise KeyboardInterrupt
        return np.array([[len(token), i, -0.5] for i, token in enumerate(tokens)], np.float64)


def expected(tokens: Sequence[str]) -> np.ndarray:
    inner = [[[len(token), i, -0.5]] for i, token in enumerate(tokens)]
    return np.array([[[0, 0, 0]], *inner, [[0, 0, 0]]], np.float16)


SENTENCES = [["a" * (i % 7 + 1)] * (i % 11 + 1) for i in range(300)]


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def assert_right(vectors: CachedVectors) -> None:
    assert len(vectors) == len(SENTENCES)
    for tokens, found in zip(SENTENCES, vectors, strict=True):
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, expected(tokens))


def test_vectors_are_computed_once(tmp_path: Path) -> None:
    encoder = Lengths()
    assert_right(cached_vectors(encoder, SENTENCES, tmp_path))
    assert encoder.encoded == len(SENTENCES)
    again = cached_vectors(encoder, SENTENCES, tmp_path)
    assert encoder.encoded == len(SENTENCES)
    assert_right(again)
    assert_right(pickle.loads(pickle.dumps(again)))
    np.testing.assert_array_equal(again[-1], expected(SENTENCES[-1]))
    assert [len(found) for found in again[5:8]] == [len(tokens) + 2 for tokens in SENTENCES[5:8]]
    with pytest.raises(IndexError):
        again[len(SENTENCES)]


def test_threads_write_the_same_bytes(tmp_path: Path) -> None:
    assert_right(cached_vectors(Lengths(), SENTENCES, tmp_path / "1", n_jobs=1))
    assert_right(cached_vectors(Lengths(), SENTENCES, tmp_path / "3", n_jobs=3))
    assert content(tmp_path / "1") == content(tmp_path / "3") != {}


@pytest.mark.parametrize("change", ["checksum", "token", "split", "order"])
def test_other_vectors_are_not_taken_from_the_cache(tmp_path: Path, change: str) -> None:
    cached_vectors(Lengths(), [["ab", "c"], ["d"]], tmp_path)
    checksum = "other" if change == "checksum" else "lengths"
    sentences = {
        "checksum": [["ab", "c"], ["d"]],
        "token": [["ab", "cc"], ["d"]],
        "split": [["ab"], ["c", "d"]],
        "order": [["d"], ["ab", "c"]],
    }[change]
    encoder = Lengths(checksum)
    vectors = cached_vectors(encoder, sentences, tmp_path)
    assert encoder.encoded == 2
    for tokens, found in zip(sentences, vectors, strict=True):
        np.testing.assert_array_equal(found, expected(tokens))


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        cached_vectors(Lengths(fails_after=200), SENTENCES, tmp_path / "cut")
    encoder = Lengths()
    assert_right(cached_vectors(encoder, SENTENCES, tmp_path / "cut"))
    assert 0 < encoder.encoded < len(SENTENCES) - 100  # at least a part of 128 was kept
    cached_vectors(Lengths(), SENTENCES, tmp_path / "whole")
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_a_file_of_wrong_size_is_made_again(tmp_path: Path) -> None:
    cached_vectors(Lengths(), SENTENCES, tmp_path)
    for change in (lambda data: data[:-1], lambda data: data + b"\0", lambda data: b""):
        path = sorted(tmp_path.rglob("*.vectors"))[1]
        path.write_bytes(change(path.read_bytes()))
        assert_right(cached_vectors(Lengths(), SENTENCES, tmp_path))


def test_a_changed_bit_is_an_error_of_that_sentence(tmp_path: Path) -> None:
    vectors = cached_vectors(Lengths(), SENTENCES, tmp_path)
    path = sorted(tmp_path.rglob("*.vectors"))[0]
    data = bytearray(path.read_bytes())
    data[8 + 128 * 4 + 2] ^= 1  # a number of the first sentence
    path.write_bytes(data)
    np.testing.assert_array_equal(vectors[1], expected(SENTENCES[1]))
    with pytest.raises(EncoderError, match=r"00000\.vectors.*checksum.*delete this file"):
        vectors[0]
    path.unlink()
    with pytest.raises(EncoderError, match="cannot read vectors"):
        vectors[0]


def test_swapped_sizes_are_seen(tmp_path: Path) -> None:
    vectors = cached_vectors(Lengths(), SENTENCES, tmp_path)
    path = sorted(tmp_path.rglob("*.vectors"))[0]
    data = path.read_bytes()
    path.write_bytes(data[4:8] + data[:4] + data[8:])
    with pytest.raises(EncoderError, match="checksum"):
        vectors[0]


def test_no_sentences(tmp_path: Path) -> None:
    assert list(cached_vectors(Lengths(), [], tmp_path)) == []


class Given:
    """An encoder that returns what it was given."""

    def __init__(self, *arrays: object, checksum: object = "given") -> None:
        self.arrays, self.checksum = list(arrays), checksum

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        return self.arrays.pop(0)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "arrays, problem",
    [
        (
            [np.zeros((2, 3)), np.zeros((1, 3, 2))],
            r"\[1, 3, 2\] for 2 tokens; expected \[4, layers",
        ),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "several sizes"),
        ([np.zeros((2, 3), int), np.zeros((2, 3))], "int64, not floating-point"),
        ([np.full((2, 3), np.nan), np.zeros((2, 3))], "not finite"),
        ([np.zeros((4, 0, 3)), np.zeros((4, 0, 3))], "shape"),
        ([np.full((2, 3), 7e4), np.zeros((2, 3))], "beyond 65,504"),
        ([None, None], "object, not floating-point"),
    ],
)
def test_wrong_results_of_an_encoder_are_named(
    tmp_path: Path, arrays: list[object], problem: str
) -> None:
    with pytest.raises(EncoderError, match=problem):
        cached_vectors(Given(*arrays), [["a", "b"], ["c", "d"]], tmp_path)  # type: ignore[arg-type]


def test_an_encoder_without_checksum_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="checksum"):
        cached_vectors(Given(checksum=None), [["a"]], tmp_path)  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "vectors").write_text("a file")
    with pytest.raises(EncoderError, match="cannot write to the cache"):
        cached_vectors(Lengths(), [["a"]], tmp_path)
