"""How configurations are laid out in the map, the best of its rows, and the first curves."""

from __future__ import annotations

from dataclasses import dataclass

from rnnparse.study.report.results import Results
from rnnparse.study.report.settings import Axis, Setting

COLUMNS, ROWS = "learning_rate", "optimizer"
"""The axes that are columns and rows where they vary."""

_FIRST_LINES = 6


@dataclass(frozen=True)
class BestOfEach:
    """The best configuration for each value of an axis, and the other axes that vary."""

    axis: Axis
    others: list[Axis]
    settings: list[Setting]


def map_axes(results: Results) -> tuple[int, int]:
    """The places of the axes that are rows and columns of the map; −1 for none.

    Where the usual ones do not vary, the columns are the numeric axis with most values, and the
    rows an axis of words if there is one.
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
    """The places of the axes that vary in the map, which has no configurations beyond the grid."""
    beyond = {setting.place for setting in results.beyond}
    if not beyond:
        return results.varying
    columns = {i: results.places(i) for i in results.varying}
    kept = [setting.place for setting in results.settings if setting.place not in beyond]
    return [i for i, places in columns.items() if len({places[place] for place in kept}) > 1]


def best_of_each(results: Results) -> BestOfEach | None:
    """The best configuration for each value of the map's rows."""
    rows, _ = map_axes(results)
    if rows < 0 or results.best is None:
        return None
    places, first = results.places(rows), dict[int, Setting]()
    for setting in results.ranking:
        first.setdefault(places[setting.place], setting)
    others = [results.axes[i] for i in results.varying if i != rows]
    return BestOfEach(results.axes[rows], others, [first[place] for place in sorted(first)])


def first_drawn(results: Results) -> list[Setting]:
    """The configurations whose curves are drawn when the page opens.

    They are the best of each row of the map; of many rows, the best six. A map of one row gives the
    best configuration and others across its columns.
    """
    if results.best is None:
        return results.settings[:1]
    each = best_of_each(results)
    if each is not None:
        best = {setting.place for setting in each.settings}
        first = [one.place for one in results.ranking if one.place in best][:_FIRST_LINES]
        return [setting for setting in each.settings if setting.place in first]
    _, columns = map_axes(results)
    places = results.places(columns) if columns >= 0 else [0] * len(results.settings)
    row = sorted(results.settings, key=lambda setting: places[setting.place])
    step = -(-len(row) // _FIRST_LINES)
    return row[row.index(results.best) % step :: step]
