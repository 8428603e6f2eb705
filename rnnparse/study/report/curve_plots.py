"""The curves of a study as a drawing: a panel for each row of its map."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from rnnparse.study.diagnosis.statistics import as_curve, student_quantile
from rnnparse.study.report.layout import BUDGET, beside, map_axes
from rnnparse.study.report.results import Results, series, showing, text, title

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("-", "--", ":")
_MOST_PANELS, _MOST_LINES = 12, 9
_OVER, _OVER_LOGARITHMIC = 10, 100  # what grows to more than so many times the start is cut off
_EXIT_WIDTH = 0.18  # of a mark at the edge, as a share of the panel's
FEWEST_BANDED = 5
"""So many seeds have a band; fewer are drawn themselves, as the interval of two says little."""


@dataclass(frozen=True)
class _Line:
    """A setting's curve as it is drawn.

    Attributes:
        mean: over the seeds. band: the ends of its 95 % interval, where there are many seeds.
        seeds: of which it is the mean, in a row each. label: in the legend. grows: whether a trial
        diverged, so that a drawing cannot show all.
    """

    mean: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None
    seeds: np.ndarray
    label: str | None
    grows: bool

    def of_logarithms(self) -> _Line:
        """With the mean, and its interval, as a logarithmic axis has them: positive in any case."""
        low, mean, high = np.exp(_band(np.log(self.seeds)))
        return replace(self, mean=mean, band=self.band and (low, high))


def draw_curves(results: Results) -> Any:
    """A panel for each row of the map, with a line for each column.

    Args:
        results: of the study.

    Returns:
        The matplotlib figure.
    """
    from matplotlib.figure import Figure

    rows, columns = map_axes(results)
    kind, name = _main_curve(results)
    values = results.axes[rows].values[:_MOST_PANELS] if rows >= 0 else (None,)
    across = min(3, len(values))
    down = math.ceil(len(values) / across)
    figure = Figure(figsize=(3.6 * across, 2.8 * down + 0.3))
    drawn = list(figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flat)
    panels_ = [_lines(results, value, (kind, name)) for value in values]
    limits = _set_scales(drawn[0], [line for lines in panels_ for line in lines])
    if drawn[0].get_yscale() == "log":
        panels_ = [[line.of_logarithms() for line in lines] for lines in panels_]
    for i, (value, axes, lines) in enumerate(zip(values, drawn, panels_, strict=False)):
        for j, line in enumerate(lines):
            _draw_line(axes, line, _COLOURS[j % len(_COLOURS)], _DASHES[j // len(_COLOURS)])
        axes.set(xlabel=kind, ylabel="" if i % across else title(name), **limits)
        axes.tick_params(labelbottom=i + across >= len(values))
        if rows >= 0:
            axes.set_title(showing(results.axes[rows].name, value), loc="left")
        if columns >= 0 and axes.lines:
            axes.legend(title=title(results.axes[columns].name), fontsize=6, title_fontsize=6)
    for axes, lines in zip_longest(drawn, panels_):
        axes.set_axis_off() if lines is None else _mark_exits(axes, lines)
    shared = _shared(results, (rows, columns))
    figure.suptitle(f"{text(results.about['name'])}{': ' if shared else ''}{shared}", fontsize=10)
    figure.tight_layout()
    return figure


def _main_curve(results: Results) -> tuple[str, str]:
    """Of updates if there are any, else of epochs; the objective if it is there."""
    for kind in ("updates", "epochs"):
        names = dict.fromkeys(name for r in results.records for name in series(r, kind))
        for name in ("objective", "loss", *names):
            if name in names:
                return kind.removesuffix("s"), name
    return "update", "objective"


def _lines(results: Results, value: Any, curve: tuple[str, str]) -> list[_Line]:
    """The lines of a panel: the columns of a row, else like the best setting."""
    rows, columns = map_axes(results)
    settings = beside(results, results.best or 0, **_of_axis(results, rows, value))
    picks = np.linspace(0, len(settings) - 1, min(len(settings), _MOST_LINES)).round()
    found = [_line(results, settings[int(i)], columns, curve) for i in picks]
    return [line for line in found if np.isfinite(line.mean).any()]


def _of_axis(results: Results, axis: int, value: Any) -> dict[str, Any]:
    return {results.axes[axis].name: value} if axis >= 0 else {}


def _line(results: Results, setting: int, columns: int, curve: tuple[str, str]) -> _Line:
    kind, name = f"{curve[0]}s", curve[1]
    row = results.settings[setting]
    curves = [as_curve(series(results.records[i], kind).get(name)) for i in row["trials"]]
    seeds = np.full((len(curves), max(map(len, curves), default=0)), math.nan)
    for seed, values in zip(seeds, curves, strict=True):
        seed[: len(values)] = values
    low, mean, high = _band(seeds)
    rises = any(metric.higher for metric in results.metrics if metric.name == name)
    return _Line(
        mean,
        (low, high) if len(curves) >= FEWEST_BANDED else None,
        seeds,
        text(row["config"].get(results.axes[columns].name)) if columns >= 0 else None,
        not rises and any(results.diagnoses[i].label == "diverged" for i in row["trials"]),
    )


def _draw_line(axes: Any, line: _Line, colour: str, dash: str) -> None:
    """The mean; of few seeds with the seeds themselves, of many with its interval."""
    x = np.arange(1, len(line.mean) + 1)
    marker = "o" if len(line.mean) == 1 else None
    style = {"color": colour, "ls": dash}
    axes.plot(x, line.mean, **style, lw=1.2, label=line.label, marker=marker)
    if line.band is not None:
        axes.fill_between(x, *line.band, color=colour, alpha=0.2, lw=0)
    elif len(line.seeds) > 1:
        axes.plot(x, line.seeds.T, **style, lw=0.5, alpha=0.6)


def _mark_exits(axes: Any, lines: Sequence[_Line]) -> None:
    """Tell at the upper edge how far lines go that leave the drawing there."""
    top = axes.get_ylim()[1]
    to_axes = (axes.transData + axes.transAxes.inverted()).transform
    found = []
    for i, line in enumerate(lines):
        for values in (line.mean, *line.seeds):
            over = np.flatnonzero(values > top)
            if len(over):
                place = float(to_axes((over[0] + 1, top))[0])
                found.append((place, float(np.nanmax(values)), _COLOURS[i % len(_COLOURS)]))
                break
    ends: list[float] = []
    for place, most, colour in sorted(found):
        start = min(place + 0.01, 1 - _EXIT_WIDTH)
        row = next((i for i, end in enumerate(ends) if end <= start), len(ends))
        ends[row : row + 1] = [start + _EXIT_WIDTH]
        style = {
            "y": 0.99 - 0.07 * row,
            **{"fontsize": 6, "va": "top", "transform": axes.transAxes, "zorder": 3},
            "bbox": {"fc": "white", "ec": "none", "alpha": 0.8, "pad": 0.5},
        }
        axes.text(x=start, s="↑", color=colour, weight="bold", **style)
        axes.text(x=start + 0.03, s=_plain(float(f"{most:.3g}")), **style)


def _shared(results: Results, free: Sequence[int]) -> str:
    """The values of the axes that vary in the study, but not in a drawing."""
    config = results.settings[results.best or 0]["config"]
    return ", ".join(
        showing(axis.name, config.get(axis.name))
        for axis in (results.axes[i] for i in results.varying if i not in free)
        if axis.name not in BUDGET
    )


def _set_scales(axes: Any, lines: Sequence[_Line]) -> dict[str, Any]:
    """Logarithmic ones where lines are positive and span a factor of 20, or differ in length.

    Args:
        axes: which the others share. lines: all that are drawn.

    Returns:
        The limits of the y axis, which bands do not widen.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter

    plain = FuncFormatter(lambda value, _: _plain(value))
    values = _reach(lines)
    logarithmic = bool(len(values)) and bool(0 < 20 * values.min() < values.max())
    lengths = [len(line.mean) for line in lines]
    far = bool(lengths) and max(lengths) >= 5 * min(lengths)
    axes.set(xscale="log" if far else "linear", yscale="log" if logarithmic else "linear")
    for axis, short in ((axes.xaxis, far and max(lengths) < 10), (axes.yaxis, False)):
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(plain if short else NullFormatter())
    if not len(values):
        return {}
    return {"ylim": _range(values, logarithmic, _ceiling(lines, logarithmic))}


