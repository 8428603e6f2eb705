"""Match names with shell patterns; without TensorFlow."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from rnnparse.errors import ConfigError

_SHOWN = 8


def match_names(patterns: Sequence[str], names: Sequence[str], what: str = "name") -> np.ndarray:
    """Which names at least one of the patterns matches.

    `*` matches anything, `?` one character, and `[ab]` one of several. Upper and lower case differ.
    A name always matches itself. Use `[*]`, `[?]` and `[[]` to match these characters only.

    Args:
        patterns: one pattern or several.
        names: N names, possibly with repetitions.
        what: the kind of names, for error messages.

    Returns:
        bool [N].

    Raises:
        ConfigError: a pattern matches no name; the message suggests similar names.

    Example:
        >>> match_names(["NP,*"], ["NP", "NP,VP", "NP,PP"]).tolist()
        [False, True, True]
    """
    chosen = np.zeros(len(names), bool)
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        hits = [name == pattern or fnmatchcase(name, pattern) for name in names]
        if not any(hits):
            raise ConfigError(f"no {what} matches {pattern!r}; {_hint(pattern, names)}")
        chosen |= np.array(hits)
    return chosen


def _hint(pattern: str, names: Sequence[str]) -> str:
    known = list(dict.fromkeys(names))
    if not known:
        return "there are no names"
    close = difflib.get_close_matches(pattern, known, n=3)
    if close:
        return f"did you mean {', '.join(close)}?"
    rest = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"known are {', '.join(known[:_SHOWN])}{rest}"
