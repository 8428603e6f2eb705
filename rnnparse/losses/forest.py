"""Losses over shared forests: log-likelihood of the target tree, and expected risk.

Candidate trees share subtrees, and each distinct subtree is one node. The derivative with respect
to a node's score is the sum over all trees that contain the node, as often as they contain it. It
is computed by pushing a weight for each root down the shared nodes, in time linear in the number of
nodes, not of trees.

The operations call NumPy and numba. They work eagerly and in `tf.function`, but not under XLA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from rnnparse._tensorflow import tf
from rnnparse.compiled import njit
from rnnparse.losses.external import external_loss
from rnnparse.losses.numpy_function import call_numpy
from rnnparse.losses.score_gradients import log_likelihood_weights, risk_weights, softmax


class CandidateForest(Protocol):
    """The forests of B sentences: N nodes, T candidate trees, at most K per sentence.

    Arrays or tensors, as in `rnnparse.models.batch.LevelBatch`:

    - left, right: int [N], child nodes, which come before their parents; both are -1 for leaves,
      and right is -1 for unary nodes.
    - root: int [T], root nodes of the candidates.
    - candidates: int [B, K], positions of a sentence's candidates in `root`.
    - mask: bool [B, K], which entries are candidates.
    - gold: int [B], the column of the target tree, which must be a candidate.
    """

    @property
    def left(self) -> Any: ...
    @property
    def right(self) -> Any: ...
    @property
    def root(self) -> Any: ...
    @property
    def candidates(self) -> Any: ...
    @property
    def mask(self) -> Any: ...
    @property
    def gold(self) -> Any: ...


def conditional_log_likelihood(node_scores: tf.Tensor, forest: CandidateForest) -> tf.Tensor:
    """−log P(y | x) of the target tree among the candidates: log Σ_k exp s_ik − s_i,gold.

    The score s of a tree is the sum over its nodes; a node that occurs twice counts twice. The
    derivative with respect to a node's score is its expected number of occurrences under the
    softmax of the scores, minus its number of occurrences in the target tree (the MMI criterion:
    denominator minus numerator).

    Computed in float64 through `external_loss`; first derivatives only.

    Args:
        node_scores: float [N], a score for each node, leaves included.
        forest: the candidates and the target of B sentences.

    Returns:
        [B], in the dtype of the scores, ≥ 0; 0 with derivative 0 for sentences without candidates.

    Raises:
        ValueError: the arrays are not a forest, or the scores are not float or not finite.

    Reference:
        Johnson et al. (1999), Estimators for stochastic "unification-based" grammars; Bahl et al.
        (1986), Maximum mutual information estimation of hidden Markov model parameters.

    Example:
        >>> from types import SimpleNamespace
        >>> two = SimpleNamespace(left=[-1, -1, 0, 0], right=[-1, -1, 0, 1], root=[2, 3],
        ...                       candidates=[[0, 1]], mask=[[True, True]], gold=[0])
        >>> scores = tf.Variable([1.0, 1.0, 0.0, 0.0])
        >>> with tf.GradientTape() as tape:
        ...     loss = conditional_log_likelihood(scores, two)
        >>> print(loss.numpy(), tape.gradient(loss, scores).numpy())
        [0.6931472] [-0.5  0.5 -0.5  0.5]
    """
    node_scores = _float_scores(node_scores)
    scores = tree_scores(tf.cast(node_scores, tf.float64), forest)
    loss = external_loss(scores, _log_likelihood, forest.gold, forest.mask, per_example=True)
    return tf.cast(loss, node_scores.dtype)


def expected_risk(node_scores: tf.Tensor, forest: CandidateForest, costs: tf.Tensor) -> tf.Tensor:
    """The expected cost of a tree under the softmax of the scores, Σ_k softmax(s_i)_k Δ_ik.

    Computed in float64 through `external_loss`; first derivatives only.

    Args:
        node_scores, forest: as for `conditional_log_likelihood`; `forest.gold` is ignored.
        costs: float [T], Δ of each candidate, such as κ · `LevelBatch.cost`; without derivative.

    Returns:
        [B], in the dtype of the scores; 0 with derivative 0 for sentences without candidates.

    Raises:
        ValueError: as for `conditional_log_likelihood`.

    Reference:
        Smith & Eisner (2006), Minimum risk annealing for training log-linear models.
    """
    node_scores = _float_scores(node_scores)
    scores = tree_scores(tf.cast(node_scores, tf.float64), forest)
    places = tf.where(forest.mask, forest.candidates, -1)
    loss = external_loss(scores, _risk, costs, forest.root, places, per_example=True)
    return tf.cast(loss, node_scores.dtype)


def tree_scores(node_scores: tf.Tensor, forest: CandidateForest) -> tf.Tensor:
    """Scores [B, K] of the candidates: sums over the nodes of each tree, 0 where masked.

    Use them for `structured_hinge` or your own loss. They are linear and have all derivatives.

    Args:
        node_scores: float [N].
        forest: see `CandidateForest`.

    Raises:
        ValueError: the arrays are not a forest.
    """
    node_scores = tf.convert_to_tensor(node_scores)
    structure = [
        *(tf.cast(x, tf.int32) for x in (forest.left, forest.right, forest.root)),
        tf.cast(forest.candidates, tf.int32),
        tf.cast(forest.mask, tf.bool),
    ]
    table, nodes = structure[-1].shape, node_scores.shape

    def apply(kernel: Callable[..., np.ndarray], x: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
        result = call_numpy(
            kernel,
            [x, *structure],
            x.dtype,
            stateful=False,
            name="tree_scores_needs_jit_compile_False",  # XLA's message shows the name
        )
        result.set_shape(shape)
        return result

    # Each is the transpose of the other, and so the derivative of the other.
    @tf.custom_gradient
    def up(x: tf.Tensor) -> Any:
        return apply(_sum_up, x, table), lambda upstream: down(tf.convert_to_tensor(upstream))

    @tf.custom_gradient
    def down(x: tf.Tensor) -> Any:
        return apply(_push_down, x, nodes), lambda upstream: up(tf.convert_to_tensor(upstream))

    return up(node_scores)


def node_posteriors(node_scores: np.ndarray, forest: CandidateForest) -> np.ndarray:
    """Expected number of occurrences of each node under softmax(s), summed over sentences.

    Args:
        node_scores: float [N].
        forest: see `CandidateForest`, in NumPy; `gold` is ignored.

    Returns:
        float64 [N]. For a node that no tree contains twice and no two sentences share, this is its
        posterior probability.

    Raises:
        ValueError: the arrays are not a forest.
    """
    arrays = (forest.left, forest.right, forest.root, forest.candidates)
    mask = np.asarray(forest.mask, bool)
    structure = (*(np.asarray(x, np.int32) for x in arrays), mask)
    scores = _sum_up(np.asarray(node_scores, np.float64), *structure)
    return _push_down(softmax(scores, mask)[0], *structure)


def _float_scores(node_scores: Any) -> tf.Tensor:
    node_scores = tf.convert_to_tensor(node_scores)
    if not node_scores.dtype.is_floating:
        raise ValueError(f"the scores of the nodes must be float, not {node_scores.dtype.name}")
    return node_scores


def _log_likelihood(
    scores: np.ndarray, gold: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if gold.shape != mask.shape[:1] or (gold.size and gold.dtype.kind not in "iu"):
        raise ValueError(
            f"gold must be an int column for each of {len(mask)} sentences, not {gold.dtype} "
            f"{gold.shape}"
        )
    _check_finite(scores)
    inside = (gold >= 0) & (gold < mask.shape[1])
    missing = np.asarray(mask.any(axis=1))
    missing[inside] &= ~mask[np.flatnonzero(inside), gold[inside]]
    if missing.any():
        raise ValueError(f"the gold column of sentence {np.argmax(missing)} is not a candidate")
    return log_likelihood_weights(scores, scores, gold, mask)


def _risk(
    scores: np.ndarray, costs: np.ndarray, root: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if costs.shape != root.shape:
        raise ValueError(f"costs must have the shape ({len(root)},), not {costs.shape}")
    _check_finite(scores)
    mask = places >= 0
    table = np.zeros_like(scores)
    table[mask] = costs[places[mask]]
    return risk_weights(scores, table, np.zeros(len(mask), np.int32), mask)


def _check_finite(scores: np.ndarray) -> None:
    if not np.isfinite(scores).all():
        sentence = int(np.argwhere(~np.isfinite(scores))[0, 0])
        raise ValueError(f"the scores of the trees of sentence {sentence} are not all finite")


def _sum_up(
    node_scores: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    root: np.ndarray,
    candidates: np.ndarray,
    mask: np.ndarray,
) -> np.ndarray:
    """Scores of the candidates [B, K] from the scores of the nodes [N]; checks the forest."""
    if node_scores.shape != left.shape or left.shape != right.shape or left.ndim != 1:
        raise ValueError(
            f"the forest needs a score, a left and a right child for each node; there are "
            f"{node_scores.shape}, {left.shape} and {right.shape}"
        )
    if candidates.shape != mask.shape or mask.ndim != 2:
        raise ValueError(
            f"candidates {candidates.shape} and mask {mask.shape} must have one shape [B, K]"
        )
    chosen = candidates[mask]
    if np.any((chosen < 0) | (chosen >= len(root))):
        raise ValueError(f"candidates must be positions among the {len(root)} roots")
    if np.any((root < 0) | (root >= len(left))):
        raise ValueError(f"roots must be node numbers from 0 to {len(left) - 1}")
    scores = np.zeros(mask.shape, node_scores.dtype)
    scores[mask] = _tree_totals(node_scores, left, right)[root[chosen]]
    return scores


def _push_down(
    weights: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    root: np.ndarray,
    candidates: np.ndarray,
    mask: np.ndarray,
) -> np.ndarray:
    """Weights of the nodes [N] from those of the candidates [B, K]; the transpose of `_sum_up`."""
    nodes = np.zeros(len(left), weights.dtype)
    np.add.at(nodes, root[candidates[mask]], weights[mask])
    _add_to_children(nodes, left, right)
    return nodes


@njit(nogil=True)
def _tree_totals(node_scores: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Score of the tree below each node, itself included, from the bottom up."""
    totals = node_scores.copy()
    for node in range(len(totals)):
        if left[node] >= node or right[node] >= node:
            raise ValueError("the children of a node must come before it")
        if left[node] >= 0:
            totals[node] += totals[left[node]]
        if right[node] >= 0:
            totals[node] += totals[right[node]]
    return totals


@njit(nogil=True)
def _add_to_children(weights: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Add the weight of each node to its children, from the top down, once all parents have."""
    for node in range(len(weights) - 1, -1, -1):
        if weights[node] == 0:
            continue
        if left[node] >= 0:
            weights[left[node]] += weights[node]
        if right[node] >= 0:
            weights[right[node]] += weights[node]
