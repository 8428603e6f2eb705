"""Results of least-squares steps and fits, and when to stop; without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class StepResult:
    """What a Levenberg–Marquardt step did: costs, damping, step length, measures of convergence.

    A step that was not accepted did not change the variables. Its `predicted`, `gain_ratio`, norms
    and relative step are then those of the first trial step.

    Attributes:
        cost_before, cost: ½ ‖r‖² + ½ Σ l θ² before and after.
        accepted: whether the step lowered the cost.
        damping: μ of the step.
        gain_ratio: reduction of the cost over `predicted`; 1 if the linear model is exact.
        predicted: reduction of the cost according to the linear model.
        step_norm: ‖δ‖.
        relative_step: ‖√D δ‖ / ‖√D θ‖, with D as in `LevenbergMarquardt`.
        gradient_norm: ‖g‖ before the step.
        cosine: before the step, the largest |cosine| of the angle between r and a column of J. It
            is 0 at a minimum, and does not depend on the units of residuals and parameters.
        tries: number of trial steps.
        evaluations: number of evaluations of the residuals, without the one before the step.
        restricted: whether the trust region, which has grown since, limited a good step, so that
            its length does not indicate convergence.
    """

    cost_before: float
    cost: float
    accepted: bool
    damping: float
    gain_ratio: float
    predicted: float
    step_norm: float
    relative_step: float
    gradient_norm: float
    cosine: float
    tries: int
    evaluations: int
    restricted: bool


class Tolerances(NamedTuple):
    """When to stop. All tolerances are relative and so do not depend on units.

    Attributes:
        gradient: stop if `StepResult.cosine` is at most this.
        step: stop if `StepResult.relative_step` is at most this, unless the step was restricted.
        cost: stop if both the predicted and the actual reduction are at most this share of the
            cost, unless the step was restricted.
    """

    gradient: float = 1e-10
    step: float = 1e-10
    cost: float = 1e-14

    def reached(self, result: StepResult) -> str:
        """`gradient`, `step`, `cost`, `stalled` (no μ lowered the cost), or an empty string."""
        if result.cosine <= self.gradient:
            return "gradient"
        if result.restricted:
            return ""
        if result.relative_step <= self.step:
            return "step"
        largest = max(result.predicted, result.cost_before - result.cost)
        if largest <= self.cost * result.cost_before:
            return "cost"
        return "" if result.accepted else "stalled"


@dataclass(frozen=True)
class MinimizeResult:
    """How a minimization ended: the reason, the final cost, and all steps.

    Attributes:
        reason: as from `Tolerances.reached`, or `steps` if all steps were used, or `callback` if a
            callback stopped the fit. Fits of float32 variables usually end with `stalled`, when no
            step is small enough.
        cost: ½ ‖r‖² + ½ Σ l θ² at the end.
        history: all steps.
        logs: by name, the values that callbacks got after each epoch; empty without epochs.
    """

    reason: str
    cost: float
    history: list[StepResult]
    logs: dict[str, list[float]] = field(default_factory=dict)
