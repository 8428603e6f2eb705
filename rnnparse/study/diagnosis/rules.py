"""Classify trials by the rules in `RULES`, from what was measured of them.

The rules are tried in order, and the first that holds gives the label. (One exception: a trial
that reached a known optimum has converged, even if it oscillates.) All thresholds are relative: a
label does not change when the objective and the reference are multiplied by a positive number. It
may change when a constant is added, because a fall is judged by the level of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rnnparse.study.diagnosis.advice import Finding, advice_text, advise, advise_on_failure
from rnnparse.study.diagnosis.comparison import measure_all
from rnnparse.study.diagnosis.evidence import (
    FLAT,
    LEAST_SCALE,
    SHORT_WAY,
    Evidence,
    Measurements,
)
from rnnparse.study.diagnosis.measurements import Record, measure, objective_curve
from rnnparse.study.diagnosis.statistics import LEAST_POINTS, noise
from rnnparse.study.schema import FAILURES

# Shares are of the level of the objective, or else as stated.
GREW = 0.25  # diverged: growth as a share of the start
LEAPT, LEAST_LEAPT = 5, 16  # diverged despite noise: growth over the start; number of values
AMPLITUDE = 0.05  # oscillating: amplitude; twice this as a share of the fall
SIGNS, WAVE = 0.005, 1e-4  # oscillating: p-values of sign changes and of the strongest wave
LEAPS = 0.05  # oscillating without a pattern: update ratio ...
LEAP_AMPLITUDE = 0.15  # ... amplitude ...
LEAST_LEAPS = 8  # ... and number of values
UNCLEAR = 0.25  # too few updates to tell: the interval of the gain reaches this share
FAR = 0.1  # stalled: distance above the reference as a share of the way from the start to it
LITTLE = 0.2  # too few updates: progress
HARDLY = 0.05  # too few updates if progress is unknown: length of all updates
OVERFIT = {"dev_f1": 0.005, "val_loss": 0.02}  # overfitting: loss as a share of the best value
AT_OPTIMUM = 0.01  # converged: remaining share of the way to a known optimum

RULES = {
    "failed": "The trial raised an error, ran out of memory, or recorded no objective.",
    "diverged": "A value of the objective is infinite, undefined or more than a million times the "
    "start. Or the median of the last quarter exceeds the start by 25 % and by four times the "
    "noise. Or 90 % of the last half exceed five times the start. Or the last half rises, by more "
    "than twice the half-width of its interval, by 25 % of the previous fall and 5 % of the level. "
    "For means over epochs: the entire last half exceeds the start of the problem by 25 %, if "
    "other trials or an epoch 0 give that start.",
    "overfitting": "Dev F1 is below its peak by 0.5 % of the peak and by three standard errors, "
    "while objective and training loss continued to fall. Without dev F1: validation loss "
    "(val_loss) is above its minimum by 2 %.",
    "oscillating": "The objective does not fall by more than it swings, and swings by 5 % of its "
    "level or 10 % of its fall, with more sign changes than noise (p < 0.005) or a period "
    "(p < 0.0001). Or it is flat and swings by 15 % of its level and 5 % of its fall, while "
    "updates are 5 % of the weights. Swings are measured in the last half, sign changes and "
    "periods in at least 32 values.",
    "converged": "The objective has fallen and is flat: the trend of its last half falls by at "
    "most 5 % of the total fall (or of the loss, if that is less), or its interval includes 0 and "
    "stays below 25 %. It is also low: at most 10 % of the fall above the reference and above its "
    "own minimum. If the optimum is known: the best iterate has covered 99 % of the way to it.",
    "stalled": "The objective is flat but not low. Or it never fell beyond noise (1 % and two "
    "standard errors), although the updates sum to half the length of the weights or have stopped.",
    "too few updates": "The objective falls, not clearly more slowly than at the start, but has "
    "covered less than 20 % of the way to the reference (to 0 without one), and the updates sum to "
    "less than half the length of the weights. Or it does not fall, and the updates sum to less "
    "than that. Or there are too few updates to distinguish the slope from noise, including slopes "
    "that may reach the reference within twice as many further updates. (A few epochs that have "
    "covered 20 % of the way from a known start, and have not risen since, are improving.)",
    "improving": "None of the above: the objective still falls at the end. For convex problems "
    "also: the objective is flat, but the best iterate still approaches the optimum.",
}
"""Label → its rule in words, in the order in which the rules are tried."""

LABELS = tuple(RULES)
"""The labels of diagnoses, in the order in which their rules are tried."""


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a trial: its label, the evidence that led to it, and advice.

    Attributes:
        label: one of `LABELS`.
        evidence: what was measured, by name; `EVIDENCE` describes the names. Unknown quantities
            are absent.
        notes: findings and advice as codes with values, in the order of the text.
    """

    label: str
    evidence: dict[str, float | str]
    notes: tuple[Finding, ...]

    @property
    def advice(self) -> str:
        """What was found and what to do, in a few sentences."""
        return advice_text(self.notes)


