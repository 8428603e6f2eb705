from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from rnnparse.errors import VectorError
from rnnparse.models import vectors
from rnnparse.models.vectors import read_vectors, reduce_dimension


def write(folder: Path, text: str | bytes, name: str = "vectors.txt") -> Path:
    path = folder / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz"])
@pytest.mark.parametrize("header", ["", "3 2\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_formats(tmp_path: Path, name: str, header: str, end: str) -> None:
    text = header + end.join(["the 1 -2.5", "( 3e-1 4", "café 5 6", ""])
    words, matrix = read_vectors(write(tmp_path, text, name))
    assert words == ["the", "(", "café"]
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, np.array([[1, -2.5], [0.3, 4], [5, 6]], np.float32))


def test_oddities_of_published_files(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfa 1 2\n. . . 3 4\nb\t5\t6\na 9 9\n\xff\xfe 7 8\na 9 9\n"
    words, matrix = read_vectors(write(tmp_path, text))
    assert words == ["a", ". . .", "b", "\ufffd\ufffd"]
    assert matrix.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_lines_behind_the_first_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_CHUNK", 3)
    lines = [f"w{i % 8} {i} {-i}" for i in range(11)]
    words, matrix = read_vectors(write(tmp_path, "\n".join(lines)))
    assert words == [f"w{i}" for i in range(8)]
    assert matrix[:, 0].tolist() == list(range(8))
    lines[9] = "w9 1 2 x"
    with pytest.raises(VectorError, match=r"vectors\.txt:10: expected a word and 2 numbers"):
        read_vectors(write(tmp_path, "\n".join(lines)))


def test_only_the_wanted_words(tmp_path: Path) -> None:
    words, matrix = read_vectors(write(tmp_path, "a 1\nb 2\nc 3\n"), keep={"c", "a"}.__contains__)
    assert words == ["a", "c"] and matrix.tolist() == [[1], [3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1\n", ":2: expected a word and 2 numbers"),
        ("a 1 2\n\nb 1 2\n", ":2: expected a word and 2"),
        ("a 1 2\nb 1 two\n", ":2: expected"),
        ("a 1 2\nb 1 nan\n", ":2: expected"),
        ("2 2\na 1 2\nb 1 inf\n", ":3: expected"),
        ("word\n", ":1: expected a word and the numbers"),
        ("", "no word vectors"),
        ("5 2\n", "no word vectors"),
        # A field too many in one line and one too few in another: the sum is right.
        ("a 1 2\nb 1\t2 3\nc  4\n", ":2: expected a word and 2 numbers, .* 3 fields follow"),
        ("a 1 2\nb 1-2 3\nc 4 x\n", ":2: expected a word and 2 numbers"),
        ("a 1 2\nthe 9 1 2\n", ":2: expected .* 3 fields follow"),
        ("a 1 2\n 1 2\n", ":2: expected .* 1 fields follow"),
        ("9" * 5000 + " 2\n", "no word vectors"),
        ("2 " + "9" * 5000 + "\na 1 2\n", ":1: vectors can have at most 100000 numbers"),
        ("a 1 1e38\n", ":1: expected a word and 2 numbers, each at most 1e\\+09"),
        ("a 1 -1e39\n", ":1: expected"),
    ],
)
def test_what_is_no_vector_is_named_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(VectorError, match=f"vectors.txt.*{message}"):
        read_vectors(write(tmp_path, text))


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(VectorError, match=r"none\.txt"):
        read_vectors(tmp_path / "none.txt")
    broken = write(tmp_path, "a 1 2\n" * 5000, "v.gz")
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(VectorError, match="cannot read"):
        read_vectors(broken)
    broken.write_bytes(b"no gzip")
    with pytest.raises(VectorError, match="cannot read"):
        read_vectors(broken)


def test_the_real_file(shared: Path) -> None:
    words, matrix = read_vectors(shared / "vectors" / "glove-50d.txt.gz")
    assert matrix.shape == (46_787, 50) == (len(words), 50)
    assert words[0] == "the" and matrix[0, 0] == np.float32(-2.1681)


def test_fewer_dimensions_are_the_principal_components() -> None:
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    matrix = (rng.standard_normal((500, 6)) * [9, 5, 3, 1, 0.5, 0.1]) @ axes + 4.0
    reduced = reduce_dimension(matrix, 3)
    assert reduced.shape == (500, 3) and reduced.dtype == np.float32
    centred = matrix - matrix.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    expected = left[:, :3] * values[:3]
    expected *= np.sign(np.sum(expected * reduced, axis=0))
    np.testing.assert_allclose(reduced, expected, atol=1e-3)
    np.testing.assert_array_equal(reduced, reduce_dimension(matrix.copy(), 3))
    # The sign does not depend on the order of the words.
    np.testing.assert_allclose(reduce_dimension(matrix[::-1], 3)[::-1], reduced, atol=1e-3)


def test_more_dimensions_are_filled_with_little_noise() -> None:
    matrix = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)
    wide = reduce_dimension(matrix, 5, seed=3)
    assert np.array_equal(wide[:, :2], matrix)
    assert 0 < np.abs(wide[:, 2:]).max() < 0.1
    assert np.array_equal(wide, reduce_dimension(matrix, 5, seed=3))
    assert np.array_equal(reduce_dimension(matrix, 2), matrix)
