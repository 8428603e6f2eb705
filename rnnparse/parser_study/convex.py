"""The optimum of an objective that is convex, as ours is by v alone, with a proven lower bound.

J(v) = R(v) + λ/2 ‖v‖², where R is a mean of convex losses. Every subgradient g of R at a point u
gives a cutting plane R(v) ≥ R(u) + g · (v − u). The highest of all planes so far, with the L2 term,
lies below J everywhere; its minimum is a lower bound of the optimum and the next point to look at
(a bundle method for regularised risks: Teo et al. 2010, which needs O(1/(λε)) planes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.errors import ConfigError
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.objective import loss_gradients_at
from rnnparse.models.parameters import Parameters
from rnnparse.threads import apart

CONVEX = ("hinge", "squared-hinge", "perceptron", "mmi")
"""Objectives that are convex in the scores, and so in v."""

_BATCH = 200  # sentences that are scored at once


class Optimum(NamedTuple):
    """The least value of a convex function, as far as it is known.

    Attributes:
        value: the least that was met, at `point`.
        lower_bound: nothing lies below it.
        point: float64, the shape of v.
        planes: how many subgradients it took.
    """

    value: float
    lower_bound: float
    point: np.ndarray
    planes: int


def minimize_convex(
    risk: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    l2: float,
    *,
    tolerance: float = 1e-3,
    limit: int = 500,
) -> Optimum:
    """The minimum of R(v) + λ/2 ‖v‖².

    Args:
        risk: gives R and a subgradient of it, of the shape of `start`, at any point.
        start: where to begin.
        l2: λ, positive.
        tolerance: stop when value and lower bound are so near, as a share of the value (or of a
            millionth of the first one, where the optimum is 0).
        limit: most planes; the result then has a wider gap.

    Raises:
        ValueError: λ is not positive.

    Reference:
        Teo, Vishwanathan, Smola & Le (2010), Bundle Methods for Regularized Risk Minimization.

    Example:
        >>> def absolute(v):                # |v − 3|, with λ = 2: the minimum is at ½
        ...     return float(abs(v[0] - 3)), np.sign(v - 3)
        >>> found = minimize_convex(absolute, np.zeros(1), l2=2.0)
        >>> round(found.value, 6), found.point
        (2.75, array([0.5]))
    """
    if l2 <= 0:
        raise ValueError("a lower bound needs an L2 weight above 0")
    point = best = np.asarray(start, np.float64)
    value, bound = np.inf, -np.inf
    slopes = np.empty((limit, point.size))
    heights, gram, share = np.empty(limit), np.empty((limit, limit)), np.zeros(limit)
    first, count = 0.0, 0
    for count in range(1, limit + 1):
        i = count - 1
        loss, slope = risk(point)
        reached = loss + l2 / 2 * float(np.sum(point * point))
        first = first or abs(reached)
        if reached < value:
            value, best = reached, point
        if value - bound <= tolerance * max(abs(value), 1e-6 * first):
            break
        slopes[i] = slope.ravel()
        heights[i] = loss - slopes[i] @ point.ravel()
        gram[i, :count] = gram[:count, i] = slopes[:count] @ slopes[i] / l2
        share[i] = 1.0 if i == 0 else 0.0
        _maximize_dual(gram[:count, :count].copy(), heights[:count], share[:count])
        mixed = share[:count] @ slopes[:count]
        bound = max(bound, float(heights[:count] @ share[:count] - mixed @ mixed / (2 * l2)))
        point = (-mixed / l2).reshape(point.shape)
    return Optimum(value, bound, best, count)


@apart
@njit(cache=True, nogil=True, error_model="numpy")
def _maximize_dual(gram: np.ndarray, heights: np.ndarray, share: np.ndarray) -> None:
    """Maximise heights · α − ½ αᵀ gram α over α ≥ 0 that sum to 1, from α = share, in place.

    By pairs: the two weights along whose exchange the value rises fastest. Any α gives a valid
    bound, so that stopping early costs tightness alone.
    """
    size = len(heights)
    slope = heights - gram @ share
    scale = np.abs(heights).max() + np.abs(gram).max()
    for _ in range(200 * size + 1000):
        up, down = -1, -1
        for i in range(size):
            if up < 0 or slope[i] > slope[up]:
                up = i
            if share[i] > 0 and (down < 0 or slope[i] < slope[down]):
                down = i
        rise = slope[up] - slope[down]
        if rise <= 1e-13 * scale:
            return
        bend = gram[up, up] + gram[down, down] - 2 * gram[up, down]
        step = share[down] if bend <= 0 else min(share[down], rise / bend)
        share[up] += step
        share[down] -= step
        for i in range(size):
            slope[i] -= step * (gram[i, up] - gram[i, down])


class ScoreVectorProblem:
    """J by the score vectors v, for fixed word vectors and W, over all sentences of a store.

    Args:
        store: forests with costs for κ = 1 and targets.
        parameters: the fixed weights; v is where `optimum` starts.
        objective: one of `CONVEX`.
        kappa: κ, the margin for each wrong labelled span.
        l2: λ.

    Raises:
        ConfigError: an objective that is not convex.
    """

    def __init__(
        self,
        store: ForestDataset,
        parameters: Parameters,
        objective: str = "hinge",
        kappa: float = 0.1,
        l2: float = 1e-4,
    ) -> None:
        if objective not in CONVEX:
            raise ConfigError(f"{objective} is not convex; convex are {', '.join(CONVEX)}")
        self.store, self.objective, self.kappa, self.l2 = store, objective, kappa, l2
        self.parameters = Parameters(*(array.astype(np.float64) for array in parameters))

    def risk(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean loss of all sentences and a subgradient of it, [R, n]."""
        total, slope = 0.0, np.zeros_like(v)
        vectors, W, _ = self.parameters
        for start in range(0, len(self.store), _BATCH):
            batch = self.store.batch(range(start, min(start + _BATCH, len(self.store))))
            losses, gradients = loss_gradients_at(
                batch,
                vectors[batch.words],
                W,
                v,
                self.objective,
                self.kappa,
                learned=("v",),
            )
            total += float(losses.sum())
            slope[gradients.rows] += gradients.v * len(losses)
        return total / len(self.store), slope / len(self.store)

    def value(self, v: np.ndarray) -> float:
        """J(v)."""
        v = np.asarray(v, np.float64)
        return self.risk(v)[0] + self.l2 / 2 * float(np.sum(v * v))

    def optimum(self, tolerance: float = 1e-3, limit: int = 500) -> Optimum:
        """The least J; see `minimize_convex`."""
        return minimize_convex(
            self.risk, self.parameters.v, self.l2, tolerance=tolerance, limit=limit
        )


def descent_bound(distance: float, gradient_norms: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """How far above the optimum the best of the iterates of subgradient descent can be.

    min_t J(v_t) − J* ≤ (‖v₁ − v*‖² + Σ α² ‖g‖²) / (2 Σ α), after each step. With α ∝ 1/√t it falls
    as log t/√t; at a fixed rate it stays above α ‖g‖²/2. It holds for the subgradients of the
    whole objective; for those of minibatches it holds in the mean.

    Args:
        distance: ‖v₁ − v*‖.
        gradient_norms: float [N], ‖g‖ at each step.
        rates: float [N], α.

    Returns:
        float64 [N].

    Reference:
        Shor (1985), Minimization Methods for Non-Differentiable Functions; Boyd, Xiao &
        Mutapcic (2003), Subgradient Methods.
    """
    squares = np.cumsum(np.square(np.asarray(rates) * np.asarray(gradient_norms)))
    return (distance**2 + squares) / (2 * np.cumsum(rates))
