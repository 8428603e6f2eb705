"""Why a trial converges or does not: a class by stated rules, the evidence, and advice.

The rules are in `RULES`, tried in that order; the first that holds gives the label. (Only an
optimum that is reached comes before oscillation.) Their numbers are the constants below; "fall",
"flat" and "swing" are measured as in `rnnparse.study.diagnosis.evidence.Objective`. All are
relative, so that a verdict does not change when objective and reference are multiplied by a
positive number. It does change when a constant is added: whether a fall is small is judged by the
level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rnnparse.study.diagnosis.advice import advise, advise_on_failure
from rnnparse.study.diagnosis.comparison import starts_of_problems
from rnnparse.study.diagnosis.evidence import FLAT, LEAST_SCALE, SHORT_WAY, Findings, as_evidence
from rnnparse.study.diagnosis.measurements import Start, measure, objective_curve
from rnnparse.study.diagnosis.statistics import noise
from rnnparse.study.records import canonical
from rnnparse.study.schema import FAILURES
from rnnparse.study.search_space import RATES

GREW = 0.25
"""Diverged: the end is above the start by this share of the start."""
LEAPT = 5
"""Diverged, even if it looks like noise: 90 % of the last half are so many times the start …"""
LEAST_LEAPT = 16
"""… in so many values of the objective."""
AMPLITUDE = 0.05
"""Oscillating: amplitude as a share of the level, or twice this as a share of the fall."""
SIGNS = 0.005
"""Oscillating: chance of so many sign changes under white noise."""
WAVE = 1e-4
"""Oscillating: chance of so strong a wave under white noise."""
LEAPS = 0.05
"""Oscillating without a pattern: updates of this share of the weights …"""
LEAP_AMPLITUDE = 0.15
"""… an amplitude of this share of the level (and of `AMPLITUDE` of the fall) …"""
LEAST_LEAPS = 8
"""… and so many values of the objective."""
UNCLEAR = 0.25
"""Too few updates to tell: the interval of that share reaches so far."""
FAR = 0.1
"""Stalled: above the reference by this share of the distance from start to reference."""
LITTLE = 0.2
"""Too few updates: less than this share of the fall that is needed."""
HARDLY = 0.05
"""Too few updates, if no floor is known: they sum up to less than this."""
OVERFIT = {"dev_f1": 0.005, "val_loss": 0.02}
"""Overfitting: dev F1 is below its peak by this share of it, or validation loss above its least."""
AT_OPTIMUM = 0.01
"""Converged, if the optimum is known: the share of the distance to it that is left."""

SOLVER_AXES = (
    *RATES,
    *("optimizer", "optimiser", "solver", "batch_size", "batch", "epochs", "updates", "steps"),
    *("patience", "momentum", "nesterov", "beta_1", "beta_2", "epsilon", "schedule", "warmup"),
    "clipnorm",
)
"""Axes that decide how an objective is minimised, but not which; seeds are no axis."""

RULES = {
    "failed": "The trial raised an error, ran out of memory, or recorded no objective.",
    "diverged": "A value of the objective is infinite, no number, or a million times the start; or "
    "the last quarter's median is above the start by 25 % and by four times the noise, or 90 % of "
    "the last half are above five times the start; or the last half rises, beyond twice its "
    "interval, by 25 % of what the objective had fallen and by 5 % of its level. Of means over "
    "epochs, all of the last half are above the start of the problem by 25 %, where other trials "
    "or an epoch 0 tell that.",
    "overfitting": "Dev F1 is below its peak by 0.5 % of it and by three standard errors, while "
    "objective and loss on the training set went on falling; or, without dev F1, validation loss "
    "(val_loss) above its least by 2 %.",
    "oscillating": "The objective does not fall by more than it swings, and swings by 5 % of its "
    "level or 10 % of its fall, with more sign changes than noise has (p < 0.005) or a period "
    "(p < 0.0001); or it is flat, swings by 15 % of its level and 5 % of its fall, and updates are "
    "5 % of the weights. "
    "The swings are those of the last half, but signs and periods of at least 32 values.",
    "converged": "The objective has fallen, and is flat: the line through its last half falls by "
    "no more than 5 % of the whole fall (or of the loss, where that is less), or its interval has "
    "0 in it and stays below 25 %; and it is low: no more than 10 % of the fall above the "
    "reference and above its own lowest. Where the optimum is known: the best iterate has gone "
    "99 % of the way, whatever the last ones do.",
    "stalled": "The objective is flat but not low; or it never fell beyond noise (by 1 % and two "
    "standard errors), although the updates' lengths sum up to half the weights' length or the "
    "updates have stopped.",
    "too few updates": "The objective falls, not clearly more slowly than at the start, but has "
    "gone less than 20 % of the way to the reference (to 0 without one), and the updates' lengths "
    "sum up to less than half the weights' length; or it does not fall, and they sum up to less "
    "than that; or there are too few updates to tell a slope from noise, one that may reach the "
    "reference in twice the budget among them (but a few epochs that went 20 % of the way from a "
    "known start, and are still there, are improving).",
    "improving": "None of these: the objective still falls, and the budget ended first. For convex "
    "problems also where the objective is flat but the best iterate still nears the optimum.",
}
"""Label → the rule that gives it, in the order in which they are tried."""

LABELS = tuple(RULES)


@dataclass(frozen=True)
class Diagnosis:
    """What became of a trial.

    Attributes:
        label: one of `LABELS`.
        evidence: what was measured, by the names in
            `rnnparse.study.diagnosis.evidence.EVIDENCE`; what is not known is not there.
        advice: what to do, in a sentence or two.
    """

    label: str
    evidence: dict[str, float | str]
    advice: str


def diagnose(record: Mapping[str, Any], reference: float | None = None) -> Diagnosis:
    """Classify a trial by the course of its objective; the rules are in `RULES`.

    Series may be of updates or of epochs, of any length, noisy, or missing; None is a number that
    is not finite.

    Args:
        record: a trial's, as in `rnnparse.study.records`.
        reference: the lowest objective that others reached on the same problem (the same
            objective, margin and L2 weight), if known. For convex problems whose optimum the
            record has, that takes its place.

    Returns:
        Label, evidence and advice.

    Example:
        >>> falling = {"updates": {"objective": [2**-t for t in range(20)]}}
        >>> diagnose(falling).label
        'converged'
    """
    return _judge(record, _measured(record, reference))


def diagnose_all(records: Sequence[Mapping[str, Any]]) -> list[Diagnosis]:
    """Classify the trials of a study; each has the best of the others on its problem as reference.

    Trials are on the same problem if their settings differ in nothing but `SOLVER_AXES`. What never
    fell is no reference, and the best trial has none: it may have much before it.
    """
    problems = [_problem(record) for record in records]
    alone = [_measured(record, None) for record in records]
    starts = starts_of_problems(records, problems, alone)
    measured = [
        found if start is None else _measured(record, None, start)
        for record, found, start in zip(records, alone, starts, strict=True)
    ]
    lowest: dict[str, tuple[float, int]] = {}
    for i, (problem, found) in enumerate(zip(problems, measured, strict=True)):
        if found is not None and not found.broke and _has_fallen(found):
            end = (found.objective.end, i)
            lowest[problem] = min(lowest.get(problem, end), end)
    rates = _better_rates(records, measured)
    diagnoses = []
    for i, (record, problem, found) in enumerate(zip(records, problems, measured, strict=True)):
        reference, best = lowest.get(problem, (None, i))
        if found is not None:
            known = reference if found.convex is None and best != i else found.reference
            found = replace(found, reference=known, best_rate=rates[i])
        diagnoses.append(_judge(record, found))
    return diagnoses


def _better_rates(
    records: Sequence[Mapping[str, Any]], measured: Sequence[Findings | None]
) -> list[str | None]:
    """For each trial which rate got lowest with all else equal; None if its own, or none fell.

    A rate with which any seed leaves all bounds is none.
    """
    places = []  # of each trial: all else, and the rate
    ends: dict[str, dict[str, list[float]]] = {}
    for record, found in zip(records, measured, strict=True):
        config = dict(record.get("config") or {})
        name = next((name for name in RATES if name in config), None)
        value = canonical(config.pop(name)).removesuffix(".0") if name else ""
        rate = f"{name.replace('_', ' ')} {value}" if name else ""
        places.append((canonical([config, record.get("data")]), rate))
        if record.get("status") == "diverged" or (found is not None and found.broke):
            ends.setdefault(places[-1][0], {}).setdefault(rate, []).append(math.inf)
        elif found is not None and _has_fallen(found):
            ends.setdefault(places[-1][0], {}).setdefault(rate, []).append(found.objective.end)
    lowest = {}
    for group, rates in ends.items():
        means = {rate: math.fsum(found) / len(found) for rate, found in rates.items()}
        best = min(means, key=means.__getitem__)
        if math.isfinite(means[best]):
            lowest[group] = best
    return [best if (best := lowest.get(group, rate)) != rate else None for group, rate in places]


def _problem(record: Mapping[str, Any]) -> str:
    config = record.get("config") or {}
    kept = {name: value for name, value in config.items() if name not in SOLVER_AXES}
    return canonical([kept, record.get("data")])


def _measured(
    record: Mapping[str, Any], reference: float | None, start: Start | None = None
) -> Findings | None:
    failed = record.get("status") in FAILURES
    return None if failed else measure(record, reference, start)


def _judge(record: Mapping[str, Any], found: Findings | None) -> Diagnosis:
    status, config = record.get("status", "finished"), record.get("config") or {}
    if found is None:
        curve, unit = objective_curve(record)
        if status not in FAILURES and len(curve):
            return Diagnosis("diverged", {"broke": f"{unit} 1"}, advise("diverged", None, config))
        error = record.get("error") or {}
        text = f"{error.get('type', status)}: {error.get('message', 'no objective was recorded')}"
        return Diagnosis("failed", {"error": text}, advise_on_failure(record))
    label = "diverged" if status == "diverged" else classify(found)
    return Diagnosis(label, as_evidence(found), advise(label, found, config))


def classify(found: Findings) -> str:
    """The label of what was measured of a trial that did not fail, by `RULES`."""
    if found.broke or _grew(found):
        return "diverged"
    if _overfits(found):
        return "overfitting"
    if _at_optimum(found):
        return "converged"
    if _oscillates(found):
        return "oscillating"
    o = found.objective
    if o.trend is None or (_is_unclear(found) and not _is_low(found)):
        return "improving" if _has_gone_far(found) else "too few updates"
    return _without_slope(found) if _is_flat(found) else _with_slope(found)


def _grew(found: Findings) -> bool:
    o = found.objective
    n = len(o.curve)
    if o.unit == "epoch" and o.start_known:
        # The start is not one of the noisy values: all of the last half need to be above it.
        least = max(GREW * abs(o.start), 3 * o.start_error)
        return float(o.curve[n // 2 :].min()) > o.start + least
    last = np.sort(o.curve[-max(2, n // 4) :])
    rise = float(last[(len(last) - 1) // 2]) - o.start
    if rise > max(GREW * abs(o.start), 4 * noise(o.curve[: max(4, n // 2)])):
        return True
    # After a leap, the bends of the way down look like noise.
    if n >= LEAST_LEAPT and np.quantile(o.curve[n // 2 :], 0.1) > LEAPT * abs(o.start):
        return True
    if o.trend is None:
        return False
    rise = o.trend.slope * (o.trend.points - 1)
    least = max(GREW * (o.start - o.lowest), 0.05 * o.size)
    return o.trend.low > o.trend.slope / 2 and rise > least


def _has_gone_far(found: Findings) -> bool:
    """Whether so few epochs went far from a start that is known, and the last one as far as any."""
    o = found.objective
    if o.unit != "epoch" or not o.start_known or found.progress is None:
        return False
    return found.progress >= LITTLE and o.curve[-1] - o.curve.min() <= FAR * o.fall


def _overfits(found: Findings) -> bool:
    dev = found.dev
    if dev is None or not dev.loss_falls:
        return False
    return dev.drop > max(3 * dev.drop_error, OVERFIT[dev.name] * abs(dev.peak))


def _at_optimum(found: Findings) -> bool:
    if found.convex is None:
        return False
    share = found.convex.share(found.objective.start)
    return share is not None and share <= AT_OPTIMUM


def _oscillates(found: Findings) -> bool:
    o, ratio = found.objective, found.steps.ratio
    if o.gain * o.scale > 2 * o.amplitude:
        return False
    least = AMPLITUDE * o.size
    if _has_fallen(found):
        least = min(least, 2 * AMPLITUDE * o.scale)
    if o.amplitude > least and (o.signs.p_value < SIGNS or o.wave.p_value < WAVE):
        return True
    leaps = ratio is not None and ratio >= LEAPS and len(o.curve) >= LEAST_LEAPS
    least = max(LEAP_AMPLITUDE * abs(o.end), AMPLITUDE * o.scale)
    return leaps and _is_flat(found) and o.amplitude > least


def _is_flat(found: Findings) -> bool:
    return found.objective.gain <= FLAT or found.objective.gain_low <= 0


def _is_unclear(found: Findings) -> bool:
    """Whether the slope may be 0 and may as well be steep."""
    o = found.objective
    if o.gain_low > 0:
        return False
    if _has_fallen(found):
        return o.gain_high > UNCLEAR
    way = found.steps.travelled
    least = FLAT if way is None or way < SHORT_WAY else UNCLEAR
    return not _has_stopped(found) and o.gain_high * o.scale > least * o.size


def _has_stopped(found: Findings) -> bool:
    steps = found.steps
    return steps.gradient_change == 0 or (steps.ratio_change or 1) < 0.01


def _has_fallen(found: Findings) -> bool:
    o = found.objective
    return o.fall > max(2 * o.fall_error, LEAST_SCALE * o.size)


def _is_low(found: Findings) -> bool:
    """Whether the end is about as low as others got, if that is known, or 0 all along."""
    o = found.objective
    if found.reference is None:
        return not o.curve.any()
    least = max(UNCLEAR * abs(o.start - found.reference), LEAST_SCALE * o.size)
    return not _is_far_above(found) and 2 * o.end_error <= least


def _is_far_above(found: Findings) -> bool:
    """Whether the end is clearly above the reference, or above what the curve itself has been."""
    o = found.objective
    error = 2 * o.end_error
    if found.reference is not None:
        distance = abs(o.start - found.reference)
        if o.end - found.reference > max(FAR * distance, LEAST_SCALE * o.size, error):
            return True
    width = max(1, len(o.curve) // 10)
    least = max(FAR * (o.start - o.lowest), LEAST_SCALE * o.size)
    return o.end - o.lowest > max(least, error + 3 * o.noise / math.sqrt(width))


def _without_slope(found: Findings) -> str:
    steps = found.steps
    if not _has_fallen(found):
        if _is_low(found):
            return "converged"
        if found.reference is not None and (not _is_far_above(found) or _may_get_there(found)):
            return "too few updates"
        short = steps.travelled is not None and steps.travelled < SHORT_WAY
        falls = found.objective.gain_low > 0
        return "too few updates" if (short or falls) and not _has_stopped(found) else "stalled"
    if not _is_far_above(found):
        return "converged"
    # The best iterate of a convex problem may still be on its way where the last ones are not.
    convex = found.convex
    if convex is not None and convex.decay is not None and convex.decay.low > 0:
        return "improving"
    return "too few updates" if _may_get_there(found) else "stalled"


def _may_get_there(found: Findings) -> bool:
    """Whether noise may hide a slope that would reach the reference in two such budgets."""
    o = found.objective
    if found.reference is None or o.gain_low > 0:
        return False
    return 4 * o.gain_high * o.scale > o.end - found.reference


def _with_slope(found: Findings) -> str:
    steps, o = found.steps, found.objective
    steady = not (o.slower and o.pace is not None and o.pace < 0.5)
    way = steps.travelled
    if found.progress is None:
        little = way is not None and way < HARDLY
    else:
        little = found.progress < LITTLE and (way is None or way < SHORT_WAY)
    return "too few updates" if steady and little else "improving"
