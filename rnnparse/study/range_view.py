"""A range test as text for the terminal, and as a drawing."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np

from rnnparse.errors import MissingExtraError
from rnnparse.files import write_atomically
from rnnparse.study.range_result import RangeTest

_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS, _LINE = 60, 88
_MARKS = {
    "falling": "the loss falls from",
    "steepest": "it falls steepest at",
    "minimum": "it is lowest at",
    "limit": "it rises for good from",
}


def format_range(found: RangeTest) -> str:
    """The loss over the rate as a row of bars, the rates that stand out, and the remarks."""
    bars = _bars(np.array(found.smoothed))
    low, high = f"{found.rates[0]:.2g}", f"{found.rates[-1]:.2g}"
    unclear = "not clear" if found.interval is None else "-"
    rates = {name: _rate(getattr(found, name), unclear) for name in _MARKS}
    rates["limit"] = _rate(found.limit)
    rows = [(text, rates[name]) for name, text in _MARKS.items()]
    if found.minimum is not None:
        rows.insert(3, ("a tenth of that", _rate(found.minimum / 10)))
    if found.interval is not None:
        rows.append(("suggested", " to ".join(map(_rate, found.interval))))
        rows.append(("to begin with", _rate(found.suggestion)))
    width = max(len(text) for text, _ in rows)
    lines = [
        f"{'loss':<{width}}  {bars}",
        f"{'rate':<{width}}  {low}{high:>{max(len(bars) - len(low), len(high) + 1)}}",
        "",
        *(f"{text:<{width}}  {value}" for text, value in rows),
        "",
        *(line for remark in found.remarks for line in textwrap.wrap(remark, _LINE)),
    ]
    return "\n".join(lines)


def write_range_svg(found: RangeTest, path: Path, title: str = "") -> None:
    """Draw the loss over the rate, with the rates that stand out.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "study") from None
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    losses = [np.nan if loss is None else loss for loss in found.losses]
    axes.plot(found.rates, losses, ".", color="0.7", label="after each update")
    axes.plot(found.rates, found.smoothed, color="C0", label="smoothed")
    if found.interval is not None:
        axes.axvspan(*found.interval, color="C2", alpha=0.2, label="suggested")
    for i, name in enumerate(("steepest", "minimum", "limit")):
        rate = getattr(found, name)
        if rate is not None:
            axes.axvline(rate, color=f"C{i + 3}", linestyle="--", label=f"{name} {rate:.2g}")
    top, bottom = max(found.smoothed), min(found.smoothed)
    axes.set_ylim(bottom - 0.1 * (top - bottom or 1), top + 0.1 * (top - bottom or 1))
    axes.set(xscale="log", xlabel="learning rate", ylabel="loss", title=title)
    axes.legend()
    write_atomically(path, lambda file: figure.savefig(file, format="svg"))


def _bars(values: np.ndarray) -> str:
    """A bar for each stretch of the values, the lowest for the least of them."""
    means = [float(part.mean()) for part in np.array_split(values, min(_COLUMNS, len(values)))]
    low, high = min(means), max(means)
    places = [(mean - low) / ((high - low) or 1.0) for mean in means]
    return "".join(_BARS[min(int(place * len(_BARS)), len(_BARS) - 1)] for place in places)


def _rate(rate: float | None, unknown: str = "-") -> str:
    return unknown if rate is None else f"{rate:.2g}"
