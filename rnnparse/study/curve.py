"""The curve of a trial: numbers at each update and at each epoch."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rnnparse.training.divergence import GROWTH

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
        for name, series in self.updates.items():
            _check_series("updates", name, series)
        for epoch in self.epochs:
            _check_epoch(epoch)
        _check_convex(self.convex)

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
            _check_epoch(entry)
            self.epochs.append(entry)
        elif set(entry) == {"convex"}:
            _check_convex(entry["convex"])
            self.convex = entry["convex"]
        else:
            self._add_update(entry)

    def _add_update(self, numbers: dict[str, Any]) -> None:
        for name, value in numbers.items():
            _check_number("updates", name, value)
        count = max(map(len, self.updates.values()), default=0)
        for name in numbers:
            self.updates.setdefault(name, [None] * count)
        for name, series in self.updates.items():
            series.append(numbers.get(name))

    def last(self, name: str) -> float | None:
        """The latest value of a quantity: at an epoch if epochs have it, else at an update."""
        values = [epoch[name] for epoch in self.epochs if name in epoch] or self.updates.get(name)
        return _finite(values[-1]) if values else None

    def diverged(self, last: int | None = None) -> bool:
        """Whether the objective is not finite, or `GROWTH` times its first value other than 0.

        Args:
            last: look only at so many values at the end.
        """
        values = self._objective()
        start = next((abs(x) for x in map(_finite, values) if x), math.inf)
        found = map(_finite, values[-last:] if last else values)
        return any(x is None or x > GROWTH * start for x in found)

    def _objective(self) -> Sequence[Any]:
        for name in OBJECTIVES:
            if name in self.updates:
                return self.updates[name]
        for name in OBJECTIVES:
            found = [epoch[name] for epoch in self.epochs if name in epoch]
            if found:
                return found
        return ()


def _as_number(value: Any) -> Any:
    """An array or tensor of one element without its axes; anything else as it is."""
    if getattr(value, "shape", None) is None or np.size(value) != 1:
        return value
    return np.asarray(value).reshape(())


def _check_number(what: str, name: str, value: Any) -> None:
    if not (value is None or isinstance(value, (int, float))):
        raise TypeError(f"{what} need a number as {name}, not {value!r}")


def _check_series(what: str, name: str, series: Any) -> None:
    if not isinstance(series, list):
        raise TypeError(f"{what} need a list of numbers as {name}, not {series!r}")
    for value in series:
        _check_number(what, name, value)


def _check_epoch(epoch: Any) -> None:
    """What diagnosis and reports count on in an epoch. TypeError where it is not so."""
    if not isinstance(epoch, Mapping):
        raise TypeError(f"an epoch is a mapping with numbers by their names, not {epoch!r}")
    for name in ("epoch", *OBJECTIVES, "dev_f1"):
        _check_number("epochs", name, epoch.get(name, 0))
    if epoch.get("epoch", 0) is None:
        raise TypeError("epochs need their number as epoch")


def _check_convex(convex: Any) -> None:
    if convex is not None and not isinstance(convex, Mapping):
        raise TypeError(f"convex is a mapping with the optimum and the gaps to it, not {convex!r}")
    for name in ("gap", "bound"):
        _check_series("convex objectives", name, (convex or {}).get(name) or [])


def _finite(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def plain(value: Any) -> Any:
    """A value as JSON holds it: plain types, None for numbers that are not finite.

    Arrays and tensors become lists, or numbers if they have no axes. Single precision gets the
    shortest digits that tell it from its neighbours.

    Raises:
        TypeError: there is no such value.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= sys.float_info.max else None
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.floating):
        return plain(float(str(value)))
    if isinstance(value, Mapping):
        return {str(name): plain(x) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(x) for x in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return [plain(x) for x in value] if value.ndim else plain(value[()])
    if hasattr(value, "numpy"):
        return plain(value.numpy())
    raise TypeError(f"cannot be recorded: {value!r}")
