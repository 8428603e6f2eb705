"""From the tag states of a sentence to its forest, as one kernel.

The list is exact: a window below the best score grows until it holds k trees, or all trees. A
window with far too many derivations is narrowed, because with many unary chains the number of trees
in a wide window grows exponentially.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import cell_index, find_item
from rnnparse.inference.cky import inside_chart
from rnnparse.inference.glue import glue_graph, glue_scores
from rnnparse.inference.hypergraph import EDGES, add_vertex, new_graph
from rnnparse.inference.kbest import enumerate_trees, no_candidates
from rnnparse.inference.pruning import prune
from rnnparse.inference.rebinarize import binarize_candidates

TOLERANCE = 1e-9  # tolerance for sums in another order
WIDEST_WINDOW = 1e9
NARROWEST = 0.1  # nats; smaller differences between windows do not count


@njit(cache=True, nogil=True)
def _root_graph(n, chart, rules, root):
    graph = new_graph(n, chart.symbol.shape[0])
    add_vertex(graph.vertices, graph.size, 0.0, rules.category[rules.root], False)
    graph.vertex_of[root] = 0
    return graph


@njit(cache=True, nogil=True)
def _lexical_vertices(chart, graph, lex_ptr, lex_symbol):
    """int32: the vertex of each token's tag states, or -1."""
    vertices = np.empty(lex_symbol.shape[0], np.int32)
    for i in range(lex_ptr.shape[0] - 1):
        cell = cell_index(i, i + 1)
        for t in range(lex_ptr[i], lex_ptr[i + 1]):
            item = find_item(chart.cell_ptr, chart.symbol, cell, lex_symbol[t])
            vertices[t] = graph.vertex_of[item]
    return vertices


@njit(cache=True, nogil=True)
def best_forest(
    n, k, lex_ptr, lex_symbol, lex_logp, rules, window, factor, effort, categories, heads, stop
):
    """The k best distinct trees of a sentence.

    Args:
        n: number of tokens.
        k: number of trees; fewer if the grammar has fewer.
        lex_ptr, lex_symbol, lex_logp: the tag states of each token, as for `inside_chart`.
        rules: a `RuleArrays`.
        window: initial window below the best score, in nats.
        factor: growth of the window while it holds fewer than k trees.
        effort: most derivations in a window, beyond one per rule application; a window with more
            is narrowed.
        categories: number C of basic categories.
        heads: arrays of a compiled head table over those categories.
        stop [1]: uint8 that another thread may set to stop this one soon.

    Returns:
        The arrays of a `Forest` (those of its nodes and `root` as a tuple, then `logp`), and
        whether the trees are glued. The result is meaningless if `stop` was set.
    """
    chart = inside_chart(n, lex_ptr, lex_symbol, lex_logp, rules, stop)
    root = find_item(chart.cell_ptr, chart.symbol, cell_index(0, n), rules.root)
    glued = root < 0
    glue = glue_scores(n, chart, rules) if glued else np.empty(0)
    best = glue[0] if glued else chart.inside[root]
    candidates = no_candidates()
    low, high = 0.0, np.inf
    while not stop[0]:
        threshold = best - window - TOLERANCE
        if glued:
            graph, few_pieces = glue_graph(n, chart, rules, glue, threshold)
        else:
            graph, few_pieces = _root_graph(n, chart, rules, root), False
        graph, pruned = prune(n, chart, rules, graph, threshold, stop)
        lex_vertex = _lexical_vertices(chart, graph, lex_ptr, lex_symbol)
        candidates, dropped, ended = enumerate_trees(
            n,
            k,
            threshold,
            2 * categories,
            graph,
            lex_ptr,
            lex_vertex,
            lex_logp,
            n if glued else -1,
            effort + 2 * graph.size[EDGES] + lex_symbol.shape[0],
            stop,
        )
        complete = ended and not (few_pieces or pruned or dropped)
        if candidates.root.shape[0] >= k or complete or (ended and window > WIDEST_WINDOW):
            break
        low, high = (window, high) if ended else (low, window)
        if high == np.inf:
            window *= factor
        elif high - low > NARROWEST:
            window = (low + high) / 2
        else:  # very many trees are equally good
            effort = 4 * effort + 1
            window, high = high, np.inf
    return binarize_candidates(candidates, categories, heads), candidates.logp, glued
