"""Measures a trial's record: what its curves show, before any rule judges them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rnnparse.divergence import GROWTH
from rnnparse.study.curve import OBJECTIVES
from rnnparse.study.diagnosis.evidence import (
    LEAST_SCALE,
    Convex,
    Dev,
    Findings,
    Objective,
    Penalty,
    Steps,
)
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
from rnnparse.study.schema import HUGE


def measure(
    record: Mapping[str, Any], reference: float | None = None, start: Start | None = None
) -> Findings | None:
    """Measure all there is; None if no finite value of the objective was recorded at the start.

    Args:
        record: a trial's, as in `rnnparse.study.records`.
        reference: the lowest objective known for the problem; the optimum, if the record has it,
            takes its place.
        start: of the problem, for a record that tells of epochs only; its own, as `epoch` 0, takes
            its place.
    """
    curve, unit = objective_curve(record)
    if unit == "epoch" and len(curve) > 1 and _has_start(record) and math.isfinite(curve[0]):
        start, curve = Start(float(curve[0]), 0.0), curve[1:]
    stop = _stop(curve, start)
    if not stop:
        return None
    broke = f"{unit} {stop + 1}" if stop < len(curve) else _broken_epoch(record)
    epochs = record.get("epochs") or []
    cycle = round(len(curve) / len(epochs)) if epochs and unit == "update" else None
    convex, penalty = measure_convex(record), measure_penalty(record)
    most = max(penalty.loss_start, penalty.loss_end) if penalty else math.inf
    return Findings(
        objective=measure_objective(
            curve[:stop], unit, cycle, most, start if unit == "epoch" else None
        ),
        steps=measure_steps(record),
        penalty=penalty,
        dev=measure_dev(record),
        convex=convex,
        reference=convex.optimum if convex else reference,
        broke=broke,
    )


def objective_curve(record: Mapping[str, Any]) -> tuple[np.ndarray, str]:
    """The curve that is judged, [n], and what it counts: "update" or "epoch".

    The first there is of the updates' objective and loss and the epochs' objective and loss; NaN
    stands for null. Empty if there is none.
    """
    updates, epochs = record.get("updates") or {}, record.get("epochs") or []
    for name in OBJECTIVES:
        if updates.get(name):
            return as_curve(updates[name]), "update"
    for name in OBJECTIVES:
        if any(name in epoch for epoch in epochs):
            return as_curve(epoch[name] for epoch in epochs if name in epoch), "epoch"
    return np.empty(0), "update"


LEAST_F1 = 1e-6
"""No F1 of brackets that match is less."""


class Start(NamedTuple):
    """What an objective was before the first update, with the standard error of that."""

    value: float
    error: float


def _has_start(record: Mapping[str, Any]) -> bool:
    """Whether the first epoch of a record is what was there before the first update."""
    first = (record.get("epochs") or [{}])[0]
    return first.get("epoch") == 0 and any(name in first for name in OBJECTIVES)


def _stop(curve: np.ndarray, start: Start | None) -> int:
    """How many values come before the first that is not finite or `GROWTH` times the start."""
    sound = np.isfinite(curve)
    starts = np.abs(curve[sound & (curve != 0)])
    if start is not None and start.value:
        starts = np.array([abs(start.value)])
    if len(starts):
        sound &= curve <= GROWTH * float(starts[0])
    return len(curve) if sound.all() else int(sound.argmin())


def _broken_epoch(record: Mapping[str, Any]) -> str | None:
    """The first epoch that has an objective or loss which is not finite."""
    for number, epoch in enumerate(record.get("epochs") or [], start=1):
        if any(name in epoch and not _is_number(epoch[name]) for name in OBJECTIVES):
            return f"epoch {epoch.get('epoch', number)}"
    return None


class _Ends(NamedTuple):
    """Where a curve starts and ends, with standard errors, and the line through its last half."""

    start: float
    start_error: float
    end: float
    end_error: float
    line: Trend | None

    @property
    def fall(self) -> float:
        return self.start - self.end

    @property
    def fall_error(self) -> float:
        return math.hypot(self.start_error, self.end_error)


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
    """How many values the start is the mean of: up to a fiftieth, as long as they do not move."""
    head = max(1, len(curve) // 50)
    while head > 1:
        half = head // 2
        error = deviation * math.sqrt(2 / half)
        if abs(curve[:half].mean() - curve[half:head].mean()) <= 2 * error:
            break
        head = half
    return head


def measure_objective(
    curve: np.ndarray,
    unit: str,
    cycle: int | None = None,
    most: float = math.inf,
    start: Start | None = None,
) -> Objective:
    """Measure a curve of finite values, [n ≥ 1].

    Args:
        unit: "update" or "epoch".
        cycle: updates an epoch, if known.
        most: the greatest scale.
        start: what it was before the first value, if that is known.
    """
    deviation = noise(curve)
    ends = _ends(curve, deviation, start)
    scale = max(min(ends.fall, most), LEAST_SCALE * abs(ends.end), np.finfo(float).tiny)
    gains = [0.0, -math.inf, math.inf]
    if ends.line:
        line = ends.line
        gains = [-slope * line.points / scale for slope in (line.slope, line.high, line.low)]
    # Few points show a pattern only if they are all looked at, but it must be there at the end.
    residuals = _detrended(curve, 32)
    pace, slower = _pace(curve)
    return Objective(
        curve=curve,
        unit=unit,
        start=ends.start,
        start_error=ends.start_error,
        lowest=float(moving_mean(curve, max(1, len(curve) // 10)).min()),
        noise=deviation,
        trend=ends.line,
        end=ends.end,
        end_error=ends.end_error,
        scale=scale,
        gain=gains[0],
        gain_low=gains[1],
        gain_high=gains[2],
        pace=pace,
        slower=slower,
        amplitude=_amplitude(_detrended(curve, 4)),
        signs=sign_changes(residuals, cycle),
        wave=strongest_wave(residuals),
        start_known=unit == "update" or start is not None,
    )


def _detrended(curve: np.ndarray, least: int) -> np.ndarray:
    """The last half, but at least so many points, less a parabola, which leaves no bend of it."""
    half = curve[-max(least, len(curve) // 2) :]
    x = np.linspace(-1, 1, len(half))
    basis = np.stack([x**power for power in range(min(3, len(half)))], axis=1)
    return half - basis @ np.linalg.lstsq(basis, half, rcond=None)[0]


def _amplitude(residuals: np.ndarray) -> float:
    """√2 times the standard deviation around a parabola, which takes three points' freedom."""
    return math.sqrt(2 * float(residuals @ residuals) / max(1, len(residuals) - 3))


