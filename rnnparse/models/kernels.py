"""The network's forward and backward pass over level arrays, in numba; no TensorFlow.

Every sum has a fixed order, and a node's vector depends only on its children and its weights. Hence
a tree has the same score, to the bit, in every batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from rnnparse.compiled import njit
from rnnparse.models.batch import check_positions, check_structure, number_marked
from rnnparse.models.parameters import Parameters
from rnnparse.threads import apart

# Padé approximation of tanh, which Eigen (and so TensorFlow on a CPU) uses for float32. It calls no
# C library function, so that the loop over components is vectorized.
_TANH_LIMIT = 7.90531110763549805
_TANH_ODD = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_TANH_EVEN = (
    1.19825839466702e-06,
    1.18534705686654e-04,
    2.26843463243900e-03,
    4.89352518554385e-03,
)


def _tanh(x: float) -> float:
    """Hyperbolic tangent, rational for float32 and exact for float64."""
    return math.tanh(x)


@overload(_tanh, inline="always")
def _tanh_overload(x: Any) -> Callable[[Any], Any]:

    def exact(x: Any) -> Any:
        return math.tanh(x)

    if x != types.float32:
        return exact
    limit = np.float32(_TANH_LIMIT)
    a13, a11, a9, a7, a5, a3, a1 = (np.float32(a) for a in _TANH_ODD)
    b6, b4, b2, b0 = (np.float32(b) for b in _TANH_EVEN)

    def rational(x: Any) -> Any:
        x = min(max(x, -limit), limit)
        y = x * x
        odd = (((((a13 * y + a11) * y + a9) * y + a7) * y + a5) * y + a3) * y + a1
        even = ((b6 * y + b4) * y + b2) * y + b0
        return x * odd / even

    return rational


@njit(nogil=True, error_model="numpy")
def _add_product(x: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """out += x · matrix; x [m], matrix [m, n]. Several rows at once save loads and stores."""
    rows, columns = matrix.shape
    j = 0
    while j + 4 <= rows:
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for o in range(columns):
            out[o] = (
                out[o]
                + x0 * matrix[j, o]
                + x1 * matrix[j + 1, o]
                + x2 * matrix[j + 2, o]
                + x3 * matrix[j + 3, o]
            )
        j += 4
    while j < rows:
        for o in range(columns):
            out[o] += x[j] * matrix[j, o]
        j += 1


@njit(nogil=True, error_model="numpy")
def _add_two_products(x: np.ndarray, y: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """out += [x; y] · matrix; x, y [m], matrix [2m or more, n]."""
    rows, columns = len(x), len(out)
    j = 0
    while j + 4 <= rows:
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        y0, y1, y2, y3 = y[j], y[j + 1], y[j + 2], y[j + 3]
        for o in range(columns):
            out[o] = (
                out[o]
                + x0 * matrix[j, o]
                + x1 * matrix[j + 1, o]
                + x2 * matrix[j + 2, o]
                + x3 * matrix[j + 3, o]
                + y0 * matrix[rows + j, o]
                + y1 * matrix[rows + j + 1, o]
                + y2 * matrix[rows + j + 2, o]
                + y3 * matrix[rows + j + 3, o]
            )
        j += 4
    while j < rows:
        for o in range(columns):
            out[o] += x[j] * matrix[j, o] + y[j] * matrix[rows + j, o]
        j += 1


@njit(nogil=True, error_model="numpy")
def _add_outer(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """out += x yᵀ; out [m, n]."""
    for j in range(len(x)):
        for o in range(len(y)):
            out[j, o] += x[j] * y[o]


# The compiler may reorder this sum to vectorize it, but then every call uses the same order.
@njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _dot(x: np.ndarray, y: np.ndarray) -> float:
    total = x.dtype.type(0)
    for o in range(len(x)):
        total += x[o] * y[o]
    return total


@njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _add_rows_dot(matrix: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """out += matrix · x; matrix [m, n]. Four rows at once keep the adders busy."""
    rows, columns = matrix.shape
    j = 0
    while j + 4 <= rows:
        s0, s1, s2, s3 = out[j], out[j + 1], out[j + 2], out[j + 3]
        for o in range(columns):
            s0 += matrix[j, o] * x[o]
            s1 += matrix[j + 1, o] * x[o]
            s2 += matrix[j + 2, o] * x[o]
            s3 += matrix[j + 3, o] * x[o]
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
        j += 4
    while j < rows:
        out[j] += _dot(matrix[j], x)
        j += 1


@njit(nogil=True, error_model="numpy")
def _compose(
    node: int,
    left: int,
    right: int,
    matrix: np.ndarray,
    scorer: np.ndarray,
    sums: np.ndarray,
    vectors: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Compute the vector of a node and the score of its subtree from those of its children.

    Args:
        node, left, right: rows of `vectors` [N, n] and `totals` [N]; right -1 for a unary node.
        matrix, scorer: the node's weights, [2n + 1, n] and [n].
        sums: [n], overwritten.
    """
    n = len(sums)
    for o in range(n):
        sums[o] = matrix[2 * n, o]
    total = totals[left]
    if right >= 0:
        _add_two_products(vectors[left], vectors[right], matrix, sums)
        total += totals[right]
    else:
        _add_product(vectors[left], matrix[:n], sums)
    vector = vectors[node]
    for o in range(n):
        vector[o] = _tanh(sums[o])
    totals[node] = total + _dot(scorer, vector)


