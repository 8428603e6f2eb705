"""The trust region of least-squares steps, as in MINPACK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # as it imports TensorFlow
    from rnnparse.optim.levenberg_marquardt.normal_equations import NormalEquations

_TOLERANCE = 0.1  # of the radius
_SURE = 1e-3  # with this μ every system can be solved
_POOR, _GOOD = 0.25, 0.75  # gain ratios
_SHRINK = (0.1, 0.5)  # a radius after a poor step


@dataclass
class TrustRegion:
    """The radius Δ that limits ‖√D δ‖, and the μ that gives a step of that length.

    Attributes:
        radius: Δ; infinite before the first step.
        damping: μ of the previous step.

    Reference:
        Moré (1978), The Levenberg–Marquardt Algorithm: Implementation and Theory; Nocedal & Wright
        (2006), Numerical Optimization, sections 4.3 and 10.3.
    """

    radius: float
    damping: float

    def step(self, equations: NormalEquations, least: float) -> tuple[float, np.ndarray]:
        """Find μ ≥ `least` and its step δ [P].

        The length of δ equals the radius within a tenth; with μ = `least` it may be shorter. δ is
        NaN if the system cannot be solved for any μ because of rounding.
        """
        damping, step, length = least, *_solve(equations, least)
        while np.isinf(self.radius) and np.isinf(length) and damping < _SURE:
            damping *= 10
            step, length = _solve(equations, damping)
        if length <= (1 + _TOLERANCE) * self.radius:
            return damping, step
        steepest = np.sqrt(np.sum(np.square(equations.gradient) / equations.scale))
        low, high = least, max(least, float(steepest) / self.radius)
        damping = self.damping if low < self.damping < high else _between(low, high)
        for _ in range(20):
            step, length = _solve(equations, damping)
            excess = length - self.radius
            if abs(excess) <= _TOLERANCE * self.radius or not low < high:
                return damping, step
            low, high = (low, damping) if excess < 0 else (damping, high)
            newton = np.nan
            if 0 < length < np.inf:
                slope = _slope(equations, damping, step, length)
                # ‖√D δ‖ is convex in μ, so its tangent gives a lower bound.
                low = max(low, damping - excess / slope)
                newton = damping - length / self.radius * excess / slope
            damping = newton if low < newton < high else _between(low, high)
        return damping, _solve(equations, damping)[0]

    def adapt(self, gain: float, length: float, shrink: float, free: bool) -> None:
        """Set the radius after a step.

        Args:
            gain: reduction of the cost over the predicted one, or NaN without a cost.
            length: length of the step.
            shrink: factor of the radius after a poor step.
            free: whether the radius did not limit the step.
        """
        if not gain > _POOR:
            self.radius = shrink * min(self.radius, 10 * length)
        elif gain >= _GOOD or free:
            self.radius = 2 * length


def shrinkage(cost: float, after: float, slope: float) -> float:
    """The factor of the radius after a poor step, by the minimum of a parabola.

    Args:
        cost, after: the cost before and after the step; NaN or infinite if it is not defined.
        slope: slope of the cost along the step at its start; negative.
    """
    if after <= cost:
        return _SHRINK[1]
    if not after <= 100 * cost or not np.isfinite(after):
        return _SHRINK[0]
    return float(np.clip(0.5 * slope / (slope + cost - after), *_SHRINK))


def _solve(equations: NormalEquations, damping: float) -> tuple[np.ndarray, float]:
    """δ and ‖√D δ‖; NaN and infinity if the system cannot be solved."""
    try:
        step = equations.solve(damping)
        length = equations.length(step)
    except np.linalg.LinAlgError:
        length = np.inf
    if not np.isfinite(length):
        return np.full(len(equations.gradient), np.nan), np.inf
    return step, length


def _slope(equations: NormalEquations, damping: float, step: np.ndarray, length: float) -> float:
    """d ‖√D δ‖ / dμ, negative."""
    right = equations.scale * step
    slope = -float(np.sum(right * equations.inverse(damping, right))) / length
    return min(slope, -np.finfo(np.float64).tiny)


def _between(low: float, high: float) -> float:
    return float(max(1e-3 * high, np.sqrt(low * high)))
