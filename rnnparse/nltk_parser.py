"""A parser with NLTK's interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nltk.parse.api import ParserI
from nltk.tree import Tree

from rnnparse.parse_results import ScoredTree


class NltkParser(ParserI):
    """`nltk.parse.api.ParserI`: `parse` yields the candidate trees of a sentence, best first.

    Args:
        parse_n_best: gives the scored trees of a sentence, best first.
    """

    def __init__(self, parse_n_best: Callable[[Sequence[str]], list[ScoredTree]]) -> None:
        self._parse_n_best = parse_n_best

    def parse(self, sent: Sequence[str], *args: object, **kwargs: object) -> Iterator[Tree]:
        """Yield the trees of a sentence, given as tokens or as raw text, best first."""
        for scored in self._parse_n_best(sent):
            yield scored.tree
