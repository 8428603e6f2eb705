"""Names, values and numbers as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from rnnparse.study.records import canonical

TITLES = {
    "dev_f1": "dev F1",
    "l2": "L2",
    "gap": "best iterate above the optimum",
    "bound": "upper bound on that",
    "update_ratio": "‖update‖ / ‖weights‖",
    "violated": "share of violated examples",
}
"""Titles of axes and quantities that differ from their names."""


def title(name: str) -> str:
    """The title of an axis or a quantity.

    Example:
        >>> title("learning_rate")
        'learning rate'
    """
    return TITLES.get(name, name.replace("_", " "))


def value_text(value: Any) -> str:
    """A value of an axis."""
    if isinstance(value, str):
        return readable(value)
    return canonical(value).removesuffix(".0") if isinstance(value, float) else canonical(value)


def readable(name: str) -> str:
    """A file name with U+FFFD for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def with_title(name: str, value: Any) -> str:
    """A value of an axis after the axis's title; a word stands alone.

    Example:
        >>> with_title("batch_size", 25), with_title("optimizer", "sgd")
        ('batch size 25', 'sgd')
    """
    return readable(value) if isinstance(value, str) else f"{title(name)} {value_text(value)}"


def join(parts: Sequence[str]) -> str:
    """Parts of a sentence with commas and "and"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def percent(share: float) -> str:
    """A share in per cent, which is 100 % only where it is all."""
    return f"{100 * share:.3g} %" if share < 0.9995 else f"{100 * share:.4g} %"


def score_text(mean: float | None, half: float | None = None, digits: int | None = None) -> str:
    """A mean with half its interval, in the digits that the interval justifies.

    Args:
        digits: after the decimal point; None for as many as are significant.

    Example:
        >>> score_text(0.81234, 0.0123), score_text(87.5, 0.31, digits=2), score_text(None)
        ('0.812 ± 0.012', '87.50 ± 0.31', '–')
    """
    if mean is None:
        return "–"
    if digits is None and half and max(abs(mean), half) < 1e5:
        digits = max(0, min(1 - _magnitude(half), 4 - _magnitude(mean)))
        digits = digits if digits <= 5 else None
    pattern = ".4g" if digits is None else f".{digits}f"
    parts = [mean] if half is None else [mean, half]
    numbers = [format(part, pattern) if part or part is mean else "0" for part in parts]
    return re.sub(r"e\+?(-?)0*", r"e\1", " ± ".join(numbers))


def _magnitude(number: float) -> int:
    """The exponent of a number's first digit."""
    return math.floor(math.log10(abs(number))) if number else 0
