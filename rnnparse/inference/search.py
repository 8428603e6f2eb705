"""The whole way from tag states to a forest as one kernel, called once a sentence.

The list is exact: a window below the best tree grows until k trees lie within it or nothing lies
outside.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rnnparse.inference.cky import cell_index, find_item, inside_chart
from rnnparse.inference.glue import glue_graph, glue_scores
from rnnparse.inference.graph import add_vertex, new_graph
from rnnparse.inference.kbest import enumerate_trees
from rnnparse.inference.outside import prune
from rnnparse.inference.rebinarize import binarize_candidates

TOLERANCE = 1e-9  # rounding of sums in another order
WIDEST_WINDOW = 1e9


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
def best_forest(n, k, lex_ptr, lex_symbol, lex_logp, rules, window, factor, categories, heads):
    """The k best distinct trees of a sentence.

    Args:
        n: number of tokens.
        k: how many trees are wanted; fewer where the grammar has no more.
        lex_ptr, lex_symbol, lex_logp: the tag states of each token, as for `inside_chart`.
        rules: a `RuleArrays`.
        window: how far below the best tree (in nats) to look first.
        factor: by how much the window grows as long as it holds fewer than k trees.
        categories: number C of basic categories.
        heads: arrays of a compiled head table over those categories.

    Returns:
        The arrays of a `Forest`, first those of its nodes and `root` together, then `logp`; and
        whether the trees are glued.
    """
    chart = inside_chart(n, lex_ptr, lex_symbol, lex_logp, rules)
    root = find_item(chart.cell_ptr, chart.symbol, cell_index(0, n), rules.root)
    glued = root < 0
    glue = glue_scores(n, chart, rules) if glued else np.empty(0)
    best = glue[0] if glued else chart.inside[root]
    while True:
        threshold = best - window - TOLERANCE
        if glued:
            graph, few_pieces = glue_graph(n, chart, rules, glue, threshold)
        else:
            graph, few_pieces = _root_graph(n, chart, rules, root), False
        graph, pruned = prune(n, chart, rules, graph, threshold)
        lex_vertex = _lexical_vertices(chart, graph, lex_ptr, lex_symbol)
        candidates, dropped = enumerate_trees(
            n, k, threshold, 2 * categories, graph, lex_ptr, lex_vertex, lex_logp,
            n if glued else -1,
        )
        complete = not (few_pieces or pruned or dropped)
        if candidates.root.shape[0] >= k or complete or window > WIDEST_WINDOW:
            return binarize_candidates(candidates, categories, heads), candidates.logp, glued
        window *= factor
