"""How settings are laid out in a map: which axes are its rows, its columns and its panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rnnparse.study.records import canonical
from rnnparse.study.results import Axis, Metric, Results, showing

COLUMNS, ROWS = "learning_rate", "optimizer"
"""The axes that are columns and rows where they vary."""

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


def map_axes(axes: Sequence[Axis]) -> tuple[int, int]:
    """The places of the axes that are rows and columns of the map; −1 for none.

    Without the usual ones, columns are the numbers of which there are most, rows words if there
    are any.
    """
    varying = [i for i, axis in enumerate(axes) if len(axis.values) > 1]
    names = {axes[i].name: i for i in varying}

    def pick(name: str, order: Sequence[int], taken: int = -1) -> int:
        found = names.get(name, -1)
        return found if found not in (-1, taken) else next((i for i in order if i != taken), -1)

    sizes = sorted(varying, key=lambda i: (not axes[i].numeric, -len(axes[i].values)))
    usual = [i for i in sizes if axes[i].name != ROWS] or sizes
    columns = pick(COLUMNS, usual)
    rows = pick(ROWS, sorted(varying, key=lambda i: axes[i].numeric), columns)
    return rows, columns


def panels(results: Results) -> list[Panel]:
    """The panels of the map, in the order of the axes' values."""
    axes = results.axes
    rows, columns = map_axes(axes)
    aside = _aside(axes, rows, columns)
    places = [{canonical(x): i for i, x in enumerate(axis.values)} for axis in axes]

    def place(axis: int, setting: int) -> int:
        value = results.settings[setting]["config"].get(axes[axis].name)
        return 0 if axis < 0 else places[axis][canonical(value)]

    found: dict[tuple[int, ...], Panel] = {}
    for setting in range(len(results.settings)):
        key = tuple(place(axis, setting) for axis in aside)
        config = results.settings[setting]["config"]
        name = ", ".join(showing(axes[axis].name, config.get(axes[axis].name)) for axis in aside)
        cells = found.setdefault(key, Panel(name)).cells
        cells.setdefault((place(rows, setting), place(columns, setting)), []).append(setting)
    return [found[key] for key in sorted(found)]


def _aside(axes: Sequence[Axis], rows: int, columns: int) -> list[int]:
    """The axes whose values get panels of their own."""
    cells = math.prod(len(axes[axis].values) for axis in (rows, columns) if axis >= 0)
    aside = []
    for i, axis in enumerate(axes):
        if (
            i not in (rows, columns)
            and len(axis.values) > 1
            and cells * len(axis.values) <= MOST_CELLS
        ):
            cells *= len(axis.values)
            aside.append(i)
    return aside


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
