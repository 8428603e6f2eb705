"""Recognize training that diverged, and say what to do about it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rnnparse.config import TrainingConfig

GROWTH = 1e6
"""A run has diverged when its objective exceeds this multiple of its initial value."""

_FACTOR = 10  # by which to lower a learning rate that diverged


def is_beyond(objective: float, start: float) -> bool:
    """Whether an objective is not finite or exceeds `GROWTH` times its initial value.

    Args:
        objective: the mean over the sentences, including the L2 term.
        start: the same before the first step. Values below 1, the order of a margin, count as 1,
            because growth from almost 0 means nothing.
    """
    return not math.isfinite(objective) or objective > GROWTH * max(start, 1.0)


def change_rate(rate: float | None, factor: float) -> str:
    """Advise longer or shorter steps: "divide the learning rate by 10 (30 → 3)".

    Args:
        rate: the present learning rate, or None if unknown.
        factor: by which to multiply the length of the steps.
    """
    times, verb = (factor, "multiply") if factor > 1 else (1 / factor, "divide")
    change = "" if rate is None else f" ({rate:g} → {rate * factor:.3g})"
    return f"{verb} the learning rate by {times:.3g}{change}"


def describe(config: TrainingConfig, epoch: int, objective: float, before: int) -> str:
    """Report that training diverged, in one line.

    Args:
        config: the settings.
        epoch: the epoch in which training diverged.
        objective: its last value.
        before: number of epochs before it.
    """
    size = f"grew to {objective:.3g}" if math.isfinite(objective) else "is not finite"
    if before:
        kept = f"only the {before} epoch{'s' if before > 1 else ''} before that can be used"
    else:
        kept = "there is no model to save"
    advice = change_rate(config.learning_rate, 1 / _FACTOR)
    return (
        f"training diverged in epoch {epoch} with {config.optimizer} at learning rate "
        f"{config.learning_rate:g}: the objective {size}; {kept}; {advice}"
    )
