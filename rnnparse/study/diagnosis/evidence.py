"""The evidence of a diagnosis: what was measured of a trial, and under which names it is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rnnparse.study.diagnosis.statistics import Decay, SignChanges, Trend, Wave

LEAST_SCALE = 0.01
"""Changes are measured by the fall so far, but at least by this share of the level."""
SHORT_WAY = 0.5
"""Updates whose lengths sum up to less than this share of the weights' length go a short way."""
FLAT = 0.05
"""Converged: the last half's line falls by no more than this share of the whole fall."""


@dataclass(frozen=True)
class Objective:
    """The objective's course; errors are standard errors, "half" the last half of the curve.

    Attributes:
        curve: finite, [n]. unit: "update" or "epoch", what n counts.
        start: its first value (of long curves the mean of up to a fiftieth, as long as they do not
            move beyond noise); start_error. Of a curve by epochs, whose first value is a mean over
            updates, what the objective was before the first of them, if that is known.
        start_known: whether that is known.
        lowest: the least of the moving mean over a tenth of the curve.
        noise: standard deviation around a smooth curve.
        trend: line through the last half; None with fewer than `LEAST_POINTS` values.
        end: where that line ends, or the last value; end_error.
        scale: what changes are judged by: start − end; the loss (the greater of start and end) if
            that is less, as it is where an L2 term dominates; `LEAST_SCALE` of the end if that is
            more.
        gain, gain_low, gain_high: what the line falls by in the half, as a share of the scale, with
            its 95 % interval.
        pace: slope of the last half over that of the first; None if unknown.
        slower: whether the last half is less steep beyond two standard errors.
        amplitude: √2 times the standard deviation of the half around a parabola.
        signs, wave: of the half, or of the last 32 values if they are more, around a parabola.
    """

    curve: np.ndarray
    unit: str
    start: float
    start_error: float
    lowest: float
    noise: float
    trend: Trend | None
    end: float
    end_error: float
    scale: float
    gain: float
    gain_low: float
    gain_high: float
    pace: float | None
    slower: bool
    amplitude: float
    signs: SignChanges
    wave: Wave
    start_known: bool = True

    @property
    def fall(self) -> float:
        """start − end."""
        return self.start - self.end

    @property
    def size(self) -> float:
        """The greater magnitude of start and end."""
        return max(abs(self.start), abs(self.end))

    @property
    def fall_error(self) -> float:
        """Standard error of the fall."""
        return math.hypot(self.start_error, self.end_error)


@dataclass(frozen=True)
class Steps:
    """What the updates did; None where it was not recorded.

    Attributes:
        ratio: median of ‖Δθ‖/‖θ‖ in the last half; ratio_change: over that of the first half.
        travelled: Σ ‖Δθ‖/‖θ‖, the length of the way in lengths of the weights.
        gradient_change: median gradient norm of the last half over that of the first.
        violated: share of violated examples at the end.
        saturation: share of saturated units at the end.
    """

    ratio: float | None
    ratio_change: float | None
    travelled: float | None
    gradient_change: float | None
    violated: float | None
    saturation: float | None


@dataclass(frozen=True)
class Penalty:
    """The L2 term within the objective.

    Attributes:
        share: of the objective at the end. share_of_fall: of the objective's fall.
        loss_start, loss_end: the rest of the objective. loss_error: standard error of its change.
    """

    share: float
    share_of_fall: float | None
    loss_start: float
    loss_end: float
    loss_error: float

    @property
    def loss_moves(self) -> str:
        """Beyond two standard errors and 1 %: "falls", "rises", or else "stays"."""
        change = self.loss_end - self.loss_start
        if abs(change) <= max(2 * self.loss_error, LEAST_SCALE * abs(self.loss_start)):
            return "stays"
        return "rises" if change > 0 else "falls"


@dataclass(frozen=True)
class Dev:
    """The course of dev F1, or of the validation loss: then all is the other way up.

    Attributes:
        name: "dev_f1" or "val_loss".
        peak, peak_epoch: the highest of the moving mean over three epochs, and when.
        end: mean of the last three epochs after the peak. drop: peak − end; drop_error: its
            standard error.
        since_best: epochs after the first with the highest dev F1.
        loss_falls: whether training loss and objective fell after the peak.
    """

    name: str
    peak: float
    peak_epoch: int
    end: float
    drop: float
    drop_error: float
    since_best: int
    loss_falls: bool


