"""What the files of a study may hold, in one table a file, for reading and for writing.

`ABOUT` is `study.json`, `RECORD` a line of `records.jsonl`; `UPDATE`, `UPDATES`, `EPOCH`, `EPOCHS`
and `CONVEX` are what a curve may be made of. A check takes a value and raises `Wrong`, which names
the place in it, such as `epochs[2].loss`. What passes needs no further care: numbers are finite and
small enough to be squared.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import chain, starmap
from operator import le
from typing import Any

HUGE = 1e100
"""Greater magnitudes count as infinite: nothing that is computed from smaller ones overflows."""

STATUSES = ("finished", "diverged", "failed", "out of memory")
"""How a trial ended."""

FAILURES = ("failed", "out of memory")
"""Statuses of trials that gave no result, and might another time."""

MOST_LEVELS = 50
"""Lists and objects may be nested so deep."""

_SHOWN = 60

Check = Callable[[Any], None]


class Wrong(ValueError):
    """A value that is not as a table has it.

    Attributes:
        place: of the value, such as `.space.seeds[0]`; empty for the whole.
        what: is wrong with it.
    """

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(f"{place.removeprefix('.')}: {what}" if place else what)
        self.place, self.what = place, what

    def within(self, place: str) -> Wrong:
        """The same, seen from outside."""
        return Wrong(self.what, place + self.place)


# -- checks --------------------------------------------------------------------------------------


def _expect(holds: bool, kind: str, value: Any) -> None:
    if not holds:
        shown = reprlib.repr(value)
        raise Wrong(f"expected {kind}, not {shown[:_SHOWN]}")


def text(value: Any) -> None:
    """Text in Unicode, or a name of a file, which may have other bytes (PEP 383)."""
    _expect(isinstance(value, str), "text", value)
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise Wrong(f"{value!r} is no text in Unicode") from None


def boolean(value: Any) -> None:
    """True or false."""
    _expect(isinstance(value, bool), "true or false", value)


def number(value: Any) -> None:
    """A finite number, or null for one that was not finite."""
    _expect(type(value) in _NUMBERS and _is_finite(value or 0), "a number or null", value)


def whole(value: Any) -> None:
    """A whole number from 0 on."""
    _expect(type(value) is int and 0 <= value <= HUGE, "a whole number from 0 on", value)


def amount(value: Any) -> None:
    """A finite number from 0 on."""
    _expect(type(value) in (int, float) and 0 <= value <= HUGE, "a number from 0 on", value)


def finite(value: Any) -> None:
    """A finite number."""
    _expect(type(value) in (int, float) and _is_finite(value), "a finite number", value)


_NUMBERS = {int, float, type(None)}


def _is_finite(value: Any) -> bool:
    return -HUGE <= value <= HUGE


def series(value: Any) -> None:
    """A list of numbers, null for those that were not finite."""
    _expect(isinstance(value, list), "a list of numbers", value)
    there = [x for x in value if x is not None]
    alike = set(map(type, there)) <= _NUMBERS
    if not alike or (there and not (min(there) >= -HUGE and max(there) <= HUGE)):
        items(number)(value)


def counts(value: Any) -> None:
    """[matched, found] brackets of each sentence."""
    _expect(isinstance(value, list), "a list of pairs", value)
    pairs = set(map(type, value)) <= {list} and set(map(len, value)) <= {2}
    _expect(pairs, "pairs of whole numbers", value)
    _expect(set(map(type, chain.from_iterable(value))) <= {int}, "pairs of whole numbers", value)
    ordered = all(starmap(le, value)) and min((pair[0] for pair in value), default=0) >= 0
    _expect(ordered, "no more matched brackets than there are", value)
    whole(max((pair[1] for pair in value), default=0))


def time(value: Any) -> None:
    """A moment with its zone, as ISO 8601 has it."""
    text(value)
    try:
        zone = datetime.fromisoformat(value).tzinfo
    except ValueError:
        zone = None
    _expect(zone is not None, "a date and time with a time zone", value)


def anything(value: Any, levels: int = MOST_LEVELS) -> None:
    """Whatever JSON can hold."""
    if isinstance(value, str):
        text(value)
    elif isinstance(value, (list, dict)):
        if not levels:
            raise Wrong(f"it is nested more than {MOST_LEVELS} levels deep")
        places = enumerate(value) if isinstance(value, list) else value.items()
        for place, part in places:
            _within(_step(place), lambda x: anything(x, levels - 1), part)
        if isinstance(value, dict):
            for name in value:
                text(name)
    elif value is not None and not isinstance(value, bool):
        finite(value)


def _step(place: int | str) -> str:
    return f"[{place}]" if isinstance(place, int) else f".{place}"


def _within(place: str, check: Check, value: Any) -> None:
    try:
        check(value)
    except Wrong as wrong:
        raise wrong.within(place) from None


# -- checks made of checks -----------------------------------------------------------------------


def one_of(*values: str) -> Check:
    """One of some texts."""
    return lambda value: _expect(
        isinstance(value, str) and value in values, f"one of {', '.join(values)}", value
    )


def like(pattern: str, kind: str) -> Check:
    """A text that matches a pattern as a whole."""
    known = re.compile(pattern)
    return lambda value: _expect(
        isinstance(value, str) and known.fullmatch(value) is not None, kind, value
    )


def maybe(check: Check) -> Check:
    """Null, or what a check allows."""
    return lambda value: None if value is None else check(value)


def items(check: Check, least: int = 0) -> Check:
    """A list of what a check allows."""

    def check_items(value: Any) -> None:
        _expect(isinstance(value, list) and len(value) >= least, "a list of values", value)
        for place, part in enumerate(value):
            _within(f"[{place}]", check, part)

    return check_items


def mapping(check: Check) -> Check:
    """An object with any names, whose values a check allows."""
    return table({}, other=check)


def table(
    needed: Mapping[str, Check],
    possible: Mapping[str, Check] | None = None,
    other: Check | None = None,
) -> Check:
    """An object with some names, others that may be there, and a check for all further ones."""
    known = {**needed, **(possible or {})}

    def check_table(value: Any) -> None:
        _expect(isinstance(value, dict), "an object", value)
        for name in needed:
            if name not in value:
                raise Wrong(f"{name} is missing")
        for name, part in value.items():
            check = known.get(name, other)
            if check is None:
                raise Wrong(f"{reprlib.repr(name)} is unknown")
            text(name)
            _within(f".{name}", check, part)

    return check_table


# -- the files -----------------------------------------------------------------------------------

_DIGITS = like("[0-9a-f]{16}", "16 hexadecimal digits")

UPDATE: Check = mapping(number)
UPDATES: Check = mapping(series)

_EPOCH: dict[str, Check] = {
    "epoch": finite,
    **dict.fromkeys(("objective", "loss", "dev_f1", "val_loss"), number),
    **dict.fromkeys(("violated", "saturation"), number),
    "seconds": amount,
    "dev_counts": counts,
}
EPOCH: Check = table({}, _EPOCH, other=anything)
EPOCHS: Check = items(EPOCH)

CONVEX: Check = maybe(
    table(
        {},
        {
            **dict.fromkeys(("optimum", "lower_bound"), number),
            **dict.fromkeys(("gap", "bound"), maybe(series)),
        },
        other=anything,
    )
)

_HEAD: dict[str, Check] = {
    "id": _DIGITS,
    "config": mapping(anything),
    "seed": whole,
    "status": one_of(*STATUSES),
    "error": maybe(table({"type": text, "message": text})),
    "data": maybe(_DIGITS),
    "seconds": amount,
    "host": text,
}

HEAD: Check = table(_HEAD)
HEAD_NAMES = tuple(_HEAD)
"""What is known of a trial without its curve."""

RECORD: Check = table(
    {
        **_HEAD,
        "updates": UPDATES,
        "epochs": items(table({"epoch": finite}, _EPOCH, other=anything)),
        "convex": CONVEX,
        "versions": mapping(text),
    }
)

SPACE: Check = table(
    {
        "axes": mapping(items(anything, least=1)),
        "seeds": items(whole, least=1),
        "fixed": mapping(anything),
    },
    {"further": items(mapping(anything))},
    other=anything,
)
"""`further` are settings beyond the combinations of `axes`; subclasses of `Space` may add keys."""

ABOUT: Check = table(
    {
        "format": whole,
        "name": text,
        "space": SPACE,
        "created": time,
        "versions": mapping(text),
        "data": maybe(mapping(text)),
        "gold": maybe(items(whole)),
    },
    {
        "sizes": maybe(mapping(whole)),
        "baselines": maybe(mapping(finite)),
        "metric": maybe(table({"name": text, "maximize": boolean})),
        "command": maybe(text),
        "trials": items(_DIGITS),
        "commands": table({}, other=text),
    },
)


_LARGE = re.compile(rb"[eE]\+?\d{3}|\d{100}")


def has_large_number(content: bytes) -> bool:
    """Whether JSON may have numbers of more than `HUGE`."""
    return _LARGE.search(content) is not None
