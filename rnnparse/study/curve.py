"""The curve of a trial: numbers at each update and at each epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rnnparse.divergence import GROWTH
from rnnparse.study import schema
from rnnparse.study.schema import HUGE, MOST_LEVELS

OBJECTIVES = ("objective", "loss")
"""The quantities that tell whether a trial diverges; the first that is there does."""


@dataclass
class Curve:
    """What a trial function gives.

    Attributes:
        updates: lists with one number an update, by name; None for what is missing or not finite.
            `objective`, or else `loss`, tells whether the trial diverges.
        epochs: one dict an epoch, with its number as `epoch` and anything that JSON can hold.
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
        _check(schema.UPDATES, "updates", self.updates)
        _check(schema.EPOCHS, "epochs", self.epochs)
        _check(schema.CONVEX, "convex", self.convex)

    @classmethod
    def from_history(cls, history: Mapping[str, Sequence[float]]) -> Curve:
        """The curve of what Keras's `fit` returns as its `history`: one number an epoch, by name.

        Shorter series, such as `validation_freq` makes, belong to every second (third …) epoch.

        Example:
            >>> Curve.from_history(model.fit(x, y, epochs=5).history)
        """
        most = max(map(len, history.values()), default=0)
        epochs: list[dict[str, Any]] = [{"epoch": number} for number in range(1, most + 1)]
        for name, series in history.items():
            every = most // max(1, len(series))
            for number, value in enumerate(series, 1):
                epochs[every * number - 1][name] = value
        curve = cls()
        for epoch in epochs:
            curve.add(epoch)
        return curve

    def add(self, entry: Any) -> None:
        """Add an entry: of an update, of an epoch, or on a convex objective.

        Args:
            entry: a number is the objective at an update. A mapping with the key `epoch` belongs
                to an epoch; one whose only key is `convex` is kept as such; any other has numbers
                of an update by their names. Arrays and tensors of one element are numbers.

        Raises:
            TypeError: something else.
        """
        if not isinstance(entry, Mapping):
            entry = {"objective": entry}
        entry = plain({name: _as_number(value) for name, value in entry.items()})
        if "epoch" in entry:
            _check(schema.EPOCH, "an epoch", entry)
            self.epochs.append(entry)
        elif set(entry) == {"convex"}:
            _check(schema.CONVEX, "convex", entry["convex"])
            self.convex = entry["convex"]
        else:
            self._add_update(entry)

    def _add_update(self, numbers: dict[str, Any]) -> None:
        _check(schema.UPDATE, "an update", numbers)
        count = max(map(len, self.updates.values()), default=0)
        for name in numbers:
            self.updates.setdefault(name, [None] * count)
        for name, series in self.updates.items():
            series.append(numbers.get(name))

    def last(self, name: str) -> float | None:
        """The latest value of a quantity: at an epoch if epochs have it, else at an update."""
        values = [epoch[name] for epoch in self.epochs if name in epoch] or self.updates.get(name)
        return values[-1] if values else None

    def diverged(self, last: int | None = None) -> bool:
        """Whether the objective is not finite, or `GROWTH` times its first value other than 0.

        Args:
            last: look only at so many values at the end.
        """
        return leaves_bounds(objective(self.updates, self.epochs), last)


def objective(
    updates: Mapping[str, Sequence[float | None]], epochs: Sequence[Mapping[str, Any]]
) -> Sequence[float | None]:
    """The series by which a trial diverges: the first of the updates or epochs that is there."""
    for name in OBJECTIVES:
        if name in updates:
            return updates[name]
    for name in OBJECTIVES:
        values = [epoch[name] for epoch in epochs if name in epoch]
        if values:
            return values
    return ()


def leaves_bounds(values: Sequence[float | None], last: int | None = None) -> bool:
    """Whether any of the values, or of so many last ones, is None or `GROWTH` times the start."""
    start = next((abs(x) for x in values if x), math.inf)
    return any(x is None or x > GROWTH * start for x in (values[-last:] if last else values))


def _as_number(value: Any) -> Any:
    """An array or tensor of one element without its axes; anything else as it is."""
    if getattr(value, "shape", None) is None or np.size(value) != 1:
        return value
    return np.asarray(value).reshape(())


def _check(check: schema.Check, what: str, value: Any) -> None:
    """Raise TypeError where a value is not what diagnosis and reports count on."""
    try:
        check(value)
    except schema.Wrong as wrong:
        raise TypeError(f"{what}: {wrong}") from None


def plain(value: Any, levels: int = MOST_LEVELS) -> Any:
    """A value as JSON holds it: plain types, None for numbers that are not finite.

    Numbers of more than `HUGE` count as infinite. Arrays and tensors become lists, or numbers if
    they have no axes. Single precision gets the shortest digits that tell it from its neighbours.

    Raises:
        TypeError: there is no such value, or it has more than so many levels.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        number = int(value) if isinstance(value, int) else float(value)
        return number if abs(number) <= HUGE else None
    if isinstance(value, np.floating):
        return plain(float(str(value)))
    if not levels:
        raise TypeError(f"cannot be recorded: it has more than {MOST_LEVELS} levels")
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
