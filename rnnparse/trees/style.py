"""Conventions of treebanks: encoding, traces, nodes that are no part of a sentence, labels."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

from rnnparse.errors import ConfigError

USUAL = "default"
"""In the settings `traces`, `drop` and `separators` it stands for the usual values."""

SEPARATORS = ("-", "=", "|")
"""Where labels are usually cut: `NP-SBJ-1=2` is an NP, `PRT|ADVP` a PRT."""

TRACES = (
    "-NONE- .*",
    r"\*(T|ICH|RNR|con|exp|arb|0|(pro|speaker|hearer)(\+(pro|speaker|hearer))*)\*(-\d+)?",
    r"\*-\d+",
    "(C|P|W[A-Z]+) 0",
    r"W?(NP|PP|ADVP|ADJP|QP) \*",
)
"""What is usually a trace: every word tagged -NONE-; names such as `*T*-1` and `*con*`; `*-1`; the
empty complementizers and operators `(C 0)` and `(WNP 0)`; `*` directly under a phrase's label.
`0` under CD and `*` under a tag of punctuation stay words, and so does `*really*`."""

DROP = ("ID", "CODE", "META", "COMMENT")
"""Labels of nodes that are usually no part of the sentence."""


@dataclass(frozen=True)
class TreebankStyle:
    r"""The conventions of a treebank.

    Attributes:
        encoding: of its files; None for UTF-8, or for what NLTK says of its corpora.
        strict: stop at the first malformed tree; otherwise it is skipped and counted.
        traces: regular expressions of words that are traces. One with a space in it is for a tag
            and a word, `(C|WNP) 0`; the tag is without its functional parts. The whole word or tag
            and word must match.
        drop: labels, without functional parts, of nodes that are dropped with all below them.
        separators: texts at which a label is cut: what follows is a functional part. A label that
            begins with one (`-LRB-`, `#`) is not cut there.
        lemmas: a word may be followed by its lemma, `(NN dogs dog)`, which is left out.

    In `traces`, `drop` and `separators` the entry "default" stands for the usual ones, `TRACES`,
    `DROP` and `SEPARATORS`.

    Raises:
        ConfigError: an unknown encoding, a pattern that is no regular expression, an empty
            separator, or a value of the wrong type.

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
                    f"the trace pattern {pattern!r} is no regular expression: {error}"
                ) from None

    def category(self, label: str) -> str:
        """The label without its functional parts: `NP-SBJ-1=2` gives `NP`."""
        return self._category(label)

    def is_trace(self, category: str, word: str) -> bool:
        """Whether a word is a trace.

        Args:
            category: of its tag.
            word: as the file has it.
        """
        return self._trace.fullmatch(f"{category} {word}") is not None

    @cached_property
    def _category(self) -> _Categories:
        return _Categories(self.separators)

    @cached_property
    def _trace(self) -> re.Pattern[str]:
        # No tag and no word has a space in it.
        alternatives = (p if " " in p else f"[^ ]* (?:{p})" for p in self.traces)
        return re.compile("|".join(f"(?:{pattern})" for pattern in alternatives) or r"(?!)")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TreebankStyle:
        """A style from a mapping of its attributes; those that are absent are the usual ones.

        Raises:
            ConfigError: an unknown name or a wrong value.
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
        """The attributes that are not the usual ones, ready for JSON."""
        usual = asdict(DEFAULT_STYLE)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value != usual[name]
        }


class _Categories(dict[str, str]):
    """Categories by label, each found once."""

    def __init__(self, separators: tuple[str, ...]) -> None:
        super().__init__()
        # Longest first, so that a label that begins with ## is not cut between the two signs.
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
    """Raise ConfigError for what is not the name of a text encoding."""
    try:
        known = isinstance(name, str) and codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):
        known = False
    if not known:
        raise ConfigError(f"unknown encoding {name!r}; common ones are utf-8, latin-1 and utf-16")


def _texts(name: str, value: Any, usual: tuple[str, ...]) -> tuple[str, ...]:
    value = (value,) if isinstance(value, str) else value
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise ConfigError(f"{name} must be a list of texts, not {value!r}")
    spread = [part for text in value for part in (usual if text == USUAL else (text,))]
    return tuple(dict.fromkeys(spread))


DEFAULT_STYLE = TreebankStyle()
"""The usual conventions."""

STYLES: dict[str, TreebankStyle] = {
    "penn": TreebankStyle(traces=("-NONE- .*",), drop=("CODE",)),
    "historical": TreebankStyle(
        traces=(*TRACES, r"(VB|BE|DO|HV|MD|AX|RD)[A-Z]* \*"), drop=(*DROP, "REF", "LINENUM")
    ),
    "keyaki": TreebankStyle(drop=(*DROP, "LINENUM"), separators=(*SEPARATORS, ";")),
    "cess": TreebankStyle(encoding="iso-8859-15", lemmas=True),
}
"""The styles of known treebanks, by the name of the option --treebank-style."""

AS_GIVEN = replace(STYLES["penn"], drop=())
"""For trees that no treebank file holds: only words tagged -NONE- are traces."""
