"""Structured losses as TensorFlow operations with explicit subgradients."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rnnparse.losses.objectives import check_tie


def structured_hinge(
    scores: tf.Tensor, costs: tf.Tensor, gold: tf.Tensor, mask: tf.Tensor, tie: str = "first"
) -> tf.Tensor:
    """The structured hinge r_i = max_k (s_ik + Δ_ik) − s_i,gold and a subgradient of it.

    Where one candidate alone has the highest s + Δ, r has a gradient: +1 for that candidate's
    score and −1 for the gold one's. Where several tie (exact equality), every convex combination
    of them gives a subgradient; `tie` says which is taken. The derivative by the costs follows the
    same choice; the second derivative is 0, as it is almost everywhere.

    Works eagerly, in `tf.function`, with `jit_compile=True` and under `tape.jacobian`.

    Args:
        scores: float [B, K].
        costs: the same dtype, [B, K]: structured margins Δ, 0 for the gold candidate.
        gold: int [B], column of the target.
        mask: bool [B, K], which entries are candidates; others may hold anything, NaN too.
        tie: `first`: the candidate of the lowest index; `uniform`: the mean over the tied ones,
            which is what TensorFlow's reduce_max does; `gold`: the gold one if it is among them,
            which gives 0, else the first.

    Returns:
        r [B], in the dtype of the scores; 0 with gradient 0 in rows without candidates.

    Raises:
        ValueError: an unknown tie rule.

    Reference:
        Socher et al. (2013), Parsing with Compositional Vector Grammars, equations 7 to 9;
        Ratliff et al. (2007), (Online) Subgradient Methods for Structured Prediction.

    Example:
        >>> loss = structured_hinge([[1.0, 2.0]], [[0.0, 0.5]], [0], [[True, True]])
        >>> float(loss[0])
        1.5
    """
    check_tie(tie)
    scores = tf.convert_to_tensor(scores)
    costs = tf.convert_to_tensor(costs, scores.dtype)
    mask = tf.convert_to_tensor(mask, tf.bool)
    target = tf.one_hot(gold, tf.shape(scores)[1], dtype=scores.dtype)
    zero = tf.zeros((), scores.dtype)

    def augment(scores: tf.Tensor, costs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        augmented = tf.where(mask, scores + costs, tf.constant(-float("inf"), scores.dtype))
        return augmented, tf.reduce_max(augmented, axis=1, keepdims=True)

    @tf.custom_gradient
    def chosen(scores: tf.Tensor, costs: tf.Tensor) -> Any:
        """Weights [B, K] of the maximisers: constant wherever they are differentiable."""
        augmented, best = augment(scores, costs)
        weights = _share(mask & (augmented == best), target, tie)
        return weights, lambda upstream: (tf.zeros_like(scores), tf.zeros_like(costs))

    @tf.custom_gradient
    def hinge(scores: tf.Tensor, costs: tf.Tensor) -> Any:
        _, best = augment(scores, costs)
        reached = tf.reduce_sum(tf.where(target > 0, scores, zero), axis=1)
        some = tf.reduce_any(mask, axis=1)
        violation = tf.where(some, best[:, 0] - reached, zero)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            upstream = tf.where(some, upstream, zero)[:, None]
            weights = chosen(scores, costs)
            return upstream * (weights - target), upstream * weights

        return violation, gradient

    return hinge(scores, costs)


def _share(tied: tf.Tensor, target: tf.Tensor, tie: str) -> tf.Tensor:
    """Weights [B, K] over the tied candidates that sum to 1 a row, 0 in rows without any."""
    weights = tf.cast(tied, target.dtype)
    if tie == "uniform":
        return weights / tf.maximum(tf.reduce_sum(weights, axis=1, keepdims=True), 1)
    first = tf.where(tf.cumsum(weights, axis=1) <= 1, weights, tf.zeros_like(weights))
    if tie == "first":
        return first
    gold_ties = tf.reduce_any(tied & (target > 0), axis=1, keepdims=True)
    return tf.where(gold_ties, target, first)
