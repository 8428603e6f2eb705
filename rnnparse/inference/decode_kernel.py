"""From the tag states of a sentence to its forest, as one kernel.

A search space is filled first: the exact chart of the grammar, or its part within a pruned coarse
chart. The list is exact within that space: a window below the best score grows until it holds k
trees, or all trees. A window with far too many derivations is narrowed, because with many unary
chains the number of trees in a wide window grows exponentially.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.grammar.cell_kernel import cell_scores
from rnnparse.grammar.coarse_tags import coarse_emissions, likeliest_tags
from rnnparse.inference.chart import NEG_INF, cell_index, find_item
from rnnparse.inference.cky import inside_chart, no_beam
from rnnparse.inference.figure_of_merit import Neighbours, boundary_beam
from rnnparse.inference.glue import glue_graph, glue_scores
from rnnparse.inference.hypergraph import EDGES, root_graph
from rnnparse.inference.kbest import enumerate_trees, no_candidates
from rnnparse.inference.pruning import prune
from rnnparse.inference.rebinarize import binarize_candidates
from rnnparse.inference.refinement import prune_refined, refine
from rnnparse.inference.rule_classes import RuleClasses
from rnnparse.inference.rules import RuleArrays

TOLERANCE = 1e-9  # tolerance for sums in another order
WIDEST_WINDOW = 1e9
NARROWEST = 0.1  # nats; smaller differences between windows do not count
LOWEST = -1e300  # below all log probabilities, above that of the impossible


class CoarseSearch(NamedTuple):
    """What the coarse pass needs: the coarse grammar, and how it belongs to the grammar."""

    rules: RuleArrays
    classes: RuleClasses
    neighbours: Neighbours
    state_weight: np.ndarray  # [S] float64
    tag_weight: np.ndarray  # [N] float64
    tag_code: np.ndarray  # [N] int64
    cell_weights: np.ndarray  # float32: of the classifier of cells; empty to close none


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


class Sentence(NamedTuple):
    """The tag states of n tokens: those of token i are ptr[i]:ptr[i+1]."""

    ptr: np.ndarray  # [n+1] int64
    symbol: np.ndarray  # int32
    logp: np.ndarray  # float64: log P(word | symbol)


class Window(NamedTuple):
    """How far below the best tree the list reaches, in nats.

    Attributes:
        size: the present window.
        factor: growth of the window while it holds fewer than k trees.
        low, high: windows known to be too small, and to have too many derivations.
        effort: most derivations in a window, beyond one per rule application.
    """

    size: float
    factor: float
    low: float
    high: float
    effort: int


@njit(cache=True, nogil=True)
def first_window(size, factor, effort):
    """The `Window` to begin with."""
    return Window(size, factor, 0.0, np.inf, effort)


@njit(cache=True, nogil=True)
def _next_window(window, ended):
    """The next window after one that held too few trees, or (if not `ended`) too many."""
    size, factor, low, high, effort = window
    low, high = (size, high) if ended else (low, size)
    if high == np.inf:
        return Window(size * factor, factor, low, high, effort)
    if high - low > NARROWEST:
        return Window((low + high) / 2, factor, low, high, effort)
    return Window(high, factor, low, np.inf, 4 * effort + 1)  # many trees are equally good


@njit(cache=True, nogil=True)
def _candidates(n, k, threshold, categories, graph, sentence, lexical, glued, effort, stop):
    """The result of `enumerate_trees`; `lexical` is the item of each tag state, or -1."""
    vertex = np.empty(lexical.shape[0], np.int32)
    for t in range(lexical.shape[0]):
        vertex[t] = graph.vertex_of[lexical[t]] if lexical[t] >= 0 else -1
    return enumerate_trees(
        n, k, threshold, 2 * categories, graph, sentence.ptr, vertex, sentence.logp,
        n if glued else -1, effort + 2 * graph.size[EDGES] + lexical.shape[0], stop,
    )


@njit(cache=True, nogil=True)
def _lexical_items(chart, sentence):
    """int64: the item of each tag state in an exact chart."""
    items = np.empty(sentence.symbol.shape[0], np.int64)
    for i in range(sentence.ptr.shape[0] - 1):
        cell = cell_index(i, i + 1)
        for t in range(sentence.ptr[i], sentence.ptr[i + 1]):
            items[t] = find_item(chart.cell_ptr, chart.symbol, cell, sentence.symbol[t])
    return items


@njit(cache=True, nogil=True)
def exact_forest(k, sentence, rules, window, categories, heads, stop):
    """The k best distinct trees of a sentence, by exact search.

    Args:
        k: number of trees; fewer if the grammar has fewer.
        sentence: a `Sentence`.
        rules: a `RuleArrays`.
        window: the first `Window`.
        categories: number C of basic categories.
        heads: arrays of a compiled head table over those categories.
        stop [1]: uint8 that another thread may set to stop this one soon.

    Returns:
        The arrays of a `Forest` (those of its nodes and `root` as a tuple, then `logp`), and
        whether the trees are glued. The result is meaningless if `stop` was set.
    """
    n = sentence.ptr.shape[0] - 1
    chart = inside_chart(n, sentence.ptr, sentence.symbol, sentence.logp, rules, no_beam(), stop)
    lexical = _lexical_items(chart, sentence)
    root = find_item(chart.cell_ptr, chart.symbol, cell_index(0, n), rules.root)
    glued = root < 0
    glue = glue_scores(n, chart, rules) if glued else np.empty(0)
    best = glue[0] if glued else chart.inside[root]
    candidates = no_candidates()
    while not stop[0]:
        threshold = best - window.size - TOLERANCE
        if glued:
            graph, few_pieces = glue_graph(n, chart, rules, glue, threshold)
        else:
            graph = root_graph(n, chart.symbol.shape[0], root, rules)
            few_pieces = False
        graph, pruned = prune(n, chart, rules, graph, threshold, stop)
        candidates, dropped, ended = _candidates(
            n, k, threshold, categories, graph, sentence, lexical, glued, window.effort, stop
        )
        complete = ended and not (few_pieces or pruned or dropped)
        enough = candidates.root.shape[0] >= k or complete
        if enough or (ended and window.size > WIDEST_WINDOW):
            break
        window = _next_window(window, ended)
    return binarize_candidates(candidates, categories, heads), candidates.logp, glued


@njit(cache=True, nogil=True)
def _coarse_space(sentence, rules, coarse, limits, stop):
    """The coarse graph of a sentence and its `Refined` items."""
    n = sentence.ptr.shape[0] - 1
    ptr, tag, logp = coarse_emissions(
        sentence.ptr, sentence.symbol, sentence.logp, coarse.classes.coarse, coarse.state_weight
    )
    is_open = np.ones(n * (n + 1) // 2, np.bool_)
    if coarse.cell_weights.shape[0] > 0:
        tags = likeliest_tags(ptr, tag, logp, coarse.tag_weight, coarse.tag_code)
        is_open = cell_scores(tags, coarse.cell_weights) >= limits.least
    beam = boundary_beam(ptr, tag, logp, coarse.neighbours, limits.width, limits.depth, is_open)
    chart = inside_chart(n, ptr, tag, logp, coarse.rules, beam, stop)
    root = find_item(chart.cell_ptr, chart.symbol, cell_index(0, n), coarse.rules.root)
    graph = root_graph(n, chart.symbol.shape[0], root, coarse.rules)
    if root >= 0:
        threshold = max(chart.inside[root] - limits.margin, LOWEST)
        graph, _ = prune(n, chart, coarse.rules, graph, threshold, stop)
    refined = refine(graph, chart.cell_ptr, sentence, rules, coarse.classes, stop)
    return graph, refined


@njit(cache=True, nogil=True)
def pruned_forest(k, sentence, rules, coarse, limits, window, categories, heads, stop):
    """The k best distinct trees of a sentence within its pruned coarse chart.

    Args:
        k, sentence, rules, window, categories, heads, stop: as for `exact_forest`.
        coarse: a `CoarseSearch`.
        limits: the `Limits` of the coarse pass.

    Returns:
        The arrays of a `Forest`, which has no tree if there is none within the limits. The result
        is meaningless if `stop` was set.
    """
    n = sentence.ptr.shape[0] - 1
    space, refined = _coarse_space(sentence, rules, coarse, limits, stop)
    candidates = no_candidates()
    found = refined.symbol.shape[0] > 0 and refined.inside[refined.root] > NEG_INF
    while found and not stop[0]:
        threshold = refined.inside[refined.root] - window.size - TOLERANCE
        graph = root_graph(n, refined.symbol.shape[0], refined.root, rules)
        graph, pruned = prune_refined(
            space, refined, rules, coarse.classes, graph, threshold, stop
        )
        candidates, dropped, ended = _candidates(
            n, k, threshold, categories, graph, sentence, refined.lexical, False, window.effort,
            stop,
        )
        enough = candidates.root.shape[0] >= k or (ended and not (pruned or dropped))
        if enough or (ended and window.size > WIDEST_WINDOW):
            break
        window = _next_window(window, ended)
    return binarize_candidates(candidates, categories, heads), candidates.logp
