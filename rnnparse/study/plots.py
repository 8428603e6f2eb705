"""Drawings of a study as SVG: the map of settings, and the curves behind it."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.errors import MissingExtraError
from rnnparse.files import write_atomically
from rnnparse.study.layout import BUDGET, ColourScale, Panel, beside, best_of, map_axes, panels
from rnnparse.study.results import Results, Source, load_results, series, showing, text, title
from rnnparse.study.trends import as_curve, student_quantile

MAP, CURVES = "map.svg", "curves.svg"
_SHORT = {"too few updates": "too few"}
_STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "rnnparse",
    "text.parse_math": False,
}
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("-", "--", ":")
_RAMP = ("#f6f3e9", "#cdded5", "#8ababe", "#428da5", "#185c82", "#0b355c")
_MOST_PANELS, _MOST_LINES = 12, 9
_OVER = 10  # what grows to more than so many times the start is cut off


def write_svg(study: Source) -> list[Path]:
    """Write `map.svg` and `curves.svg` of a study; equal studies give equal files.

    The map has a panel for each combination of the axes that are neither its rows nor its columns,
    or the best of all where that were too many. The curves have a panel for each row of the map,
    with a line for each column, all other axes as in the best setting: means over seeds with their
    95 % intervals.

    Args:
        study: its folder, or its results.

    Returns:
        The paths; none where no trial has ended.

    Raises:
        MissingExtraError: matplotlib is not installed.
        StudyError: there is no study, or it is damaged.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "study") from None
    results = load_results(study)
    if not results.records:
        return []
    with matplotlib.rc_context(_STYLE):
        drawings = {MAP: _draw_map(results), CURVES: _draw_curves(results)}
        return [_save(results.folder / name, drawn) for name, drawn in drawings.items()]


def _save(path: Path, figure: Any) -> Path:
    text = io.BytesIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": "rnnparse"})
    write_atomically(path, lambda file: file.write(text.getvalue()))
    return path


def _draw_map(results: Results) -> Any:
    from matplotlib.figure import Figure

    found = panels(results)
    rows, columns = (results.axes[i] if i >= 0 else None for i in map_axes(results))
    height, width = (len(axis.values) if axis else 1 for axis in (rows, columns))
    across = math.ceil(math.sqrt(len(found)))
    down = math.ceil(len(found) / across)
    figure = Figure(figsize=(across * (0.62 * width + 1.2), down * (0.4 * height + 0.7) + 0.3))
    means = _means(results)
    scale = _colours(results, found, means)
    for panel, axes in zip_longest(found, figure.subplots(down, across, squeeze=False).flat):
        axes.set_axis_off() if panel is None else _draw_panel(results, panel, axes, means, scale)
        axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        for axis, ticks in ((rows, axes.yaxis), (columns, axes.xaxis)):
            ticks.set_ticks(range(len(axis.values)) if axis else ())
            ticks.set_ticklabels([text(value) for value in axis.values] if axis else ())
    axis_names = " by ".join(title(axis.name) for axis in (rows, columns) if axis)
    metric = title(results.metrics[0].name)
    figure.suptitle(f"{results.about['name']}: {metric}, {axis_names}", fontsize=10)
    figure.tight_layout()
    return figure


def _means(results: Results) -> list[float | None]:
    """The first metric of each setting."""
    return [mean for mean, _ in results.means[0]]


def _colours(
    results: Results, found: Sequence[Panel], means: Sequence[float | None]
) -> ColourScale | None:
    """The scale of what cells show; None if none has a value."""
    metric = results.metrics[0]
    cells = [settings for panel in found for settings in panel.cells.values()]
    shown = [means[best_of(means, settings, metric)] for settings in cells]
    there = [mean for mean in shown if mean is not None]
    return ColourScale.of(there, metric.higher) if there else None


def _draw_panel(
    results: Results,
    panel: Panel,
    axes: Any,
    means: Sequence[float | None],
    scale: ColourScale | None,
) -> None:
    """Cells with the value and the diagnosis of the setting that is best there."""
    from matplotlib.patches import Rectangle

    axes.set_title(panel.name, loc="left")
    metric = results.metrics[0]
    for (row, column), settings in panel.cells.items():
        setting = best_of(means, settings, metric)
        mean = means[setting]
        fill = "#e7e7e3" if scale is None or mean is None else _colour(scale.share(mean))
        axes.add_patch(Rectangle((column - 0.47, row - 0.46), 0.94, 0.92, color=fill, lw=0))
        label = results.settings[setting]["label"]
        ink = {"ha": "center", "color": "white" if _is_dark(fill) else "black"}
        axes.text(column, row - 0.02, "–" if mean is None else f"{mean:.4g}", va="bottom", **ink)
        axes.text(column, row + 0.06, _SHORT.get(label, label), va="top", fontsize=6, **ink)


