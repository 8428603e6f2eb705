"""The training objectives in NumPy, each with a (sub)gradient with respect to the scores.

The objectives depend only on the candidates' scores, so any model can be trained with them.
Multiply the returned weights by the derivatives of the scores to get a (sub)gradient with respect
to the model's parameters (by Danskin's theorem for the maxima, by the chain rule for the others).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rnnparse.losses.names import TIES

Weights = tuple[np.ndarray, np.ndarray]


def check_tie(tie: str) -> None:
    """Raise ValueError unless `tie` is one of `TIES`."""
    if tie not in TIES:
        raise ValueError(f"unknown tie rule {tie!r}; known are {', '.join(TIES)}")


def hinge_weights(
    scores: np.ndarray, costs: np.ndarray, gold: np.ndarray, mask: np.ndarray, tie: str = "first"
) -> Weights:
    """Structured hinge r = max over candidates (s + Δ) − s(gold), and a subgradient of it.

    The NumPy counterpart of `rnnparse.losses.structured_hinge`, which has the equation.

    Args:
        scores: float [B, K].
        costs: float [B, K], structured margins Δ, 0 for the gold candidate.
        gold: int [B], the column of the target.
        mask: bool [B, K], which entries are candidates. Other entries are ignored, even NaN.
        tie: if several candidates have exactly the highest s + Δ, the subgradient follows the one
            of the lowest index (`first`), the mean over all of them (`uniform`), or the gold one
            if it is tied, which gives zero, and otherwise the first (`gold`).

    Returns:
        Violations r [B], ≥ 0 where the gold candidate has no cost, and weights [B, K]: a
        subgradient ∂r/∂scores that sums to 0 over each row. Both are 0 in rows without candidates.

    Raises:
        ValueError: the tie rule is unknown.
    """
    check_tie(tie)
    examples = np.arange(len(gold))
    if not scores.size:
        return np.zeros(len(gold), scores.dtype), np.zeros(scores.shape, scores.dtype)
    some = np.asarray(mask.any(axis=1))
    augmented = np.full(scores.shape, -np.inf, scores.dtype)
    augmented[mask] = scores[mask] + costs[mask].astype(scores.dtype)
    best = augmented.max(axis=1)
    violation = np.where(some, best - scores[examples, gold], 0).astype(scores.dtype)
    tied = np.asarray(mask & (augmented == best[:, None]))
    weights = np.zeros(scores.shape, scores.dtype)
    if tie == "uniform":
        weights += tied / np.maximum(tied.sum(axis=1, keepdims=True), 1)
    else:
        chosen = tied.argmax(axis=1)
        if tie == "gold":
            chosen = np.where(tied[examples, gold], gold, chosen)
        weights[examples, chosen] = 1
    weights[examples, gold] -= 1
    return violation, np.where(some[:, None], weights, 0)


def squared_hinge_weights(
    scores: np.ndarray, costs: np.ndarray, gold: np.ndarray, mask: np.ndarray, tie: str = "first"
) -> Weights:
    """The squared structured hinge r² and a subgradient 2 r ∂r of it; see `hinge_weights`."""
    violation, weights = hinge_weights(scores, costs, gold, mask, tie)
    return violation * violation, 2 * violation[:, None] * weights


def perceptron_weights(
    scores: np.ndarray, costs: np.ndarray, gold: np.ndarray, mask: np.ndarray, tie: str = "first"
) -> Weights:
    """The perceptron's loss max over candidates s − s(gold): the hinge without a margin.

    The costs are ignored. The loss is zero if the gold candidate has the highest score, so equal
    scores are a minimum.

    Reference:
        Collins (2002), Discriminative Training Methods for Hidden Markov Models.
    """
    return hinge_weights(scores, np.zeros_like(scores), gold, mask, tie)


def log_likelihood_weights(
    scores: np.ndarray, costs: np.ndarray, gold: np.ndarray, mask: np.ndarray, tie: str = "first"
) -> Weights:
    """−log of the gold candidate's probability, log Σ exp s − s(gold) (the MMI criterion).

    Arguments and results are as for `hinge_weights`. Costs and tie rule are ignored: the loss is
    differentiable everywhere.

    Reference:
        Bahl et al. (1986), Maximum Mutual Information Estimation; Johnson et al. (1999).
    """
    check_tie(tie)
    if not scores.size:
        return np.zeros(len(gold), scores.dtype), np.zeros(scores.shape, scores.dtype)
    examples = np.arange(len(gold))
    some = np.asarray(mask.any(axis=1))
    weights, partition = softmax(scores, mask)
    loss = np.where(some, partition - scores[examples, gold], 0).astype(scores.dtype)
    weights[examples, gold] -= some
    return loss, weights


def risk_weights(
    scores: np.ndarray, costs: np.ndarray, gold: np.ndarray, mask: np.ndarray, tie: str = "first"
) -> Weights:
    """The expected cost Σ p Δ under p = softmax(scores), with its derivative p (Δ − Σ p Δ).

    Arguments and results are as for `hinge_weights`; the tie rule is ignored. The risk is at most
    the highest cost, and is not convex in the scores.

    Reference:
        Smith & Eisner (2006), Minimum Risk Annealing for Training Log-Linear Models.
    """
    check_tie(tie)
    probability, _ = softmax(scores, mask)
    costs = np.where(mask, costs, 0).astype(scores.dtype)
    risk = (probability * costs).sum(axis=1)
    return risk, probability * (costs - risk[:, None])


def softmax(scores: np.ndarray, mask: np.ndarray) -> Weights:
    """Probabilities [B, K], 0 where masked, and log Σ exp [B], 0 in rows without candidates."""
    shifted = np.where(mask, scores, -np.inf)
    top = shifted.max(axis=1, keepdims=True, initial=-np.inf)
    top[~mask.any(axis=1)] = 0
    exponentials = np.exp(shifted - top)
    total = exponentials.sum(axis=1, keepdims=True)
    total[total == 0] = 1
    return exponentials / total, (np.log(total) + top)[:, 0]


WEIGHTS: dict[str, Callable[..., Weights]] = {
    "hinge": hinge_weights,
    "squared-hinge": squared_hinge_weights,
    "perceptron": perceptron_weights,
    "mmi": log_likelihood_weights,
    "risk": risk_weights,
}
"""The function of each of `rnnparse.losses.names.OBJECTIVES`."""
