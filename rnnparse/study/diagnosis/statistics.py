"""Statistics of curves: trends with intervals, noise, oscillation, rates of decay.

Curves are float arrays [n] in the order of time; nothing here knows what they measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rnnparse.study.schema import HUGE

LEAST_POINTS = 4
"""A trend needs so many points."""
_NORMAL_975 = 1.959963984540054
_MAD_TO_SD = 1.4826022185056018


class Trend(NamedTuple):
    """A line through the last part of a curve.

    Attributes:
        level: the line's value at the last point; level_error: its standard error.
        slope: by point; slope_error: its standard error; low, high: 95 % confidence interval.
        points: how many points the line was fitted to.
        residuals: of the fit, [points].
    """

    level: float
    level_error: float
    slope: float
    slope_error: float
    low: float
    high: float
    points: int
    residuals: np.ndarray


class Decay(NamedTuple):
    """A power law t^−exponent through a curve; low, high: 95 % confidence interval."""

    exponent: float
    low: float
    high: float


def as_curve(values: Iterable[float | None] | None) -> np.ndarray:
    """Values as float64 [n]; None, which JSON has for what is not finite, as NaN."""
    if values is None:
        return np.empty(0)
    curve = np.array([math.nan if value is None else value for value in values], np.float64)
    curve[np.abs(curve) > HUGE] = np.inf
    return curve


def student_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's t, to 1 %; between one and two degrees of freedom too great.

    Reference:
        Abramowitz & Stegun (1964), Handbook of Mathematical Functions, 26.7.5.
    """
    if freedom < 2:
        one, two = math.tan(0.475 * math.pi), 0.95 / math.sqrt(2 * 0.975 * 0.025)
        return one * (two / one) ** math.log2(freedom)
    z, n = _NORMAL_975, freedom
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n**power for power, term in enumerate(terms, start=1))


