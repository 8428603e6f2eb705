"""Conventions of treebanks: encoding, traces, nodes outside the sentence, labels."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

from rnnparse.errors import ConfigError

USUAL = "default"
"""An entry of `traces`, `drop` or `separators` that means the default values."""

SEPARATORS = ("-", "=", "|")
"""Default separators of function tags: `NP-SBJ-1=2` is an NP, `PRT|ADVP` a PRT."""

TRACES = (
    "-NONE- .*",
    r"\*(T|ICH|RNR|con|exp|arb|0|(pro|speaker|hearer)(\+(pro|speaker|hearer))*)\*(-\d+)?",
    r"\*-\d+",
    "(C|P|W[A-Z]+) 0",
    r"W?(NP|PP|ADVP|ADJP|QP) \*",
)
"""Default traces: words tagged -NONE-; names such as `*T*-1` and `*con*`; `*-1`; the empty
complementizers and operators `(C 0)` and `(WNP 0)`; `*` directly under a phrase label. `0` under
CD, `*` under a punctuation tag, and `*really*` are words."""

DROP = ("ID", "CODE", "META", "COMMENT")
"""Default labels of nodes that are not part of the sentence."""


@dataclass(frozen=True)
class TreebankStyle:
    r"""The conventions of a treebank.

    Attributes:
        encoding: encoding of its files; None for UTF-8, or for that of an NLTK corpus.
        strict: whether to stop at the first malformed tree instead of skipping it.
        traces: regular expressions for traces. One with a space matches a tag (without function
            tags), a space and a word, as in `(C|WNP) 0`; the others match a word. They must match
            completely.
        drop: labels, without function tags, of nodes to remove with everything below them.
        separators: strings at which function tags begin. A label that begins with one (`-LRB-`,
            `#`) is not cut there.
        lemmas: whether to remove lemmas that follow words, as in `(NN dogs dog)`.

    In `traces`, `drop` and `separators` the entry "default" inserts `TRACES`, `DROP` and
    `SEPARATORS`.

    Raises:
        ConfigError: the encoding is unknown, a pattern is not a regular expression, a separator is
            empty, or a value has the wrong type.

    Example:
        >>> style = TreebankStyle(separators=("default", "*"))
        >>> style.category("ADJP*OC"), style.is_trace("NP", "*con*"), style.is_trace("CD", "0")
        ('ADJP', True, False)
    """

    encoding: str | None = None
    strict: bool = False
    traces: tuple[str, ...] = TRACES
    drop: tuple[str, ...] = DROP
    separators: tuple[str, ...] = SEPARATORS
    lemmas: bool = False

    def __post_init__(self) -> None:
        for name, usual in (("traces", TRACES), ("drop", DROP), ("separators", SEPARATORS)):
            object.__setattr__(self, name, _texts(name, getattr(self, name), usual))
        for name in ("strict", "lemmas"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be true or false, not {getattr(self, name)!r}")
        if self.encoding is not None:
            check_encoding(self.encoding)
        if not all(self.separators):
            raise ConfigError("a label separator must not be empty")
        for pattern in self.traces:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise ConfigError(
                    f"the trace pattern {pattern!r} is not a regular expression: {error}"
                ) from None

    def category(self, label: str) -> str:
        """The label without function tags: `NP-SBJ-1=2` gives `NP`."""
        return self._category(label)

    def is_trace(self, category: str, word: str) -> bool:
        """Whether a word is a trace.

        Args:
            category: the category of its tag.
            word: the word as in the file.
        """
        return self._trace.fullmatch(f"{category} {word}") is not None

    @cached_property
    def _category(self) -> _Categories:
        return _Categories(self.separators)

    @cached_property
    def _trace(self) -> re.Pattern[str]:
        # Tags and words contain no spaces.
        alternatives = (p if " " in p else f"[^ ]* (?:{p})" for p in self.traces)
        return re.compile("|".join(f"(?:{pattern})" for pattern in alternatives) or r"(?!)")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TreebankStyle:
        """A style from a mapping of its attributes; absent ones get their defaults.

        Raises:
            ConfigError: a name is unknown, or a value is invalid.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"a treebank style must be a table of settings, not {values!r}")
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ConfigError(
                f"unknown settings of a treebank style: {', '.join(map(str, unknown))}; known are "
                f"{', '.join(known)}"
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """The attributes that differ from their defaults, as a dict that JSON can hold."""
        usual = asdict(DEFAULT_STYLE)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value != usual[name]
        }


class _Categories(dict[str, str]):
    """A cache of categories by label."""

    def __init__(self, separators: tuple[str, ...]) -> None:
        super().__init__()
        # Longest first, so that a label is not cut within the separator ##.
        signs = sorted(separators, key=len, reverse=True)
        self._separator = re.compile("|".join(map(re.escape, signs)) or r"(?!)")

    def __call__(self, label: str) -> str:
        try:
            return self[label]
        except KeyError:
            sign = self._separator.search(label)
            category = label[: sign.start()] if sign and sign.start() else label
            return self.setdefault(label, category)


def check_encoding(name: str) -> None:
    """Raise ConfigError unless `name` is a text encoding."""
    try:
        known = isinstance(name, str) and codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):
        known = False
    if not known:
        raise ConfigError(f"unknown encoding {name!r}; common ones are utf-8, latin-1 and utf-16")


def _texts(name: str, value: Any, usual: tuple[str, ...]) -> tuple[str, ...]:
    value = (value,) if isinstance(value, str) else value
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise ConfigError(f"{name} must be a list of strings, not {value!r}")
    spread = [part for text in value for part in (usual if text == USUAL else (text,))]
    return tuple(dict.fromkeys(spread))


DEFAULT_STYLE = TreebankStyle()
"""The default conventions."""

STYLES: dict[str, TreebankStyle] = {
    "penn": TreebankStyle(traces=("-NONE- .*",), drop=("CODE",)),
    "historical": TreebankStyle(
        traces=(*TRACES, r"(VB|BE|DO|HV|MD|AX|RD)[A-Z]* \*"), drop=(*DROP, "REF", "LINENUM")
    ),
    "keyaki": TreebankStyle(drop=(*DROP, "LINENUM"), separators=(*SEPARATORS, ";")),
    "cess": TreebankStyle(encoding="iso-8859-15", lemmas=True),
}
"""Styles of known treebanks, by name for --treebank-style."""

AS_GIVEN = replace(STYLES["penn"], drop=())
"""Style for trees in memory: only words tagged -NONE- are traces."""
