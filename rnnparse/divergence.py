"""Training that diverged: how it is recognised, and what to do about it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rnnparse.config import TrainingConfig

GROWTH = 1e6
"""A run has diverged when its objective is so many times what it was at the start."""

_FACTOR = 10  # by which a rate that diverged is lowered first


def is_beyond(objective: float, start: float) -> bool:
    """Whether an objective is not finite, or `GROWTH` times what it was at the start.

    Args:
        objective: the mean over the sentences, with the L2 term.
        start: the same before the first step. Values below 1 count as 1, the order of a margin:
            a start that happens to be nearly 0 is no measure.
    """
    return not math.isfinite(objective) or objective > GROWTH * max(start, 1.0)


def change_rate(rate: float | None, factor: float) -> str:
    """The advice to make steps longer or shorter: "divide the rate by 10 (30 → 3)".

    Args:
        rate: the present one; None where it is not known.
        factor: how many times as long the steps are to be.
    """
    times, verb = (factor, "multiply") if factor > 1 else (1 / factor, "divide")
    to = "" if rate is None else f" ({rate:g} → {rate * factor:.3g})"
    return f"{verb} the rate by {times:.3g}{to}"


def describe(config: TrainingConfig, epoch: int, objective: float, before: int) -> str:
    """A message about training that diverged.

    Args:
        config: the settings.
        epoch: in which it did.
        objective: its last value.
        before: how many epochs came before it.
    """
    size = f"has grown to {objective:.3g}" if math.isfinite(objective) else "is not finite"
    plural = "s" if before > 1 else ""
    count = f"only the {before} epoch{plural} before that can be used" if before else "no model"
    advice = change_rate(config.learning_rate, 1 / _FACTOR)
    return (
        f"training diverged in epoch {epoch} with {config.optimizer} at the learning rate "
        f"{config.learning_rate:g}: the objective {size}; {count}; {advice}"
    )
