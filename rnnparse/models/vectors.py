"""Read word vectors from files, and reduce their dimension."""

from __future__ import annotations

import gzip
import io
import os
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from rnnparse.errors import VectorError

_CHUNK = 4096  # lines that are converted at once
_MOST = 100_000  # numbers of a vector
_DIGITS = 9  # of a number of dimensions, at most
_LARGEST = 1e9  # squares and their sums stay finite in float32
_UNEVEN = re.compile(rb"^ |  |[\t\r\f\v]")


def read_vectors(
    path: str | os.PathLike[str], keep: Callable[[str], bool] | None = None
) -> tuple[list[str], np.ndarray]:
    """Read a file of word vectors: GloVe's text format, or word2vec's with its header line.

    Each line has a word and its numbers; the first line, or the header, determines how many. Words
    may contain spaces, such as `. . .` in some GloVe files, if their last part is not a number.
    Files that end in `.gz` are decompressed while they are read.

    Args:
        path: the file.
        keep: which words to keep, for files that do not fit into memory; default all.

    Returns:
        V distinct words in the order of the file (the first line of a word counts), and float32
        [V, d].

    Raises:
        VectorError: the file cannot be read, is empty, or a line is not a word and d numbers of
            at most 1e9 in magnitude; names file and line.
    """
    name = os.fspath(path)
    seen: dict[str, None] = {}
    blocks: list[np.ndarray] = []
    try:
        with _open_bytes(name) as stream:
            for words, values in _chunks(stream, name):
                fresh = []
                for i, word in enumerate(words):
                    if word not in seen and (keep is None or keep(word)):
                        seen[word] = None
                        fresh.append(i)
                blocks.append(values[fresh] if len(fresh) < len(words) else values)
    except (OSError, EOFError, zlib.error) as error:
        raise VectorError(f"{name}: cannot read word vectors: {error}") from error
    if not blocks:
        raise VectorError(f"{name}: no word vectors in this file")
    return list(seen), np.concatenate(blocks)


def _open_bytes(name: str) -> io.BufferedIOBase:
    return gzip.open(name, "rb") if name.endswith(".gz") else open(name, "rb")


def _chunks(stream: io.BufferedIOBase, name: str) -> Iterator[tuple[list[str], np.ndarray]]:
    """Words and vectors of a few thousand lines at a time."""
    size = 0
    number = 1
    while lines := list(islice(stream, _CHUNK)):
        if number == 1:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            size = _dimension(lines, name)
            if _is_header(lines[0]):
                lines.pop(0)
                number += 1
        if lines:
            yield _convert(lines, size, name, number)
        number += len(lines)


def _is_header(line: bytes) -> bool:
    """Whether a first line is word2vec's: the number of words and of dimensions."""
    parts = line.split()
    return len(parts) == 2 and all(part.isdigit() for part in parts)


def _dimension(lines: list[bytes], name: str) -> int:
    """The number of dimensions, from the header or from the first line."""
    parts = lines[0].split()
    if not _is_header(lines[0]):
        size = len(parts) - 1
    else:
        size = int(parts[1]) if len(parts[1]) <= _DIGITS else _MOST + 1
    if size < 1:
        raise VectorError(f"{name}:1: expected a word and the numbers of its vector")
    if size > _MOST:
        raise VectorError(f"{name}:1: vectors can have at most {_MOST} numbers")
    return size


def _convert(lines: list[bytes], size: int, name: str, number: int) -> tuple[list[str], np.ndarray]:
    """Split lines into words and float32 [lines, size]; `number` is the first line's."""
    words: list[str] = []
    numbers: list[bytes] = []
    for offset, line in enumerate(lines):
        word, _, rest = line.strip().partition(b" ")
        if rest.count(b" ") != size - 1 or _UNEVEN.search(rest):
            word, rest = _split_slowly(line, size, f"{name}:{number + offset}")
        words.append(word.decode("utf-8", "replace"))
        numbers.append(rest)
    # Each rest now has `size` fields, so the number of values is right only if each is one number.
    values = _parse(b" ".join(numbers))
    if values.size == len(lines) * size and _are_sound(values):
        return words, values.reshape(len(lines), size)
    for offset, rest in enumerate(numbers):
        values = _parse(rest)
        if values.size != size or not _are_sound(values):
            raise VectorError(
                f"{name}:{number + offset}: expected a word and {size} numbers, each at most "
                f"{_LARGEST:g} in magnitude"
            )
    raise AssertionError("each line is valid, but not all lines together")


def _split_slowly(line: bytes, size: int, place: str) -> tuple[bytes, bytes]:
    """The same for lines with other white space, or with spaces in the word.

    Raises:
        VectorError: another number of fields, where the word cannot account for it.
    """
    parts = line.split()
    count = len(parts) - 1
    if count < size or (count > size and _parse(parts[-size - 1]).size):
        raise VectorError(
            f"{place}: expected a word and {size} numbers, as in the first line, but "
            f"{max(count, 0)} fields follow the word"
        )
    return b" ".join(parts[:-size]), b" ".join(parts[-size:])


def _are_sound(values: np.ndarray) -> bool:
    """Whether all are finite and small enough to compute with."""
    return bool((np.abs(values) <= _LARGEST).all())  # NaN is not


def _parse(text: bytes) -> np.ndarray:
    """Numbers, float32; an empty array if any part of the text is not a number."""
    with warnings.catch_warnings():
        # Depending on its version, NumPy warns or raises an error if it stops early.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text.decode("latin-1"), np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return np.empty(0, np.float32)


def reduce_dimension(matrix: np.ndarray, dim: int, seed: int = 0) -> np.ndarray:
    """Give word vectors another number of dimensions.

    Fewer: the principal components (of the centred vectors), largest variance first, each with
    the sign that makes its largest loading positive, so that the result is reproducible. More:
    the vectors as they are, then noise of a hundredth of their standard deviation.

    Args:
        matrix: float [V, d].
        dim: wanted number of dimensions.
        seed: random seed of the noise.

    Returns:
        float32 [V, dim].
    """
    count, size = matrix.shape
    if dim == size:
        return np.asarray(matrix, np.float32)
    if dim > size:
        noise = np.random.default_rng(seed).normal(0.0, 0.01 * matrix.std(), (count, dim - size))
        return np.concatenate([matrix, noise], axis=1).astype(np.float32)
    centred = matrix.astype(np.float64) - matrix.mean(axis=0, dtype=np.float64)
    # The right singular vectors of the centred matrix, from its small Gram matrix.
    _, _, axes = np.linalg.svd(centred.T @ centred)
    axes = axes[:dim]
    largest = np.abs(axes).argmax(axis=1)
    axes *= np.sign(axes[np.arange(dim), largest])[:, None]
    return (centred @ axes.T).astype(np.float32)
