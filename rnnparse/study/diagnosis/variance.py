"""How much of the variance of a number each of several categories explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations

import numpy as np

MOST = 8
"""So many categories share the variance, those that explain most of it alone."""


def shares_of_variance(columns: Sequence[Sequence[str]], values: Sequence[float]) -> list[float]:
    """The share of the variance that each category explains, without what chance would give.

    The categories explain what a sum of their effects does. Where they go together, as where each
    optimiser has rates of its own, what they explain in common is divided: each gets what it adds,
    in the mean over all orders in which they can be added. So shares are 0 or more, and add up to 1
    at most; in a balanced design a share is what the category explains alone.

    Args:
        columns: of each category, its value for each observation, [categories][n].
        values: the number, [n].

    Reference:
        Lindeman, Merenda & Gold (1980), Introduction to Bivariate and Multivariate Analysis, page
        119; Kelley (1935), An Unbiased Correlation Ratio Measure.
    """
    y = np.asarray(values, np.float64)
    y = y - y.mean()
    whole = float(y @ y)
    if not whole:
        return [0.0] * len(columns)
    dummies = [_dummies(column) for column in columns]
    alone = [_explained([dummy], y)[0] for dummy in dummies]
    chosen = sorted(range(len(columns)), key=lambda j: -alone[j])[:MOST]
    fit, freedom = _explained([dummies[j] for j in chosen], y)
    left = len(y) - 1 - freedom
    chance = max(0.0, whole - fit) / left if left > 0 else 0.0  # for each degree of freedom

    @cache
    def explained(members: frozenset[int]) -> float:
        found, used = _explained([dummies[j] for j in sorted(members)], y)
        return (found - used * chance) / whole

    shares = [0.0] * len(columns)
    for j in chosen:
        shares[j] = max(0.0, _added(j, [i for i in chosen if i != j], explained))
    total, most = sum(shares), max(0.0, explained(frozenset(chosen)))
    return [share * min(1.0, most / total) for share in shares] if total else shares


def _dummies(column: Sequence[str]) -> np.ndarray:
    """A column of 0 and 1 for each value, less its mean: [n, values]."""
    names = {name: i for i, name in enumerate(dict.fromkeys(column))}
    coded = np.eye(len(names))[[names[name] for name in column]]
    return coded - coded.mean(axis=0)


def _explained(dummies: Sequence[np.ndarray], y: np.ndarray) -> tuple[float, int]:
    """The sum of squares that a fit by least squares explains, and its degrees of freedom."""
    if not dummies:
        return 0.0, 0
    x = np.concatenate(dummies, axis=1)
    values, vectors = np.linalg.eigh(x.T @ x)
    there = values > 1e-9 * values[-1]
    projected = vectors[:, there].T @ (x.T @ y)
    return float(np.square(projected) @ (1 / values[there])), int(there.sum())


def _added(j: int, others: Sequence[int], explained: Callable[[frozenset[int]], float]) -> float:
    """What a category adds to those before it, in the mean over all orders."""
    total = 0.0
    for size in range(len(others) + 1):
        sets = [frozenset(before) for before in combinations(others, size)]
        gains = math.fsum(explained(before | {j}) - explained(before) for before in sets)
        total += gains / len(sets)
    return total / (len(others) + 1)
