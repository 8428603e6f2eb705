"""A range test as text for the terminal, and as a picture."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.errors import MissingExtraError
from rnnparse.files import write_atomically
from rnnparse.study.range_result import RangeTest

_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS, _LINE = 60, 88


def format_range(result: RangeTest) -> str:
    """The loss over the rate as a row of bars, the notable rates, and the remarks."""
    bars = _bars(np.array(result.smoothed))
    low, high = f"{result.rates[0]:.2g}", f"{result.rates[-1]:.2g}"
    unclear = "not clear" if result.interval is None else "-"
    rows = [
        ("the loss falls from", _rate(result.falling, unclear)),
        ("it falls steepest at", _rate(result.steepest, unclear)),
        ("it is lowest at", _rate(result.minimum, unclear)),
        ("a tenth of that", _rate(result.minimum and result.minimum / 10)),
        ("it rises for good from", _rate(result.limit)),
        ("suggested", " to ".join(map(_rate, result.interval or ()))),
        ("try first", _rate(result.suggestion)),
    ]
    if result.minimum is None:
        del rows[3]
    if result.interval is None:
        del rows[-2:]
    width = max(len(label) for label, _ in rows)
    lines = [
        f"{'loss':<{width}}  {bars}",
        f"{'rate':<{width}}  {low}{high:>{max(len(bars) - len(low), len(high) + 1)}}",
        "",
        *(f"{label:<{width}}  {value}" for label, value in rows),
        "",
        *(line for remark in result.remarks for line in textwrap.wrap(remark, _LINE)),
    ]
    return "\n".join(lines)


def write_range_svg(result: RangeTest, path: Path, title: str = "") -> None:
    """Plot the loss over the rate, with the notable rates.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    figure = _figure_type()(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    losses = [np.nan if loss is None else loss for loss in result.losses]
    axes.plot(result.rates, losses, ".", color="0.7", label="after each update")
    axes.plot(result.rates, result.smoothed, color="C0", label="smoothed")
    if result.interval is not None:
        axes.axvspan(*result.interval, color="C2", alpha=0.2, label="suggested")
    for i, name in enumerate(("steepest", "minimum", "limit")):
        rate = getattr(result, name)
        if rate is not None:
            axes.axvline(rate, color=f"C{i + 3}", linestyle="--", label=f"{name} {rate:.2g}")
    top, bottom = max(result.smoothed), min(result.smoothed)
    axes.set_ylim(bottom - 0.1 * (top - bottom or 1), top + 0.1 * (top - bottom or 1))
    axes.set(xscale="log", xlabel="learning rate", ylabel="loss", title=title)
    axes.legend()
    write_atomically(path, lambda file: figure.savefig(file, format="svg"))


def check_svg(path: Path) -> None:
    """Raise the errors of `write_range_svg` before there is a result."""
    _figure_type()
    if not path.exists() or path.is_dir():
        open(path, "xb").close()
        path.unlink()


def _figure_type() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "study") from None
    return Figure


def _bars(values: np.ndarray) -> str:
    """One bar for each of up to 60 parts of the values; the lowest for the least."""
    means = np.array([part.mean() for part in np.array_split(values, min(_COLUMNS, len(values)))])
    heights = (means - means.min()) / (np.ptp(means) or 1.0) * len(_BARS)
    return "".join(_BARS[i] for i in np.minimum(heights.astype(int), len(_BARS) - 1))


def _rate(rate: float | None, unknown: str = "-") -> str:
    return unknown if rate is None else f"{rate:.2g}"
