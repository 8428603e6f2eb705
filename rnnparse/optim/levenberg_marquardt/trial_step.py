"""Trial steps of least squares, and the result of the chosen one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.optim.levenberg_marquardt.results import StepResult

if TYPE_CHECKING:  # as it imports TensorFlow
    from rnnparse.optim.levenberg_marquardt.normal_equations import NormalEquations


@dataclass
class TrialStep:
    """A step δ [P]. After it, the residuals r [B] are `values`; `cost` is NaN until evaluated."""

    damping: float
    step: np.ndarray
    predicted: float
    size: float
    cost: float = np.nan
    values: np.ndarray | None = None
    evaluations: int = 0

    def relative(self, equations: NormalEquations) -> float:
        return equations.length(self.step) / self.size if self.size else np.inf

    def gain(self, cost: float) -> float:
        return (cost - self.cost) / self.predicted if self.predicted > 0 else np.nan


def check_start(residuals: np.ndarray, cost: float) -> None:
    """Raise ValueError if there are no residuals, or the cost is not finite."""
    if not len(residuals):
        raise ValueError("there are no residuals")
    if not np.isfinite(cost):
        bad = np.count_nonzero(~np.isfinite(residuals))
        raise ValueError(
            f"the cost is not finite at the start ({bad} of {len(residuals)} residuals are not); "
            "start at another point"
        )


def report(
    equations: NormalEquations,
    cost: float,
    chosen: TrialStep,
    tries: list[TrialStep],
    *,
    accepted: bool,
    restricted: bool,
) -> StepResult:
    # For a column of zeros the gradient is 0, too.
    norms = np.sqrt(np.where(equations.diagonal > 0, equations.diagonal, 1.0))
    length = float(np.sqrt(2 * cost))
    steepest = float(np.max(np.abs(equations.gradient) / norms))
    return StepResult(
        cost_before=cost,
        cost=chosen.cost if accepted else cost,
        accepted=accepted,
        damping=chosen.damping,
        gain_ratio=chosen.gain(cost),
        predicted=chosen.predicted,
        step_norm=_norm(chosen.step),
        relative_step=chosen.relative(equations),
        gradient_norm=_norm(equations.gradient),
        cosine=steepest / length if length else 0.0,
        tries=len(tries),
        evaluations=sum(each.evaluations for each in tries),
        restricted=restricted,
    )


def _norm(values: np.ndarray) -> float:
    # Unlike that of `np.linalg.norm`, the result does not depend on the number of threads.
    return float(np.sqrt(np.sum(np.square(values))))
