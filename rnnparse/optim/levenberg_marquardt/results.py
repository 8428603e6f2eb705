"""What steps of least squares did, and when to stop; no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class StepResult:
    """The result of a step. A step that was not accepted did not change the variables; `predicted`,
    `gain_ratio` and the lengths are then those of its first try.

    Attributes:
        cost_before, cost: ½ ‖r‖² + ½ Σ l θ² before and after.
        accepted: whether a lower cost was found.
        damping: μ of the step.
        gain_ratio: reduction of the cost over `predicted`; 1 where the model is exact.
        predicted: reduction of the cost by the linear model.
        step_norm: ‖δ‖.
        relative_step: ‖√D δ‖ / ‖√D θ‖, with D as in `LevenbergMarquardt`.
        gradient_norm: ‖g‖ before the step.
        cosine: before the step, the largest |cosine| of the angle between r and a column of J,
            0 at a minimum, whatever the units of residuals and parameters.
        tries: steps that were tried.
        evaluations: of the residuals, besides that before the step.
        restricted: whether the step was as good as the model predicted but ended at the edge of the
            trust region, which has grown since, so that its length says nothing.
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
    """When to stop; all are relative, so that they do not depend on units.

    Attributes:
        gradient: stop where `StepResult.cosine` is no larger.
        step: stop where `StepResult.relative_step` is no larger, unless the step was restricted.
        cost: stop where neither the predicted nor the actual reduction is a larger part of the
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
    """How a minimisation ended.

    Attributes:
        reason: see `Tolerances.reached`; `steps`: none of these, but no step was left; `callback`:
            a callback stopped it. Variables of float32 mostly end with `stalled`: no step of theirs
            is fine enough.
        cost: ½ ‖r‖² + ½ Σ l θ² at the end.
        history: all steps.
        logs: by name, what callbacks saw after each epoch; empty where there are no epochs.
    """

    reason: str
    cost: float
    history: list[StepResult]
    logs: dict[str, list[float]] = field(default_factory=dict)
