"""From tokens to a forest of the k best trees: the kernels put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.lexicon import Emissions
from rnnparse.inference.cky import (
    NEG_INF,
    Chart,
    cell_index,
    find_item,
    inside_chart,
    lexical_items,
)
from rnnparse.inference.contents import Candidates
from rnnparse.inference.forest import Forest, binarize_candidates
from rnnparse.inference.glue import glue_edges, glue_scores, with_glue
from rnnparse.inference.kbest import TOLERANCE, Problem, enumerate_trees
from rnnparse.inference.outside import prune
from rnnparse.inference.rules import rule_arrays

FIRST_WINDOW = 5.0  # nats below the best tree that the first attempt looks at
WINDOW_FACTOR = 1.7
WIDEST_WINDOW = 1e9


@dataclass(frozen=True)
class Parse:
    """The k best trees of a sentence; `glued` where the grammar could not span it."""

    forest: Forest
    glued: bool


class Decoder:
    """Exact k-best parsing with one grammar.

    Args:
        grammar: rules, lexicon and heads.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._rules = rule_arrays(grammar.pcfg)
        self._heads = grammar.heads.compile(grammar.pcfg.categories).arrays

    def parse(self, tokens: Sequence[str], k: int) -> Parse:
        """The k best distinct trees of a sentence; fewer where the grammar has no more.

        The list is exact: the window below the best tree grows until k trees lie within it.

        Args:
            tokens: at least one token, escaped as in trees.
            k: at least 1.
        """
        emissions = self.grammar.lexicon.emissions(tokens)
        n = len(tokens)
        chart = inside_chart(n, emissions.ptr, emissions.symbol, emissions.logp, self._rules)
        candidates, glued = self._candidates(n, k, chart, emissions)
        arrays = binarize_candidates(
            candidates, len(self.grammar.pcfg.categories), self._heads
        )
        return Parse(Forest(*arrays, candidates.logp), glued)

    def _candidates(
        self, n: int, k: int, chart: Chart, emissions: Emissions
    ) -> tuple[Candidates, bool]:
        root = find_item(chart, cell_index(0, n), self._rules.root)
        glue = glue_scores(n, chart, self._rules) if root < 0 else None
        best = float(chart.inside[root] if glue is None else glue[0])
        lex_item = lexical_items(chart, emissions.ptr, emissions.symbol)
        window = FIRST_WINDOW if k > 1 else 0.5
        while True:
            candidates, pruned = self._within(
                n, k, chart, emissions, lex_item, root, glue, best - window
            )
            if len(candidates.root) >= k or not pruned or window > WIDEST_WINDOW:
                return candidates, glue is not None
            window *= WINDOW_FACTOR

    def _within(
        self,
        n: int,
        k: int,
        chart: Chart,
        emissions: Emissions,
        lex_item: np.ndarray,
        root: int,
        glue: np.ndarray | None,
        threshold: float,
    ) -> tuple[Candidates, bool]:
        """The k best trees with a log probability of at least `threshold`."""
        items = len(chart.symbol)
        outside = np.full(items + 1, NEG_INF)
        category = np.append(self._rules.category[chart.symbol], np.int32(0))
        partial = np.append(self._rules.partial[chart.symbol], False)
        epsilon = -1
        if glue is None:
            outside[root] = 0.0
            graph = prune(n, chart, self._rules, outside, threshold)
        else:
            extra = glue_edges(n, chart, self._rules, glue, outside, threshold)
            graph = with_glue(n, prune(n, chart, self._rules, outside, threshold), *extra)
            root, epsilon = items + 1, items + 1 + n
            top = self._rules.category[self._rules.root]
            category = np.append(category, np.full(n + 1, top, np.int32))
            partial = np.append(partial, np.arange(n + 1) > 0)
        problem = Problem(
            k, threshold - TOLERANCE, n, graph, category, partial, emissions.ptr, lex_item,
            emissions.logp,
        )
        found, dropped = enumerate_trees(problem, root, epsilon)
        return found, bool(graph.pruned or dropped)

