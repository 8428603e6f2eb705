"""How settings are laid out in a map: which axes are its rows, its columns and its panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rnnparse.study.records import canonical
from rnnparse.study.report.results import Metric, Results, showing

COLUMNS, ROWS = "learning_rate", "optimizer"
"""The axes that are columns and rows where they vary."""

BUDGET = {"epochs", "patience"}
"""Axes that decide how long a trial takes, not what it does."""

MOST_CELLS = 160
"""Further axes get panels side by side as long as that is no more cells."""


@dataclass
class Panel:
    """A map of one combination of the further axes.

    Attributes:
        name: of the combination; empty where there is but one.
        cells: the settings at (row, column).
    """

    name: str
    cells: dict[tuple[int, int], list[int]] = field(default_factory=dict)


def map_axes(results: Results) -> tuple[int, int]:
    """The places of the axes that are rows and columns of the map; −1 for none.

    Without the usual ones, columns are the numbers of which there are most, rows words if there
    are any.
    """
    axes, varying = results.axes, laid_out(results)
    names = {axes[i].name: i for i in varying}
    by_size = sorted(varying, key=lambda i: (not axes[i].numeric, -len(axes[i].values)))
    free = [i for i in by_size if axes[i].name != ROWS] or by_size
    columns = names.get(COLUMNS, free[0] if free else -1)
    words_first = sorted(varying, key=lambda i: axes[i].numeric)
    rest = [i for i in words_first if i != columns]
    rows = names.get(ROWS, rest[0] if rest else -1)
    return (rows if rows != columns else -1), columns


def laid_out(results: Results) -> list[int]:
    """The places of the axes that vary in the map: in a study without what is beyond its grid."""
    beyond = set(results.beyond)
    if not beyond:
        return results.varying
    kept = [row["config"] for i, row in enumerate(results.settings) if i not in beyond]
    names = {i: results.axes[i].name for i in results.varying}
    return [i for i in names if len({canonical(config.get(names[i])) for config in kept}) > 1]


def panels(results: Results) -> list[Panel]:
    """The panels of the map, in the order of the axes' values; without what is beyond the grid."""
    rows, columns = map_axes(results)
    places = [place_of_values(results, axis) for axis in range(len(results.axes))]
    aside = aside_axes(results)
    found: dict[tuple[int, ...], Panel] = {}
    for setting, row in enumerate(results.settings):
        if setting in results.beyond:
            continue
        key = tuple(places[axis][setting] for axis in aside)
        names = [results.axes[axis].name for axis in aside]
        name = ", ".join(showing(name, row["config"].get(name)) for name in names)
        cell = tuple(0 if axis < 0 else places[axis][setting] for axis in (rows, columns))
        cells = found.setdefault(key, Panel(name)).cells
        cells.setdefault((cell[0], cell[1]), []).append(setting)
    return [found[key] for key in sorted(found)]


def place_of_values(results: Results, axis: int) -> list[int]:
    """For each setting the place of its value among those of an axis."""
    name = results.axes[axis].name
    places = {canonical(value): i for i, value in enumerate(results.axes[axis].values)}
    return [places[canonical(row["config"].get(name))] for row in results.settings]


def aside_axes(results: Results) -> list[int]:
    """The axes whose values get panels of their own; those that vary least come first.

    Then settings that were tried beyond a grid come after all of the grid.
    """
    rows, columns = map_axes(results)
    cells = math.prod(len(results.axes[axis].values) for axis in (rows, columns) if axis >= 0)
    aside: list[int] = []
    for axis in laid_out(results):
        places = [place_of_values(results, other) for other in (*aside, axis)]
        if (
            axis not in (rows, columns)
            and cells * len(set(zip(*places, strict=True))) <= MOST_CELLS
        ):
            aside.append(axis)
    return sorted(aside, key=lambda axis: _spread(place_of_values(results, axis)))


def _spread(places: Sequence[int]) -> float:
    """The entropy of values, to six digits."""
    shares = [places.count(place) / len(places) for place in set(places)]
    return round(-math.fsum(share * math.log(share) for share in shares), 6)


def beside(results: Results, setting: int, **values: Any) -> list[int]:
    """The settings of all columns of the map that are else like one, but for `values`.

    They may differ in how long they were trained, where there are none that do not.
    """
    _, columns = map_axes(results)
    axis = results.axes[columns] if columns >= 0 else None
    like = {**results.settings[setting]["config"], **values}
    free = {axis.name} if axis else set()
    found: dict[str, int] = {}
    for ignored in (free, free | BUDGET):
        for i, row in enumerate(results.settings):
            config = row["config"]
            if all(config.get(name) == like[name] for name in like if name not in ignored):
                found.setdefault(canonical(config.get(axis.name) if axis else None), i)
    order = [canonical(value) for value in axis.values] if axis else ["null"]
    return [found[value] for value in order if value in found]


def best_of(values: Sequence[float | None], settings: Sequence[int], metric: Metric) -> int:
    """The setting whose value is best; the first where none has one."""
    there = [setting for setting in settings if values[setting] is not None]
    sign = -1 if metric.higher else 1
    return min(there, key=lambda setting: sign * (values[setting] or 0.0), default=settings[0])


@dataclass(frozen=True)
class ColourScale:
    """From the worst value, or what is as far from the best as three times the middle, to the best.

    Attributes:
        worst, best: the ends. logarithmic: whether factors count, not differences.
    """

    worst: float
    best: float
    logarithmic: bool

    @classmethod
    def of(cls, values: Sequence[float], higher: bool) -> ColourScale:
        """The scale of a metric's values, of which there must be one."""
        ordered = sorted(values, reverse=higher)
        logarithmic = not higher and ordered[0] > 0
        shape = math.log if logarithmic else float
        best, middle, worst = (shape(ordered[i]) for i in (0, len(ordered) // 2, -1))
        limit = best + 3 * (middle - best)
        if middle != best and abs(worst - best) > abs(limit - best):
            worst = limit
        return cls(worst, best, logarithmic)

    def share(self, value: float) -> float:
        """Where a value is between worst (0) and best (1)."""
        if self.worst == self.best:
            return 1.0
        shaped = math.log(value) if self.logarithmic else value
        return min(1.0, max(0.0, (shaped - self.worst) / (self.best - self.worst)))
