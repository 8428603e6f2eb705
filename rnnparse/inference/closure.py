"""The best unary chain between every two symbols in which no category repeats.

For each top symbol, Dijkstra's search down the unary rules finds the best chain from every symbol
below. Most of these chains repeat no category and are final. For the others, branch and bound
follows: a valid chain lacks at least one of two nodes with the same category, so the search is
repeated without the one and without the other. This does not enumerate chains, whose number grows
exponentially in dense grammars.

A chain *enters* a symbol by a unary rule that leaves a node in the tree. Links leave no node, so a
category occurs once for each entry, and once for the first symbol of the chain.

There are few rules, so this is plain Python: a kernel would take longer to compile than to run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np


class Chain(NamedTuple):
    """A chain from a symbol up to another one."""

    child: int
    parent: int
    logp: float
    between: tuple[int, ...]  # the symbols between the two, from the child up


class _Step(NamedTuple):
    """The best chain from a symbol up to the top, by its first rule."""

    total: float  # log probability of the chain
    parent: int
    logp: float  # of the rule
    link: bool


Steps = dict[int, _Step]  # by symbol


class _Rules:
    """Unary rules by parent.

    Args:
        ptr [S+1], rule (UNARY): the rules.
        category [S]: category of each symbol.
    """

    def __init__(self, ptr: np.ndarray, rule: np.ndarray, category: np.ndarray) -> None:
        rules = list(zip(*(rule[x].tolist() for x in ("child", "logp", "link")), strict=True))
        bounds = ptr.tolist()
        self.below = {
            parent: rules[first:last]
            for parent, (first, last) in enumerate(pairwise(bounds))
            if first < last
        }
        self.category: list[int] = category.tolist()
        self.of_category: dict[int, set[int]] = defaultdict(set)
        for symbol, own in enumerate(self.category):
            self.of_category[own].add(symbol)

    def search(self, top: int, closed: set[int], goal: int = -1, floor: float = -inf) -> Steps:
        """The best chains up to `top` with a log probability above `floor`, best first.

        Args:
            closed: symbols that no chain may enter.
            goal: the symbol at which to stop, or -1 to visit all.
        """
        found: Steps = {}
        pushes, queue = 0, [(0.0, 0, top, _Step(0.0, -1, 0.0, True))]
        while queue:
            _, _, symbol, step = heappop(queue)
            if symbol in found:
                continue
            if step.total <= floor:
                break
            found[symbol] = step
            if symbol == goal:
                break
            for child, logp, link in self.below.get(symbol, ()):
                if child not in found and (link or symbol not in closed):
                    pushes += 1
                    total = step.total + logp
                    heappush(queue, (-total, pushes, child, _Step(total, symbol, logp, link)))
        return found

    def clash(self, child: int, top: int, steps: Steps) -> int:
        """The first symbol at which the best chain of `child` repeats a category, or -1."""
        seen, symbol = {self.category[child]}, child
        while symbol != top:
            step = steps[symbol]
            symbol = step.parent
            if not step.link:
                if self.category[symbol] in seen:
                    return symbol
                seen.add(self.category[symbol])
        return -1

    def closed_below(self, top: int) -> set[int]:
        """The symbols with the category of `top` through which no valid chain reaches it.

        Chains may enter `top` and the symbols from which only links lead up to it.
        """
        closed = self.of_category[self.category[top]] - {top}
        linked = [top]
        for symbol in linked:
            for child, _, link in self.below.get(symbol, ()):
                if link and child in closed:
                    closed.remove(child)
                    linked.append(child)
        return closed

    def best_valid(self, child: int, top: int, closed: set[int]) -> Chain | None:
        """The best chain from `child` to `top` without repeated category.

        Branch and bound, depth first: if the best chain enters a symbol and so repeats a category,
        a valid chain either does not enter that symbol, or enters no other symbol of its category.
        """
        best, floor, pending = None, -inf, [closed]
        while pending:
            at = pending.pop()
            steps = self.search(top, at, child, floor)
            if child not in steps:
                continue
            clash = self.clash(child, top, steps)
            if clash < 0:
                best, floor = _chain(child, top, steps), steps[child].total
            else:
                others = self.of_category[self.category[clash]] - {clash}
                pending.extend((at | {clash}, at | others))
        return best

    def chains_to(self, top: int) -> list[Chain]:
        """The best valid chain from each symbol to `top`, by symbol."""
        closed = self.closed_below(top)
        steps = self.search(top, closed)
        chains, waiting = self._divide(steps, top, steps)
        while waiting:  # symbols of one category share a search
            own = self.category[waiting[0]]
            at = closed | self.of_category[own]
            same = [symbol for symbol in waiting if self.category[symbol] == own]
            steps = self.search(top, at)
            valid, others = self._divide(same, top, steps)
            found = (self.best_valid(symbol, top, at) for symbol in others)
            chains += valid + [chain for chain in found if chain]
            waiting = [symbol for symbol in waiting if self.category[symbol] != own]
        return sorted(chain for chain in chains if chain.child != top)

    def _divide(
        self, symbols: Iterable[int], top: int, steps: Steps
    ) -> tuple[list[Chain], list[int]]:
        """The best chains of the symbols whose best chain is valid, and the other symbols."""
        valid, others = [], []
        for symbol in symbols:
            if symbol not in steps:
                continue
            if self.clash(symbol, top, steps) < 0:
                valid.append(_chain(symbol, top, steps))
            else:
                others.append(symbol)
        return valid, others


def _chain(child: int, top: int, steps: Steps) -> Chain:
    """The best chain of `child`; its log probability is summed from below."""
    total, between, symbol = 0.0, [], child
    while symbol != top:
        total += steps[symbol].logp
        symbol = steps[symbol].parent
        between.append(symbol)
    return Chain(child, top, total, tuple(between[:-1]))


def unary_closure(ptr: np.ndarray, rule: np.ndarray, category: np.ndarray) -> list[Chain]:
    """The best valid chain for each pair of symbols that has one, by parent.

    Args:
        ptr [S+1], rule (UNARY): unary rules by parent.
        category [S]: category of each symbol.
    """
    rules = _Rules(ptr, rule, category)
    return [chain for top in rules.below for chain in rules.chains_to(top)]
