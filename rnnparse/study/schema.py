"""The contents of the files of a study, declared once for reading and for writing.

`About` declares `study.json` and `Record` a line of `records.jsonl`; `Series`, `Epoch` and
`Convex` declare the parts of a curve. Values that pass `check` are safe to compute with: numbers
are finite, and their squares are, too.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Raw, Struct

HUGE = 1e100
"""Larger magnitudes count as infinite, so that computing with smaller ones cannot overflow."""

Status = Literal["finished", "diverged", "failed", "out of memory"]

STATUSES: tuple[str, ...] = get_args(Status)
"""How a trial ended."""

FAILURES = ("failed", "out of memory")
"""Statuses of trials without a result, which might succeed another time."""

MOST_LEVELS = 50
"""The deepest nesting of lists and objects."""

_SHOWN = 60  # characters of a wrong value


def is_number(value: Any) -> bool:
    """Whether a value is a number; truth values are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Wrong(ValueError):
    """A value that does not fit its declaration; the message names its place."""


Number = Annotated[float, Meta(ge=-HUGE, le=HUGE)]
Amount = Annotated[float, Meta(ge=0, le=HUGE)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Seed = Annotated[int, Meta(ge=0)]
Id = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
Time = Annotated[datetime, Meta(tz=True)]

Series = list[Number | None]


class Epoch(Struct):
    """What is known of the values of an epoch; it may have any others."""

    epoch: Number = 0.0
    objective: Number | None = None
    loss: Number | None = None
    dev_f1: Number | None = None
    val_loss: Number | None = None
    violated: Number | None = None
    saturation: Number | None = None
    seconds: Amount = 0.0
    dev_counts: list[tuple[Count, Count]] = []

    def __post_init__(self) -> None:
        if any(matched > proposed for matched, proposed in self.dev_counts):
            raise ValueError("expected no more matched brackets than brackets")


class RecordedEpoch(Epoch, kw_only=True):
    """An epoch of a record, which has a number."""

    epoch: Number


class Convex(Struct):
    """How far the iterates are from the optimum; it may have any other values."""

    optimum: Number | None = None
    lower_bound: Number | None = None
    gap: Series | None = None
    bound: Series | None = None


class Error(Struct, forbid_unknown_fields=True):
    """The error that ended a trial."""

    type: str
    message: str


class Ended(Struct, forbid_unknown_fields=True, kw_only=True):
    """A record of a trial without its curve."""

    id: Id  # depends on config and seed only
    config: dict[str, Any]  # the settings of the trial, by axis
    seed: Seed
    status: Status
    error: Error | None
    data: Id | None  # a hash of the data
    versions: dict[str, str]  # of rnnparse, Python, and the packages that results depend on
    seconds: Amount  # run time of the trial
    host: str  # where it ran


class Record(Ended, kw_only=True):
    """A line of `records.jsonl`, which has these values in the order of `KEYS`."""

    updates: dict[str, Series]  # one number per update: `objective`, `loss`, ...; null: not finite
    epochs: list[RecordedEpoch]
    convex: Convex | None


CURVE = ("updates", "epochs", "convex")
KEYS = ("id", "config", "seed", "status", "error", *CURVE, "data", "versions", "seconds", "host")


class Entry(Ended, kw_only=True):
    """A record whose curve is read only where it is needed, which is sixty times as fast."""

    updates: dict[str, Raw]
    epochs: list[dict[str, Raw]]
    convex: Raw

    @property
    def count(self) -> int:
        """The number of updates."""
        return max((len(msgspec.json.decode(curve)) for curve in self.updates.values()), default=0)

    def latest(self, name: str) -> float | None:
        """The latest value of a metric: of the last epoch that has it, or of the last update."""
        for raw in [epoch[name] for epoch in reversed(self.epochs) if name in epoch]:
            with suppress(msgspec.DecodeError):  # not a number
                return msgspec.json.decode(raw, type=int | float | None)
        with suppress(LookupError, msgspec.DecodeError):
            return msgspec.json.decode(self.updates[name], type=list[int | float | None])[-1]
        return None


class Axes(Struct):
    """The space of `study.json`.

    Attributes:
        rates: learning rates of single optimizers, in grids of the parser.
        further: settings beyond the combinations of `axes`.
    """

    axes: dict[str, Annotated[list[Any], Meta(min_length=1)]]
    seeds: Annotated[list[Seed], Meta(min_length=1)]
    fixed: dict[str, Any]
    rates: dict[str, list[Any]] = {}
    further: list[dict[str, Any]] = []


class Metric(Struct, frozen=True, forbid_unknown_fields=True):
    """A number by which trials are compared, such as dev F1.

    Attributes:
        name: as epochs or updates have it.
        maximize: whether higher values are better.
    """

    name: str
    maximize: bool

    def rank(self, value: float | None) -> tuple[bool, float]:
        """A key that sorts the best value first and None last."""
        return value is None, (-1 if self.maximize else 1) * (value or 0.0)


class About(Struct, forbid_unknown_fields=True, kw_only=True):
    """The content of `study.json`."""

    format: Count
    name: str
    space: Axes
    created: Time
    versions: dict[str, str]
    data: dict[str, str] | None
    gold: list[Count] | None
    sizes: dict[str, Count] | None = None
    baselines: dict[str, Number] | None = None
    metric: Metric | None = None
    command: str | None = None
    trials: list[Id] = []
    commands: dict[str, str] = {}


def check(value: Any, kind: Any, place: str = "") -> Any:
    """A value as its declared type.

    Raises:
        Wrong: it does not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        what, _, within = str(error).partition(" - at ")
        place += within.strip("`").removeprefix("$")
        raise _wrong(place, what[0].lower() + what[1:]) from None


def check_curve(updates: Any, epochs: Any, convex: Any) -> None:
    """Check the parts of a curve. Raises Wrong."""
    for name, series in check(updates, dict[str, Any], ".updates").items():
        check(series, Series, f".updates.{name}")
    check(epochs, list[Epoch], ".epochs")
    check(convex, Convex | None, ".convex")
    check_names_and_others(updates, epochs, convex)


def check_names_and_others(updates: Any, epochs: Any, convex: Any) -> None:
    """Check what the types of the parts of a curve leave open. Raises Wrong."""
    check_any(list(updates), ".updates")
    for i, epoch in enumerate(epochs):
        check_any(_others(epoch, Epoch), f".epochs[{i}]")
    check_any(_others(convex or {}, Convex), ".convex")


def _others(value: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    known = kind.__struct_fields__
    return {name: other for name, other in value.items() if name not in known}


def check_any(value: Any, place: str = "", levels: int = MOST_LEVELS) -> None:
    """Check a value that may be whatever JSON can hold.

    Text may be a file name with bytes that are not Unicode (PEP 383).

    Raises:
        Wrong: it has other text or a larger number, or is nested too deeply.
    """
    if isinstance(value, str):
        if not value.isascii() and re.search("[\ud800-\udc7f\udd00-\udfff]", value):
            raise _wrong(place, f"{value!r} is not Unicode text")
    elif isinstance(value, (list, dict)):
        if not levels:
            raise _wrong(place, f"it is nested more than {MOST_LEVELS} levels deep")
        for step, part in enumerate(value) if isinstance(value, list) else value.items():
            check_any(step, place, levels)
            here = f"[{step}]" if isinstance(value, list) else f".{step}"
            check_any(part, place + here, levels - 1)
    elif isinstance(value, (int, float)) and not abs(value) <= HUGE:
        raise _wrong(place, f"expected a finite number, not {reprlib.repr(value)[:_SHOWN]}")


def _wrong(place: str, what: str) -> Wrong:
    return Wrong(f"{place.removeprefix('.')}: {what}" if place else what)
