"""Scores and vectors of forests for parsing, by the numba kernels alone; no TensorFlow."""

from __future__ import annotations

import numpy as np

from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch
from rnnparse.models.parameters import Parameters


class Scorer:
    """The trained network, for scoring.

    Example:
        >>> scorer = Scorer(parameters)
        >>> rows = vocabulary.rows(tokens)
        >>> data = ForestDataset.from_forests([forest], [rows], category_pairs)
        >>> scores = scorer.scores(data.batch([0]))
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = Parameters(*map(_as_in_training, parameters))

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
