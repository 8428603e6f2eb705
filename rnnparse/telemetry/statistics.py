"""Statistics for telemetry: sums over gradients and steps, histograms, activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rnnparse.compiled import njit
from rnnparse.threads import apart

BINS = 40
"""Number of bins of a histogram."""

SATURATED = 0.99
"""A tanh unit counts as saturated if its magnitude is above this."""

DIGITS = 6  # significant digits in records

_LARGEST = np.finfo(np.float64).max


def as_array(values: Any) -> np.ndarray:
    """Convert a tensor to an array without a copy."""
    single = hasattr(values, "numpy") and len(values.shape) == 0
    return np.asarray(values.numpy() if single else values)  # necessary for bfloat16


def flat(values: Any) -> np.ndarray:
    """Values as contiguous rows [R, m] in float32 or float64; the rows of a vector have m = 1."""
    array = as_array(values)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32)
    rows = len(array) if array.ndim else 1
    return np.ascontiguousarray(array).reshape(rows, int(np.prod(array.shape[1:])))


# fastmath lets the compiler reorder the sums, so that it vectorizes the loops.
@apart
@njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def gradient_sums(gradient: np.ndarray, touched: np.ndarray) -> tuple[float, int, int]:
    """Sums over a gradient, [R, m].

    Args:
        gradient: float [R, m].
        touched: bool [R], an output: whether a row has a nonzero component.

    Returns:
        The sum of squares in float64, the number of nonzero components, and the number of
        components that are not finite.
    """
    square, others, finite = 0.0, 0, 0
    for i in range(len(gradient)):
        row, count = gradient[i], 0
        for j in range(len(row)):
            g = np.float64(row[j])
            square += g * g
            count += g != 0
            finite += abs(g) <= _LARGEST
        touched[i] = count > 0
        others += count
    return square, others, gradient.size - finite


@apart
@njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def step_sums(before: np.ndarray, after: np.ndarray) -> tuple[float, float, float]:
    """Sums of squares of a step, of the weights before it, and of the weights after it.

    Args:
        before, after: float [R, m].
    """
    step, old, new = 0.0, 0.0, 0.0
    for i in range(len(before)):
        for j in range(before.shape[1]):
            a, b = np.float64(before[i, j]), np.float64(after[i, j])
            step += (b - a) * (b - a)
            old += a * a
            new += b * b
    return step, old, new


def sum_repeated(indices: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of a row-sparse gradient, and the sum of the values of each.

    Args:
        indices: int [A].
        values: float [A, ...].
    """
    indices, values = np.asarray(indices), np.asarray(values)
    rows, place = np.unique(indices, return_inverse=True)
    if len(rows) == len(indices):
        return indices, values
    sums = np.zeros((len(rows), *values.shape[1:]), values.dtype)
    np.add.at(sums, place, values)
    return rows, sums


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean, least, median and greatest of those that are finite; nan where there are none."""
    finite = [value for value in values if np.isfinite(value)]
    if not finite:
        return dict.fromkeys(("mean", "min", "median", "max"), np.nan)
    return {
        "mean": float(np.mean(finite)),
        "min": min(finite),
        "median": float(np.median(finite)),
        "max": max(finite),
    }


@apart
@njit(nogil=True, error_model="numpy")
def _finite_range(values: np.ndarray) -> tuple[float, float, int]:
    """The least and the greatest finite value of a row, and how many are finite."""
    low, high, count = np.inf, -np.inf, 0
    for i in range(len(values)):
        x = np.float64(values[i])
        if abs(x) <= _LARGEST:
            low, high, count = min(low, x), max(high, x), count + 1
    return low, high, count


@njit(nogil=True, error_model="numpy")
def _count(values: np.ndarray, edges: np.ndarray, unit: float) -> np.ndarray:
    """How many values lie in each bin, its lower edge included; the last has both."""
    bins = len(edges) - 1
    counts = np.zeros(bins, np.int64)
    low = edges[0] / unit
    scale = bins / (edges[bins] / unit - low)
    for i in range(len(values)):
        x = np.float64(values[i])
        if abs(x) <= _LARGEST:
            place = min(max(int((x / unit - low) * scale), 0), bins - 1)
            # Correct for rounding, which may be off by one.
            while place > 0 and x < edges[place]:
                place -= 1
            while place < bins - 1 and x >= edges[place + 1]:
                place += 1
            counts[place] += 1
    return counts


def histogram(values: Any) -> dict[str, Any]:
    """Count the finite values in `BINS` bins of equal width.

    Args:
        values: any float array.

    Returns:
        `edges`, BINS + 1 numbers, and `counts`, BINS numbers; both are empty without finite values.
        `nonfinite`, the number of values that are not finite.
    """
    array = flat(values).ravel()
    low, high, count = _finite_range(array)
    nonfinite = len(array) - count
    if not count:
        return {"edges": [], "counts": [], "nonfinite": nonfinite}
    # In units of the largest magnitude, so that no width overflows or vanishes.
    unit = max(-low, high) or 1.0
    if high / unit - low / unit < 1e-9:
        low, high = low - 0.5 * unit, high + 0.5 * unit
    edges = unit * np.linspace(low / unit, high / unit, BINS + 1)
    edges[0], edges[-1] = low, high
    counts = _count(array, edges, unit)
    return {"edges": edges.tolist(), "counts": counts.tolist(), "nonfinite": nonfinite}


def activation_statistics(values: Any, threshold: float = SATURATED) -> dict[str, Any]:
    """How much of their range the units of a layer use.

    Args:
        values: activations, float [N, n] or [..., n]: N observations of n units.
        threshold: activations of a larger magnitude count as saturated.

    Returns:
        `observations` N and `units` n; `saturated`, the share of saturated activations;
        `dead_units`, the number of units that are saturated, or constant, in all observations;
        `magnitude`, the mean absolute value; and the `histogram`.

    Example:
        >>> statistics = activation_statistics(np.tanh([[0.0, 9.0], [0.5, 9.0], [1.0, -9.0]]))
        >>> statistics["saturated"], statistics["dead_units"]
        (0.5, 1)
    """
    array = np.asarray(values)
    array = array.reshape(-1, array.shape[-1])
    size = np.abs(array)
    over = size > threshold
    dead = np.zeros(array.shape[1], bool)
    if len(array):
        dead |= over.all(axis=0)
    if len(array) > 1:
        dead |= (array == array[0]).all(axis=0)
    return {
        "observations": len(array),
        "units": array.shape[1],
        "saturated": float(over.mean()) if over.size else np.nan,
        "dead_units": int(dead.sum()),
        "magnitude": float(size.mean(dtype=np.float64)) if size.size else np.nan,
        "histogram": histogram(array),
    }


def json_ready(value: Any) -> Any:
    """Make a record ready for JSON: round to `DIGITS` digits; NaN and infinity become None."""
    if isinstance(value, dict):
        return {name: json_ready(member) for name, member in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [json_ready(member) for member in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    return value
