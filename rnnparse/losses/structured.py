"""Structured losses as TensorFlow operations with explicit subgradients.

All losses take the same arguments and tie rules, so they are interchangeable. They work eagerly, in
`tf.function`, with `jit_compile=True`, under `tape.jacobian` and in Keras.
"""

from __future__ import annotations

from typing import Any

from rnnparse._tensorflow import tf
from rnnparse.losses.score_gradients import check_tie


def structured_hinge(
    scores: tf.Tensor, costs: tf.Tensor, gold: tf.Tensor, mask: tf.Tensor, tie: str = "first"
) -> tf.Tensor:
    """The structured hinge r_i = max_k (s_ik + Δ_ik) − s_i,gold, with a chosen subgradient.

    If a single candidate has the highest s + Δ, r has a gradient: +1 for that candidate's score and
    −1 for the gold candidate's. If several candidates tie (exact equality), every convex
    combination of them gives a subgradient, and `tie` chooses one. The derivative with respect to
    the costs follows the same choice. The second derivative is 0, its value almost everywhere.

    Args:
        scores: float [B, K].
        costs: the same dtype, [B, K]: structured margins Δ, 0 for the gold candidate.
        gold: int [B], the column of the target, which must be a candidate.
        mask: bool [B, K], which entries are candidates. Other entries are ignored, even NaN.
        tie: `first` takes the tied candidate of the lowest index; `uniform` the mean over the tied
            candidates, as TensorFlow's reduce_max does; `gold` the gold candidate if it is tied,
            which gives 0, and otherwise the first.

    Returns:
        r [B], in the dtype of the scores; 0 with gradient 0 in rows without candidates. Loss and
        gradient are NaN in rows with a NaN among the candidates and, within `tf.function`, in rows
        whose gold column is not a candidate.

    Raises:
        ValueError: the tie rule is unknown; the scores are not float [B, K]; another argument does
            not have the expected shape (nothing is broadcast); or, eagerly, a gold column is not
            a candidate.
        tf.errors.InvalidArgumentError: the sizes do not match, in a graph that was traced with
            unknown sizes (XLA omits this check).

    Reference:
        Socher et al. (2013), Parsing with Compositional Vector Grammars, equations 7 to 9;
        Ratliff et al. (2007), (Online) Subgradient Methods for Structured Prediction.

    Example:
        >>> loss = structured_hinge([[1.0, 2.0]], [[0.0, 0.5]], [0], [[True, True]])
        >>> float(loss[0])
        1.5
    """
    check_tie(tie)
    scores, costs, gold, mask = _arguments(scores, costs, gold, mask)
    target = _target(scores + costs, gold, mask)
    return _hinge(scores, costs, target, mask, tie)


def structured_squared_hinge(
    scores: tf.Tensor, costs: tf.Tensor, gold: tf.Tensor, mask: tf.Tensor, tie: str = "first"
) -> tf.Tensor:
    """The squared structured hinge r_i², with r_i as in `structured_hinge`.

    Its subgradient with respect to the scores is 2 r w, where w is the subgradient of the hinge
    that `tie` chooses. Unlike the hinge it is differentiable where r = 0, but it has kinks wherever
    candidates tie with r > 0. The second derivative is 2 w wᵀ, the Hessian almost everywhere, so r
    can serve as a residual for Gauss–Newton methods. The loss is convex if no gold candidate has a
    negative cost.

    Args:
        scores, costs, gold, mask, tie: as for `structured_hinge`.

    Returns:
        r² [B], in the dtype of the scores, and NaN where r is.

    Raises:
        ValueError: as `structured_hinge`.

    Reference:
        Tsochantaridis et al. (2005), Large Margin Methods for Structured and Interdependent
        Output Variables, section 2.2 (slack variables squared).

    Example:
        >>> loss = structured_squared_hinge([[1.0, 2.0]], [[0.0, 0.5]], [0], [[True, True]])
        >>> float(loss[0])
        2.25
    """
    return tf.square(structured_hinge(scores, costs, gold, mask, tie))


def structured_perceptron(
    scores: tf.Tensor, costs: tf.Tensor, gold: tf.Tensor, mask: tf.Tensor, tie: str = "first"
) -> tf.Tensor:
    """The perceptron's loss r_i = max_k s_ik − s_i,gold: the structured hinge without a margin.

    It is 0 if no candidate outscores the gold one, so equal scores are a minimum. `tie` chooses the
    subgradient there too; with `gold` it is 0, like in the perceptron rule, which updates only on
    errors.

    Args:
        scores, gold, mask, tie: as for `structured_hinge`.
        costs: ignored; its derivative is None. It is an argument so that losses are
            interchangeable.

    Returns:
        r [B] ≥ 0, in the dtype of the scores, and NaN where that of `structured_hinge` is.

    Raises:
        ValueError: as `structured_hinge`.

    Reference:
        Collins (2002), Discriminative Training Methods for Hidden Markov Models.

    Example:
        >>> loss = structured_perceptron([[1.0, 2.0]], [[0.0, 0.5]], [0], [[True, True]])
        >>> float(loss[0])
        1.0
    """
    scores = tf.convert_to_tensor(scores)
    return structured_hinge(scores, tf.zeros_like(scores), gold, mask, tie)


