"""What a learning-rate range test tells: where the loss falls, and from where on it rises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rnnparse.study.curve import plain
from rnnparse.study.diagnosis.statistics import noise

LEAST_UPDATES = 20
CLEAR = 4.0
"""A change of the loss counts from so many standard errors on."""
STILL = 0.1
"""Shares of the fall below this count as no change."""
RISE = 0.25
"""The loss has risen for good when this share of its fall is lost."""
ALIKE = 1.25
"""Estimates of a curvature agree up to this factor."""
_WIDE = 3
_DECADES = 100  # below the limit there is something to be found down to this part of it


@dataclass(frozen=True)
class RangeTest:
    """What the loss did as the rate rose; rates are None where it did not do so.

    Attributes:
        rates: of the updates.
        losses: after each of them; None is not finite.
        smoothed: the same without most of their noise; great losses are cut off.
        start: the loss at the smallest rates.
        falling: from this rate on the loss falls visibly.
        steepest: here it falls most, by a factor of the rate.
        minimum: here it is lowest.
        limit: the greatest rate before it rises for good.
        interval: rates to train with: up to half of `minimum` and of `limit`; from `steepest`, or
            a tenth of those if that is less.
        remarks: what to make of it, in sentences.
    """

    rates: tuple[float, ...]
    losses: tuple[float | None, ...]
    smoothed: tuple[float, ...]
    start: float
    falling: float | None
    steepest: float | None
    minimum: float | None
    limit: float | None
    interval: tuple[float, float] | None
    remarks: tuple[str, ...]

    @property
    def suggestion(self) -> float | None:
        """A rate to begin with: the middle of the interval, by factors, to two digits."""
        return (
            None if self.interval is None else float(f"{math.sqrt(math.prod(self.interval)):.2g}")
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        return {**plain(vars(self)), "suggestion": self.suggestion}


def analyse(rates: np.ndarray, losses: np.ndarray) -> RangeTest:
    """What the losses of a sweep tell.

    Args:
        rates: of the updates, [n].
        losses: before the first update, which is finite, and after each, [n + 1].
    """
    start, start_error = _start(losses)
    ceiling = _ceiling(losses, 1.0)
    outcomes = np.where(np.isfinite(losses[1:]), np.minimum(losses[1:], ceiling), ceiling)
    width = max(1.0, len(rates) / 50)
    smoothed, wide = (_smooth(outcomes, w) for w in (width, _WIDE * width))
    lowest = int(smoothed.argmin())
    error = math.hypot(start_error, _error(outcomes, lowest, width))
    fall = start - smoothed[lowest]
    found: dict[str, Any] = dict.fromkeys(("falling", "steepest", "minimum", "interval"))
    level, rise = start + CLEAR * error, CLEAR * error
    # Much smoothing shows long valleys in noise, little smoothing shows narrow ones.
    wide_error = math.hypot(start_error, _error(outcomes, int(wide.argmin()), _WIDE * width))
    if fall > CLEAR * error or start - wide.min() > CLEAR * wide_error:
        level, rise = smoothed[lowest] + STILL * fall, max(RISE * fall, rise)
        # A slope needs more smoothing than a level.
        found |= _places(rates, smoothed, np.gradient(wide)[: lowest + 1], start)
    limit = _limit(rates, smoothed, level, rise, has_grown(losses))
    if limit is not None:
        limit = min(limit, _unstable(rates, losses) or limit)
    if found["interval"] is not None and limit is not None:
        low, high = found["interval"]
        found["interval"] = min(low, limit / 10), min(high, limit / 2)
    return RangeTest(
        rates=tuple(rates.tolist()),
        losses=tuple(plain(losses[1:])),
        smoothed=tuple(smoothed.tolist()),
        start=start,
        limit=limit,
        remarks=tuple(_remarks(rates, smoothed, start, limit, **found)),
        **found,
    )


def has_grown(losses: np.ndarray) -> bool:
    """Whether the latest losses have gone too far to come back."""
    if len(losses) and not math.isfinite(losses[-1]):
        return True
    return len(losses) >= LEAST_UPDATES and bool(losses[-3:].min() > _ceiling(losses, 2.0))


def _start(losses: np.ndarray) -> tuple[float, float]:
    """The loss at the smallest rates, and its standard error."""
    there = losses[np.isfinite(losses)]
    count = max(3, len(there) // 10)
    error = noise(there[: 3 * count]) / math.sqrt(min(count, len(there)))
    return float(there[:count].mean()), error


def _error(values: np.ndarray, place: int, width: float) -> float:
    """The standard error of values at a place that `_smooth` has smoothed, if noise is white."""
    reach = math.ceil(5 * width)
    around = values[max(0, place - reach) : place + reach + 1]
    return noise(around) / math.sqrt(2 * math.sqrt(math.pi) * width)


def _ceiling(losses: np.ndarray, times: float) -> float:
    """Above the start by a multiple of the fall below it, or of the noise."""
    there = losses[np.isfinite(losses)]
    start = _start(losses)[0]
    return start + times * max(start - float(there.min()), CLEAR * noise(there), 1e-9 * abs(start))


def _smooth(values: np.ndarray, width: float) -> np.ndarray:
    """Means under a Gaussian of this standard deviation, in points, cut off at the ends."""
    reach = math.ceil(3 * width)
    kernel = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / width))
    weights = np.convolve(np.ones(len(values)), kernel)[reach:-reach]
    return np.asarray(np.convolve(values, kernel)[reach:-reach] / weights)


def _places(
    rates: np.ndarray, smoothed: np.ndarray, slopes: np.ndarray, start: float
) -> dict[str, Any]:
    """Where the loss falls; slopes go as far as where it is lowest."""
    lowest = len(slopes) - 1
    above = np.flatnonzero(smoothed[: lowest + 1] > start - STILL * (start - smoothed[lowest]))
    falling = rates[min(above[-1] + 1, lowest) if len(above) else 0]
    minimum, steepest = float(rates[lowest]), float(rates[int(slopes.argmin())])
    return {
        "falling": float(falling),
        "steepest": steepest,
        "minimum": minimum,
        "interval": (min(steepest, minimum / 10), minimum / 2),
    }


def _limit(
    rates: np.ndarray, smoothed: np.ndarray, level: float, rise: float, grew: bool
) -> float | None:
    """The last rate at which the loss is still at this level, if it then rises by so much."""
    below = np.flatnonzero(smoothed <= level)
    if not len(below):
        return None
    last = int(below[-1])
    return float(rates[last]) if grew or smoothed[last:].max() > level + rise else None


def _unstable(rates: np.ndarray, losses: np.ndarray) -> float | None:
    """2/L, if the loss grew in the end as gradient descent makes it grow on a curvature of L.

    Rates above 2/L let a part of the loss grow that may be too small to be seen for a long time.
    Once seen, it grows (rate · L − 1)² times with each update, which gives L.
    """
    last = losses[-3:]
    if len(losses) < LEAST_UPDATES or not np.isfinite(last).all() or last.min() <= 0:
        return None
    after, before, rates = last[1:], last[:-1], rates[-2:]
    if not (after > before).all():
        return None
    curvatures = (1 + np.sqrt(after / before)) / rates
    alike = curvatures.max() < ALIKE * curvatures.min()
    return float(2 / curvatures.mean()) if alike else None


def _remarks(
    rates: np.ndarray,
    smoothed: np.ndarray,
    start: float,
    limit: float | None,
    *,
    falling: float | None,
    steepest: float | None,
    minimum: float | None,
    interval: tuple[float, float] | None,
) -> Iterator[str]:
    if interval is None or minimum is None or falling is None:
        yield _nothing_clear(rates, smoothed, start)
        yield "Take more updates or larger batches" + _elsewhere(rates, limit)
    else:
        edge = min(minimum, limit or minimum)
        yield (
            f"Train with {interval[0]:.2g} to {interval[1]:.2g}: above half of {edge:.2g} little "
            "is left before the loss rises, below a tenth of it training takes needlessly long."
        )
        if edge < minimum:
            yield (
                f"The loss fell on up to {minimum:.2g}, but a part of it, too small to be seen, "
                f"grew from {edge:.2g} on, by the pace at which it grew in the end."
            )
        if falling <= rates[len(rates) // 10]:
            yield f"The loss falls from the first rate on: sweep from less than {rates[0]:.2g}."
    if limit is None:
        yield f"It has not risen for good by {rates[-1]:.2g}: sweep to a higher rate."


def _nothing_clear(rates: np.ndarray, smoothed: np.ndarray, start: float) -> str:
    """What a curve without a clear fall shows, as the drawing does."""
    lowest = int(smoothed.argmin())
    told = "The loss never fell clearly beyond its noise"
    if smoothed[lowest] >= start:
        return f"{told}."
    return (
        f"{told}: it is lowest at {rates[lowest]:.2g}, {smoothed[lowest]:.4g} against {start:.4g} "
        "at the start, which may be chance."
    )


def _elsewhere(rates: np.ndarray, limit: float | None) -> str:
    """Where else to look, by where the loss begins to rise; the end of a sentence.

    What helps lies in the two decades below that. A sweep from far below spends most of its updates
    where nothing can be seen; one that hardly reaches below has left out what there is.
    """
    if limit is None:
        return "."
    low, high = limit / _DECADES, limit * 3
    again = f"sweep from {low:.1g} to {high:.1g}"
    if rates[0] > limit / 10:
        return f", and begin lower, as the loss rises soon: {again}."
    if rates[0] < low / 3:
        return f", and begin higher, as lower rates change nothing that can be seen: {again}."
    return "."
