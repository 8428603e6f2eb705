"""The optimum of a convex objective, with a proven lower bound. Ours is convex in v alone.

J(v) = R(v) + λ/2 ‖v‖², where R is a mean of convex losses. Every subgradient g of R at a point u
gives a cutting plane R(v) ≥ R(u) + g · (v − u). The maximum of all planes so far plus the L2 term
is a lower bound of J everywhere. Its minimum bounds the optimum, and is the next point to evaluate.
This is a bundle method for regularised risks (Teo et al. 2010), which needs O(1/(λε)) planes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.errors import ConfigError
from rnnparse.models.forest_file import Forests
from rnnparse.models.objective import loss_gradients_at
from rnnparse.models.parameters import Parameters
from rnnparse.threads import apart

CONVEX = ("hinge", "squared-hinge", "perceptron", "mmi")
"""Objectives that are convex in the scores, and therefore in v."""

_BATCH = 200  # sentences scored at once


class Optimum(NamedTuple):
    """The minimum of a convex function, between two bounds.

    Attributes:
        value: the least value found, at `point`.
        lower_bound: of the minimum.
        point: float64, of the shape of v.
        planes: the number of subgradients that were computed.
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
    """Minimize R(v) + λ/2 ‖v‖².

    Args:
        risk: returns R and a subgradient, of the shape of `start`, at any point.
        start: the first point.
        l2: λ, positive.
        tolerance: stop when the gap between value and lower bound is at most this share of the
            value (or, if the optimum is 0, of a millionth of the first value).
        limit: the maximal number of planes; if it is reached, the gap is wider.

    Raises:
        ValueError: λ is not positive.

    Reference:
        Teo, Vishwanathan, Smola & Le (2010), Bundle Methods for Regularized Risk Minimization.

    Example:
        >>> def absolute(v):                # |v − 3|, with λ = 2: the minimum is at ½
        ...     return float(abs(v[0] - 3)), np.sign(v - 3)
        >>> optimum = minimize_convex(absolute, np.zeros(1), l2=2.0)
        >>> round(optimum.value, 6), optimum.point
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
@njit(nogil=True, error_model="numpy")
def _maximize_dual(gram: np.ndarray, heights: np.ndarray, share: np.ndarray) -> None:
    """Maximise heights · α − ½ αᵀ gram α over α ≥ 0 with sum 1, from α = share, in place.

    Each step shifts weight between the two planes for which the value rises fastest. Any α gives a
    valid bound, so stopping early only loosens it.
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
    """J as a function of the score vectors v, for fixed word vectors and W, over all sentences.

    Args:
        store: forests with targets, and costs for κ = 1.
        parameters: the fixed weights; `optimum` starts from their v.
        objective: one of `CONVEX`.
        kappa: κ, the margin for each wrong labelled span.
        l2: λ.

    Raises:
        ConfigError: the objective is not convex.
    """

    def __init__(
        self,
        store: Forests,
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
        """The mean loss of all sentences, and a subgradient of it, float64 [R, n]."""
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
        """Minimize J; see `minimize_convex`."""
        return minimize_convex(
            self.risk, self.parameters.v, self.l2, tolerance=tolerance, limit=limit
        )


def descent_bound(distance: float, gradient_norms: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """An upper bound on how far the best objective of subgradient descent is above the optimum.

    After each step, min_t J(v_t) − J* ≤ (‖v₁ − v*‖² + Σ α² ‖g‖²) / (2 Σ α). With α ∝ 1/√t the bound
    falls as log t/√t; at a fixed rate it stays above α ‖g‖²/2. It holds for subgradients of the
    whole objective; for those of minibatches it holds in expectation.

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
