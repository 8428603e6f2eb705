"""Statistics of curves and settings: trends, noise, oscillation, decay, shares of variance.

A curve is a float64 array of shape [n] in time order. Nothing here depends on what it measures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtrc, stdtrit

from rnnparse.study.schema import HUGE

LEAST_POINTS = 4
"""Minimum number of points for a trend."""
MOST_FACTORS = 8
"""Maximum number of factors in `shares_of_variance`: those that explain most alone."""
_MAD_TO_SD = 1.4826022185056018


def as_curve(values: Iterable[float | None] | None) -> np.ndarray:
    """Convert values to float64 [n]: None becomes NaN, magnitudes above `HUGE` become infinite."""
    if values is None:
        return np.empty(0)
    curve = np.array([math.nan if value is None else value for value in values], np.float64)
    curve[np.abs(curve) > HUGE] = np.inf
    return curve


def moving_mean(curve: np.ndarray, width: int) -> np.ndarray:
    """Centred means over `width` neighbours, fewer at the ends; [n]."""
    sums = np.concatenate([[0.0], np.cumsum(curve)])
    at = np.arange(len(curve))
    low = np.maximum(at - width // 2, 0)
    high = np.minimum(at + (width + 1) // 2, len(curve))
    return (sums[high] - sums[low]) / (high - low)


def bin_edges(length: int, most: int) -> list[int]:
    """Divide a curve of `length` values into at most `most` bins, most ≥ 2.

    Half of the edges are spaced geometrically and half evenly, to suit logarithmic and linear
    axes. They increase from 0 to `length`; bin i is [edges[i], edges[i + 1]). Up to `most` values
    get a bin each.

    Example:
        >>> bin_edges(1000, 10)
        [0, 1, 4, 16, 63, 200, 251, 400, 600, 800, 1000]
    """
    if length <= most:
        return list(range(length + 1))
    half = most // 2
    geometric = np.geomspace(1, length, most - half + 1).round()
    even = np.linspace(0, length, half + 1).round()
    return sorted({int(edge) for edge in (*geometric, *even)})


def downsample(values: Sequence[float | None], edges: Sequence[int]) -> Any:
    """Summarize a curve by bins, with five significant digits.

    Args:
        values: the curve; None marks values that are not finite. May end before the last edge.
        edges: as returned by `bin_edges`.

    Returns:
        The values if each has its own bin. Otherwise a dict with the `mean`, `low` (minimum) and
        `high` (maximum) of each bin, None for bins without a value.

    Example:
        >>> downsample([4, 2, 6, 1], [0, 1, 4])
        {'mean': [4.0, 3.0], 'low': [4.0, 1.0], 'high': [4.0, 6.0]}
    """
    curve = np.array([math.nan if value is None else value for value in values], np.float64)
    if edges[-1] == len(edges) - 1:
        return _rounded(curve)
    starts = [edge for edge in edges[:-1] if edge < len(curve)]
    if not starts:
        return {"mean": [], "low": [], "high": []}
    finite = np.isfinite(curve)
    with np.errstate(invalid="ignore", divide="ignore"):
        counts = np.add.reduceat(finite, starts, dtype=np.int64)
        means = np.add.reduceat(np.where(finite, curve, 0.0), starts) / counts
    known = np.where(finite, curve, math.nan)
    low, high = np.fmin.reduceat(known, starts), np.fmax.reduceat(known, starts)
    return {"mean": _rounded(means), "low": _rounded(low), "high": _rounded(high)}


def _rounded(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values.tolist()]


class Trend(NamedTuple):
    """A line through the last `points` of a curve: its value at the last one, and its slope.

    The errors are standard errors; low and high are the 95 % confidence interval of the slope.
    """

    level: float
    level_error: float
    slope: float
    slope_error: float
    low: float
    high: float
    points: int


def student_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's t with `freedom` degrees of freedom."""
    return float(stdtrit(freedom, 0.975))