def _pace(curve: np.ndarray) -> tuple[float | None, bool]:
    """Slope of the last half over that of the first, and whether it is clearly less steep."""
    middle = len(curve) // 2
    if middle < LEAST_POINTS:
        return None, False
    first, last = trend(curve[:middle], middle), trend(curve, middle)
    change = abs(first.slope) - abs(last.slope)
    slower = change > 2 * math.hypot(first.slope_error, last.slope_error)
    return (last.slope / first.slope if first.slope else None), slower


def measure_steps(record: Mapping[str, Any]) -> Steps:
    """What the updates of a record did to the weights."""
    updates = record.get("updates") or {}
    ratios = _finite(updates.get("update_ratio"))
    ratio, ratio_change = _halves(ratios)
    gradient, gradient_change = _halves(_finite(updates.get("gradient_norm")))
    violated = _last(record, "violated")
    if violated is None and len(shares := _finite(updates.get("violated"))):
        violated = float(shares[len(shares) // 2 :].mean())
    return Steps(
        ratio=ratio,
        ratio_change=ratio_change,
        travelled=float(ratios.sum()) if len(ratios) else None,
        gradient_change=0.0 if gradient == 0 else gradient_change,
        violated=violated,
        saturation=_last(record, "saturation"),
    )


def _finite(values: Sequence[float | None] | None) -> np.ndarray:
    curve = as_curve(values)
    return curve[np.isfinite(curve)]


def _halves(values: np.ndarray) -> tuple[float | None, float | None]:
    """The median of the last half, and that over the median of the first."""
    if not len(values):
        return None, None
    middle = len(values) // 2
    last = float(np.median(values[middle:]))
    first = float(np.median(values[:middle])) if middle else 0.0
    return last, last / first if first else None


def _last(record: Mapping[str, Any], name: str) -> float | None:
    for epoch in reversed(record.get("epochs") or []):
        if isinstance(epoch.get(name), (int, float)):
            return float(epoch[name])
    return None


def measure_penalty(record: Mapping[str, Any]) -> Penalty | None:
    """The L2 term; None unless both objective and loss were recorded, and differ."""
    updates, epochs = record.get("updates") or {}, record.get("epochs") or []
    objective, loss = as_curve(updates.get("objective")), as_curve(updates.get("loss"))
    if not len(objective) or len(objective) != len(loss):
        both = [epoch for epoch in epochs if {"objective", "loss"} <= set(epoch)]
        objective = as_curve(epoch["objective"] for epoch in both)
        loss = as_curve(epoch["loss"] for epoch in both)
    usable = np.isfinite(objective) & np.isfinite(loss)
    objective, loss = objective[usable], loss[usable]
    if not len(loss) or np.array_equal(objective, loss):
        return None
    whole, rest = (_ends(curve, noise(curve)) for curve in (objective, loss))
    if not whole.end:
        return None
    fall = None
    if whole.fall > 2 * whole.fall_error:
        fall = 1 - rest.fall / whole.fall
    share = 1 - rest.end / whole.end
    return Penalty(share, fall, rest.start, rest.end, rest.fall_error)


def measure_dev(record: Mapping[str, Any]) -> Dev | None:
    """The course of dev F1; None with fewer than `LEAST_POINTS` epochs that have it.

    Without any, Keras's validation loss is looked at, the other way up. The error of the drop has
    two parts: how much F1 leaps from epoch to epoch, and, where counts for each sentence were
    recorded, how much the difference would vary on other sentences.
    """
    there = {name: _epochs_with(record, name) for name in ("dev_f1", "val_loss")}
    name = "dev_f1" if there["dev_f1"] else "val_loss"
    epochs = there[name]
    if len(epochs) < LEAST_POINTS:
        return None
    sign = 1.0 if name == "dev_f1" else -1.0
    f1 = sign * as_curve(epoch[name] for epoch in epochs)
    width = 3 if len(f1) >= 6 else 1
    smooth = moving_mean(f1, width)
    peak = int(smooth.argmax())
    after = f1[peak + 1 :][-width:]
    end = float(after.mean()) if len(after) else float(smooth[peak])
    jitter = noise(f1, 3 if len(f1) >= 6 else 2) * math.sqrt(1 / width + 1 / max(1, len(after)))
    drop = float(smooth[peak]) - end
    sampling = _sampling_error(epochs[peak], epochs[-1]) if drop > 0 else 0.0
    return Dev(
        name=name,
        peak=sign * float(smooth[peak]),
        peak_epoch=int(epochs[peak].get("epoch", peak + 1)),
        end=sign * end,
        drop=drop,
        drop_error=math.hypot(jitter, sampling),
        since_best=len(f1) - 1 - int(f1.argmax()),
        loss_falls=_falls(record, epochs, peak),
    )


def _epochs_with(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [epoch for epoch in record.get("epochs") or [] if _is_number(epoch.get(name))]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= HUGE


def _sampling_error(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Standard error of the difference in F1 of two epochs on the same sentences, in their unit.

    By the delta method on 2 Σ matched / Σ (gold + test). Gold counts are the same in both epochs;
    F1 itself tells their sum.
    """
    counts = [epoch.get("dev_counts") or [] for epoch in (one, other)]
    if not counts[0] or len(counts[0]) != len(counts[1]):
        return 0.0
    influence = 0.0
    for epoch, pairs in zip((one, other), counts, strict=True):
        matched, test = np.asarray(pairs, np.float64).T
        if not matched.sum() or epoch["dev_f1"] < LEAST_F1:
            return 0.0
        # F1 in per cent or as a share: 2 Σ matched / F1 is the number of brackets in that unit.
        unit = 100.0 if epoch["dev_f1"] > 1 else 1.0
        brackets = unit * 2 * matched.sum() / epoch["dev_f1"]
        gold = (brackets - test.sum()) / len(test)
        part = unit * 2 * matched - epoch["dev_f1"] * (test + gold)
        influence = part / brackets - influence
    return float(np.sqrt(np.square(influence).sum()))


def _falls(record: Mapping[str, Any], epochs: Sequence[Mapping[str, Any]], peak: int) -> bool:
    """Whether objective and loss, as far as there are, are lower in the last epoch than at peak."""
    updates = record.get("updates") or {}
    cycle = len(epochs) and max(map(len, updates.values()), default=0) // len(epochs)
    known = False
    for name in ("objective", "loss"):
        values: list[Any] = [epochs[i].get(name) for i in (peak, -1)]
        if not all(map(_is_number, values)):
            curve = _finite(updates.get(name))
            if not cycle or len(curve) < cycle * len(epochs):
                continue
            parts = (curve[cycle * peak : cycle * (peak + 1)], curve[-cycle:])
            values = [float(part.mean()) for part in parts]
        known = True
        if float(values[1]) >= float(values[0]):
            return False
    return known


def measure_convex(record: Mapping[str, Any]) -> Convex | None:
    """The distance to the optimum; None unless the record has it."""
    convex = record.get("convex")
    gaps = _finite(convex.get("gap")) if convex else np.empty(0)
    if not convex or not len(gaps) or not _is_number(convex.get("optimum")):
        return None
    gaps = np.minimum.accumulate(gaps)
    bounds = _finite(convex.get("bound"))
    same = len(bounds) == len(gaps)
    return Convex(
        gap=float(gaps[-1]),
        first_gap=float(gaps[0]),
        optimum=float(convex["optimum"]),
        decay=decay(gaps),
        bound=float(bounds[-1]) if len(bounds) else None,
        within_bound=bool((gaps <= bounds).all()) if same else None,
    )
