"""What is measured of a trial. Each quantity is declared here, once, with its meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

FLAT = 0.05
"""Converged: the trend of the last half falls by at most this share of the total fall."""
SHORT_WAY = 0.5
"""Updates that sum to less than this share of the length of the weights go a short way."""
LEAST_SCALE = 0.01
"""Changes are relative to the fall so far, but at least to this share of the level."""


def _number(meaning: str, unit: str = "", known: str = "", default: Any = math.nan) -> Any:
    """Declare a number, NaN if unknown; `known` says when it is present, if not always."""
    return field(default=default, metadata={"meaning": meaning, "unit": unit, "known": known})


def _string(meaning: str, known: str = "") -> Any:
    """Declare a string, empty if unknown."""
    return _number(meaning, "", known, "")


_TREND = "at least 4 values"
_RATIO = "`update_ratio` is recorded"
_L2 = "`objective` and `loss` are recorded"
_DEV = "4 epochs with `dev_f1` or `val_loss`"
_CONVEX = "`convex` is recorded"
_GAPS = "at least 4 positive gaps"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured of a trial, in plain numbers and words.

    An unknown number is NaN, so that every comparison with it is false. The halves are those of
    the judged curve; the trend is a line through the last half; intervals are 95 % confidence
    intervals.
    """

    values: float = _number("number of objective values judged")
    unit: str = _string("what each value belongs to: update or epoch")
    start: float = _number("objective at the start", "objective")
    end: float = _number("objective at the end of the trend", "objective")
    lowest: float = _number("minimum of the moving mean over a tenth of the curve", "objective")
    fall: float = _number("start − end", "share of start")
    noise: float = _number("standard deviation around a smooth curve", "share of end")
    slope: float = _number("slope of the trend", "objective per value", _TREND)
    slope_low: float = _number("lower end of its interval", "objective per value", _TREND)
    slope_high: float = _number("upper end of its interval", "objective per value", _TREND)
    gain: float = _number("decrease along the trend", "share of fall, or of loss if less", _TREND)
    gain_low: float = _number("lower end of its interval", "as gain", _TREND)
    gain_high: float = _number("upper end of its interval", "as gain", _TREND)
    pace: float = _number("slope of the last half", "slope of the first half", "at least 8 values")
    amplitude: float = _number("amplitude of the swings around the trend", "share of end")
    sign_changes: float = _number("sign changes of the residuals", "share of neighbours")
    sign_changes_expected: float = _number(
        "sign changes expected under white noise", "share of neighbours"
    )
    sign_changes_p: float = _number("p-value of so many sign changes under white noise")
    period: float = _number("period of the strongest wave", "values", "the curve has a wave")
    period_p: float = _number("p-value of so strong a wave under white noise")
    update_ratio: float = _number("median of ‖Δθ‖/‖θ‖ in the last half", "", _RATIO)
    update_ratio_change: float = _number(
        "median of ‖Δθ‖/‖θ‖ in the last half", "that of the first half", _RATIO
    )
    travelled: float = _number("sum of ‖Δθ‖/‖θ‖", "lengths of the weights", _RATIO)
    gradient_change: float = _number(
        "median gradient norm of the last half",
        "that of the first half",
        "`gradient_norm` is recorded",
    )
    violated: float = _number("violated examples at the end", "share", "`violated` is recorded")
    saturation: float = _number("saturated units at the end", "share", "`saturation` is recorded")
    reference: float = _number(
        "lowest objective known for the problem", "objective", "other trials on the problem"
    )
    progress: float = _number("part of the way from start to reference (or 0) covered", "share")
    needed: float = _number(
        "further updates to reach the reference at this slope",
        "multiple of those made",
        "`reference`, and the objective falls",
    )
    l2_share: float = _number("L2 term at the end", "share of objective", _L2)
    l2_share_of_fall: float = _number(
        "L2 term in the fall", "share of fall", f"{_L2}, and the objective falls"
    )
    loss_start: float = _number("loss without the L2 term at the start", "objective", _L2)
    loss_end: float = _number("loss without the L2 term at the end", "objective", _L2)
    loss: str = _string("what the loss does beyond noise: falls, stays or rises", _L2)
    dev_peak: float = _number("best dev F1 or validation loss, mean of 3 epochs", "its own", _DEV)
    dev_peak_epoch: float = _number("epoch of dev_peak", "", _DEV)
    dev_drop: float = _number("how much worse the last 3 epochs are", "as dev_peak", _DEV)
    dev_drop_error: float = _number("standard error of dev_drop", "as dev_peak", _DEV)
    dev_since_best: float = _number("epochs since the best one", "epochs", _DEV)
    gap: float = _number("best iterate minus optimum", "objective", _CONVEX)
    gap_share: float = _number("gap", "share of start − optimum", _CONVEX)
    optimum: float = _number("minimum of the objective", "objective", _CONVEX)
    decay: float = _number("exponent p of gap ∝ epoch^−p (or update^−p)", "", _GAPS)
    decay_low: float = _number("lower end of its interval", "", _GAPS)
    decay_high: float = _number("upper end of its interval", "", _GAPS)
    bound: float = _number("theoretical upper bound on the gap", "objective", _CONVEX)
    within_bound: str = _string("whether the gap was always below the bound: yes or no", _CONVEX)
    broke: str = _string(
        "first update or epoch with an infinite, undefined or huge objective", "the trial diverged"
    )
    error: str = _string("the error that ended the trial", "the trial failed")

    def as_dict(self) -> dict[str, float | str]:
        """The known quantities, in the order of declaration."""
        values = {name: getattr(self, name) for name in EVIDENCE}
        return {
            name: value if isinstance(value, str) else float(value)
            for name, value in values.items()
            if (value if isinstance(value, str) else math.isfinite(value))
        }


