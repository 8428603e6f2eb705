"""The structured hinge and its subgradients in NumPy, for the two-tree path."""

from __future__ import annotations

import numpy as np

TIES = ("first", "uniform", "gold")
"""Which of several highest-scoring candidates a subgradient follows; see `hinge_weights`."""


def check_tie(tie: str) -> None:
    """Raise ValueError unless `tie` is one of `TIES`."""
    if tie not in TIES:
        raise ValueError(f"unknown tie rule {tie!r}; known are {', '.join(TIES)}")


def hinge_weights(
    scores: np.ndarray, costs: np.ndarray, gold: np.ndarray, mask: np.ndarray, tie: str = "first"
) -> tuple[np.ndarray, np.ndarray]:
    """Structured hinge r = max over candidates (s + Δ) − s(gold), and a subgradient by the scores.

    The NumPy twin of `rnnparse.losses.structured.structured_hinge`; see there for the equation.

    Args:
        scores: float [B, K].
        costs: float [B, K], structured margins Δ, 0 for the gold candidate.
        gold: int [B], column of the target.
        mask: bool [B, K], which entries are candidates; others may hold anything, NaN too.
        tie: where several candidates have exactly the highest s + Δ, the subgradient follows
            the one of the lowest index (`first`), the mean over all of them (`uniform`), or the
            gold one if it is among them, which gives zero, else the first (`gold`).

    Returns:
        Violations r [B], ≥ 0 where the gold candidate has no cost, and weights [B, K]: a
        subgradient ∂r/∂scores that sums to 0 over each row. Both are 0 in rows without candidates.

    Raises:
        ValueError: an unknown tie rule.
    """
    check_tie(tie)
    examples = np.arange(len(gold))
    if not scores.size:
        return np.zeros(len(gold), scores.dtype), np.zeros(scores.shape, scores.dtype)
    some = np.asarray(mask.any(axis=1))
    augmented = np.where(mask, scores + costs.astype(scores.dtype), -np.inf).astype(scores.dtype)
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
