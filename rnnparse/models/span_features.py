"""What the span scorer knows of a token: its word, hashed affixes and shape, and its given vector.

The tables come from the training sentences, the arrays of a sentence from the tables alone.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rnnparse.array_invariants import SPAN_FEATURES, check
from rnnparse.grammar.unknown import WordVectors
from rnnparse.trees.brackets import unescape_token

ENDS = ("<s>", "</s>")
"""What is added to a sentence at its start and its end."""

UNKNOWN, FIRST_WORD = 0, 3  # rows of unknown words, the ends, and then words
BUCKETS = 4096
AFFIXES = 8  # suffixes of 1 to 4 characters, prefixes of 1 to 3, and the shape
_FREQUENT = 2  # occurrences of a word that has a row


class TokenArrays(NamedTuple):
    """The n tokens of a sentence between its ends.

    Attributes:
        word [n+2] int32: rows of the learned word vectors.
        affix [n+2, 8] int32: buckets of affixes and shape.
        given [n+2] int32: rows of the given word vectors, or -1.
    """

    word: np.ndarray
    affix: np.ndarray
    given: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class SpanFeatures:
    """Tables of words and tags.

    Attributes:
        words: W distinct words in lower case; word i has row 3 + i of the learned vectors.
        counts [W] int64: how often each occurs in the training sentences.
        tags [T] int32: categories that are tags, ascending.
        vectors: given vectors of words, which are not trained; possibly of no word.

    Raises:
        ValueError: a word twice; tags out of order; an array violates
            `rnnparse.array_invariants.SPAN_FEATURES`.
    """

    words: tuple[str, ...]
    counts: np.ndarray
    tags: np.ndarray
    vectors: WordVectors

    def __post_init__(self) -> None:
        check("features", SPAN_FEATURES, vars(self), W=len(self.words))
        if len(set(self.words)) < len(self.words):
            raise ValueError("features.words: a word occurs twice")
        if np.any(np.diff(self.tags) <= 0):
            raise ValueError("features.tags must be in ascending order")

    @classmethod
    def build(
        cls,
        sentences: Iterable[Sequence[str]],
        tags: Iterable[int],
        vectors: WordVectors | None = None,
    ) -> SpanFeatures:
        """The tables of a training set; words that occur once have no row.

        Args:
            sentences: tokens, escaped as in trees.
            tags: categories that are tags.
            vectors: given vectors of words.
        """
        counts = Counter(token.lower() for tokens in sentences for token in tokens)
        words = [word for word, count in counts.items() if count >= _FREQUENT]
        return cls(
            tuple(words),
            np.array([counts[word] for word in words], np.int64),
            np.array(sorted(set(tags)), np.int32),
            vectors or WordVectors((), np.zeros((0, 0), np.float32)),
        )

    def __repr__(self) -> str:
        given = f"{len(self.vectors.words)} given vectors"
        return f"SpanFeatures({len(self.words)} words, {len(self.tags)} tags, {given})"

    @cached_property
    def _word_rows(self) -> dict[str, int]:
        return {word: FIRST_WORD + i for i, word in enumerate(self.words)}

    @cached_property
    def _given_rows(self) -> dict[str, int]:
        return self.vectors.index()

    def token_arrays(self, tokens: Sequence[str]) -> TokenArrays:
        """The arrays of a sentence.

        Args:
            tokens: escaped as in trees.
        """
        rows = [self._word_rows.get(token.lower(), UNKNOWN) for token in tokens]
        affixes = [affix_buckets(token) for token in (ENDS[0], *tokens, ENDS[1])]
        return TokenArrays(
            np.array([1, *rows, 2], np.int32),
            np.array(affixes, np.int32),
            np.array([-1, *map(self._given_row, tokens), -1], np.int32),
        )

    def _given_row(self, token: str) -> int:
        rows, word = self._given_rows, unescape_token(token)
        forms = (word, word.lower(), token.lower())
        return next((rows[form] for form in forms if form in rows), -1)


def affix_buckets(token: str) -> list[int]:
    """The buckets [8] of a token's suffixes, prefixes and shape, the same in every process."""
    lower = token.lower()
    names = (
        *("s1" + token[-1:], "s2" + token[-2:], "s3" + token[-3:], "s4" + lower[-4:]),
        *("p1" + token[:1], "p2" + token[:2], "p3" + lower[:3], "shape" + _shape(token)),
    )
    return [zlib.crc32(name.encode("utf-8", "surrogatepass")) % BUCKETS for name in names]


def _shape(token: str) -> str:
    """A class of the token's form; the first that holds."""
    if token.isdigit():
        return "number"
    if any(c.isdigit() for c in token):
        return "digits"
    if token.isupper():
        return "capitals"
    if token[:1].isupper():
        return "capital"
    if "-" in token:
        return "hyphen"
    return "letters" if token.isalpha() else "other"
