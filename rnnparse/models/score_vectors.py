"""Tree scores as linear functions of v, for fixed word vectors and W; no TensorFlow.

With φ_k(y) the sum of the vectors of the nodes of a tree whose weights have the row k,
s(y) = Σ_k v_k · φ_k(y), so that φ is the derivative of the score by v.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.models.batch import LevelBatch, check_positions


def linear_scores(batch: LevelBatch, vectors: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Scores of all candidates for any v.

    Args:
        batch: N nodes, T candidates.
        vectors: float [N, n], the nodes' vectors from `kernels.forward`.
        v: float64 [R, n].

    Returns:
        float64 [T].
    """
    totals = _totals(vectors, v, batch.rows, batch.key, batch.left, batch.right)
    return totals[batch.root]


def linear_jacobian(
    batch: LevelBatch, vectors: np.ndarray, upstream: np.ndarray, examples: np.ndarray, rows: int
) -> np.ndarray:
    """Derivatives by v of each example's weighted sum of scores.

    Args:
        batch: B examples, each of which has candidates, and nodes but for words, of its own.
        vectors: float [N, n], the nodes' vectors.
        upstream: [T], the weight of each candidate.
        examples: int [E], ascending: the examples that are wanted.
        rows: R, of v.

    Returns:
        float64 [E, R, n]: row e is Σ_t upstream_t φ(t) over the candidates t of example e.
    """
    slot = np.full(len(batch.gold), -1, np.int32)
    slot[examples] = np.arange(len(examples), dtype=np.int32)
    owner = np.full(len(batch.root), -1, np.int32)
    owner[batch.candidates[batch.mask]] = slot[np.nonzero(batch.mask)[0]]
    out = np.zeros((len(examples), rows, vectors.shape[1]))
    _features(
        vectors,
        batch.rows,
        batch.key,
        batch.left,
        batch.right,
        batch.root,
        np.asarray(upstream, np.float64),
        owner,
        out,
    )
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _totals(
    vectors: np.ndarray,
    v: np.ndarray,
    rows: np.ndarray,
    key: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> np.ndarray:
    """For each node the sum of the scores of the tree below it, itself included."""
    totals = np.zeros(len(key), v.dtype)
    for node in range(len(key)):
        if key[node] < 0:
            continue
        total = totals[left[node]]
        if right[node] >= 0:
            total += totals[right[node]]
        row = rows[key[node]]
        for o in range(v.shape[1]):
            total += v[row, o] * vectors[node, o]
        totals[node] = total
    return totals


@njit(cache=True, nogil=True, error_model="numpy")
def _features(
    vectors: np.ndarray,
    rows: np.ndarray,
    key: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    root: np.ndarray,
    upstream: np.ndarray,
    owner: np.ndarray,
    out: np.ndarray,
) -> None:
    """Push weights down from the roots; each node adds its vector to its example's row."""
    check_positions(root, len(key))
    coefficient = np.zeros(len(key), out.dtype)
    example = np.full(len(key), -1, np.int32)
    for t in range(len(root)):
        if upstream[t] != 0 and owner[t] >= 0:
            coefficient[root[t]] += upstream[t]
            example[root[t]] = owner[t]
    for node in range(len(key) - 1, -1, -1):
        c = coefficient[node]
        # What two trees share has a sum of weights of 0, and so has all below it.
        if c == 0 or key[node] < 0:
            continue
        features = out[example[node], rows[key[node]]]
        for o in range(len(features)):
            features[o] += c * vectors[node, o]
        coefficient[left[node]] += c
        example[left[node]] = example[node]
        if right[node] >= 0:
            coefficient[right[node]] += c
            example[right[node]] = example[node]
