"""From tokens to the subwords of an encoder, and to windows of a bounded number of subwords."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.trees.brackets import unescape_token

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_QUOTES = {"``": '"', "''": '"', "`": "'"}
_SURROGATES = re.compile("[\ud800-\udfff]")


def as_typed(token: str) -> str:
    """What people type for a token of a treebank: `(` for `-LRB-`, `"` for two backticks."""
    return _QUOTES.get(token) or unescape_token(token)


@dataclass(frozen=True)
class SpecialSubwords:
    """Ids of the subwords before and after a sentence, and of the one for unknown words."""

    start: int
    end: int
    unknown: int


@dataclass(frozen=True)
class Window:
    """A part of a sentence that the network sees at once, and the tokens that are read from it.

    Attributes:
        ids: int64 [m], subwords, between those for the start and the end of a sentence.
        tokens: the first token that is read from here, and the one after the last.
        starts: int64 [T], the position in `ids` at which each of these tokens starts.
        counts: int64 [T], the number of subwords of each.
    """

    ids: np.ndarray
    tokens: tuple[int, int]
    starts: np.ndarray
    counts: np.ndarray

    def average(self, hidden: np.ndarray) -> np.ndarray:
        """The mean over the subwords of each token.

        Args:
            hidden: float32 [L, m, d], vectors of the subwords.

        Returns:
            float32 [T, L, d].
        """
        if not len(self.starts):
            return np.zeros((0, len(hidden), hidden.shape[2]), np.float32)
        first, last = self.starts[0], self.starts[-1] + self.counts[-1]
        sums = np.add.reduceat(hidden[:, first:last], self.starts - first, axis=1)
        sums /= self.counts[:, None].astype(np.float32)
        return sums.transpose(1, 0, 2)


def split_into_windows(
    tokens: Sequence[str], tokenizer: Tokenizer, special: SpecialSubwords, positions: int
) -> Iterator[Window]:
    """Overlapping windows of a sentence; a single one if it fits.

    Each token is read from the window in which it has most context: that whose middle is nearest. A
    token whose subwords fill more than half a window loses the last of them.

    Args:
        tokens: escaped as in treebanks or not.
        tokenizer: gives the subwords.
        special: is added here, not by the tokenizer.
        positions: the most subwords that the network takes, at least 4.
    """
    size = positions - 2
    ids, counts = _subwords(tokens, tokenizer, special.unknown, most=size // 2)
    ends = np.cumsum(counts)
    windows = _starts(len(ids), size)
    # Positions are doubled, as the middle may lie between two subwords.
    middles = windows * 2 + min(size, len(ids)) - 1
    places = ends * 2 - counts - 1
    homes = np.searchsorted((middles[:-1] + middles[1:]) // 2, places)
    bounds = np.searchsorted(homes, np.arange(len(windows) + 1))
    for start, first, last in zip(windows, bounds[:-1], bounds[1:], strict=True):
        part = ids[start : start + size]
        yield Window(
            np.concatenate([[special.start], part, [special.end]]),
            (int(first), int(last)),
            (ends - counts)[first:last] - start + 1,
            counts[first:last],
        )


def _starts(length: int, size: int) -> np.ndarray:
    """Where windows start: neighbours share at least half of their subwords."""
    return np.append(np.arange(0, length - size, size - size // 2), max(0, length - size))


def _subwords(
    tokens: Sequence[str], tokenizer: Tokenizer, unknown: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ids of all subwords, and how many of them each token has: from 1 to `most`.

    A token that has no subword, such as a control character, is an unknown word.
    """
    words = [_SURROGATES.sub("\ufffd", as_typed(token)) for token in tokens]
    coded = tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False)
    ids: list[list[int]] = [[] for _ in words]
    for code, word in zip(coded.ids, coded.word_ids, strict=True):
        if word is not None and len(ids[word]) < most:
            ids[word].append(code)
    ids = [codes or [unknown] for codes in ids]
    flat = np.array([code for codes in ids for code in codes], np.int64)
    return flat, np.array([len(codes) for codes in ids], np.int64)
