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
from rnnparse.study.manifest import require_own
from rnnparse.study.report.curve_plots import draw_curves
from rnnparse.study.report.layout import ColourScale, Panel, best_of, map_axes, panels
from rnnparse.study.report.results import Metric, Results, Source, load_results, text, title

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
_RAMP = ("#f6f3e9", "#cdded5", "#8ababe", "#428da5", "#185c82", "#0b355c")


def write_svg(study: Source) -> list[Path]:
    """Write `map.svg` and `curves.svg` of a study; equal studies give equal files.

    The map has a panel for each combination of the axes that are neither its rows nor its columns,
    or the best of all where that were too many. The curves have a panel for each row of the map,
    with a line for each column, all other axes as in the best setting: means over seeds, with the
    seeds as thin lines or, of five and more, with their 95 % intervals. Where a line leaves the
    drawing, "↑" tells how far it goes.

    Args:
        study: its folder, or its results.

    Returns:
        The paths; none where no trial has ended.

    Raises:
        MissingExtraError: matplotlib is not installed.
        StudyError: there is no study, it is damaged, or a file of something else has that name.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "study") from None
    results = load_results(study)
    if not results.records:
        return []
    with matplotlib.rc_context(_STYLE):
        for name in (MAP, CURVES):
            require_own(results.folder / name, b"<dc:title>rnnparse</dc:title>")
        drawings = {MAP: _draw_map(results), CURVES: draw_curves(results)}
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
    figure.suptitle(f"{text(results.about['name'])}: {metric}, {axis_names}", fontsize=10)
    below = _list_beyond(results, figure, means)
    figure.tight_layout(rect=(0, below, 1, 1))
    return figure


def _list_beyond(results: Results, figure: Any, means: Sequence[float | None]) -> float:
    """Tell of settings beyond the grid under the map; returns the share of the height for it."""
    found = results.beyond
    if not found:
        return 0.0
    metric = results.metrics[0]
    told = [
        f"{_number(metric, means[i])} {results.settings[i]['label']}: {results.name(i)}"
        for i in found
    ]
    height = figure.get_figheight() + 0.2 + 0.17 * len(found)
    figure.set_figheight(height)
    for i, line in enumerate(["Beyond the grid", *told]):
        place = (0.1 + 0.17 * (len(found) - i)) / height
        figure.text(0.1 / figure.get_figwidth(), place, line, weight="normal" if i else "bold")
    return float((0.25 + 0.17 * len(found)) / height)


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
        axes.text(column, row - 0.02, _number(metric, mean), va="bottom", **ink)
        axes.text(column, row + 0.06, _SHORT.get(label, label), va="top", fontsize=6, **ink)


def _number(metric: Metric, mean: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.2f}" if metric.name == "dev_f1" else f"{mean:.4g}"


def _colour(share: float) -> str:
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    return to_hex(LinearSegmentedColormap.from_list("better", _RAMP)(share))


def _is_dark(colour: str) -> bool:
    from matplotlib.colors import to_rgb

    return bool(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) < 0.5)