def trend(curve: np.ndarray, points: int | None = None) -> Trend:
    """Fit a line to the last points of a curve; the errors allow for autocorrelated noise.

    Args:
        curve: finite, [n].
        points: number of points; None for the last half, but at least `LEAST_POINTS`.

    Raises:
        ValueError: fewer than `LEAST_POINTS` points.

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
    slope, error, half, residuals = _fit_line(np.arange(points), y)
    last = (points - 1) / 2  # distance of the last point from the mean
    deviation = math.sqrt(residuals @ residuals / (points - 2))
    level_error = math.hypot(deviation / math.sqrt(points), last * error)
    level = float(y.mean()) + slope * last
    return Trend(level, level_error, slope, error, slope - half, slope + half, points)


def decay(gaps: np.ndarray) -> tuple[float, float, float]:
    """Fit gap ~ t^−p for t = 1, 2, … on a logarithmic scale; p and its 95 % interval.

    Gaps [n] that are not positive and finite are ignored. NaN with fewer than `LEAST_POINTS` gaps.

    Example:
        >>> round(decay(np.arange(1, 50) ** -0.5)[0], 6)
        0.5
    """
    usable = np.isfinite(gaps) & (gaps > 0)
    if usable.sum() < LEAST_POINTS:
        return math.nan, math.nan, math.nan
    slope, _, half, _ = _fit_line(np.log(1.0 + np.flatnonzero(usable)), np.log(gaps[usable]))
    return -slope, -slope - half, -slope + half


def _fit_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float, np.ndarray]:
    """Least-squares slope, its standard error, half its 95 % interval, and the residuals.

    The standard error is the greater of the ordinary one and Newey and West's with 4 (n/100)^(2/9)
    lags: slow waves widen the interval, alternating noise does not narrow it.
    (`scipy.stats.linregress` has the ordinary error only and takes ten times as long.)

    Reference:
        Newey & West (1987), A Simple, Positive Semi-Definite, Heteroskedasticity and
        Autocorrelation Consistent Covariance Matrix.
    """
    n, x = len(x), x - x.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    residuals = y - y.mean() - slope * x
    ordinary = math.sqrt(float(residuals @ residuals) / (n - 2) / spread)
    moments = x * residuals
    lags = min(int(4 * (n / 100) ** (2 / 9)), n - 1)
    variance = float(moments @ moments)
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float(moments[lag:] @ moments[:-lag])
    error = max(ordinary, math.sqrt(max(variance, 0.0) * n / (n - 2)) / spread)
    return slope, error, student_quantile(n - 2) * error, residuals


def noise(curve: np.ndarray, order: int = 2) -> float:
    """Estimate the standard deviation of the noise around a smooth curve.

    The estimate is the median absolute deviation of differences of the given order, which isolated
    jumps hardly affect. Second differences cancel a line, third differences a parabola. It is 0
    for fewer than `order` + 2 points.
    """
    if len(curve) < order + 2:
        return 0.0
    differences = np.abs(np.diff(curve, order))
    return float(_MAD_TO_SD * np.median(differences) / math.sqrt(math.comb(2 * order, order)))


class SignChanges(NamedTuple):
    """Share of neighbours whose signs differ, observed and expected under white noise; p-value."""

    share: float
    expected: float
    p_value: float


def sign_changes(residuals: np.ndarray, cycle: int | None = None) -> SignChanges:
    """Test whether residuals [n] change sign more often than noise (one-sided binomial test).

    Independent noise changes sign at half of the steps. When each epoch of `cycle` updates passes
    once over all examples in random order, neighbours within an epoch have the correlation
    −1/(cycle − 1) and change sign more often; the test allows for that. With fewer than two
    nonzero residuals, the share is 0 and the p-value 1.
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
    p_value = float(bdtrc(changes - 1, steps, expected))
    return SignChanges(changes / steps, expected, p_value)