def trend(curve: np.ndarray, points: int | None = None) -> Trend:
    """Fit a line to the last points; errors allow for autocorrelated noise.

    The standard error is the greater of the usual one and that of Newey and West, whose lags grow
    as 4 (n/100)^(2/9): noise that comes in waves makes intervals wider, noise that alternates does
    not make them narrower.

    Args:
        curve: finite, [n].
        points: how many; None for the last half, but at least `LEAST_POINTS`.

    Raises:
        ValueError: fewer than `LEAST_POINTS` points.

    Reference:
        Newey & West (1987), A Simple, Positive Semi-Definite, Heteroskedasticity and
        Autocorrelation Consistent Covariance Matrix.

    Example:
        >>> fit = trend(np.array([9.0, 5.0, 4.0, 3.0, 2.0, 1.0]), 4)
        >>> round(fit.level, 6), round(fit.slope, 6)
        (1.0, -1.0)
    """
    if points is None:
        points = max(LEAST_POINTS, len(curve) // 2)
    if not LEAST_POINTS <= points <= len(curve):
        raise ValueError(f"a trend over {points} points of a curve that has {len(curve)}")
    y = curve[-points:]
    x = np.arange(points) - (points - 1) / 2
    spread = float(x @ x)
    slope = float(x @ y) / spread
    mean = float(y.mean())
    residuals = y - mean - slope * x
    error = max(_plain_error(residuals, spread), _newey_west_error(residuals, x, spread))
    half = student_quantile(points - 2) * error
    deviation = math.sqrt(residuals @ residuals / (points - 2))
    level_error = math.hypot(deviation / math.sqrt(points), x[-1] * error)
    level = mean + slope * float(x[-1])
    return Trend(level, level_error, slope, error, slope - half, slope + half, points, residuals)


def _plain_error(residuals: np.ndarray, spread: float) -> float:
    return math.sqrt(float(residuals @ residuals) / (len(residuals) - 2) / spread)


def _newey_west_error(residuals: np.ndarray, x: np.ndarray, spread: float) -> float:
    moments = x * residuals
    n = len(moments)
    lags = min(int(4 * (n / 100) ** (2 / 9)), n - 1)
    variance = float(moments @ moments)
    for lag in range(1, lags + 1):
        weight = 1 - lag / (lags + 1)
        variance += 2 * weight * float(moments[lag:] @ moments[:-lag])
    return math.sqrt(max(variance, 0.0) * n / (n - 2)) / spread


def noise(curve: np.ndarray, order: int = 2) -> float:
    """Standard deviation of the noise around a smooth curve, from differences of some order.

    It is their median absolute deviation, which single leaps hardly move. Second differences do
    not see a line, third ones no parabola. 0 for fewer than `order` + 2 points.
    """
    if len(curve) < order + 2:
        return 0.0
    bends = np.diff(curve, order)
    return float(_MAD_TO_SD * np.median(np.abs(bends)) / math.sqrt(math.comb(2 * order, order)))


class SignChanges(NamedTuple):
    """How often residuals change their sign.

    Attributes:
        share: of the pairs of neighbours; expected: the share for white noise.
        p_value: chance of so many changes or more under white noise.
    """

    share: float
    expected: float
    p_value: float


def sign_changes(residuals: np.ndarray, cycle: int | None = None) -> SignChanges:
    """Sign changes of residuals beside those of noise.

    Independent noise changes its sign at half of the steps. Where every `cycle` of updates goes
    through all examples once, in random order, neighbours within a cycle have the correlation
    −1/(cycle − 1), which makes signs change more often; that is taken into account.

    Args:
        residuals: [n].
        cycle: updates an epoch, or None.

    Returns:
        Share, expectation and p-value (binomial); share 0 and p-value 1 for fewer than two points.
    """
    signs = np.sign(residuals)
    signs = signs[signs != 0]
    steps = len(signs) - 1
    expected = 0.5
    if cycle is not None and cycle >= 2:
        within = math.acos(-1 / (cycle - 1)) / math.pi
        expected = ((cycle - 1) * within + 0.5) / cycle
    if steps < 1:
        return SignChanges(0.0, expected, 1.0)
    changes = int((signs[1:] != signs[:-1]).sum())
    return SignChanges(changes / steps, expected, _binomial_tail(changes, steps, expected))


def _binomial_tail(successes: int, trials: int, chance: float) -> float:
    """P(X ≥ successes), in logarithms, so that no factorial overflows."""
    k = np.arange(successes, trials + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    logs = log_factorial[trials] - log_factorial[k] - log_factorial[trials - k]
    logs = logs + k * math.log(chance) + (trials - k) * math.log1p(-chance)
    return min(1.0, float(np.exp(logs).sum()))


class Wave(NamedTuple):
    """The strongest wave in residuals: its period in points, share of the variance, p-value."""

    period: float
    share: float
    p_value: float


def strongest_wave(residuals: np.ndarray, least_cycles: int = 3) -> Wave:
    """Fisher's test for a hidden period.

    Waves of fewer than `least_cycles` cycles do not count: what is left of a trend looks like one.
    The p-value is Fisher's first term, an upper bound.

    Args:
        residuals: [n]; a constant is taken off.

    Returns:
        The wave; period infinite, share 0 and p-value 1 where there are too few points.

    Reference:
        Fisher (1929), Tests of Significance in Harmonic Analysis.
    """
    power = np.square(np.abs(np.fft.rfft(residuals - residuals.mean())))[least_cycles:]
    if len(residuals) % 2 == 0 and len(power):
        power[-1] /= 2  # the highest frequency has one degree of freedom, not two
    total = float(power.sum())
    if len(power) < 2 or total <= 0:
        return Wave(math.inf, 0.0, 1.0)
    place = int(power.argmax())
    share = float(power[place]) / total
    chance = min(1.0, len(power) * (1 - share) ** (len(power) - 1))
    return Wave(len(residuals) / (place + least_cycles), share, chance)


def decay(gaps: np.ndarray) -> Decay | None:
    """Fit gap ~ t^−p for t = 1, 2, … in logarithms.

    Args:
        gaps: [n]; those that are not positive and finite are left out.

    Returns:
        p with its interval (Newey–West), or None with fewer than `LEAST_POINTS` gaps.

    Example:
        >>> round(decay(np.arange(1, 50) ** -0.5).exponent, 6)
        0.5
    """
    usable = np.isfinite(gaps) & (gaps > 0)
    if usable.sum() < LEAST_POINTS:
        return None
    x = np.log(1.0 + np.flatnonzero(usable))
    y = np.log(gaps[usable])
    x = x - x.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    residuals = y - y.mean() - slope * x
    error = max(_plain_error(residuals, spread), _newey_west_error(residuals, x, spread))
    half = student_quantile(len(y) - 2) * error
    return Decay(-slope, -slope - half, -slope + half)


def moving_mean(curve: np.ndarray, width: int) -> np.ndarray:
    """Means over `width` neighbours, fewer at the ends; [n]."""
    sums = np.concatenate([[0.0], np.cumsum(curve)])
    at = np.arange(len(curve))
    low = np.maximum(at - width // 2, 0)
    high = np.minimum(at + (width + 1) // 2, len(curve))
    return (sums[high] - sums[low]) / (high - low)
