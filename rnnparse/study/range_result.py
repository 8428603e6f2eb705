"""The result of a learning-rate range test: where the loss falls, and where it begins to rise.

Also as text for the terminal, and as a picture.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.errors import MissingExtraError
from rnnparse.files import write_atomically
from rnnparse.study.curve import plain
from rnnparse.study.diagnosis.statistics import noise

LEAST_UPDATES = 20
CLEAR = 4.0
"""A change of the loss counts if it exceeds this many standard errors."""
STILL = 0.1
"""A change by less than this share of the fall counts as none."""
RISE = 0.25
"""The loss has risen for good when it has lost this share of its fall."""
ALIKE = 1.25
"""Estimates of a curvature agree up to this factor."""
_WIDE = 3
_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS, _LINE = 60, 88
_DECADES = 100  # useful rates are at most so many times smaller than the limit


@dataclass(frozen=True)
class RangeTest:
    """The result of a range test: the loss at each rate, and notable rates.

    A notable rate is None if the loss shows no such point.

    Attributes:
        rates: of the updates.
        losses: after each of them; None if it is not finite.
        smoothed: the losses with most of the noise removed and high values cut off.
        start: the loss at the smallest rates.
        falling: the rate from which on the loss falls clearly.
        steepest: the rate at which it falls most per decade.
        minimum: the rate at which it is lowest.
        limit: the highest rate before it rises for good.
        interval: rates to train with. The upper end is half of `minimum` or of `limit`, whichever
            is less; the lower end is `steepest` or a tenth of these, whichever is less.
        next_sweep: the range of rates to sweep next, if this sweep shows no clear fall; or None.
        remarks: what to conclude, in sentences.
    """

    rates: tuple[float, ...] = field(repr=False)
    losses: tuple[float | None, ...] = field(repr=False)
    smoothed: tuple[float, ...] = field(repr=False)
    start: float
    falling: float | None = None
    steepest: float | None = None
    minimum: float | None = None
    limit: float | None = None
    interval: tuple[float, float] | None = None
    next_sweep: tuple[float, float] | None = None
    remarks: tuple[str, ...] = ()

    @property
    def suggestion(self) -> float | None:
        """A rate to try first: the geometric mean of the interval, to two digits."""
        return self.interval and float(f"{math.sqrt(math.prod(self.interval)):.2g}")

    def to_dict(self) -> dict[str, Any]:
        """All values in plain types, ready for JSON."""
        return {**plain(vars(self)), "suggestion": self.suggestion}


def analyse(rates: np.ndarray, losses: np.ndarray) -> RangeTest:
    """Analyse the losses of a sweep.

    Args:
        rates: of the updates, float [n].
        losses: before the first update, which is finite, and after each, float [n + 1].
    """
    start, start_error = _start(losses)
    ceiling = _ceiling(losses, 1.0)
    outcomes = np.where(np.isfinite(losses[1:]), np.minimum(losses[1:], ceiling), ceiling)
    width = max(1.0, len(rates) / 50)
    smoothed, wide = (_smooth(outcomes, w) for w in (width, _WIDE * width))
    lowest = int(smoothed.argmin())
    error = math.hypot(start_error, _error(outcomes, lowest, width))
    fall = start - smoothed[lowest]
    result = RangeTest(
        tuple(rates.tolist()), tuple(plain(losses[1:])), tuple(smoothed.tolist()), start
    )
    level, rise = start + CLEAR * error, CLEAR * error
    # Strong smoothing shows long valleys in noise, weak smoothing shows narrow ones.
    wide_error = math.hypot(start_error, _error(outcomes, int(wide.argmin()), _WIDE * width))
    if fall > CLEAR * error or start - wide.min() > CLEAR * wide_error:
        level, rise = smoothed[lowest] + STILL * fall, max(RISE * fall, rise)
        # A slope needs stronger smoothing than a level.
        result = _with_fall(result, np.gradient(wide)[: lowest + 1])
    limit = _limit(rates, smoothed, level, rise, has_grown(losses))
    if limit is not None:
        limit = min(limit, _stability_limit(rates, losses) or limit)
        result = replace(result, limit=limit)
        if result.interval is not None:
            low, high = result.interval
            result = replace(result, interval=(min(low, limit / 10), min(high, limit / 2)))
        else:
            result = replace(result, next_sweep=_next_sweep(rates, limit))
    return replace(result, remarks=tuple(_remarks(result)))


def has_grown(losses: np.ndarray) -> bool:
    """Whether the latest losses have grown so much that they will not come back."""
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
    """The standard error at a place after `_smooth`, if the noise is white."""
    reach = math.ceil(5 * width)
    around = values[max(0, place - reach) : place + reach + 1]
    return noise(around) / math.sqrt(2 * math.sqrt(math.pi) * width)


def _ceiling(losses: np.ndarray, times: float) -> float:
    """The start plus a multiple of the fall below it, or of the noise."""
    there = losses[np.isfinite(losses)]
    start = _start(losses)[0]
    return start + times * max(start - float(there.min()), CLEAR * noise(there), 1e-9 * abs(start))


def _smooth(values: np.ndarray, width: float) -> np.ndarray:
    """Gaussian smoothing; `width` is the standard deviation in points."""
    reach = math.ceil(3 * width)
    kernel = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / width))
    weights = np.convolve(np.ones(len(values)), kernel)[reach:-reach]
    return np.asarray(np.convolve(values, kernel)[reach:-reach] / weights)


def _with_fall(result: RangeTest, slopes: np.ndarray) -> RangeTest:
    """Add the rates at which the loss falls; `slopes` end where it is lowest."""
    lowest = len(slopes) - 1
    smoothed = np.array(result.smoothed[: lowest + 1])
    above = np.flatnonzero(smoothed > result.start - STILL * (result.start - smoothed[lowest]))
    minimum, steepest = result.rates[lowest], result.rates[int(slopes.argmin())]
    return replace(
        result,
        falling=result.rates[min(above[-1] + 1, lowest) if len(above) else 0],
        steepest=steepest,
        minimum=minimum,
        interval=(min(steepest, minimum / 10), minimum / 2),
    )


def _limit(
    rates: np.ndarray, smoothed: np.ndarray, level: float, rise: float, grew: bool
) -> float | None:
    """The highest rate at which the loss is at most `level`, if it rises by `rise` after it."""
    below = np.flatnonzero(smoothed <= level)
    if not len(below):
        return None
    last = int(below[-1])
    return float(rates[last]) if grew or smoothed[last:].max() > level + rise else None


def _stability_limit(rates: np.ndarray, losses: np.ndarray) -> float | None:
    """2/L, if the loss grew in the end as gradient descent grows with a curvature of L; else None.

    At rates above 2/L a component of the loss grows that may be too small to be seen for a long
    time. Once it dominates, each update multiplies the loss by (rate · L − 1)², which gives L.
    """
    last = losses[-3:]
    if len(losses) < LEAST_UPDATES or not np.isfinite(last).all() or last.min() <= 0:
        return None
    after, before = last[1:], last[:-1]
    if not (after > before).all():
        return None
    curvatures = (1 + np.sqrt(after / before)) / rates[-2:]
    alike = curvatures.max() < ALIKE * curvatures.min()
    return float(2 / curvatures.mean()) if alike else None


def _next_sweep(rates: np.ndarray, limit: float) -> tuple[float, float] | None:
    """The range to sweep after an unclear sweep, given where the loss begins to rise.

    Useful rates lie in the two decades below that limit. A sweep that starts far below them spends
    most of its updates where nothing happens; one that starts above them misses them.
    """
    low, high = limit / _DECADES, limit * 3
    return None if low / 3 <= rates[0] <= limit / 10 else (low, high)


def _remarks(result: RangeTest) -> Iterator[str]:
    limit, minimum, interval = result.limit, result.minimum, result.interval
    if interval is None or minimum is None or result.falling is None:
        yield _no_fall(result)
        yield "Take more updates or larger batches" + _where_to_look(result)
    else:
        edge = min(minimum, limit or minimum)
        yield (
            f"Train with {interval[0]:.2g} to {interval[1]:.2g}. Above half of {edge:.2g} the loss "
            "is close to rising; below a tenth of it training is needlessly slow."
        )
        if edge < minimum:
            yield (
                f"The loss fell up to {minimum:.2g}, but its growth at the end shows that a "
                f"component, too small to be seen, grew from {edge:.2g} on."
            )
        if result.falling <= result.rates[len(result.rates) // 10]:
            first = f"{result.rates[0]:.2g}"
            yield f"The loss falls from the first rate on: sweep from less than {first}."
    if limit is None:
        yield f"It has not risen for good by {result.rates[-1]:.2g}: sweep to a higher rate."


def _no_fall(result: RangeTest) -> str:
    """What a curve without a clear fall shows."""
    lowest = int(np.argmin(result.smoothed))
    sentence = "The loss never fell clearly beyond its noise"
    if result.smoothed[lowest] >= result.start:
        return f"{sentence}."
    return (
        f"{sentence}: it is lowest at {result.rates[lowest]:.2g}, {result.smoothed[lowest]:.4g} "
        f"against {result.start:.4g} at the start, which may be chance."
    )


def _where_to_look(result: RangeTest) -> str:
    """Which range to sweep next, as the end of a sentence."""
    if result.next_sweep is None:
        return "."
    low, high = result.next_sweep
    why = "higher, as lower rates have no visible effect"
    if result.rates[0] > low:
        why = "lower, as the loss rises soon"
    return f", and begin {why}: sweep from {low:.1g} to {high:.1g}."


# -- as text, and as a picture -----------------------------------------------------------------


def format_range(result: RangeTest) -> str:
    """The loss over the rate as a row of bars, the notable rates, and the remarks."""
    bars = _bars(np.array(result.smoothed))
    low, high = f"{result.rates[0]:.2g}", f"{result.rates[-1]:.2g}"
    unclear = "not clear" if result.interval is None else "-"
    rows = [
        ("the loss falls from", _rate(result.falling, unclear)),
        ("it falls steepest at", _rate(result.steepest, unclear)),
        ("it is lowest at", _rate(result.minimum, unclear)),
        ("a tenth of that", _rate(result.minimum and result.minimum / 10)),
        ("it rises for good from", _rate(result.limit)),
        ("suggested", " to ".join(map(_rate, result.interval or ()))),
        ("try first", _rate(result.suggestion)),
    ]
    if result.minimum is None:
        del rows[3]
    if result.interval is None:
        del rows[-2:]
    width = max(len(label) for label, _ in rows)
    lines = [
        f"{'loss':<{width}}  {bars}",
        f"{'rate':<{width}}  {low}{high:>{max(len(bars) - len(low), len(high) + 1)}}",
        "",
        *(f"{label:<{width}}  {value}" for label, value in rows),
        "",
        *(line for remark in result.remarks for line in textwrap.wrap(remark, _LINE)),
    ]
    return "\n".join(lines)


def write_range_svg(result: RangeTest, path: Path, title: str = "") -> None:
    """Plot the loss over the rate, with the notable rates.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    figure = _figure_type()(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    losses = [np.nan if loss is None else loss for loss in result.losses]
    axes.plot(result.rates, losses, ".", color="0.7", label="after each update")
    axes.plot(result.rates, result.smoothed, color="C0", label="smoothed")
    if result.interval is not None:
        axes.axvspan(*result.interval, color="C2", alpha=0.2, label="suggested")
    for i, name in enumerate(("steepest", "minimum", "limit")):
        rate = getattr(result, name)
        if rate is not None:
            axes.axvline(rate, color=f"C{i + 3}", linestyle="--", label=f"{name} {rate:.2g}")
    top, bottom = max(result.smoothed), min(result.smoothed)
    axes.set_ylim(bottom - 0.1 * (top - bottom or 1), top + 0.1 * (top - bottom or 1))
    axes.set(xscale="log", xlabel="learning rate", ylabel="loss", title=title)
    axes.legend()
    write_atomically(path, lambda file: figure.savefig(file, format="svg"))


def check_svg(path: Path) -> None:
    """Raise the errors of `write_range_svg` before there is a result."""
    _figure_type()
    if not path.exists() or path.is_dir():
        open(path, "xb").close()
        path.unlink()


def _figure_type() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "study") from None
    return Figure


def _bars(values: np.ndarray) -> str:
    """One bar for each of up to 60 parts of the values; the lowest for the least."""
    means = np.array([part.mean() for part in np.array_split(values, min(_COLUMNS, len(values)))])
    heights = (means - means.min()) / (np.ptp(means) or 1.0) * len(_BARS)
    return "".join(_BARS[i] for i in np.minimum(heights.astype(int), len(_BARS) - 1))


def _rate(rate: float | None, unknown: str = "-") -> str:
    return unknown if rate is None else f"{rate:.2g}"