@dataclass(frozen=True)
class Convex:
    """How near a convex problem's best iterate came to the optimum.

    Attributes:
        gap: of the best iterate after the last epoch; first_gap: after the first.
        optimum: the least value.
        decay: gap ~ epoch^−exponent, or None.
        bound: the theory's upper bound on the gap after the last epoch, or None.
        within_bound: whether the gap was below the bound at all epochs, or None.
    """

    gap: float
    first_gap: float
    optimum: float
    decay: Decay | None
    bound: float | None
    within_bound: bool | None

    def share(self, start: float) -> float | None:
        """The gap as a share of the distance from the start to the optimum."""
        return self.gap / (start - self.optimum) if start > self.optimum else None


@dataclass(frozen=True)
class Findings:
    """All that was measured of a trial; None where there is nothing to measure.

    Attributes:
        objective, steps, penalty, dev, convex: see there.
        reference: the lowest objective known for the problem.
        broke: where a value that is infinite or no number stands first, as "update 7".
        best_rate: name and value of the rate that got lowest with all else equal, if another did.
    """

    objective: Objective
    steps: Steps
    penalty: Penalty | None = None
    dev: Dev | None = None
    convex: Convex | None = None
    reference: float | None = None
    broke: str | None = None
    best_rate: str | None = None

    @property
    def floor(self) -> float | None:
        """What the objective may fall to: the reference, or 0 if the curve has never been below."""
        if self.reference is not None:
            return self.reference
        return 0.0 if self.objective.curve.min() >= 0 else None

    @property
    def progress(self) -> float | None:
        """The share of the way from the start to the floor that has been gone."""
        if self.floor is None or self.objective.start <= self.floor:
            return None
        return self.objective.fall / (self.objective.start - self.floor)

    @property
    def needed(self) -> float | None:
        """How many times as many updates would reach the reference at the present slope."""
        o = self.objective
        if self.reference is None or o.trend is None or o.trend.high >= 0:
            return None
        return max(0.0, (o.end - self.reference) / -o.trend.slope / len(o.curve))


EVIDENCE = {
    "values": "values of the objective that were judged",
    "unit": "what they belong to: update or epoch",
    "start": "objective at the start",
    "end": "objective at the end of the line through the last half",
    "lowest": "least of the moving mean over a tenth of the curve",
    "fall": "start − end, as a share of the start",
    "noise": "standard deviation around a smooth curve, as a share of the level",
    "slope": "slope of that line, by update (or epoch)",
    "slope_low": "lower end of its 95 % interval",
    "slope_high": "upper end of its 95 % interval",
    "gain": "what that line falls by, over the whole fall (or over the loss, if that is less)",
    "gain_low": "lower end of its 95 % interval",
    "gain_high": "upper end of its 95 % interval",
    "pace": "slope of the last half over that of the first",
    "amplitude": "amplitude around the trend, as a share of the level",
    "sign_changes": "share of steps at which the residuals change sign",
    "sign_changes_expected": "that share for noise",
    "sign_changes_p": "chance of so many sign changes or more under noise",
    "period": "period of the strongest wave",
    "period_p": "chance of so strong a wave under noise",
    "update_ratio": "median of ‖Δθ‖/‖θ‖ in the last half",
    "update_ratio_change": "that median over the one of the first half",
    "travelled": "Σ ‖Δθ‖/‖θ‖: the updates' way in lengths of the weights",
    "gradient_change": "median gradient norm of the last half over that of the first",
    "violated": "share of violated examples at the end",
    "saturation": "share of saturated units at the end",
    "reference": "lowest objective known for the problem",
    "progress": "share of the way to the reference (or 0) that has been gone",
    "needed": "budgets like this one that would reach the reference at the present slope",
    "l2_share": "share of the L2 term in the objective at the end",
    "l2_share_of_fall": "share of the L2 term in the fall of the objective",
    "loss_start": "loss, without the L2 term, at the start",
    "loss_end": "loss, without the L2 term, at the end",
    "loss": "what the loss does beyond noise: falls, stays or rises",
    "dev_peak": "highest dev F1, or lowest validation loss (mean over three epochs)",
    "dev_peak_epoch": "when that was",
    "dev_drop": "what was lost of that since",
    "dev_drop_error": "standard error of that",
    "dev_since_best": "epochs after the best one by dev F1, or validation loss",
    "gap": "objective of the best iterate above the optimum",
    "gap_share": "that as a share of the distance from the start to the optimum",
    "optimum": "the least value of the objective",
    "decay": "p of gap ~ epoch^−p",
    "decay_low": "lower end of its 95 % interval",
    "decay_high": "upper end of its 95 % interval",
    "bound": "the theory's upper bound on the gap (it falls as updates^−1/2)",
    "within_bound": "whether the gap was below the bound at all epochs: yes or no",
    "broke": "where the first value that is infinite or no number stands",
    "error": "the error that ended the trial",
}
"""What the evidence of a diagnosis means, by its name."""


