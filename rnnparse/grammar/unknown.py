"""Tags of unknown words: a softmax over affixes, form and, if given, word vectors.

It is trained on the rare words of the treebank, which resemble unknown words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rnnparse.array_invariants import TAGGER, check
from rnnparse.grammar.signatures import signature

LONGEST_AFFIX = 4
EPOCHS = 15


def form_features(word: str, first: bool) -> list[str]:
    """Names of the binary features of a word form."""
    lower = word.lower()
    names = ["bias", "class=" + signature(word, first), "length=" + str(min(len(word), 8))]
    for size in range(1, min(LONGEST_AFFIX, len(lower) - 1) + 1):
        names.append("suffix=" + lower[-size:])
        names.append("prefix=" + lower[:size])
    shape = "".join(
        "A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word
    )
    squeezed = "".join(c for i, c in enumerate(shape) if i == 0 or c != shape[i - 1])
    names.append("shape=" + squeezed + ("^" if first else ""))
    if "-" in word[1:-1]:
        names.append("part=" + lower.rsplit("-", 1)[1])
    return names


@dataclass(frozen=True)
class WordVectors:
    """Pre-trained word vectors: row r of matrix [V, d] float32 belongs to words[r]."""

    words: tuple[str, ...]
    matrix: np.ndarray

    def index(self) -> dict[str, int]:
        """Word to row."""
        return {word: row for row, word in enumerate(self.words)}


class UnknownWordTagger:
    """P(tag | form of an unknown word).

    Args:
        features: name of each row of the first F rows of weights.
        weights [F + d, T] float32: binary features, then vector components.
        vectors: pre-trained word vectors [V, d]; V and d may be 0.

    Raises:
        ValueError: an array violates `rnnparse.array_invariants.TAGGER`; a name twice.
    """

    def __init__(self, features: Sequence[str], weights: np.ndarray, vectors: WordVectors) -> None:
        self.features = tuple(features)
        self.weights = weights
        self.vectors = vectors
        self._number = {name: i for i, name in enumerate(features)}
        self._rows = vectors.index()
        arrays = {"vectors": vectors.matrix, "weights": weights}
        check("tagger", TAGGER, arrays, N=len(self.features), V=len(vectors.words))
        if len(self._number) < len(self.features) or len(self._rows) < len(vectors.words):
            raise ValueError(
                "the features of a tagger, and the words of its vectors, must be distinct"
            )

    def log_probabilities(self, word: str, first: bool) -> np.ndarray:
        """[T] float64: log P(tag | form) for each tag in the order of training."""
        known = [self._number[f] for f in form_features(word, first) if f in self._number]
        score = self.weights[known].sum(axis=0, dtype=np.float64)
        row = _row(self._rows, word)
        if row >= 0:
            dense = self.weights[len(self.features) :].astype(np.float64)
            score += self.vectors.matrix[row].astype(np.float64) @ dense
        score -= score.max()
        return score - np.log(np.exp(score).sum())


def _row(rows: Mapping[str, int], word: str) -> int:
    return rows.get(word, rows.get(word.lower(), -1))


def train_tagger(
    samples: Counter[tuple[str, bool, int]], tags: int, vectors: WordVectors | None, seed: int
) -> UnknownWordTagger:
    """Fit the softmax by AdaGrad over the samples.

    Args:
        samples: how often each (word, first in sentence, tag number) occurs among rare words.
        tags: number of tags T.
        vectors: pre-trained word vectors, or None.
        seed: random seed of the order of the samples.
    """
    from rnnparse.grammar.tagger_kernel import fit_softmax  # numba takes 0.3 s to load

    ordered = sorted(samples)
    features = [form_features(word, first) for word, first, _ in ordered]
    names = sorted(set().union(*features))
    number = {name: i for i, name in enumerate(names)}
    if vectors is None:
        vectors = WordVectors((), np.zeros((0, 0), np.float32))
    rows = vectors.index()
    lists = [[number[f] for f in some] for some in features]
    weights = fit_softmax(
        np.cumsum([0] + [len(x) for x in lists]).astype(np.int64),
        np.array([f for x in lists for f in x], np.int32),
        np.array([_row(rows, word) for word, *_ in ordered], np.int32),
        np.array([tag for *_, tag in ordered], np.int32),
        np.array([samples[s] for s in ordered], np.float32),
        vectors.matrix,
        len(names),
        tags,
        np.random.default_rng(seed).permuted(
            np.tile(np.arange(len(ordered), dtype=np.int32), (EPOCHS, 1)), axis=1
        ),
    )
    return UnknownWordTagger(names, weights, vectors)