def diagnose(record: Record, reference: float | None = None) -> Diagnosis:
    """Classify a trial by the course of its objective; `RULES` states the rules.

    Series may be of updates or epochs, of any length, noisy, or missing. None marks numbers that
    are not finite.

    Args:
        record: see `rnnparse.study.schema.Record`.
        reference: the lowest objective that others reached on the same problem (the same
            objective, margin and L2 weight), if known. For convex problems the record's optimum
            replaces it.

    Returns:
        Label, evidence and advice.

    Example:
        >>> falling = {"updates": {"objective": [2**-t for t in range(20)]}}
        >>> diagnose(falling).label
        'converged'
    """
    return _judge(record, measure(record, reference))


def diagnose_all(records: Sequence[Record]) -> list[Diagnosis]:
    """Classify all trials of a study, each compared with the others on the same problem.

    The reference of a trial is the lowest objective that any other trial on its problem reached;
    the lowest trial has none. Trials are on the same problem if their configurations differ only
    in the axes that `rnnparse.study.diagnosis.comparison.SOLVER_AXES` lists.
    """
    return [_judge(r, m) for r, m in zip(records, measure_all(records), strict=True)]


def _judge(record: Record, m: Measurements | None) -> Diagnosis:
    status: str = record.get("status", "finished")
    config: Mapping[str, Any] = record.get("config") or {}
    if m is not None:
        label = "diverged" if status == "diverged" else classify(m)
        return Diagnosis(label, m.as_dict(), advise(label, m, config))
    curve, unit = objective_curve(record)
    if status not in FAILURES and len(curve):
        evidence = Evidence(broke=f"{unit} 1")
        return Diagnosis("diverged", evidence.as_dict(), advise("diverged", None, config))
    error = record.get("error") or {}
    message = error.get("message", "no objective was recorded")
    evidence = Evidence(error=f"{error.get('type', status)}: {message}")
    return Diagnosis("failed", evidence.as_dict(), advise_on_failure(record))


def classify(m: Measurements) -> str:
    """The label of a trial that did not fail, by `RULES`."""
    if m.broke or _grew(m):
        return "diverged"
    if m.loss_falls and m.dev_drop > max(
        3 * m.dev_drop_error, OVERFIT[m.dev_name] * abs(m.dev_peak)
    ):
        return "overfitting"
    if m.gap_share <= AT_OPTIMUM:
        return "converged"
    if _oscillates(m):
        return "oscillating"
    if math.isnan(m.slope) or (_is_unclear(m) and not _is_low(m)):
        return "improving" if _has_gone_far(m) else "too few updates"
    return _without_slope(m) if _is_flat(m) else _with_slope(m)


