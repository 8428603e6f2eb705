"""Which settings are the same in effect, though their values differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BATCHES = ("batch_size", "batch")
"""Names of axes that say how many examples an update takes."""


def examples(about: Mapping[str, Any]) -> int | None:
    """How many examples a study trains on, as `study.json` has it; None if unknown."""
    size: int | None = (about.get("sizes") or {}).get("train")
    return size


def in_effect(name: str, value: Any, size: int | None) -> Any:
    """A value of an axis as far as it decides what a trial does.

    A batch takes no more examples than there are.

    Args:
        name: of the axis. value: of a setting. size: how many examples there are, or None.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return size if size and number and name in BATCHES and value > size else value