def _reach(lines: Sequence[_Line]) -> np.ndarray:
    """All values that an axis must show."""
    values = np.concatenate([[], *(np.ravel(part) for x in lines for part in (x.mean, x.seeds))])
    return values[np.isfinite(values)]


def _ceiling(lines: Sequence[_Line], logarithmic: bool) -> float:
    """What is cut off: the way of diverging lines far beyond the start, and beyond all others."""
    calm = [line for line in lines if not line.grows]
    if len(calm) == len(lines):
        return math.inf
    firsts = [line.mean[np.isfinite(line.mean)][0] for line in calm or lines]
    far = (_OVER_LOGARITHMIC if logarithmic else _OVER) * max(firsts)
    return max(far if far > 0 else -math.inf, _reach(calm).max(initial=-math.inf))


def _range(values: np.ndarray, logarithmic: bool, limit: float) -> tuple[float, float]:
    """The ends of an axis: some room about its values, but none beyond 0, 1 or 100."""
    low, high = float(values.min()), float(values.max())
    if low < limit < high:
        high = limit
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    down, up = (low / 1.1, high * 1.1) if logarithmic else (low - room, high + room)
    ends = (0.0, 1.0, 100.0)
    return (
        next((end for end in ends if down < end <= low), down),
        next((end for end in ends if high <= end < up and end > low), up),
    )


def _plain(value: float) -> str:
    """A number in at most six digits, its exponent as short as can be: 2e-7."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:g}")


def _band(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of the rows, with the ends of its 95 % interval where there are many values."""
    count = np.isfinite(table).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.nansum(table, axis=0) / count
        deviation = np.sqrt(np.nansum((table - mean) ** 2, axis=0) / (count - 1))
    quantile = np.array(
        [student_quantile(n - 1) if n >= FEWEST_BANDED else math.nan for n in count]
    )
    half = quantile * deviation / np.sqrt(np.maximum(count, 1))
    return mean - half, mean, mean + half
