"""Parse the values of an axis from text: lists and ranges.

Commas separate values and ranges:

    0.1,0.01            two values
    log:1e-4:1:9        nine values from 0.0001 to 1 inclusive, by equal factors
    lin:0:0.5:6         six values from 0 to 0.5 inclusive, by equal steps

Inner values of a logarithmic range are rounded to three significant digits, or to as many as keep
them distinct.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from rnnparse.errors import ConfigError

_FORMS = "a,b,c or log:FIRST:LAST:COUNT or lin:FIRST:LAST:COUNT"
_LARGEST = 2**63 - 1
_MOST = 10_000  # values of a range


def parse_values(text: str, kind: type) -> list[Any]:
    """Parse values of one type.

    Args:
        text: values and ranges, as this module's docstring explains.
        kind: int, float or str; only numbers have ranges.

    Raises:
        ConfigError: a value of another type, a malformed range, or one that is too large.

    Example:
        >>> parse_values("1,log:0.01:0.1:3", float)
        [1.0, 0.01, 0.0316, 0.1]
    """
    values: list[Any] = []
    for part in text.split(","):
        part = part.strip()
        name, _, rest = part.partition(":")
        if kind is not str and name in ("log", "lin"):
            values += _range(part, name, rest.split(":"), kind)
        else:
            values.append(_value(part, kind))
    return values


def _value(text: str, kind: type) -> Any:
    if kind is str:
        if not text:
            raise ConfigError(f"a value is missing between commas; expected {_FORMS}")
        return text
    number = _number(text)
    return _whole(number, text) if kind is int else float(number)


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or "_" in text:
        raise ConfigError(f"{text!r} is not a number; expected {_FORMS}")
    return number


def _whole(number: Decimal, text: str) -> int:
    if not -_LARGEST <= number <= _LARGEST:  # int() would write out all zeros of 1e999999999
        raise ConfigError(f"{text} is too large")
    if number != number.to_integral_value():
        raise ConfigError(f"{text} is not a whole number")
    return int(number)


def _range(text: str, name: str, ends: list[str], kind: type) -> list[Any]:
    if len(ends) != 3:
        raise ConfigError(f"{text!r} is not a range; expected {name}:FIRST:LAST:COUNT")
    first, last = _number(ends[0]), _number(ends[1])
    count = _whole(_number(ends[2]), ends[2])
    if count < 2:
        raise ConfigError(f"{text}: a range needs at least two values")
    if count > _MOST:
        raise ConfigError(f"{text}: a range can have at most {_MOST:,} values")
    if first == last:
        raise ConfigError(f"{text}: the ends are equal")
    if name == "log" and min(first, last) <= 0:
        raise ConfigError(f"{text}: the ends of a logarithmic range must be positive")
    numbers = _by_factors(first, last, count) if name == "log" else _by_steps(first, last, count)
    if kind is int:
        _whole(first, ends[0]), _whole(last, ends[1])
        return list(dict.fromkeys(int(number.to_integral_value()) for number in numbers))
    return [float(number) for number in numbers]


def _by_steps(first: Decimal, last: Decimal, count: int) -> list[Decimal]:
    steps = count - 1
    return [(first * (steps - i) + last * i) / steps for i in range(count)]


def _by_factors(first: Decimal, last: Decimal, count: int) -> list[Decimal]:
    exponents = _by_steps(first.log10(), last.log10(), count)[1:-1]
    for digits in range(3, 18):
        inner = [Decimal(f"{Decimal(10) ** exponent:.{digits - 1}e}") for exponent in exponents]
        numbers = [first, *inner, last]
        values = sorted({float(number) for number in numbers}, reverse=first > last)
        if values == list(map(float, numbers)):
            break
    return numbers
