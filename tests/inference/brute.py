"""The decoder's brute-force twin: plain recursion over a small grammar, no chart, no pruning.

A *content* is a tree without annotation and binarization: (category, position) for a tag,
(category, contents of the children) for a phrase. What an intermediate symbol stands for is the
tuple of its children's contents.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from nltk.tree import Tree

from rnnparse.grammar.lexicon import Emissions
from rnnparse.grammar.pcfg import Pcfg
from rnnparse.inference.glue import PENALTY

Content = tuple[Any, ...]
Item = tuple[int, int, int]  # symbol, start, end


class TooManyTrees(Exception):
    """The grammar has more trees than the twin cares to list."""


class Twin:
    """All derivations of one sentence."""

    def __init__(self, pcfg: Pcfg, emissions: Emissions, most: int = 3000) -> None:
        self.n = len(emissions.ptr) - 1
        self.root = pcfg.root
        self.most = most
        self.symbols = range(len(pcfg.symbols))
        size = len(pcfg.categories)
        self.partial = [bool(c >= size) for c in pcfg.category]
        self.category = [int(c) for c in pcfg.category]
        self.binary: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
        for (p, a, b), x in zip(pcfg.binary.tolist(), pcfg.binary_logp.tolist(), strict=True):
            self.binary[p].append((a, b, x))
        self.unary: dict[int, list[tuple[int, float, bool]]] = defaultdict(list)
        for (p, a), x, link in zip(
            pcfg.unary.tolist(), pcfg.unary_logp.tolist(), pcfg.link.tolist(), strict=True
        ):
            self.unary[p].append((a, x, link))
        self.tags: dict[Item, float] = {}
        for i in range(self.n):
            for t in range(emissions.ptr[i], emissions.ptr[i + 1]):
                self.tags[int(emissions.symbol[t]), i, i + 1] = float(emissions.logp[t])
        self.inside = lru_cache(None)(self._inside)
        self.outside = lru_cache(None)(self._outside)
        self.trees = lru_cache(None)(self._trees)

    def _inside(self, item: Item) -> float:
        """Log probability of the best derivation; no unary chain repeats a category."""
        return max(self.fresh(item).values(), default=-math.inf)

    def _outside(self, item: Item, below: frozenset[int] = frozenset()) -> float:
        """Log probability of the best context without a symbol of `below` in the chain."""
        symbol, i, j = item
        if self.inside(item) == -math.inf:
            return -math.inf
        best = 0.0 if item == (self.root, 0, self.n) else -math.inf
        for parent in self.symbols:
            for a, b, x in self.binary[parent]:
                if a == symbol:
                    for k in range(j + 1, self.n + 1):
                        context = x + self.inside((b, j, k))
                        if context > -math.inf:
                            best = max(best, context + self.outside((parent, i, k)))
                if b == symbol:
                    for k in range(i):
                        context = x + self.inside((a, k, i))
                        if context > -math.inf:
                            best = max(best, context + self.outside((parent, k, j)))
            for a, x, _ in self.unary[parent]:
                if a == symbol and parent not in below and parent != symbol:
                    best = max(best, x + self.outside((parent, i, j), below | {symbol}))
        return best

    def _trees(
        self, item: Item, categories: frozenset[int], symbols: frozenset[int]
    ) -> dict[Content, float]:
        """Contents with the score of their best derivation.

        Args:
            item: symbol and span.
            categories: those of the unary chain above, which must not come again.
            symbols: the same for links, which would go round in circles.
        """
        symbol, i, j = item
        scores_of: dict[Content, float] = {}

        def add(content: Content, score: float) -> None:
            scores_of[content] = max(score, scores_of.get(content, -math.inf))
            if len(scores_of) > self.most:
                raise TooManyTrees

        def wrapped(parts: Content) -> Content:
            return parts if self.partial[symbol] else (self.category[symbol], parts)

        if item in self.tags:
            add((self.category[symbol], i), self.tags[item])
        for a, b, x in self.binary[symbol]:
            for k in range(i + 1, j):
                right = self.fresh((b, k, j)) if self.fresh((a, i, k)) else {}
                for one, p in self.fresh((a, i, k)).items():
                    for other, q in right.items():
                        parts = self.parts(a, one) + self.parts(b, other)
                        add(wrapped(parts), x + p + q)
        for a, x, link in self.unary[symbol]:
            if link and a not in symbols and a != symbol:
                below = self.trees((a, i, j), categories, symbols | {symbol})
                for content, p in below.items():
                    add(content, x + p)
            elif not link and self.category[a] not in categories | {self.category[symbol]}:
                below = self.trees((a, i, j), categories | {self.category[symbol]}, frozenset())
                for content, p in below.items():
                    add(wrapped(self.parts(a, content)), x + p)
        return scores_of

    def fresh(self, item: Item) -> dict[Content, float]:
        """The contents of an item that is not in the middle of a unary chain."""
        return self.trees(item, frozenset(), frozenset())

    def parts(self, symbol: int, content: Content) -> Content:
        """What a child adds to its parent's children."""
        return content if self.partial[symbol] else (content,)

    def best_trees(self) -> tuple[list[tuple[float, Content]], bool]:
        """All trees of the sentence, best first, and whether they are glued."""
        scores_of = self.fresh((self.root, 0, self.n))
        glued = not scores_of
        if glued:
            top = self.category[self.root]
            scores_of = {(top, parts): score for score, parts in self._glued(0)}
        if len(scores_of) > self.most:
            raise TooManyTrees
        return sorted(((p, tree) for tree, p in scores_of.items()), key=lambda x: -x[0]), glued

    def _glued(self, start: int) -> Iterator[tuple[float, Content]]:
        """Sequences of pieces from a token to the end; equal ones are told apart by no one."""
        if start == self.n:
            yield 0.0, ()
            return
        best: dict[Content, float] = {}
        for end in range(start + 1, self.n + 1):
            rest = list(self._glued(end))
            for symbol in self.symbols:
                if self.partial[symbol] or symbol == self.root:
                    continue
                for content, p in self.fresh((symbol, start, end)).items():
                    for q, parts in rest:
                        whole = (content, *parts)
                        best[whole] = max(best.get(whole, -math.inf), PENALTY + p + q)
            if len(best) > self.most:
                raise TooManyTrees
        for parts, score in best.items():
            yield score, parts


def as_tree(content: Content, names: Sequence[str], tokens: Sequence[str]) -> Tree:
    """A content as an `nltk.Tree`."""
    category, below = content
    if isinstance(below, int):
        return Tree(names[category], [tokens[below]])
    return Tree(names[category], [as_tree(child, names, tokens) for child in below])