class Wave(NamedTuple):
    """The strongest wave in residuals: its period in points, and its p-value under white noise."""

    period: float
    p_value: float


def strongest_wave(residuals: np.ndarray, least_cycles: int = 3) -> Wave:
    """Apply Fisher's test for a hidden period to residuals [n].

    Waves with fewer than `least_cycles` cycles are ignored, because the remains of a trend look
    like them. The p-value is the first term of Fisher's sum, an upper bound. With too few points,
    the period is infinite and the p-value 1.

    Reference:
        Fisher (1929), Tests of Significance in Harmonic Analysis.
    """
    power = np.square(np.abs(np.fft.rfft(residuals - residuals.mean())))[least_cycles:]
    if len(residuals) % 2 == 0 and len(power):
        power[-1] /= 2  # the highest frequency has one degree of freedom, not two
    total = float(power.sum())
    if len(power) < 2 or total <= 0:
        return Wave(math.inf, 1.0)
    strongest = int(power.argmax())
    share = float(power[strongest]) / total
    p_value = min(1.0, len(power) * (1 - share) ** (len(power) - 1))
    return Wave(len(residuals) / (strongest + least_cycles), p_value)


def shares_of_variance(factors: Sequence[Sequence[str]], values: Sequence[float]) -> list[float]:
    """The share of the variance of `values` [n] that each of `factors` [factors][n] explains.

    The model is a sum of main effects, corrected for chance. Variance that correlated factors
    explain jointly is divided between them: each gets what it adds to the factors before it,
    averaged over all orders (its Shapley value). Shares are at least 0 and sum to at most 1.

    Reference:
        Lindeman, Merenda & Gold (1980), Introduction to Bivariate and Multivariate Analysis, page
        119; Kelley (1935), An Unbiased Correlation Ratio Measure.
    """
    y = np.asarray(values, np.float64)
    y = y - y.mean()
    whole = float(y @ y)
    if not whole:
        return [0.0] * len(factors)
    dummies = [_dummies(factor) for factor in factors]
    alone = [_explained([dummy], y)[0] for dummy in dummies]
    chosen = sorted(range(len(factors)), key=lambda j: -alone[j])[:MOST_FACTORS]
    fit, freedom = _explained([dummies[j] for j in chosen], y)
    left = len(y) - 1 - freedom
    chance = max(0.0, whole - fit) / left if left > 0 else 0.0  # per degree of freedom

    @cache
    def explained(members: frozenset[int]) -> float:
        fit, freedom = _explained([dummies[j] for j in sorted(members)], y)
        return (fit - freedom * chance) / whole

    def added(j: int) -> float:
        others = [i for i in chosen if i != j]
        means = []
        for size in range(len(others) + 1):
            sets = [frozenset(before) for before in combinations(others, size)]
            means.append(sum(explained(s | {j}) - explained(s) for s in sets) / len(sets))
        return sum(means) / len(means)

    shares = [max(0.0, added(j)) if j in chosen else 0.0 for j in range(len(factors))]
    total, most = sum(shares), max(0.0, explained(frozenset(chosen)))
    return [share * min(1.0, most / total) for share in shares] if total else shares


def _dummies(factor: Sequence[str]) -> np.ndarray:
    """One centred 0/1 column for each value of a factor: [n, values]."""
    codes = {value: i for i, value in enumerate(dict.fromkeys(factor))}
    coded = np.eye(len(codes))[[codes[value] for value in factor]]
    return coded - coded.mean(axis=0)


def _explained(dummies: Sequence[np.ndarray], y: np.ndarray) -> tuple[float, int]:
    """Sum of squares explained by a least-squares fit, and its degrees of freedom."""
    if not dummies:
        return 0.0, 0
    x = np.concatenate(dummies, axis=1)
    gram, projected = x.T @ x, x.T @ y
    inverse = np.linalg.pinv(gram, rcond=1e-9, hermitian=True)
    return float(projected @ inverse @ projected), round(np.trace(inverse @ gram))
