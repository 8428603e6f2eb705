"""The curve of a trial: numbers for each update and each epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rnnparse.divergence import GROWTH
from rnnparse.study.schema import HUGE, MOST_LEVELS, Wrong, check_curve

OBJECTIVES = ("objective", "loss")
"""The first of these that a curve has decides whether the trial diverges."""


@dataclass
class Curve:
    """The result of a trial function.

    Attributes:
        updates: lists with one number per update, by name; None if it is missing or not finite.
            `objective`, or else `loss`, decides whether the trial diverges.
        epochs: one dict per epoch, with its number as `epoch` and any values that JSON can hold.
        convex: for convex objectives the optimum and the gaps to it, or None.

    Example:
        >>> curve = Curve()
        >>> for loss in (0.9, 0.5):
        ...     curve.add({"objective": loss})
        >>> curve.add({"epoch": 1, "dev_f1": 71.5})
        >>> curve.updates, curve.epochs
        ({'objective': [0.9, 0.5]}, [{'epoch': 1, 'dev_f1': 71.5}])
    """

    updates: dict[str, list[float | None]] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    convex: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.updates, self.epochs = plain(self.updates), plain(self.epochs)
        self.convex = plain(self.convex)
        _check(self.updates, self.epochs, self.convex)

    def __repr__(self) -> str:
        return f"Curve({count_updates(self.updates)} updates, {len(self.epochs)} epochs)"

    @classmethod
    def from_history(cls, history: Mapping[str, Sequence[float]]) -> Curve:
        """The curve of a Keras `History.history`: one number per epoch, by name.

        A shorter series, as `validation_freq` makes, belongs to every second (third …) epoch.

        Example:
            >>> Curve.from_history(model.fit(x, y, epochs=5).history)
        """
        count = max(map(len, history.values()), default=0)
        epochs: list[dict[str, Any]] = [{"epoch": number} for number in range(1, count + 1)]
        for name, series in history.items():
            every = count // max(1, len(series))
            for number, value in enumerate(series, 1):
                epochs[every * number - 1][name] = value
        curve = cls()
        for epoch in epochs:
            curve.add(epoch)
        return curve

    def add(self, entry: Any) -> None:
        """Add the entry of an update, of an epoch, or about a convex objective.

        Args:
            entry: a number is the objective at an update. A mapping with the key `epoch` belongs
                to an epoch; the value of a mapping with the single key `convex` replaces
                `self.convex`; any other mapping holds numbers of an update, by name. Arrays and
                tensors with one element count as numbers.

        Raises:
            TypeError: any other value.
        """
        if not isinstance(entry, Mapping):
            entry = {"objective": entry}
        entry = plain({name: _scalar(value) for name, value in entry.items()})
        if "epoch" in entry:
            _check({}, [entry], None)
            self.epochs.append(entry)
        elif set(entry) == {"convex"}:
            _check({}, [], entry["convex"])
            self.convex = entry["convex"]
        else:
            _check({name: [number] for name, number in entry.items()}, [], None)
            count = count_updates(self.updates)
            for name in entry:
                self.updates.setdefault(name, [None] * count)
            for name, series in self.updates.items():
                series.append(entry.get(name))

    def diverged(self, last: int | None = None) -> bool:
        """Whether the objective is not finite, or exceeds `GROWTH` times its first nonzero value.

        Args:
            last: check only this many values at the end.
        """
        return leaves_bounds(objective(self.updates, self.epochs), last)


Updates = Mapping[str, Sequence[float | None]]
Epochs = Sequence[Mapping[str, Any]]


def count_updates(updates: Updates) -> int:
    """The number of updates of a curve."""
    return max(map(len, updates.values()), default=0)


def latest_values(updates: Updates, epochs: Epochs) -> dict[str, float | None]:
    """The latest value of each metric: of its last epoch, or for others of the last update."""
    latest = {name: series[-1] if series else None for name, series in updates.items()}
    for epoch in epochs:
        latest |= {name: x for name, x in epoch.items() if x is None or type(x) in (int, float)}
    latest.pop("epoch", None)
    return latest


def objective(updates: Updates, epochs: Epochs) -> Sequence[float | None]:
    """The series that decides whether a trial diverges; empty if there is none."""
    for name in OBJECTIVES:
        if name in updates:
            return updates[name]
    for name in OBJECTIVES:
        values = [epoch[name] for epoch in epochs if name in epoch]
        if values:
            return values
    return ()


def leaves_bounds(values: Sequence[float | None], last: int | None = None) -> bool:
    """Whether any value (of the last `last`) is None or exceeds `GROWTH` times the start."""
    start = next((abs(x) for x in values if x), math.inf)
    return any(x is None or x > GROWTH * start for x in (values[-last:] if last else values))


def _scalar(value: Any) -> Any:
    """An array or tensor with one element as a scalar; any other value unchanged."""
    if getattr(value, "shape", None) is None or np.size(value) != 1:
        return value
    return np.asarray(value).reshape(())


def _check(updates: Any, epochs: Any, convex: Any) -> None:
    """Raise TypeError for values that diagnoses and reports could not read."""
    try:
        check_curve(updates, epochs, convex)
    except Wrong as wrong:
        raise TypeError(str(wrong)) from None


def plain(value: Any, levels: int = MOST_LEVELS) -> Any:
    """A value in the built-in types that JSON can hold.

    Numbers that are not finite, or exceed `HUGE`, become None. Arrays and tensors become lists, or
    numbers if they have no axes. Single precision is written with its shortest exact digits.

    Raises:
        TypeError: a value of another type, or one nested more than `levels` deep.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        number = int(value) if isinstance(value, int) else float(value)
        return number if abs(number) <= HUGE else None
    if isinstance(value, np.floating):
        return plain(float(str(value)))
    if not levels:
        raise TypeError(f"cannot be recorded: nested more than {MOST_LEVELS} levels deep")
    if isinstance(value, Mapping):
        return {str(name): plain(x, levels - 1) for name, x in value.items()}
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        return [plain(x, levels - 1) for x in value]
    if isinstance(value, np.ndarray):
        return plain(value[()], levels - 1)
    if isinstance(value, np.generic):
        return plain(value.item(), levels - 1)
    if hasattr(value, "numpy"):
        return plain(value.numpy(), levels - 1)
    raise TypeError(f"cannot be recorded: {value!r}")