def _grew(m: Measurements) -> bool:
    n, start = len(m.curve), abs(m.start)
    if m.unit == "epoch" and m.start_known:
        # The start is not one of the noisy values, so the entire last half must exceed it.
        return float(m.curve[n // 2 :].min()) > m.start + max(GREW * start, 3 * m.start_error)
    last = np.sort(m.curve[-max(2, n // 4) :])
    rise = float(last[(len(last) - 1) // 2]) - m.start
    if rise > max(GREW * start, 4 * noise(m.curve[: max(4, n // 2)])):
        return True
    # After a leap, the bends of the way down look like noise.
    if n >= LEAST_LEAPT and np.quantile(m.curve[n // 2 :], 0.1) > LEAPT * start:
        return True
    rise = m.slope * (max(LEAST_POINTS, n // 2) - 1)
    least = max(GREW * (m.start - m.lowest), 0.05 * m.size)
    return m.slope_low > m.slope / 2 and rise > least


def _has_gone_far(m: Measurements) -> bool:
    """Whether so few epochs went far from a known start, and the last is about the lowest."""
    if m.unit != "epoch" or not m.start_known:
        return False
    return m.progress >= LITTLE and float(m.curve[-1] - m.curve.min()) <= FAR * m.descent


def _oscillates(m: Measurements) -> bool:
    if m.gain * m.scale > 2 * m.swing:
        return False
    least = AMPLITUDE * m.size
    if m.has_fallen:
        least = min(least, 2 * AMPLITUDE * m.scale)
    if m.swing > least and (m.sign_changes_p < SIGNS or m.period_p < WAVE):
        return True
    leaps = m.update_ratio >= LEAPS and len(m.curve) >= LEAST_LEAPS
    least = max(LEAP_AMPLITUDE * abs(m.end), AMPLITUDE * m.scale)
    return leaps and _is_flat(m) and m.swing > least


def _is_flat(m: Measurements) -> bool:
    return m.gain <= FLAT or m.gain_low <= 0


def _is_unclear(m: Measurements) -> bool:
    """Whether the slope may be 0 and may just as well be steep."""
    if m.gain_low > 0:
        return False
    if m.has_fallen:
        return m.gain_high > UNCLEAR
    least = UNCLEAR if m.travelled >= SHORT_WAY else FLAT
    return not _has_stopped(m) and m.gain_high * m.scale > least * m.size


def _has_stopped(m: Measurements) -> bool:
    return m.gradient_change == 0 or m.update_ratio_change < 0.01


def _is_low(m: Measurements) -> bool:
    """Whether the end is about as low as the reference, if known, or the objective is always 0."""
    if math.isnan(m.reference):
        return not m.curve.any()
    least = max(UNCLEAR * abs(m.start - m.reference), LEAST_SCALE * m.size)
    return not _is_far_above(m) and 2 * m.end_error <= least


def _is_far_above(m: Measurements) -> bool:
    """Whether the end is clearly above the reference, or above the curve's own minimum."""
    error, least = 2 * m.end_error, LEAST_SCALE * m.size
    if m.end - m.reference > max(FAR * abs(m.start - m.reference), least, error):
        return True
    width = max(1, len(m.curve) // 10)  # of the moving mean
    error += 3 * m.deviation / math.sqrt(width)
    return m.end - m.lowest > max(FAR * (m.start - m.lowest), least, error)


def _may_get_there(m: Measurements) -> bool:
    """Whether noise may hide a slope that reaches the reference in up to twice as many values."""
    return m.gain_low <= 0 and 4 * m.gain_high * m.scale > m.end - m.reference


def _without_slope(m: Measurements) -> str:
    if m.has_fallen:
        if not _is_far_above(m):
            return "converged"
        # On convex problems the best iterate may still improve when the last ones do not.
        if m.decay_low > 0:
            return "improving"
        return "too few updates" if _may_get_there(m) else "stalled"
    if _is_low(m):
        return "converged"
    if not math.isnan(m.reference) and (not _is_far_above(m) or _may_get_there(m)):
        return "too few updates"
    moves = (m.travelled < SHORT_WAY or m.gain_low > 0) and not _has_stopped(m)
    return "too few updates" if moves else "stalled"


def _with_slope(m: Measurements) -> str:
    if math.isnan(m.progress):
        little = m.travelled < HARDLY
    else:
        little = m.progress < LITTLE and not m.travelled >= SHORT_WAY
    slowing = m.slows and m.pace < 0.5
    return "too few updates" if little and not slowing else "improving"
