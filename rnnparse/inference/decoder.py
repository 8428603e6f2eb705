"""`Decoder`: from tokens to a forest of the k best trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rnnparse.errors import OutOfMemoryError
from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.best_trees import best_trees
from rnnparse.inference.deadline import Deadline
from rnnparse.inference.division import join, place_to_divide
from rnnparse.inference.forest import Forest
from rnnparse.inference.limits import limits_for, wide_limits
from rnnparse.inference.packed_graph import HypergraphArrays, pack
from rnnparse.inference.posteriors import WINDOW, Hypergraph
from rnnparse.inference.rules import rule_arrays
from rnnparse.inference.search import Search
from rnnparse.inference.space import (
    ExactSpace,
    Limits,
    OverBudget,
    PrunedSpace,
    Sentence,
    Space,
    coarse_search,
)
from rnnparse.threads import Abandoned, apart, stop_flag

LONGEST_WIDE = 120  # tokens, most for a wide search, whose time grows with the cube of the length
LONGEST_EXACT = 60  # tokens, most for an exact search after a pruned one has found no tree
LONGEST_IN_HASTE = 20  # tokens of the parts of a sentence that has spent its time
SHOWN = 6  # tokens of a sentence in a message


@dataclass(frozen=True)
class Parse:
    """The k best trees of a sentence.

    Attributes:
        forest: the trees.
        glued: whether the root joins partial trees, because the search found no tree that spans
            the sentence or because it was divided.
        divided: whether the sentence exceeded the budget and was parsed in parts; then there is
            one tree.
    """

    forest: Forest
    glued: bool
    divided: bool = False


class Part(NamedTuple):
    """A sentence, or a part of one that has to be divided, and its likely trees.

    Attributes:
        first: its first token.
        tokens: its tokens.
        sentence: their tag states.
        arrays: the hypergraph, in wide arrays.
    """

    first: int
    tokens: Sequence[str]
    sentence: Sentence
    arrays: HypergraphArrays


class Parts(NamedTuple):
    """A sentence in parts, and whether it was divided because it exceeded the budget."""

    parts: list[Part]
    divided: bool


@contextmanager
def memory_for(tokens: Sequence[str]) -> Iterator[None]:
    """Raise OutOfMemoryError, which names the sentence, instead of MemoryError."""
    try:
        yield
    except MemoryError:
        start = " ".join(tokens[:SHOWN])
        raise OutOfMemoryError(
            f"out of memory at the sentence of {len(tokens)} tokens that begins with: {start}"
        ) from None


class Decoder:
    """K-best parsing with a grammar. Threads may share a decoder.

    Args:
        grammar: rules, lexicon and heads.
        search: how far to search, and the budget of a sentence.
    """

    def __init__(self, grammar: Grammar, search: Search | None = None) -> None:
        self.grammar = grammar
        self.search = search or Search()
        self._rules = rule_arrays(grammar.pcfg)
        self._heads = grammar.heads.compile(grammar.pcfg.categories).arrays
        self._coarse = None if self.search.exact else coarse_search(grammar, self._rules)
        self._least = -np.inf if grammar.closing is None else grammar.closing.threshold

    @apart
    def parse(self, tokens: Sequence[str], k: int) -> Parse:
        """The k best distinct trees of a sentence; fewer if the search finds fewer.

        Args:
            tokens: at least one token, escaped as in trees.
            k: at least 1.

        Raises:
            OutOfMemoryError: there is too little memory for the sentence.
            ValueError: there are no tokens, or k < 1.
        """
        if not tokens or k < 1:
            raise ValueError(f"cannot list the {k} best trees of {len(tokens)} tokens")
        stop = stop_flag()
        with memory_for(tokens):
            with Deadline(self.search.max_seconds, stop) as deadline:
                parse = self._parse(tokens, k, self.search.longest, deadline.flag)
            if parse is None and not stop[0]:
                parse = self._parse(tokens, k, LONGEST_IN_HASTE, stop)
        if parse is None:
            raise Abandoned
        return parse

    @apart
    def hypergraphs(
        self, tokens: Sequence[str], window: float = WINDOW
    ) -> list[tuple[int, Hypergraph]]:
        """The likely trees of a sentence as a hypergraph, or several if it has to be divided.

        Args:
            tokens: at least one token, escaped as in trees.
            window: how far below the best tree, in nats.

        Returns:
            Each part's first token, and its hypergraph.

        Raises:
            OutOfMemoryError: there is too little memory for the sentence.
        """
        return [
            (part.first, self.hypergraph(part.arrays)) for part in self.parts(tokens, window).parts
        ]

    @apart
    def parts(self, tokens: Sequence[str], window: float) -> Parts:
        """The arrays of `hypergraphs`.

        Raises:
            OutOfMemoryError: there is too little memory for the sentence.
        """
        stop = stop_flag()
        with memory_for(tokens):
            with Deadline(self.search.max_seconds, stop) as deadline:
                parts = self._parts(tokens, window, self.search.longest, deadline.flag)
            if parts is None and not stop[0]:
                parts = self._parts(tokens, window, LONGEST_IN_HASTE, stop)
        if parts is None:
            raise Abandoned
        return parts

    def _parts(
        self, tokens: Sequence[str], window: float, longest: int, stop: np.ndarray
    ) -> Parts | None:
        """The parts, each of at most `longest` tokens, or None once `stop` is set."""
        pending, parts, divided = [(0, tokens)], list[Part](), False
        while pending:
            first, part = pending.pop()
            space, over = None, True
            if len(part) <= longest:
                with suppress(OverBudget):
                    space, over = self._space(part, stop), False
            if stop[0]:
                return None
            if space is None:
                place, divided = place_to_divide(part), divided or over
                pending.extend(((first + place, part[place:]), (first, part[:place])))
            else:
                graph, _ = space.within(space.best - window, stop)
                parts.append(Part(first, part, space.sentence, pack(graph, space)))
        return None if stop[0] else Parts(parts, divided)

    def hypergraph(self, arrays: HypergraphArrays) -> Hypergraph:
        """A hypergraph from its arrays."""
        return Hypergraph(arrays, self.grammar.pcfg.categories, self._heads)

    def _parse(self, tokens: Sequence[str], k: int, longest: int, stop: np.ndarray) -> Parse | None:
        """The k best trees, or None once `stop` is set; in parts if longer than `longest`."""
        if len(tokens) > longest:
            return self._divided(tokens, longest, stop)
        try:
            space = self._space(tokens, stop)
        except OverBudget:
            return self._divided(tokens, len(tokens) - 1, stop)
        if stop[0]:
            return None
        if space is None:
            parse = self._divided(tokens, len(tokens) - 1, stop)
            return parse and replace(parse, divided=False)  # the budget is not the reason
        forest = best_trees(space, k, len(self.grammar.pcfg.categories), self._heads, stop)
        return None if forest is None else Parse(forest, space.glued)

    def _space(self, tokens: Sequence[str], stop: np.ndarray) -> Space | None:
        """A space with trees, or None if none is found and the sentence has to be divided.

        Raises:
            OverBudget: the sentence has to be divided, because there would be too many edges.
        """
        sentence = Sentence.of(self.grammar.lexicon.emissions(tokens))
        most = self.search.most_edges
        for limits in self._all_limits(len(tokens)):
            assert self._coarse is not None
            space = PrunedSpace(sentence, self._rules, self._coarse, limits, stop, most)
            if space.best > -np.inf or stop[0]:
                return space
        if self.search.exact or len(tokens) <= LONGEST_EXACT:
            return ExactSpace(sentence, self._rules, stop)
        return None

    def _all_limits(self, n: int) -> list[Limits]:
        """The limits of pruned searches to try in turn."""
        if self.search.exact:
            return []
        wide = [wide_limits(n)] if LONGEST_EXACT < n <= LONGEST_WIDE else []
        return [limits_for(n, self._least), *wide]

    def _divided(self, tokens: Sequence[str], longest: int, stop: np.ndarray) -> Parse | None:
        """The tree of a sentence parsed in parts of at most `longest` tokens."""
        pending, parts = [tokens], []
        while pending:
            part = pending.pop()
            if len(part) > longest:
                place = place_to_divide(part)
                pending.extend((part[place:], part[:place]))
                continue
            parse = self._parse(part, 1, longest, stop)
            if parse is None:
                return None
            parts.append((parse.forest, len(part)))
        forest = join([f for f, _ in parts], [size for _, size in parts], self.grammar)
        return Parse(forest, True, True)
