"""What the trials of a study say together: settings, the best of them, and the way to train it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rnnparse.study.diagnosis import LABELS, Diagnosis
from rnnparse.study.diagnosis.comparison import BATCHES, in_effect
from rnnparse.study.records import canonical
from rnnparse.study.report.significance import (
    Comparison,
    against_best,
    best_epoch,
    compare,
    indistinguishable,
)
from rnnparse.study.schema import HUGE

__all__ = [
    "Comparison",
    "against_best",
    "best",
    "compare",
    "edges",
    "indistinguishable",
    "rows",
]

HIGHER_IS_BETTER = {"dev_f1": True, "objective": False, "lowest": False, "seconds": False}
"""What a row knows of its trials, and which way is better."""

Row = dict[str, Any]


def rows(records: Sequence[Mapping[str, Any]], diagnoses: Sequence[Diagnosis]) -> list[Row]:
    """One row a setting, the trials that differ in nothing but the seed pooled.

    Args:
        records: of the study. diagnoses: of each.

    Returns:
        In the order in which settings first ended, dicts with

            config      the setting
            trials      places of its trials in `records`
            labels      label → trials that have it;  label: the most frequent, the worst of equals
            objective, lowest, dev_f1, seconds
                        {"mean", "sd", "n"} over the trials that finished: the objective at the end
                        of the line through its last half, the least of its moving mean, the best
                        dev F1 of all epochs, the time; `sd` is None for one trial, `mean` None for
                        none
            epoch       median of the epochs with the best dev F1, or None
    """
    places: dict[str, list[int]] = {}
    for place, record in enumerate(records):
        places.setdefault(canonical(record["config"]), []).append(place)
    return [_row(records, diagnoses, trials) for trials in places.values()]


def _row(
    records: Sequence[Mapping[str, Any]], diagnoses: Sequence[Diagnosis], trials: list[int]
) -> Row:
    labels = Counter(diagnoses[i].label for i in trials)
    finished = [i for i in trials if records[i]["status"] == "finished"]
    peaks = [peak for i in finished if (peak := best_epoch(records[i])) is not None]
    evidence = [diagnoses[i].evidence for i in finished]
    return {
        "config": dict(records[trials[0]]["config"]),
        "trials": trials,
        "labels": dict(labels),
        "label": max(LABELS, key=lambda label: labels[label]),
        "objective": _pooled([e["end"] for e in evidence if "end" in e]),
        "lowest": _pooled([e["lowest"] for e in evidence if "lowest" in e]),
        "dev_f1": _pooled([epoch["dev_f1"] for epoch in peaks]),
        "epoch": float(np.median([epoch["epoch"] for epoch in peaks])) if peaks else None,
        "seconds": _pooled([records[i].get("seconds", 0.0) for i in finished]),
    }


def _pooled(values: Sequence[Any]) -> dict[str, Any]:
    n = len(values)
    mean = sum(values) / n if n else None
    deviation = float(np.std(values, ddof=1)) if n > 1 else None
    return {"mean": mean, "sd": deviation, "n": n}


def best(rows: Sequence[Row], by: str = "dev_f1") -> Row | None:
    """The best row by the mean of a quantity; the first of equals, None if none has it.

    Args:
        by: one of `HIGHER_IS_BETTER`. Objectives with different L2 weights do not compare.

    Raises:
        ValueError: another quantity.
    """
    if by not in HIGHER_IS_BETTER:
        raise ValueError(f"by must be one of {', '.join(HIGHER_IS_BETTER)}, not {by!r}")
    known = [row for row in rows if row[by]["mean"] is not None]
    sign = 1 if HIGHER_IS_BETTER[by] else -1
    return max(known, key=lambda row: sign * row[by]["mean"], default=None)


def edges(
    space: Any,
    best: Row | Mapping[str, Any],
    *,
    lower_rate: bool = False,
    size: int | None = None,
) -> list[str]:
    """Warnings for the numeric axes on whose edge the best setting lies.

    Args:
        space: a `Space` or `Grid`, or what `study.json` has of it: {"axes": …, "rates"?: …}.
        best: a row of `rows`, or its config.
        lower_rate: whether its diagnosis asks for a lower rate; then the highest is no edge.
        size: how many examples there are; no batch is larger.

    Returns:
        A sentence an axis, with the value to try next. Axes with one value have no edge, and 0 is
        none for what cannot be negative.

    Example:
        >>> edges({"axes": {"learning_rate": [0.001, 0.01, 0.1]}}, {"learning_rate": 0.1})
        ['learning_rate: the best value, 0.1, is the highest that was tried; try 1, too']
    """
    config = best.get("config", best)
    known = space if isinstance(space, Mapping) else space.to_dict()
    rates = known.get("rates") or {}
    found = []
    for name, values in known["axes"].items():
        if name == "learning_rate":
            values = rates.get(config.get("optimizer")) or values
        if not all(map(_is_number, values)) or config.get(name) not in values:
            continue
        value = in_effect(name, config[name], size)
        numbers = sorted({in_effect(name, other, size) for other in values})
        if len(numbers) < 2:
            continue
        if value == numbers[-1]:
            if (lower_rate and name == "learning_rate") or (name in BATCHES and value == size):
                continue
            found.append(_edge(name, value, "highest", numbers[-2], size))
        elif value == numbers[0] and not (value == 0 and numbers[1] > 0):
            found.append(_edge(name, value, "lowest", numbers[1]))
    return found


def whole_batches(batch_sizes: Sequence[Any], examples: int) -> str | None:
    """A warning of batch sizes that take all examples at once, or None.

    Example:
        >>> whole_batches([64, 512, 1024], 285)
        'Batches of 512 and 1024 are all 285 examples at once: one update an epoch.'
    """
    whole = [text for size in batch_sizes if size >= examples and (text := _text(size))]
    if not whole or max(batch_sizes) == examples:
        return None
    named = " and ".join(filter(None, [", ".join(whole[:-1]), whole[-1]]))
    return f"Batches of {named} are all {examples} examples at once: one update an epoch."


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _edge(name: str, value: float, which: str, neighbour: float, size: int | None = None) -> str:
    text = f"{name}: the best value, {_text(value)}, is the {which} that was tried"
    following: float = value
    if value > 0 and neighbour > 0:
        following = float(f"{min(value * (value / neighbour), HUGE):.3g}")
        if isinstance(value, int):
            following = max(1, round(following))
        following = in_effect(name, following, size)
    return text if following in (value, 0) else f"{text}; try {_text(following)}, too"


def _text(value: Any) -> str:
    """A value as the command line reads it; floats in their shortest form."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
