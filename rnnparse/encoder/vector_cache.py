"""Vectors of many sentences, computed once and kept on disk part by part."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, overload

import numpy as np
from tqdm import tqdm

from rnnparse.encoder.protocol import Encoder, token_vectors
from rnnparse.errors import EncoderError
from rnnparse.files import make_writable, open_regular, write_atomically
from rnnparse.threads import Abandoned, in_order, stop_flag

_PART = 128  # sentences in a file
_BATCH = 16  # sentences encoded at once
_MOST = float(np.finfo(np.float16).max)
_VERSION = 1


def cached_vectors(
    encoder: Encoder,
    sentences: Sequence[Sequence[str]],
    folder: Path,
    *,
    n_jobs: int = 1,
    progress: bool = False,
) -> CachedVectors:
    """The vectors of sentences; what the cache lacks is computed first.

    A run that was interrupted continues. The same sentences give the same bytes on a machine,
    whatever `n_jobs` and after any interruption.

    Args:
        encoder: see `Encoder`; several threads call it.
        sentences: the tokens of each sentence.
        folder: the cache, in which other files may be.
        n_jobs: number of threads; 0 or -1 for one per processor core.
        progress: whether to show a progress bar.

    Raises:
        EncoderError: the encoder returns something wrong, or the folder cannot be written to.
    """
    if not isinstance(getattr(encoder, "checksum", None), str):
        raise EncoderError("an encoder needs a checksum, a string, for its vectors to be kept")
    vectors = CachedVectors(folder / "vectors", encoder.checksum, sentences)
    parts = vectors.missing_parts()
    missing = sum(len(vectors.sentences_of(part)) for part in parts)
    with tqdm(total=missing, desc="encode", unit="sentence", disable=not progress) as bar:

        def make(part: int) -> int:
            own = [sentences[i] for i in vectors.sentences_of(part)]
            found: list[np.ndarray] = []
            for i in range(0, len(own), _BATCH):
                if stop_flag()[0]:
                    raise Abandoned
                found += map(_halved, token_vectors(encoder, own[i : i + _BATCH]))
            vectors.write(part, found)
            return len(own)

        for done in in_order(make, parts, n_jobs):
            bar.update(done)
    return vectors


def _halved(array: np.ndarray) -> np.ndarray:
    """An array as float16."""
    if max(array.max(), -array.min()) > _MOST:
        raise EncoderError(
            f"the encoder returned numbers beyond {_MOST:,.0f}, the most for float16"
        )
    return array.astype(np.float16)


class CachedVectors(Sequence[np.ndarray]):
    """Vectors of S sentences, each read from the cache when it is asked for.

    `vectors[i]` is float16 [n + 2, L, d] for a sentence of n tokens. It raises EncoderError if the
    file is missing or damaged. Objects can be pickled, and threads can share one.

    Args:
        folder: of the files.
        checksum: of the encoder.
        sentences: the tokens of each sentence.
    """

    def __init__(self, folder: Path, checksum: str, sentences: Sequence[Sequence[str]]) -> None:
        digest = hashlib.sha256(repr((_VERSION, checksum)).encode())
        for tokens in sentences:
            digest.update(repr(list(map(str, tokens))).encode() + b"\n")
        self._folder = folder / digest.hexdigest()[:32]
        self._rows = np.array([len(tokens) + 2 for tokens in sentences], np.int64)

    def __len__(self) -> int:
        """S, the number of sentences."""
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._read(range(len(self))[index])

    def sentences_of(self, part: int) -> range:
        """The numbers of the sentences in a part."""
        return range(part * _PART, min(len(self), (part + 1) * _PART))

    def missing_parts(self) -> list[int]:
        """The parts whose files are missing or have a wrong size."""
        parts = range(-(-len(self) // _PART))
        return [part for part in parts if not self._is_complete(part)]

    def write(self, part: int, arrays: Sequence[np.ndarray]) -> None:
        """Write the vectors of all sentences of a part.

        Raises:
            EncoderError: the folder cannot be written to.
        """
        contents = [array.tobytes() for array in arrays]
        sizes = np.array(arrays[0].shape[1:], "<u4").tobytes()
        checks = np.array([_check(sizes, content) for content in contents], "<u4").tobytes()
        try:
            make_writable(self._folder)
            write_atomically(self._path(part), lambda f: f.writelines([sizes, checks, *contents]))
        except OSError as error:
            raise EncoderError(f"cannot write to the cache: {error}") from error

    def _path(self, part: int) -> Path:
        return self._folder / f"{part:05d}.vectors"

    def _is_complete(self, part: int) -> bool:
        try:
            with open_regular(self._path(part)) as file:
                own = self.sentences_of(part)
                layers, size = self._header(file)[:2]
                width = int(layers) * int(size) * 2
                rows = int(self._rows[own.start : own.stop].sum())
                return file.seek(0, 2) == (2 + len(own)) * 4 + rows * width and width > 0
        except (OSError, ValueError):
            return False

    def _header(self, file: IO[bytes], sentences: int = 0) -> np.ndarray:
        """L, d and the checksums of the first sentences of a part."""
        return np.frombuffer(file.read((2 + sentences) * 4), "<u4", 2 + sentences)

    def _read(self, sentence: int) -> np.ndarray:
        part = sentence // _PART
        own = self.sentences_of(part)
        path = self._path(part)
        try:
            with open_regular(path) as file:
                header = self._header(file, sentence - own.start + 1)
                layers, size = int(header[0]), int(header[1])
                before, rows = self._rows[own.start : sentence].sum(), self._rows[sentence]
                file.seek((2 + len(own)) * 4 + int(before) * layers * size * 2)
                content = file.read(int(rows) * layers * size * 2)
            if _check(header[:2].tobytes(), content) != header[-1]:
                raise ValueError("the checksum of a sentence is wrong")
            return np.frombuffer(content, "<f2").reshape(-1, layers, size)
        except (OSError, ValueError) as error:
            raise EncoderError(
                f"cannot read vectors from {path}: {error}; delete this file, and the next run "
                "makes it again"
            ) from error


def _check(sizes: bytes, content: bytes) -> int:
    """The checksum of a sentence's vectors and of their sizes."""
    return zlib.crc32(content, zlib.crc32(sizes))
