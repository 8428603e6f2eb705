"""Long curves in few numbers: stretches of updates are drawn together, with their extremes kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def stretch_edges(length: int, most: int) -> list[int]:
    """Where to cut a curve into at most `most` stretches.

    Half of the cuts are at equal factors, half at equal steps, so that logarithmic axes show the
    beginning as well as linear ones the end.

    Args:
        length: of the curve. most: at least 2.

    Returns:
        From 0 to `length`, rising; stretch i is [edges[i], edges[i + 1]). Without gaps if the
        length is at most `most`.

    Example:
        >>> stretch_edges(1000, 10)
        [0, 1, 4, 16, 63, 200, 251, 400, 600, 800, 1000]
    """
    if length <= most:
        return list(range(length + 1))
    half = most // 2
    by_factors = np.geomspace(1, length, most - half + 1).round()
    by_steps = np.linspace(0, length, half + 1).round()
    return sorted({int(edge) for edge in (*by_factors, *by_steps)})


def draw_together(values: Sequence[float | None], edges: Sequence[int]) -> Any:
    """A curve by stretches.

    Args:
        values: of the curve; None for what is not finite. It may end before the last edge.
        edges: from `stretch_edges`.

    Returns:
        The values to five digits if each has its own stretch, else their `mean`, `low` (least)
        and `high` (greatest) of each; None where a stretch has no value.

    Example:
        >>> draw_together([4, 2, 6, 1], [0, 1, 4])
        {'mean': [4.0, 3.0], 'low': [4.0, 1.0], 'high': [4.0, 6.0]}
    """
    if edges[-1] == len(edges) - 1:
        return [None if value is None else _short(value) for value in values]
    curve = np.array([math.nan if value is None else value for value in values], np.float64)
    starts = [edge for edge in edges[:-1] if edge < len(curve)]
    if not starts:
        return {"mean": [], "low": [], "high": []}
    there = np.isfinite(curve)
    with np.errstate(invalid="ignore", divide="ignore"):
        counts = np.add.reduceat(there, starts, dtype=np.int64)
        means = np.add.reduceat(np.where(there, curve, 0.0), starts) / counts
    lows, highs = (
        extreme.reduceat(np.where(there, curve, math.nan), starts) for extreme in (np.fmin, np.fmax)
    )
    named = {"mean": means, "low": lows, "high": highs}
    return {name: [_short_or_none(x) for x in found] for name, found in named.items()}


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _short_or_none(value: float) -> float | None:
    return _short(value) if math.isfinite(value) else None
