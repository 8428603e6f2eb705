"""The parser behind NLTK's interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nltk.parse.api import ParserI
from nltk.tree import Tree

if TYPE_CHECKING:
    from rnnparse.parser import Parser


class NltkParser(ParserI):
    """`nltk.parse.api.ParserI` over a `Parser`: `parse` yields its candidates, best first."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def parse(self, sent: Sequence[str], *args: object, **kwargs: object) -> Iterator[Tree]:
        """Trees of a sentence, best first: of its tokens or, where it is a string, of raw text."""
        for scored in self._parser.parse_kbest(sent):
            yield scored.tree
