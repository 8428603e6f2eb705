"""JSON as the standard has it: the one place where this package writes it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def to_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON that every reader takes.

    Numbers that are not finite, which JSON lacks, become null. A file name that is not UTF-8 comes
    in lone surrogates (PEP 383), which are escaped: the text can be written as UTF-8, and Python
    reads the same name from it.

    Raises:
        TypeError: the value is of a type that JSON does not have.
    """
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _finite(value: Any) -> Any:
    """The same with None in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(member) for member in value]
    return value
