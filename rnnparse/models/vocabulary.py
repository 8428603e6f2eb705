"""Which row of the word vectors belongs to which word, known or unknown."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from rnnparse.errors import ModelError
from rnnparse.files import read_regular
from rnnparse.grammar.signatures import signature
from rnnparse.trees.brackets import ESCAPES, escape_characters, unescape_token

UNKNOWN = "UNK"
"""The class of unknown words whose own class has no row."""

_HEADER = "rnnparse vocabulary 1, classes: "
_RARE = 1  # training words of at most this many occurrences stand for unknown words
_ESCAPED = "".join(ESCAPES)
_CLASS_SIZE = 2  # rare words that a class needs to have a row of its own


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Rows of the word vectors: first classes of unknown words, then words.

    A token is looked up as people write it (`(`, `3/4`), as vector files do, and as treebanks
    write it (`-LRB-`, `3\\/4`); then both ways in lower case, then by its class.

    Attributes:
        classes: names from `rnnparse.grammar.signatures.signature`; row 0 is `UNK`.
        words: distinct words, as people write them; row len(classes) + i.

    Raises:
        ValueError: a word or a class that occurs twice or spans lines; another first class.
    """

    classes: tuple[str, ...]
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        for what, names in (("class", self.classes), ("word", self.words)):
            if len(set(names)) < len(names):
                raise ValueError(f"a {what} of the vocabulary occurs twice")
            if "\n" in "".join(names):
                raise ValueError(f"a {what} of the vocabulary spans more than one line")
        if self.classes[:1] != (UNKNOWN,):
            raise ValueError(f"the first class of a vocabulary must be {UNKNOWN}")

    @classmethod
    def build(
        cls,
        sentences: Iterable[Sequence[str]],
        vector_words: Sequence[str] = (),
        *,
        prune: bool = False,
    ) -> Vocabulary:
        """The rows that a training set needs.

        Words that occur twice or more have a row; so have all words that come with vectors. Other
        words, which occur once, train the row of their class, or row `UNK` where their class is
        as rare. So the rows of unknown words are trained on what is unknown in the same sense.

        Args:
            sentences: the training set's tokens.
            vector_words: words of the given vectors.
            prune: keep only those of them that training words need.
        """
        counts: Counter[str] = Counter()
        first_seen: dict[str, bool] = {}
        for tokens in sentences:
            for i, token in enumerate(tokens):
                word = unescape_token(token)
                counts[word] += 1
                first_seen.setdefault(word, i == 0)
        given = dict.fromkeys(vector_words)
        if prune:
            needed = {_find(word, given) for word in counts}
            given = {word: None for word in given if word in needed}
        words = dict.fromkeys(word for word, n in counts.most_common() if n > _RARE) | given
        classes = Counter(
            signature(word, first_seen[word]) for word in counts if _find(word, words) is None
        )
        own = sorted(c for c, n in classes.items() if n >= _CLASS_SIZE and c != UNKNOWN)
        return cls((UNKNOWN, *own), tuple(words))

    def __len__(self) -> int:
        """V, the number of rows."""
        return len(self.classes) + len(self.words)

    @cached_property
    def _row(self) -> dict[str, int]:
        return {word: len(self.classes) + i for i, word in enumerate(self.words)}

    @cached_property
    def _class_row(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def rows(self, tokens: Sequence[str]) -> np.ndarray:
        """The rows of a sentence's tokens: int32 [tokens]."""
        rows = np.empty(len(tokens), np.int32)
        for i, token in enumerate(tokens):
            row = self._row.get(unescape_token(token))
            if row is None:
                form = _find(token, self._row)
                row = self._unknown(token, i == 0) if form is None else self._row[form]
            rows[i] = row
        return rows

    def is_known(self, token: str) -> bool:
        """Whether the token has a row of its own, not only one of its class."""
        return _find(token, self._row) is not None

    def _unknown(self, token: str, first: bool) -> int:
        return self._class_row.get(signature(unescape_token(token), first), 0)

    def initial_vectors(
        self, vector_words: Sequence[str], matrix: np.ndarray, seed: int = 0
    ) -> np.ndarray:
        """Given vectors in the order of the rows.

        A class begins as the mean of the given vectors of its words, or of all words where it has
        none; a word without a vector begins as its class. Both get noise of a tenth of the
        vectors' standard deviation, so that no two are the same.

        Args:
            vector_words: words of the given vectors, W.
            matrix: float [W, n].
            seed: random seed of the noise.

        Returns:
            float32 [V, n].
        """
        place = {word: i for i, word in enumerate(vector_words)}
        forms = [_find(word, place) for word in self.words]
        source = np.array([-1 if form is None else place[form] for form in forms], np.int64)
        own = np.array([self._unknown(word, False) for word in self.words], np.int64)
        has = source >= 0
        sums = np.zeros((len(self.classes), matrix.shape[1]))
        np.add.at(sums, own[has], matrix[source[has]])
        counts = np.bincount(own[has], minlength=len(self.classes))[:, None]
        means = np.where(counts > 0, sums / np.maximum(counts, 1), matrix.mean(axis=0))
        noise = 0.1 * float(matrix.std())
        rng = np.random.default_rng(seed)
        vectors = np.concatenate([means, means[own]])
        vectors += rng.normal(0.0, noise, vectors.shape)
        vectors[len(self.classes) :][has] = matrix[source[has]]
        return vectors.astype(np.float32)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a text file: a header line with the number of classes, then one row a line."""
        lines = [f"{_HEADER}{len(self.classes)}", *self.classes, *self.words]
        text = "".join(f"{line}\n" for line in lines)
        Path(path).write_bytes(text.encode("utf-8", "surrogatepass"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read what `save` wrote.

        Raises:
            ModelError: the file cannot be read or is not a vocabulary.
        """
        try:
            return cls.from_bytes(read_regular(Path(path)))
        except (OSError, ValueError) as error:
            raise ModelError(f"{os.fspath(path)}: not a vocabulary file: {error}") from error

    @classmethod
    def from_bytes(cls, content: bytes) -> Vocabulary:
        """The vocabulary in the bytes of a file that `save` wrote.

        Raises:
            ValueError: `save` could not have written it.
        """
        # Words may hold characters that str.splitlines takes for line ends.
        header, *lines = content.decode("utf-8", "surrogatepass").split("\n")
        count = int(header.removeprefix(_HEADER))
        if header != f"{_HEADER}{count}":
            raise ValueError("the first line is not the header of a vocabulary")
        if not lines or lines.pop():
            raise ValueError("the last line is not complete")
        if not 1 <= count <= len(lines):
            raise ValueError(f"{count} classes in {len(lines)} lines")
        return cls(tuple(lines[:count]), tuple(lines[count:]))


def _forms(token: str) -> Iterator[str]:
    """The forms under which a token is looked up, in order."""
    word = unescape_token(token)
    yield word
    written = escape_characters(word, _ESCAPED)
    yield written
    yield word.lower()
    yield written.lower()


def _find(token: str, known: Collection[str]) -> str | None:
    """The first form of a token that is known."""
    return next((form for form in _forms(token) if form in known), None)
