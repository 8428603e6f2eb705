"""EVALB's parameters: deleted and equivalent labels, and the limit of errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rnnparse.errors import ConfigError

Pair = tuple[str, str]


@dataclass(frozen=True)
class EvalbParams:
    """The settings of an EVALB parameter file; the defaults are EVALB's own without a file.

    Attributes:
        debug: 0, or 1 to print each sentence's words and brackets below its row.
        max_error: the run stops at error `max_error` + 2, like EVALB.
        cutoff_len: sentences of at most this many words get a second summary.
        labeled: False to compare spans without labels.
        delete_labels: a preterminal with such a tag is deleted with its word, a constituent
            with such a label loses its bracket and keeps its children.
        delete_labels_for_length: tags whose words do not count in a sentence's length.
        quote_labels: tags of words that may be a quotation mark in one file and a possessive in
            the other; if the lengths differ, such words are restored.
        eq_labels, eq_words: pairs that count as equal, in both directions but not in chains.
        delete_by: whose tags decide which words are deleted: `own` for those of each tree, as in
            EVALB; `gold` for the gold tags in both trees, so that sentences with a wrong tag on
            punctuation count, too. Parameter files do not have this setting.
    """

    debug: int = 0
    max_error: int = 10
    cutoff_len: int = 40
    labeled: bool = True
    delete_labels: tuple[str, ...] = ()
    delete_labels_for_length: tuple[str, ...] = ()
    quote_labels: tuple[str, ...] = ()
    eq_labels: tuple[Pair, ...] = ()
    eq_words: tuple[Pair, ...] = ()
    delete_by: Literal["own", "gold"] = "own"

    @classmethod
    def collins(cls) -> EvalbParams:
        """The parameters of COLLINS.prm, the standard for the Penn Treebank."""
        return cls(
            delete_labels=("TOP", "-NONE-", ",", ":", "``", "''", "."),
            delete_labels_for_length=("-NONE-",),
            eq_labels=(("ADVP", "PRT"),),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EvalbParams:
        """Read a `.prm` file.

        A line is a keyword and its value; lines that begin with `#` and lines of fewer than three
        characters are skipped, as EVALB skips them.

        Raises:
            ConfigError: the file cannot be read, or a line (named as file:line) has an unknown
                keyword, or a missing or invalid value. EVALB itself only warns.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig", errors="surrogateescape")
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the parameters: {error.strerror}") from error
        settings: dict[str, Any] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            line = line.strip()
            if line.startswith("#") or len(line) < 3:
                continue
            try:
                _set(settings, line.split())
            except ValueError as error:
                raise ConfigError(f"{path}:{number}: {error}") from None
        return cls(**settings)

    @cached_property
    def deleted_brackets(self) -> frozenset[str]:
        """Labels whose brackets are deleted: EVALB deletes what *equals* a deleted label, too."""
        deleted = set(self.delete_labels)
        for one, other in self.eq_labels:
            if one in self.delete_labels:
                deleted.add(other)
            if other in self.delete_labels:
                deleted.add(one)
        return frozenset(deleted)

    @cached_property
    def deleted_tags(self) -> frozenset[str]:
        return frozenset(self.delete_labels)

    @cached_property
    def uncounted_tags(self) -> frozenset[str]:
        return frozenset(self.delete_labels_for_length)

    @cached_property
    def _label_pairs(self) -> frozenset[Pair]:
        return frozenset(self.eq_labels) | {(b, a) for a, b in self.eq_labels}

    @cached_property
    def _word_pairs(self) -> frozenset[Pair]:
        return frozenset(self.eq_words) | {(b, a) for a, b in self.eq_words}

    def labels_equal(self, one: str, other: str) -> bool:
        """Whether two labels or tags are the same or a pair of `eq_labels`."""
        return one == other or (one, other) in self._label_pairs

    def words_equal(self, one: str, other: str) -> bool:
        """Whether two words are the same or a pair of `eq_words`."""
        return one == other or (one, other) in self._word_pairs


def _flag(text: str) -> bool:
    return int(text) != 0


_NUMBERS: dict[str, tuple[str, Callable[[str], int]]] = {
    "DEBUG": ("debug", int),
    "MAX_ERROR": ("max_error", int),
    "CUTOFF_LEN": ("cutoff_len", int),
    "LABELED": ("labeled", _flag),
}
_LABELS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIRS = {"EQ_LABEL": "eq_labels", "EQ_WORD": "eq_words"}


def _set(settings: dict[str, Any], fields: list[str]) -> None:
    """Enter one line of a parameter file; raises ValueError with what is wrong with it."""
    keyword, *values = fields
    if keyword in _NUMBERS:
        name, convert = _NUMBERS[keyword]
        if len(values) != 1:
            raise ValueError(f"{keyword} needs one whole number, not {len(values)} values")
        try:
            settings[name] = convert(values[0])
        except ValueError:
            raise ValueError(f"{keyword} needs a whole number, not {values[0]!r}") from None
    elif keyword in _LABELS:
        if len(values) != 1:
            raise ValueError(f"{keyword} needs one label, not {len(values)}; write a line for each")
        name = _LABELS[keyword]
        settings[name] = (*settings.get(name, ()), values[0])
    elif keyword in _PAIRS:
        if len(values) != 2:
            raise ValueError(f"{keyword} needs two values, not {len(values)}")
        name = _PAIRS[keyword]
        settings[name] = (*settings.get(name, ()), (values[0], values[1]))
    else:
        known = ", ".join([*_NUMBERS, *_LABELS, *_PAIRS])
        raise ValueError(f"unknown keyword {keyword!r}; the keywords are {known}")
