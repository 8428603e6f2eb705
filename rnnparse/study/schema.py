"""The contents of the files of a study, declared once for reading and for writing.

`ABOUT` declares `study.json`, `RECORD` a line of `records.jsonl`, `INDEX` a line of `index.jsonl`;
`UPDATE`, `UPDATES`, `EPOCH`, `EPOCHS` and `CONVEX` declare the parts of a curve. A check takes a
value and raises `Wrong` with the place of the error, such as `epochs[2].loss`. Values that pass are
safe to compute with: numbers are finite, and their squares are, too.
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
"""Larger magnitudes count as infinite, so that computing with smaller ones cannot overflow."""

STATUSES = ("finished", "diverged", "failed", "out of memory")
"""How a trial ended."""

FAILURES = ("failed", "out of memory")
"""Statuses of trials without a result, which might succeed another time."""

MOST_LEVELS = 50
"""The deepest nesting of lists and objects."""

_SHOWN = 60  # characters of a wrong value
_NUMBERS = {int, float, type(None)}

Check = Callable[[Any], None]


class Wrong(ValueError):
    """A value that does not fit its declaration.

    Attributes:
        place: of the value, such as `.space.seeds[0]`; empty for the whole.
        what: the error.
    """

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(f"{place.removeprefix('.')}: {what}" if place else what)
        self.place, self.what = place, what


# -- values --------------------------------------------------------------------------------------


def value_of(kind: str, fits: Callable[[Any], bool]) -> Check:
    """A check for values of a kind."""

    def check(value: Any) -> None:
        if not fits(value):
            raise Wrong(f"expected {kind}, not {reprlib.repr(value)[:_SHOWN]}")

    return check


def _is_finite(value: Any) -> bool:
    return -HUGE <= value <= HUGE


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


_string = value_of("text", lambda x: isinstance(x, str))
boolean = value_of("true or false", lambda x: isinstance(x, bool))
number = value_of(
    "a number or null", lambda x: x is None or (type(x) in _NUMBERS and _is_finite(x))
)
finite = value_of("a finite number", lambda x: type(x) in (int, float) and _is_finite(x))
amount = value_of("a non-negative number", lambda x: type(x) in (int, float) and 0 <= x <= HUGE)
whole = value_of("a non-negative whole number", lambda x: type(x) is int and 0 <= x <= HUGE)
time = value_of("a date and time with a time zone", _is_time)
_object = value_of("an object", lambda x: isinstance(x, dict))
_numbers = value_of("a list of numbers", lambda x: isinstance(x, list))
_pairs = value_of(
    "a list of pairs of whole numbers",
    lambda x: (
        isinstance(x, list)
        and set(map(type, x)) <= {list}
        and set(map(len, x)) <= {2}
        and set(map(type, chain.from_iterable(x))) <= {int}
    ),
)
_ordered = value_of(
    "no more matched brackets than brackets",
    lambda x: all(starmap(le, x)) and min((pair[0] for pair in x), default=0) >= 0,
)


def text(value: Any) -> None:
    """Unicode text, or a file name, which may contain other bytes (PEP 383)."""
    _string(value)
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise Wrong(f"{value!r} is not Unicode text") from None


def series(value: Any) -> None:
    """A list of numbers; null for a number that was not finite."""
    _numbers(value)
    known = [x for x in value if x is not None]
    alike = set(map(type, known)) <= _NUMBERS
    if not alike or (known and not (min(known) >= -HUGE and max(known) <= HUGE)):
        items(number)(value)  # names the place


def _latest(value: Any) -> None:
    """Numbers by name; faster than `mapping(number)`, since a study may have 100,000 entries."""
    _object(value)
    series(list(value.values()))


def counts(value: Any) -> None:
    """[matched, proposed] brackets of each sentence."""
    _pairs(value)
    _ordered(value)
    whole(max((pair[1] for pair in value), default=0))


def anything(value: Any, levels: int = MOST_LEVELS) -> None:
    """Whatever JSON can hold."""
    if isinstance(value, str):
        text(value)
    elif isinstance(value, (list, dict)):
        if not levels:
            raise Wrong(f"it is nested more than {MOST_LEVELS} levels deep")
        if isinstance(value, dict):
            for name in value:
                text(name)
        for place, part in enumerate(value) if isinstance(value, list) else value.items():
            step = f"[{place}]" if isinstance(value, list) else f".{place}"
            _within(step, lambda x: anything(x, levels - 1), part)
    elif value is not None and not isinstance(value, bool):
        finite(value)


def _within(place: str, check: Check, value: Any) -> None:
    try:
        check(value)
    except Wrong as wrong:
        raise Wrong(wrong.what, place + wrong.place) from None


# -- combinations --------------------------------------------------------------------------------


def maybe(check: Check) -> Check:
    """Null, or a value that passes a check."""
    return lambda value: None if value is None else check(value)


def items(check: Check, least: int = 0) -> Check:
    """A list whose items pass a check."""
    is_list = value_of("a list of values", lambda x: isinstance(x, list) and len(x) >= least)

    def check_items(value: Any) -> None:
        is_list(value)
        for place, part in enumerate(value):
            _within(f"[{place}]", check, part)

    return check_items


def table(
    required: Mapping[str, Check],
    optional: Mapping[str, Check] | None = None,
    other: Check | None = None,
) -> Check:
    """An object with required keys, optional keys, and a check for the values of any other key."""
    known = {**required, **(optional or {})}

    def check_table(value: Any) -> None:
        _object(value)
        for name in required:
            if name not in value:
                raise Wrong(f"{name} is missing")
        for name, part in value.items():
            check = known.get(name, other)
            if check is None:
                raise Wrong(f"{reprlib.repr(name)} is unknown")
            text(name)
            _within(f".{name}", check, part)

    return check_table


def mapping(check: Check) -> Check:
    """An object with any keys, whose values pass a check."""
    return table({}, other=check)


# -- the files -----------------------------------------------------------------------------------

_ID = value_of(
    "16 hexadecimal digits",
    lambda x: isinstance(x, str) and re.fullmatch("[0-9a-f]{16}", x) is not None,
)

UPDATE: Check = mapping(number)
UPDATES: Check = mapping(series)

_EPOCH: dict[str, Check] = {
    "epoch": finite,
    **dict.fromkeys(("objective", "loss", "dev_f1", "val_loss", "violated", "saturation"), number),
    "seconds": amount,
    "dev_counts": counts,
}
EPOCH: Check = table({}, _EPOCH, other=anything)
EPOCHS: Check = items(EPOCH)

_CONVEX: dict[str, Check] = {
    **dict.fromkeys(("optimum", "lower_bound"), number),
    **dict.fromkeys(("gap", "bound"), maybe(series)),
}
CONVEX: Check = maybe(table({}, _CONVEX, other=anything))

_RECORD: dict[str, Check] = {
    "id": _ID,
    "config": mapping(anything),
    "seed": whole,
    "status": value_of(
        f"one of {', '.join(STATUSES)}", lambda x: isinstance(x, str) and x in STATUSES
    ),
    "error": maybe(table({"type": text, "message": text})),
    "updates": UPDATES,
    "epochs": items(table({"epoch": finite}, _EPOCH, other=anything)),
    "convex": CONVEX,
    "data": maybe(_ID),
    "versions": mapping(text),
    "seconds": amount,
    "host": text,
}
RECORD: Check = table(_RECORD)

KEYS = tuple(_RECORD)
"""The keys of a record, in order."""

INDEXED = tuple(k for k in KEYS if k not in ("updates", "epochs", "convex", "versions"))
"""The keys of a record that the index repeats."""

INDEX: Check = table(
    {
        **{name: _RECORD[name] for name in INDEXED},
        "config": _object,  # its hash is checked
        "updates": whole,
        "latest": _latest,
        "end": whole,
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
        "trials": items(_ID),
        "commands": mapping(text),
    },
)


_LARGE = re.compile(rb"[eE]\+?\d{3}|\d{100}")


def has_large_number(content: bytes) -> bool:
    """Whether JSON may contain a number larger than `HUGE`."""
    return _LARGE.search(content) is not None