@dataclass(frozen=True, kw_only=True)
class Measurements(Evidence):
    """The evidence, and what the rules need besides; all in the unit of the objective.

    Changes are relative to `scale`: start − end; the loss (the greater of its start and end) if
    that is less, as where the L2 term dominates; `LEAST_SCALE` of the end if that is more.
    """

    curve: np.ndarray  # the finite values that are judged, [n]
    start_known: bool  # whether `start` is the objective before the first update
    start_error: float  # standard error
    end_error: float  # standard error
    scale: float
    deviation: float  # standard deviation of the noise
    swing: float  # amplitude
    slows: bool  # the last half is less steep than the first, by two standard errors
    dev_name: str = ""  # "dev_f1" or "val_loss"
    loss_falls: bool = False  # training loss and objective fell after the dev peak
    best_rate: str = ""  # see `rnnparse.study.diagnosis.comparison`

    @property
    def descent(self) -> float:
        """start − end, in the unit of the objective."""
        return self.start - self.end

    @property
    def size(self) -> float:
        """The greater magnitude of start and end."""
        return max(abs(self.start), abs(self.end))

    @property
    def has_fallen(self) -> bool:
        """Whether the objective fell beyond noise: by two standard errors and `LEAST_SCALE`."""
        error = math.hypot(self.start_error, self.end_error)
        return self.descent > max(2 * error, LEAST_SCALE * self.size)

    def compared_to(self, reference: float) -> Measurements:
        """The same trial, given the lowest objective known for its problem (NaN if unknown)."""
        positive = math.isnan(reference) and self.curve.min() >= 0
        floor = 0.0 if positive else reference
        progress = self.descent / (self.start - floor) if self.start > floor else math.nan
        needed = math.nan
        if self.slope_high < 0 and not math.isnan(reference):
            needed = max(0.0, (self.end - reference) / -self.slope / len(self.curve))
        return replace(self, reference=reference, progress=progress, needed=needed)


DECLARED = {f.name: f.metadata for f in fields(Evidence)}
"""The measurements with their meaning, unit and when they are known."""

EVIDENCE = {
    name: f"{told['meaning']} ({told['unit']})" if told["unit"] else str(told["meaning"])
    for name, told in DECLARED.items()
}
"""The measurements of a diagnosis: name → meaning and unit."""