def _hinge(
    scores: tf.Tensor, costs: tf.Tensor, target: tf.Tensor, mask: tf.Tensor, tie: str
) -> tf.Tensor:
    zero = tf.zeros((), scores.dtype)

    def augment(scores: tf.Tensor, costs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        augmented = tf.where(mask, scores + costs, tf.constant(-float("inf"), scores.dtype))
        return augmented, tf.reduce_max(augmented, axis=1, keepdims=True)

    @tf.custom_gradient
    def chosen(scores: tf.Tensor, costs: tf.Tensor) -> Any:
        """Weights [B, K] of the maximizers, which are constant wherever they are differentiable."""
        augmented, best = augment(scores, costs)
        weights = _share(augmented == best, target, tie)
        return weights, lambda upstream: (tf.zeros_like(scores), tf.zeros_like(costs))

    @tf.custom_gradient
    def hinge(scores: tf.Tensor, costs: tf.Tensor) -> Any:
        _, best = augment(scores, costs)
        reached = tf.reduce_sum(tf.where(target == 0, zero, target * scores), axis=1)
        some = tf.reduce_any(mask, axis=1)
        violation = tf.where(some, best[:, 0] - reached, zero)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            upstream = tf.where(some, upstream, zero)[:, None]
            weights = chosen(scores, costs)
            return upstream * (weights - target), upstream * weights

        return violation, gradient

    return hinge(scores, costs)


def _arguments(scores: Any, costs: Any, gold: Any, mask: Any) -> tuple[tf.Tensor, ...]:
    """Convert the arguments to tensors and check them, or let the graph check unknown sizes."""
    scores = tf.convert_to_tensor(scores)
    if not scores.dtype.is_floating or scores.shape.rank != 2:
        raise ValueError(f"scores must be float [B, K], not {scores.dtype.name} {scores.shape}")
    costs = tf.convert_to_tensor(costs, scores.dtype)
    gold = tf.convert_to_tensor(gold)
    if not gold.dtype.is_integer:
        raise ValueError(f"gold must be integers, not {gold.dtype.name}")
    mask = tf.convert_to_tensor(mask, tf.bool)
    for name, value, axes in (("costs", costs, 2), ("gold", gold, 1), ("mask", mask, 2)):
        shape = scores.shape[:axes]
        if value.shape.rank != axes or not value.shape.is_compatible_with(shape):
            raise ValueError(f"{name} must have the shape {shape}, not {value.shape}")
        if not (value.shape.is_fully_defined() and shape.is_fully_defined()):
            message = f"{name} must fit the scores"
            tf.debugging.assert_equal(tf.shape(value), tf.shape(scores)[:axes], message)
    return scores, costs, gold, mask


def _target(augmented: tf.Tensor, gold: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """One-hot [B, K]; NaN in rows without a usable target, which makes loss and gradient NaN."""
    target = tf.one_hot(tf.cast(gold, tf.int64), tf.shape(mask)[1], dtype=augmented.dtype)
    some = tf.reduce_any(mask, axis=1, keepdims=True)
    astray = some & ~tf.reduce_any(mask & (target > 0), axis=1, keepdims=True)
    if tf.executing_eagerly() and tf.reduce_any(astray):
        row = int(tf.argmax(astray[:, 0]))
        raise ValueError(f"gold[{row}] is {int(gold[row])}, which is not a candidate of row {row}")
    # The maximum over NaN is NaN eagerly, but XLA ignores NaN.
    undefined = tf.reduce_any(mask & tf.math.is_nan(augmented), axis=1, keepdims=True)
    return tf.where(astray | undefined, tf.constant(float("nan"), target.dtype), target)


def _share(tied: tf.Tensor, target: tf.Tensor, tie: str) -> tf.Tensor:
    """Weights [B, K] of the tied candidates; each row sums to 1, or to 0 without candidates."""
    weights = tf.cast(tied, target.dtype)
    if tie == "uniform":
        return weights / tf.maximum(tf.reduce_sum(weights, axis=1, keepdims=True), 1)
    first = tf.where(tf.cumsum(weights, axis=1) <= 1, weights, tf.zeros_like(weights))
    if tie == "first":
        return first
    gold_ties = tf.reduce_any(tied & (target > 0), axis=1, keepdims=True)
    return tf.where(gold_ties, target, first)
