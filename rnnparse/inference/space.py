"""The part of a sentence's chart that is searched, and the hypergraphs near its best tree.

A space is filled first: the exact chart of the grammar, or its part within a pruned coarse chart.
`within` then gives the rule applications in trees within a window below the best score, for one
window after another.

The steps are kernels. One kernel for all of them would take longer to compile.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from rnnparse.grammar.cell_kernel import cell_scores
from rnnparse.grammar.coarse import coarse_grammar
from rnnparse.grammar.coarse_tags import coarse_emissions, likeliest_tags
from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.lexicon import Emissions
from rnnparse.inference.chart import NEG_INF, cell_index, find_item, lexical_items
from rnnparse.inference.cky import inside_chart, no_beam
from rnnparse.inference.figure_of_merit import Neighbours, boundary_beam
from rnnparse.inference.glue import glue_graph, glue_scores
from rnnparse.inference.hypergraph import EDGES, Graph, root_graph
from rnnparse.inference.pruning import UNLIMITED, prune
from rnnparse.inference.refinement import prune_refined, refine
from rnnparse.inference.rule_classes import RuleClasses, rule_classes
from rnnparse.inference.rules import RuleArrays, rule_arrays

LOWEST = -1e300  # below all log probabilities, above that of the impossible


class OverBudget(Exception):
    """A sentence has to be divided."""


class Sentence(NamedTuple):
    """The tag states of n tokens: those of token i are ptr[i]:ptr[i+1]."""

    ptr: np.ndarray  # [n+1] int64
    symbol: np.ndarray  # int32
    logp: np.ndarray  # float64: log P(word | symbol)

    @classmethod
    def of(cls, emissions: Emissions) -> Sentence:
        return cls(emissions.ptr, emissions.symbol, emissions.logp)


class Space(Protocol):
    """What is searched for the trees of a sentence.

    Attributes:
        sentence: the tag states of its tokens.
        lexical: int64, the item of each tag state, or -1.
        best: log probability of the best tree, -inf if there is none.
        glued: whether the trees join partial trees under the root.
    """

    sentence: Sentence
    lexical: np.ndarray
    best: float
    glued: bool

    def within(self, threshold: float, stop: np.ndarray) -> tuple[Graph, bool]:
        """The hypergraph of trees with a log probability of at least `threshold`.

        Returns:
            The graph, and whether the threshold excluded anything.
        """


class ExactSpace:
    """All trees of a sentence; glued ones if the grammar cannot span it.

    Args:
        sentence: the sentence.
        rules: the rules of the grammar.
        stop [1]: uint8 that another thread may set to stop this one soon. The space is then
            meaningless.
    """

    def __init__(self, sentence: Sentence, rules: RuleArrays, stop: np.ndarray) -> None:
        n = len(sentence.ptr) - 1
        self.sentence, self._rules = sentence, rules
        self._chart = chart = inside_chart(n, *sentence, rules, no_beam(), stop)
        self.lexical = lexical_items(chart, sentence)
        self._root = int(find_item(chart.cell_ptr, chart.symbol, cell_index(0, n), rules.root))
        self.glued = self._root < 0
        self._glue = glue_scores(n, chart, rules, stop) if self.glued else np.empty(0)
        self.best = float(self._glue[0] if self.glued else chart.inside[self._root])

    def within(self, threshold: float, stop: np.ndarray) -> tuple[Graph, bool]:
        """See `Space`."""
        n, chart, rules = len(self.sentence.ptr) - 1, self._chart, self._rules
        if self.glued:
            graph, few_pieces = glue_graph(n, chart, rules, self._glue, threshold, stop)
        else:
            graph, few_pieces = root_graph(n, len(chart.symbol), self._root, rules), False
        graph, pruned = prune(n, chart, rules, graph, threshold, stop, UNLIMITED)
        return graph, few_pieces or pruned


class Limits(NamedTuple):
    """How far the coarse pass searches, in nats.

    Attributes:
        margin: a coarse edge is kept if the best coarse tree with it is at most so far below the
            best coarse tree.
        width, depth: of the beam; see `boundary_beam`.
        least: the lowest score of an open cell; see `rnnparse.grammar.CellClosing`.
    """

    margin: float
    width: float
    depth: float
    least: float


class CoarseSearch(NamedTuple):
    """What the coarse pass needs: the coarse grammar, and how it belongs to the grammar."""

    rules: RuleArrays
    classes: RuleClasses
    neighbours: Neighbours
    state_weight: np.ndarray  # [S] float64
    tag_weight: np.ndarray  # [N] float64
    tag_code: np.ndarray  # [N] int64
    cell_weights: np.ndarray  # float32: of the classifier of cells; empty to close none


def coarse_search(grammar: Grammar, rules: RuleArrays) -> CoarseSearch:
    """Prepare the coarse pass for a grammar; `rules` are its rule arrays."""
    pcfg, closing = grammar.pcfg, grammar.closing
    coarse = coarse_grammar(pcfg, grammar.lexicon.states())
    return CoarseSearch(
        rule_arrays(coarse.pcfg),
        rule_classes(pcfg, rules, coarse.pcfg, coarse.coarse),
        Neighbours(coarse.tag_number, coarse.begins, coarse.ends, coarse.transitions),
        coarse.state_weight,
        coarse.tag_weight,
        coarse.tag_code,
        np.empty(0, np.float32) if closing is None else closing.weights,
    )


class PrunedSpace:
    """The trees of a sentence within its pruned coarse chart, which may lack a tree.

    Args:
        sentence: the sentence.
        rules: the rules of the grammar.
        coarse: the coarse grammar.
        limits: how far the coarse pass searches.
        stop [1]: uint8 that another thread may set to stop this one soon. The space is then
            meaningless.
        most: edges of the pruned coarse chart.

    Raises:
        OverBudget: the pruned coarse chart has more edges.
    """

    glued = False

    def __init__(
        self,
        sentence: Sentence,
        rules: RuleArrays,
        coarse: CoarseSearch,
        limits: Limits,
        stop: np.ndarray,
        most: int = UNLIMITED,
    ) -> None:
        self.sentence, self._rules, self._classes = sentence, rules, coarse.classes
        self.coarse, cell_ptr = _coarse_graph(sentence, coarse, limits, stop, most)
        if self.coarse.size[EDGES] > most and len(sentence.ptr) > 2:  # a token cannot be divided
            raise OverBudget
        self.refined = refine(self.coarse, cell_ptr, sentence, rules, coarse.classes, stop)
        self.lexical = self.refined.lexical
        items = self.refined.inside
        self.best = float(items[self.refined.root]) if len(items) else NEG_INF

    def within(self, threshold: float, stop: np.ndarray) -> tuple[Graph, bool]:
        """See `Space`."""
        n, items = len(self.sentence.ptr) - 1, len(self.refined.symbol)
        graph = root_graph(n, items, self.refined.root, self._rules)
        kept: tuple[Graph, bool] = prune_refined(
            self.coarse, self.refined, self._rules, self._classes, graph, threshold, stop
        )
        return kept


def _coarse_graph(
    sentence: Sentence, coarse: CoarseSearch, limits: Limits, stop: np.ndarray, most: int
) -> tuple[Graph, np.ndarray]:
    """The pruned coarse hypergraph, without a vertex if there is no tree; offsets of its cells."""
    n = len(sentence.ptr) - 1
    ptr, tag, logp = coarse_emissions(*sentence, coarse.classes.coarse, coarse.state_weight)
    is_open = np.ones(n * (n + 1) // 2, np.bool_)
    if len(coarse.cell_weights):
        tags = likeliest_tags(ptr, tag, logp, coarse.tag_weight, coarse.tag_code)
        is_open = cell_scores(tags, coarse.cell_weights) >= limits.least
    beam = boundary_beam(ptr, tag, logp, coarse.neighbours, limits.width, limits.depth, is_open)
    chart = inside_chart(n, ptr, tag, logp, coarse.rules, beam, stop)
    root = int(find_item(chart.cell_ptr, chart.symbol, cell_index(0, n), coarse.rules.root))
    graph = root_graph(n, len(chart.symbol), root, coarse.rules)
    if root >= 0:
        threshold = max(float(chart.inside[root]) - limits.margin, LOWEST)
        graph, _ = prune(n, chart, coarse.rules, graph, threshold, stop, most)
    return graph, chart.cell_ptr