@apart
@njit(nogil=True, error_model="numpy")
def forward(
    leaves: np.ndarray,
    W: np.ndarray,
    v: np.ndarray,
    rows: np.ndarray,
    key: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and scores of all nodes (Socher et al. 2013, equations 2 to 6).

    Args:
        leaves: vectors of the batch's words, [U, n].
        W, v: stacked weights, [R, 2n + 1, n] and [R, n], of the same dtype as `leaves`.
        rows, key, left, right: fields of a `LevelBatch`.

    Returns:
        The nodes' vectors [N, n], and for each node the sum of the scores of its subtree [N].

    Raises:
        ValueError: the fields are not those of a batch, or its rows are outside the weights.
    """
    count, n = len(key), v.shape[1]
    check_structure(len(leaves), len(rows), key, left, right)
    check_positions(rows, min(len(W), len(v)))
    if leaves.shape[1] != n:
        raise ValueError("vectors of words and weights differ in dimension")
    vectors = np.empty((count, n), v.dtype)
    totals = np.zeros(count, v.dtype)
    for leaf in range(len(leaves)):
        for o in range(n):
            vectors[leaf, o] = leaves[leaf, o]
    sums = np.empty(n, v.dtype)
    for node in range(len(leaves), count):
        row = rows[key[node]]
        _compose(node, left[node], right[node], W[row], v[row], sums, vectors, totals)
    return vectors, totals


@njit(nogil=True, error_model="numpy")
def _row_of(pair: int, pairs: np.ndarray) -> int:
    """The row of weights of a pair of categories: its place in sorted `pairs` plus one, or 0."""
    low, high = 0, len(pairs)
    while low < high:
        middle = (low + high) // 2
        if pairs[middle] < pair:
            low = middle + 1
        else:
            high = middle
    return low + 1 if low < len(pairs) and pairs[low] == pair else 0


@apart
@njit(nogil=True, error_model="numpy")
def forest_scores(
    cat: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    start: np.ndarray,
    root: np.ndarray,
    words: np.ndarray,
    pairs: np.ndarray,
    parameters: Parameters,
) -> np.ndarray:
    """Scores of the candidates of one forest, without a batch: [K].

    They are those of `forward`, to the bit. Making a batch would take longer than scoring it.

    Args:
        cat, left, right, start, root: fields of a `Forest`.
        words: int32 [tokens], the row in `vectors` of each token.
        pairs: `CategoryPairs.packed`.
        parameters: the weights.

    Raises:
        ValueError: the forest is not one of so many tokens, or the weights are not for these rows.
    """
    vectors, W, v = parameters
    n = v.shape[1]
    if vectors.shape[1] != n or min(len(W), len(v)) <= len(pairs):
        raise ValueError("the weights differ in dimension, or lack a row")
    check_positions(words, len(vectors))
    check_positions(root, len(cat))
    out, totals = np.empty((len(cat), n), v.dtype), np.zeros(len(cat), v.dtype)
    sums = np.empty(n, v.dtype)
    for node in range(len(cat)):
        a, b = left[node], right[node]
        if a < 0:
            if start[node] < 0 or start[node] >= len(words):
                raise ValueError("a forest has more words than its sentence has rows")
            for o in range(n):
                out[node, o] = vectors[words[start[node]], o]
            continue
        if a >= node or b >= node:
            raise ValueError("a child in a forest does not precede its parent")
        beside = np.int64(cat[b]) if b >= 0 else np.int64(0xFFFFFFFF)
        row = _row_of((np.int64(cat[a]) << 32) | beside, pairs)
        _compose(node, a, b, W[row], v[row], sums, out, totals)
    return totals[root]


@njit(nogil=True, error_model="numpy")
def _activate(
    active: np.ndarray, key: np.ndarray, left: np.ndarray, right: np.ndarray, slot: np.ndarray
) -> None:
    """Extend `active` from roots to all nodes below; mark their weights in `slot`."""
    for node in range(len(key) - 1, -1, -1):
        if active[node] and key[node] >= 0:
            slot[key[node]] = 0
            active[left[node]] = True
            if right[node] >= 0:
                active[right[node]] = True


@apart
@njit(nogil=True, error_model="numpy")
def backward(
    W: np.ndarray,
    v: np.ndarray,
    rows: np.ndarray,
    key: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    root: np.ndarray,
    vectors: np.ndarray,
    leaf_count: int,
    upstream: np.ndarray,
    compact: bool,
    want_W: bool = True,
    want_leaves: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Derivatives of Σ upstream · score(root) by the weights and the word vectors.

    Only nodes below a root with a derivative are visited: under the structured hinge these are
    two trees of each violated example (Danskin's theorem).

    Args:
        W, v, rows, key, left, right, root: as for `forward`, root from the same batch.
        vectors: [N, n], the nodes' vectors from `forward`.
        leaf_count: U, the number of words in the batch.
        upstream: [T], derivative of the loss by the candidates' scores.
        compact: whether the result excludes weights that are not visited.
        want_W, want_leaves: whether to compute these derivatives. Without both, only the
            coefficients of the scores are propagated down the trees.

    Returns:
        Positions in `rows`, int32 [A'] (all unless `compact`), and the derivatives by their W
        [A', 2n + 1, n], by their v [A', n], and by the word vectors [U, n]. Derivatives that are
        not wanted are empty, [0, …].
    """
    count, n = vectors.shape
    check_positions(root, count)
    coefficient = np.zeros(count, v.dtype)
    for t in range(len(root)):
        coefficient[root[t]] += upstream[t]
    active = coefficient != 0
    slot = np.full(len(rows), -1 if compact else 0, np.int32)
    _activate(active, key, left, right, slot)
    used = number_marked(slot)

    matrices = np.zeros((len(used) if want_W else 0, 2 * n + 1, n), v.dtype)
    scorers = np.zeros((len(used), n), v.dtype)
    below = want_W or want_leaves
    delta = np.zeros((count if below else 0, n), v.dtype)
    inner = np.empty(n, v.dtype)
    first = 0 if want_leaves else leaf_count  # the lowest node whose vector needs delta
    for node in range(count - 1, leaf_count - 1, -1):
        if not active[node]:
            continue
        row, k, c = rows[key[node]], slot[key[node]], coefficient[node]
        p = vectors[node]
        for o in range(n):
            scorers[k, o] += c * p[o]
        coefficient[left[node]] += c
        if right[node] >= 0:
            coefficient[right[node]] += c
        if not below:
            continue
        for o in range(n):
            inner[o] = (delta[node, o] + c * v[row, o]) * (1 - p[o] * p[o])
        if want_W:
            for o in range(n):
                matrices[k, 2 * n, o] += inner[o]
            _add_outer(vectors[left[node]], inner, matrices[k, :n])
            if right[node] >= 0:
                _add_outer(vectors[right[node]], inner, matrices[k, n : 2 * n])
        if left[node] >= first:
            _add_rows_dot(W[row, :n], inner, delta[left[node]])
        if right[node] >= first:
            _add_rows_dot(W[row, n : 2 * n], inner, delta[right[node]])
    return used, matrices, scorers, delta[: leaf_count if want_leaves else 0].copy()
