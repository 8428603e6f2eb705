"""Scores and vectors of forests for parsing, by the numba kernels alone; no TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.parameters import Parameters

if TYPE_CHECKING:
    from rnnparse.inference.forest import Forest


class Scorer:
    """The trained network, for scoring.

    Example:
        >>> scorer = Scorer(parameters)
        >>> rows = vocabulary.rows(tokens)
        >>> scores = scorer.forest_scores(forest, rows, category_pairs)
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = Parameters(*map(_as_in_training, parameters))

    def forest_scores(
        self, forest: Forest, rows: np.ndarray, category_pairs: CategoryPairs
    ) -> np.ndarray:
        """s(x, y) of all candidates of one sentence: [K], in the dtype of the weights.

        Args:
            forest: the candidates.
            rows: int32 [tokens], the vocabulary row of each token.
            category_pairs: give each node its row in the stacked weights.

        Raises:
            ValueError: the forest has more words than there are rows.
        """
        scores: np.ndarray = kernels.forest_scores(
            forest.cat, forest.left, forest.right, forest.start, forest.root,
            rows, category_pairs.packed, self.parameters,
        )  # fmt: skip
        return scores

    def scores(self, batch: LevelBatch) -> np.ndarray:
        """s(x, y) of all candidates: [T], in the dtype of the weights."""
        return self._forward(batch)[1][batch.root]

    def node_vectors(self, batch: LevelBatch) -> np.ndarray:
        """The vector of each node, [N, n]; the first U are the words'.

        `ForestDataset.batch_with_nodes` maps nodes of forests to nodes of the batch.
        """
        return self._forward(batch)[0]

    def node_scores(self, batch: LevelBatch) -> np.ndarray:
        """The score v · p of each node, float64 [N]; 0 for words. A tree's sum to its score."""
        vectors = self.node_vectors(batch)
        inner = np.flatnonzero(batch.key >= 0)
        v = self.parameters.v[batch.rows[batch.key[inner]]]
        scores = np.zeros(len(batch.key))
        scores[inner] = np.einsum("ij,ij->i", v, vectors[inner], dtype=np.float64)
        return scores

    def _forward(self, batch: LevelBatch) -> tuple[np.ndarray, np.ndarray]:
        vectors, W, v = self.parameters
        leaves = _as_in_training(vectors[batch.words])
        return kernels.forward(leaves, W, v, batch.rows, batch.key, batch.left, batch.right)


def _as_in_training(array: np.ndarray) -> np.ndarray:
    """A contiguous array that cannot be written to, like TensorFlow's.

    The kernels need not be compiled for another kind of arrays, which takes two seconds.
    """
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array
