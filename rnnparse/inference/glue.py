"""Trees for sentences that the grammar cannot span: glue rules.

The root joins a sequence of constituents, as few as possible. Each has a penalty so large that a
glued tree never outranks another one.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF, cell_index
from rnnparse.inference.hypergraph import (
    EDGES,
    VERTICES,
    add_edge,
    add_vertex,
    end_cell,
    new_graph,
    with_room,
)
from rnnparse.inference.pruning import reach

PENALTY = -1000.0  # log probability of each piece


@njit(nogil=True)
def _best_piece(symbol, inside, partial, root):
    """Best log probability of a piece among the items of a cell.

    Only arrays as arguments: with `rules`, numba counts references in the loop, and it is slow.
    """
    best = NEG_INF
    for t in range(symbol.shape[0]):
        s = symbol[t]
        if inside[t] > best and not partial[s] and s != root:
            best = inside[t]
    return best


@njit(nogil=True)
def glue_scores(n, chart, rules, stop):
    """[n+1] float64: best log probability of glued constituents from each token to the end.

    The scores are meaningless once stop [1] is nonzero.
    """
    best = np.full(n + 1, NEG_INF)
    best[n] = 0.0
    for i in range(n - 1, -1, -1):
        if stop[0]:
            break
        for j in range(i + 1, n + 1):
            cell = cell_index(i, j)
            items = slice(chart.cell_ptr[cell], chart.cell_ptr[cell + 1])
            piece = _best_piece(chart.symbol[items], chart.inside[items], rules.partial, rules.root)
            best[i] = max(best[i], PENALTY + piece + best[j])
    return best


@njit(nogil=True)
def glue_graph(n, chart, rules, best, threshold, stop):
    """The glue within the threshold.

    Args:
        n: number of tokens.
        chart: an exact `Chart`.
        rules: its `RuleArrays`.
        best: the result of `glue_scores`.
        threshold: least log probability of a tree.
        stop [1]: nonzero to stop early, with an incomplete graph.

    Returns:
        A `Graph` in which vertex i is the glued sequence from token i on (so vertex 0 is the root)
        and vertex n the empty sequence; and whether the threshold excluded anything.
    """
    pruned = False
    graph = new_graph(n, chart.symbol.shape[0])
    top = rules.category[rules.root]
    for i in range(n + 1):
        outside = 0.0 if i == 0 else NEG_INF
        add_vertex(graph.vertices, graph.size, outside, -1, top, i > 0)
    for i in range(n):
        if stop[0]:
            break
        above = graph.vertices[i].outside + PENALTY
        for j in range(i + 1, n + 1):
            cell = cell_index(i, j)
            items = slice(chart.cell_ptr[cell], chart.cell_ptr[cell + 1])
            piece = _best_piece(chart.symbol[items], chart.inside[items], rules.partial, rules.root)
            if above + piece + best[j] < threshold:
                pruned |= above + piece + best[j] > NEG_INF
                continue
            for item in range(items.start, items.stop):
                s = chart.symbol[item]
                if rules.partial[s] or s == rules.root:
                    continue
                score = above + chart.inside[item] + best[j]
                if score < threshold:
                    pruned |= score > NEG_INF
                    continue
                graph = with_room(graph, graph.size[EDGES] + 1, graph.size[VERTICES] + 1)
                child, _ = reach(
                    item, above + best[j], chart.symbol, rules.category, rules.partial,
                    graph.vertex_of, graph.vertices, graph.size,
                )
                rest = graph.vertices[j]
                rest.outside = max(rest.outside, above + chart.inside[item])
                add_edge(graph.edges, graph.size, PENALTY, i, child, j, -1, False)
        end_cell(graph, i, n, True)
    return graph, pruned
