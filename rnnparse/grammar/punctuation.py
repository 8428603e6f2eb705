"""Punctuation marks that a treebank lacks, and similar ones that it may have.

Newspaper treebanks have `` and '' for “ and ”, -- for —, and ... for ….
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

# Rows of similar marks in the order of preference, those of treebanks first; after the bar, marks
# of another meaning that a grammar may use instead.
_OPENING = "`` “ \" « „ ‟ 〝 『 「 《 〈 | ` ‘ ‹ '"
_CLOSING = "'' ” \" » 〞 〟 』 」 》 〉 ″ | ' ’ › “"
_OPENING_SINGLE = "` ‘ ' ‹ ‚ ‛ | `` “ \""
_CLOSING_SINGLE = "' ’ › ′ | '' ” \""
_DASHES = "-- — – --- - ― ‒ − ⸺ ⸻ ‐ ‑ | : ... ; ,"
_OPENING_BRACKETS = "( [ { 〔 【 ⟨ |"
_CLOSING_BRACKETS = ") ] } 〕 】 ⟩ |"
_CURRENCIES = "$ £ € ¥ | #"
_OTHERS = "| ; : , ."
_FAMILIES = (
    _OPENING,
    _CLOSING,
    _OPENING_SINGLE,
    _CLOSING_SINGLE,
    _DASHES,
    _OPENING_BRACKETS,
    _CLOSING_BRACKETS,
    _CURRENCIES,
    "... … .. .... ⋯ ‥ | -- : ; . ,",
    ": | ; -- , .",
    "; ؛ | : -- , .",
    ", 、 ، | ; : .",
    ". 。 ｡ । ۔ | ! ? ; :",
    "! ‼ ¡ | . ?",
    "? ؟ ¿ ⁇ ⁈ ⁉ ‽ | ! .",
    "• · ‧ ▪ ● ◦ ■ ► | * - -- : ;",
    "% ‰ |",
)
_BY_CATEGORY = {
    "Pd": _DASHES,
    "Pi": _OPENING,
    "Pf": _CLOSING,
    "Ps": _OPENING_BRACKETS,
    "Pe": _CLOSING_BRACKETS,
    "Po": _OTHERS,
    "Sc": _CURRENCIES,
}
_WORD_SIGNS = frozenset("%&@#/\\*§¶")  # punctuation in Unicode, but used as words

_STRAIGHT = '"'
_LOW = frozenset("„‟")  # “ closes what these open
_OPENERS = frozenset(_OPENING.partition("|")[0].split()) - {_STRAIGHT}
_CLOSERS = frozenset(_CLOSING.partition("|")[0].split()) - {_STRAIGHT}

_FULL_WIDTH = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
IN_WORDS = {
    **dict.fromkeys(map(ord, "’‘‛ʼ"), "'"),
    **dict.fromkeys(map(ord, "‐‑‒–−"), "-"),
    **_FULL_WIDTH,
}
"""Typographic variants of ASCII characters within words, for `str.translate`."""


def _rows() -> dict[str, tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = {}
    for family in _FAMILIES:
        for mark in family.partition("|")[0].split():
            rows.setdefault(mark, _split(family))
    return rows


def _split(family: str) -> tuple[str, ...]:
    return tuple(family.replace("|", " ").split())


_ROWS = _rows()


def is_punctuation(token: str) -> bool:
    """Whether a token has no letter and no digit."""
    return not any(character.isalnum() for character in token)


def substitutes(mark: str, opens: bool | None) -> Iterator[str]:
    """Substitutes for a mark that is not in the treebank, the most similar first.

    A mark of several characters (`!!!`, `?!`) without a row in the table is replaced by one of its
    characters; a mark without a row by marks of its Unicode category.

    Args:
        mark: a token without a letter or digit, unescaped.
        opens: as `opening_quotes` gives it for the mark.
    """
    if opens is not None:
        yield from _split(_OPENING if opens else _CLOSING)
        return
    narrow = mark.translate(_FULL_WIDTH)
    for part in dict.fromkeys((narrow, *narrow)):
        yield part
        if part in _ROWS:
            yield from _ROWS[part]
        elif len(part) == 1 and part not in _WORD_SIGNS:
            yield from _split(_BY_CATEGORY.get(unicodedata.category(part), ""))


def opening_quotes(tokens: Sequence[str]) -> list[bool | None]:
    """For each token: True for an opening double quote, False for a closing one, else None.

    Straight marks open and close in turn, and one at the end of the sentence closes. The form of
    other marks decides, except that “ closes a quotation that „ opened.
    """
    opens: list[bool | None] = []
    inside: list[str] = []
    for i, token in enumerate(tokens):
        mark = token.translate(_FULL_WIDTH)
        opening: bool | None = None
        if mark == _STRAIGHT:
            opening = not inside and i + 1 < len(tokens)
        elif mark == "“" and inside and inside[-1] in _LOW:
            opening = False
        elif mark in _OPENERS or mark in _CLOSERS:
            opening = mark in _OPENERS
        if opening:
            inside.append(mark)
        elif opening is not None and inside:
            inside.pop()
        opens.append(opening)
    return opens
