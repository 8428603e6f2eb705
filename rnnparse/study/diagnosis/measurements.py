"""Measure a trial's record: what its curves show, before any rule judges them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rnnparse.divergence import GROWTH
from rnnparse.study.curve import OBJECTIVES
from rnnparse.study.diagnosis.evidence import LEAST_SCALE, Measurements
from rnnparse.study.diagnosis.statistics import (
    LEAST_POINTS,
    Trend,
    as_curve,
    decay,
    moving_mean,
    noise,
    sign_changes,
    strongest_wave,
    trend,
)
from rnnparse.study.schema import FAILURES, HUGE

_LEAST_F1 = 1e-6  # no F1 above 0 is smaller

Record = Mapping[str, Any]
Values = dict[str, Any]


class Start(NamedTuple):
    """The objective before the first update, and its standard error."""

    value: float
    error: float


def measure(
    record: Record, reference: float | None = None, start: Start | None = None
) -> Measurements | None:
    """Measure a trial; None if it failed, or if its objective is not finite at the start.

    Args:
        record: see `rnnparse.study.schema.Record`.
        reference: the lowest objective known for the problem, unless the record has the optimum.
        start: of records with epochs only, unless they have it as epoch 0.
    """
    if record.get("status") in FAILURES:
        return None
    curve, unit = objective_curve(record)
    if unit == "epoch" and len(curve) > 1 and _has_start(record) and math.isfinite(curve[0]):
        start, curve = Start(float(curve[0]), 0.0), curve[1:]
    stop = _stop(curve, start)
    if not stop:
        return None
    l2 = _l2(record)
    most = max(l2["loss_start"], l2["loss_end"]) if l2 else math.inf
    epochs = record.get("epochs") or []
    cycle = round(len(curve) / len(epochs)) if epochs and unit == "update" else None
    objective = _objective(curve[:stop], unit, cycle, most, start if unit == "epoch" else None)
    convex = _convex(record, objective["start"])
    broke = f"{unit} {stop + 1}" if stop < len(curve) else _broken_epoch(record)
    parts = objective | l2 | convex | _updates(record) | _dev(record)
    known = math.nan if reference is None else reference
    return Measurements(broke=broke, **parts).compared_to(convex.get("optimum", known))


def objective_curve(record: Record) -> tuple[np.ndarray, str]:
    """The curve to judge, [n], maybe empty, and what it counts: "update" or "epoch".

    It is the first available of the updates' objective and loss and those of the epochs.
    """
    updates, epochs = record.get("updates") or {}, record.get("epochs") or []
    for name in OBJECTIVES:
        if updates.get(name):
            return as_curve(updates[name]), "update"
    for name in OBJECTIVES:
        if any(name in epoch for epoch in epochs):
            return as_curve(epoch[name] for epoch in epochs if name in epoch), "epoch"
    return np.empty(0), "update"


def _has_start(record: Record) -> bool:
    """Whether the first epoch of a record is epoch 0, the state before the first update."""
    first = (record.get("epochs") or [{}])[0]
    return first.get("epoch") == 0 and any(name in first for name in OBJECTIVES)


def _stop(curve: np.ndarray, start: Start | None) -> int:
    """The number of values before the first that is not finite or exceeds `GROWTH` times start."""
    sound = np.isfinite(curve)
    starts = np.abs(curve[sound & (curve != 0)])
    if start is not None and start.value:
        starts = np.array([abs(start.value)])
    if len(starts):
        sound &= curve <= GROWTH * float(starts[0])
    return len(curve) if sound.all() else int(sound.argmin())


def _broken_epoch(record: Record) -> str:
    """The first epoch whose objective or loss is not finite; empty if there is none."""
    for number, epoch in enumerate(record.get("epochs") or [], start=1):
        if any(name in epoch and not _is_number(epoch[name]) for name in OBJECTIVES):
            return f"epoch {epoch.get('epoch', number)}"
    return ""


class _Ends(NamedTuple):
    """Start and end of a curve with standard errors, and the trend of its last half."""

    start: float
    start_error: float
    end: float
    end_error: float
    line: Trend | None

    @property
    def fall(self) -> tuple[float, float]:
        """With its standard error."""
        return self.start - self.end, math.hypot(self.start_error, self.end_error)


def _ends(curve: np.ndarray, deviation: float, known: Start | None = None) -> _Ends:
    head = _head(curve, deviation)
    start, start_error = known or (float(curve[:head].mean()), deviation / math.sqrt(head))
    if len(curve) < LEAST_POINTS:
        return _Ends(start, start_error, float(curve[-1]), deviation, None)
    line = trend(curve)
    half = curve[-line.points :]
    end = min(max(line.level, float(half.min())), float(half.max()))
    return _Ends(start, start_error, end, line.level_error, line)


def _head(curve: np.ndarray, deviation: float) -> int:
    """The number of values to average for the start: up to a fiftieth, while they do not move."""
    head = max(1, len(curve) // 50)
    while head > 1:
        half = head // 2
        error = deviation * math.sqrt(2 / half)
        if abs(curve[:half].mean() - curve[half:head].mean()) <= 2 * error:
            break
        head = half
    return head


def _objective(
    curve: np.ndarray, unit: str, cycle: int | None, most: float, start: Start | None
) -> Values:
    """Measure finite values [n ≥ 1], with `cycle` updates per epoch and a scale up to `most`."""
    n, deviation = len(curve), noise(curve)
    ends = _ends(curve, deviation, start)
    fall, _ = ends.fall
    scale = max(min(fall, most), LEAST_SCALE * abs(ends.end), np.finfo(float).tiny)
    # A pattern in few points shows only if all are considered, but it must hold at the end.
    residuals = _detrended(curve, 32)
    swings = _detrended(curve, 4)
    # √2 times their standard deviation; the parabola took three degrees of freedom.
    swing = math.sqrt(2 * float(swings @ swings) / max(1, len(swings) - 3))
    signs, wave = sign_changes(residuals, cycle), strongest_wave(residuals)
    pace, slows = _pace(curve, ends.line)
    level = abs(ends.end) or math.nan
    values: Values = {
        "curve": curve,
        "values": n,
        "unit": unit,
        "start": ends.start,
        "start_known": unit == "update" or start is not None,
        "start_error": ends.start_error,
        "end": ends.end,
        "end_error": ends.end_error,
        "scale": scale,
        "lowest": float(moving_mean(curve, max(1, n // 10)).min()),
        "fall": fall / (abs(ends.start) or math.nan),
        "deviation": deviation,
        "noise": deviation / level,
        "pace": pace,
        "slows": slows,
        "swing": swing,
        "amplitude": swing / level,
        "sign_changes": signs.share,
        "sign_changes_expected": signs.expected,
        "sign_changes_p": signs.p_value,
        "period": wave.period,
        "period_p": wave.p_value,
    }
    if line := ends.line:
        gains = [-slope * line.points / scale for slope in (line.slope, line.high, line.low)]
        values |= {"slope": line.slope, "slope_low": line.low, "slope_high": line.high}
        values |= {"gain": gains[0], "gain_low": gains[1], "gain_high": gains[2]}
    return values


def _detrended(curve: np.ndarray, least: int) -> np.ndarray:
    """The last half, but at least `least` points, minus a parabola that removes its bend."""
    half = curve[-max(least, len(curve) // 2) :]
    x = np.linspace(-1, 1, len(half))
    basis = np.vander(x, min(3, len(half)), increasing=True)
    return half - basis @ np.linalg.lstsq(basis, half, rcond=None)[0]


def _pace(curve: np.ndarray, last: Trend | None) -> tuple[float, bool]:
    """Slope of the last half over that of the first, and whether it is clearly less steep."""
    middle = len(curve) // 2
    if last is None or middle < LEAST_POINTS:
        return math.nan, False
    first = trend(curve[:middle], middle)
    change = abs(first.slope) - abs(last.slope)
    slows = change > 2 * math.hypot(first.slope_error, last.slope_error)
    return (last.slope / first.slope if first.slope else math.nan), slows


def _updates(record: Record) -> Values:
    """What the updates did to weights, gradients and units."""
    updates = record.get("updates") or {}
    ratios, violations = _finite(updates.get("update_ratio")), _finite(updates.get("violated"))
    ratio, ratio_change = _medians(ratios)
    gradient, gradient_change = _medians(_finite(updates.get("gradient_norm")))
    violated = _last(record, "violated")
    if math.isnan(violated) and len(violations):
        violated = float(violations[len(violations) // 2 :].mean())
    return {
        "update_ratio": ratio,
        "update_ratio_change": ratio_change,
        "travelled": float(ratios.sum()) if len(ratios) else math.nan,
        "gradient_change": 0.0 if gradient == 0 else gradient_change,
        "violated": violated,
        "saturation": _last(record, "saturation"),
    }


def _medians(values: np.ndarray) -> tuple[float, float]:
    """The median of the last half, and its ratio to the median of the first half."""
    if not len(values):
        return math.nan, math.nan
    middle = len(values) // 2
    last = float(np.median(values[middle:]))
    first = float(np.median(values[:middle])) if middle else 0.0
    return last, last / first if first else math.nan


def _finite(values: Sequence[float | None] | None) -> np.ndarray:
    curve = as_curve(values)
    return curve[np.isfinite(curve)]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= HUGE


def _last(record: Record, name: str) -> float:
    epochs = reversed(record.get("epochs") or [])
    known = (epoch[name] for epoch in epochs if isinstance(epoch.get(name), (int, float)))
    return float(next(known, math.nan))


def _l2(record: Record) -> Values:
    """The L2 term; empty unless both objective and loss were recorded, and differ."""
    updates, epochs = record.get("updates") or {}, record.get("epochs") or []
    objective, loss = as_curve(updates.get("objective")), as_curve(updates.get("loss"))
    if not len(objective) or len(objective) != len(loss):
        both = [epoch for epoch in epochs if {"objective", "loss"} <= set(epoch)]
        objective = as_curve(epoch["objective"] for epoch in both)
        loss = as_curve(epoch["loss"] for epoch in both)
    usable = np.isfinite(objective) & np.isfinite(loss)
    objective, loss = objective[usable], loss[usable]
    if not len(loss) or np.array_equal(objective, loss):
        return {}
    whole, rest = (_ends(curve, noise(curve)) for curve in (objective, loss))
    if not whole.end:
        return {}
    (fall, fall_error), (rest_fall, rest_error) = whole.fall, rest.fall
    moves = abs(rest_fall) > max(2 * rest_error, LEAST_SCALE * abs(rest.start))
    return {
        "l2_share": 1 - rest.end / whole.end,
        "l2_share_of_fall": 1 - rest_fall / fall if fall > 2 * fall_error else math.nan,
        "loss_start": rest.start,
        "loss_end": rest.end,
        "loss": ("falls" if rest_fall > 0 else "rises") if moves else "stays",
    }


def _convex(record: Record, start: float) -> Values:
    """The distance to the optimum; empty unless the record has it."""
    convex = record.get("convex")
    gaps = _finite(convex.get("gap")) if convex else np.empty(0)
    if not convex or not len(gaps) or not _is_number(convex.get("optimum")):
        return {}
    gaps, bounds = np.minimum.accumulate(gaps), _finite(convex.get("bound"))
    gap, optimum = float(gaps[-1]), float(convex["optimum"])
    exponent, low, high = decay(gaps)
    comparable = len(bounds) == len(gaps)
    return {
        "gap": gap,
        "optimum": optimum,
        "decay": exponent,
        "decay_low": low,
        "decay_high": high,
        "gap_share": gap / (start - optimum) if start > optimum else math.nan,
        "bound": float(bounds[-1]) if len(bounds) else math.nan,
        "within_bound": ("yes" if (gaps <= bounds).all() else "no") if comparable else "",
    }


def _dev(record: Record) -> Values:
    """The course of dev F1; empty with fewer than `LEAST_POINTS` epochs that have it.

    Without dev F1, Keras's validation loss is used, with its sign reversed. The error of the drop
    combines how much F1 varies from epoch to epoch with how much the difference would vary over
    other sentences, if counts for each sentence were recorded.
    """
    name = "dev_f1" if _epochs_with(record, "dev_f1") else "val_loss"
    epochs = _epochs_with(record, name)
    if len(epochs) < LEAST_POINTS:
        return {}
    sign = 1.0 if name == "dev_f1" else -1.0
    f1 = sign * as_curve(epoch[name] for epoch in epochs)
    width, order = (3, 3) if len(f1) >= 6 else (1, 2)
    smooth = moving_mean(f1, width)
    peak = int(smooth.argmax())
    after = f1[peak + 1 :][-width:]
    drop = float(smooth[peak]) - float(after.mean()) if len(after) else 0.0
    jitter = noise(f1, order) * math.sqrt(1 / width + 1 / max(1, len(after)))
    scored = drop > 0 and name == "dev_f1"
    sampling = _sampling_error(epochs[peak], epochs[-1]) if scored else 0.0
    return {
        "dev_name": name,
        "dev_peak": sign * float(smooth[peak]),
        "dev_peak_epoch": int(epochs[peak].get("epoch", peak + 1)),
        "dev_drop": drop,
        "dev_drop_error": math.hypot(jitter, sampling),
        "dev_since_best": len(f1) - 1 - int(f1.argmax()),
        "loss_falls": _falls_after(record, epochs, peak),
    }


def _epochs_with(record: Record, name: str) -> list[Record]:
    return [epoch for epoch in record.get("epochs") or [] if _is_number(epoch.get(name))]


def _sampling_error(one: Record, other: Record) -> float:
    """Standard error of the difference in F1 between two epochs on the same sentences.

    The delta method on 2 Σ matched / Σ (gold + test); the sum of the gold counts follows from F1.
    """
    counts = [epoch.get("dev_counts") or [] for epoch in (one, other)]
    if not counts[0] or len(counts[0]) != len(counts[1]):
        return 0.0
    influence = 0.0
    for epoch, pairs in zip((one, other), counts, strict=True):
        matched, test = np.asarray(pairs, np.float64).T
        if not matched.sum() or epoch["dev_f1"] < _LEAST_F1:
            return 0.0
        # F1 in per cent or as a share: 2 Σ matched / F1 is the number of brackets in that unit.
        unit = 100.0 if epoch["dev_f1"] > 1 else 1.0
        brackets = unit * 2 * matched.sum() / epoch["dev_f1"]
        gold = (brackets - test.sum()) / len(test)
        part = unit * 2 * matched - epoch["dev_f1"] * (test + gold)
        influence = part / brackets - influence
    return float(np.sqrt(np.square(influence).sum()))


def _falls_after(record: Record, epochs: Sequence[Record], peak: int) -> bool:
    """Whether objective and loss, if recorded, are lower in the last epoch than at the peak."""
    updates = record.get("updates") or {}
    cycle = max(map(len, updates.values()), default=0) // len(epochs)
    pairs = []
    for name in OBJECTIVES:
        values: list[Any] = [epochs[i].get(name) for i in (peak, -1)]
        curve = _finite(updates.get(name))
        if all(map(_is_number, values)):
            pairs.append(values)
        elif cycle and len(curve) >= cycle * len(epochs):
            parts = (curve[cycle * peak : cycle * (peak + 1)], curve[-cycle:])
            pairs.append([float(part.mean()) for part in parts])
    return bool(pairs) and all(last < at_peak for at_peak, last in pairs)