def as_evidence(found: Findings) -> dict[str, float | str]:
    """The findings as plain values, in the order of `EVIDENCE`; unknown ones are left out."""
    values = _of_objective(found.objective) | {
        "reference": found.reference,
        "progress": found.progress,
        "needed": found.needed,
        "broke": found.broke,
        **_of_steps(found.steps),
        **_of_penalty(found.penalty),
        **_of_dev(found.dev),
        **_of_convex(found.convex, found.objective.start),
    }
    known = {name: values.get(name) for name in EVIDENCE}
    return {
        name: value if isinstance(value, str) else float(value)
        for name, value in known.items()
        if isinstance(value, str) or (value is not None and math.isfinite(value))
    }


Values = dict[str, float | str | None]


def _of_objective(o: Objective) -> Values:
    level = abs(o.end) or math.nan
    line = o.trend
    return {
        "values": len(o.curve),
        "unit": o.unit,
        "start": o.start,
        "end": o.end,
        "lowest": o.lowest,
        "fall": o.fall / (abs(o.start) or math.nan),
        "noise": o.noise / level,
        "slope": line and line.slope,
        "slope_low": line and line.low,
        "slope_high": line and line.high,
        "gain": o.gain if line else None,
        "gain_low": o.gain_low,
        "gain_high": o.gain_high,
        "pace": o.pace,
        "amplitude": o.amplitude / level,
        "sign_changes": o.signs.share,
        "sign_changes_expected": o.signs.expected,
        "sign_changes_p": o.signs.p_value,
        "period": o.wave.period,
        "period_p": o.wave.p_value,
    }


def _of_steps(steps: Steps) -> Values:
    return {
        "update_ratio": steps.ratio,
        "update_ratio_change": steps.ratio_change,
        "travelled": steps.travelled,
        "gradient_change": steps.gradient_change,
        "violated": steps.violated,
        "saturation": steps.saturation,
    }


def _of_penalty(penalty: Penalty | None) -> Values:
    if penalty is None:
        return {}
    return {
        "l2_share": penalty.share,
        "l2_share_of_fall": penalty.share_of_fall,
        "loss_start": penalty.loss_start,
        "loss_end": penalty.loss_end,
        "loss": penalty.loss_moves,
    }


def _of_dev(dev: Dev | None) -> Values:
    if dev is None:
        return {}
    return {
        "dev_peak": dev.peak,
        "dev_peak_epoch": dev.peak_epoch,
        "dev_drop": dev.drop,
        "dev_drop_error": dev.drop_error,
        "dev_since_best": dev.since_best,
    }


def _of_convex(convex: Convex | None, start: float) -> Values:
    if convex is None:
        return {}
    return {
        "gap": convex.gap,
        "gap_share": convex.share(start),
        "optimum": convex.optimum,
        "decay": convex.decay and convex.decay.exponent,
        "decay_low": convex.decay and convex.decay.low,
        "decay_high": convex.decay and convex.decay.high,
        "bound": convex.bound,
        "within_bound": {None: None, True: "yes", False: "no"}[convex.within_bound],
    }