def _colour(share: float) -> str:
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    return to_hex(LinearSegmentedColormap.from_list("better", _RAMP)(share))


def _is_dark(colour: str) -> bool:
    from matplotlib.colors import to_rgb

    return bool(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) < 0.5)


def _draw_curves(results: Results) -> Any:
    """A panel for each row of the map, with a line for each column."""
    from matplotlib.figure import Figure

    rows, columns = map_axes(results)
    kind, name = _main_curve(results)
    values = results.axes[rows].values[:_MOST_PANELS] if rows >= 0 else (None,)
    across = min(3, len(values))
    down = math.ceil(len(values) / across)
    figure = Figure(figsize=(3.6 * across, 2.8 * down + 0.3))
    drawn = list(figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flat)
    for value, axes in zip(values, drawn, strict=False):
        row = {results.axes[rows].name: value} if rows >= 0 else {}
        settings = beside(results, results.best or 0, **row)
        picks = np.linspace(0, len(settings) - 1, min(len(settings), _MOST_LINES)).round()
        settings = [settings[int(i)] for i in picks]
        _draw_lines(results, axes, settings, columns, (kind, name))
        axes.set(xlabel=kind, ylabel=title(name))
        if rows >= 0:
            axes.set_title(showing(results.axes[rows].name, value), loc="left")
    for axes in drawn[len(values) :]:
        axes.set_axis_off()
    _set_scales(drawn[0], [line for axes in drawn for line in axes.lines])
    shared = _shared(results, (rows, columns))
    figure.suptitle(f"{results.about['name']}{': ' if shared else ''}{shared}", fontsize=10)
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


def _draw_lines(
    results: Results, axes: Any, settings: Sequence[int], columns: int, curve: tuple[str, str]
) -> None:
    """Means over seeds, with their 95 % intervals; logarithmic where curves are far apart."""
    kind, name = f"{curve[0]}s", curve[1]
    for i, setting in enumerate(settings):
        records = [results.records[trial] for trial in results.settings[setting]["trials"]]
        low, mean, high = _band([as_curve(series(record, kind).get(name)) for record in records])
        if not np.isfinite(mean).any():
            continue
        x = np.arange(1, len(mean) + 1)
        axis = results.axes[columns].name if columns >= 0 else None
        label = text(results.settings[setting]["config"].get(axis)) if axis else None
        colour, dash = _COLOURS[i % len(_COLOURS)], _DASHES[i // len(_COLOURS)]
        marker = "o" if len(mean) == 1 else None
        axes.plot(x, mean, color=colour, ls=dash, lw=1.2, label=label, marker=marker)
        axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    if columns >= 0 and axes.lines:
        axes.legend(title=title(results.axes[columns].name), fontsize=6, title_fontsize=6)


def _shared(results: Results, free: Sequence[int]) -> str:
    """The values of the axes that vary in the study, but not in a drawing."""
    config = results.settings[results.best or 0]["config"]
    return ", ".join(
        showing(axis.name, config.get(axis.name))
        for axis in (results.axes[i] for i in results.varying if i not in free)
        if axis.name not in BUDGET
    )


def _set_scales(axes: Any, lines: Sequence[Any]) -> None:
    """Logarithmic ones where lines are positive and span a factor of 20, or differ in length.

    Args:
        axes: which the others share. lines: all that are drawn.
    """
    from matplotlib.ticker import FuncFormatter

    plain = FuncFormatter(lambda value, _: f"{value:g}")
    values = np.concatenate([[], *(np.asarray(line.get_ydata()) for line in lines)])
    values = values[np.isfinite(values)]
    if len(values) and 0 < 20 * values.min() < values.max():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(plain)
    limit = _OVER * max((line.get_ydata()[0] for line in lines), default=math.inf)
    if len(values) and values.max() > limit > 0:
        axes.set_ylim(top=limit)
    lengths = [len(line.get_xdata()) for line in lines]
    if lengths and max(lengths) >= 5 * min(lengths):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(plain)


def _band(curves: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of curves of any lengths, with the ends of its 95 % interval where there are several."""
    table = np.full((len(curves), max(map(len, curves), default=0)), math.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = curve
    count = np.isfinite(table).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(table, axis=0) / count
        deviation = np.sqrt(np.nansum((table - mean) ** 2, axis=0) / (count - 1))
    quantile = np.array([student_quantile(n - 1) if n > 1 else math.nan for n in count])
    half = quantile * deviation / np.sqrt(np.maximum(count, 1))
    return mean - half, mean, mean + half
