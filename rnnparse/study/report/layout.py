"""How configurations are laid out in the map, and which curves are drawn at first."""

from __future__ import annotations

from rnnparse.study.report.results import Results
from rnnparse.study.report.settings import Setting

COLUMNS, ROWS = "learning_rate", "optimizer"
"""The axes that are columns and rows where they vary."""

_FIRST_LINES = 6


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


def first_drawn(results: Results) -> list[Setting]:
    """The configurations whose curves are drawn when the page opens.

    They are the best of each row of the map; of many rows, the best six. A map of one row gives the
    best configuration and others across its columns.
    """
    best = results.best
    if best is None:
        return results.settings[:1]
    rows, columns = map_axes(results)
    if rows < 0:
        places = results.places(columns) if columns >= 0 else [0] * len(results.settings)
        row = sorted(results.settings, key=lambda setting: places[setting.place])
        step = -(-len(row) // _FIRST_LINES)
        return row[row.index(best) % step :: step]
    places = results.places(rows)
    best_of_row: dict[int, Setting] = {}
    for setting in results.ranking:
        best_of_row.setdefault(places[setting.place], setting)
    first = [*best_of_row.values()][:_FIRST_LINES]
    return sorted(first, key=lambda setting: places[setting.place])
