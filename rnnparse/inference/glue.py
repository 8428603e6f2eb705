"""Trees for sentences that the grammar cannot span: glue rules.

The root takes a sequence of constituents, as few as possible, each at a penalty so large that no
tree with glue competes with one without.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rnnparse.inference.cky import NEG_INF, cell_index
from rnnparse.inference.outside import Edges, Hypergraph, more_edges, new_edges, put_edge

PENALTY = -1000.0  # log probability of each piece


@njit(cache=True, nogil=True)
def _is_piece(symbol, rules):
    return not rules.partial[symbol] and symbol != rules.root


@njit(cache=True, nogil=True)
def glue_scores(n, chart, rules):
    """[n+1] float64: best log probability of glued pieces from each token to the end."""
    best = np.full(n + 1, NEG_INF)
    best[n] = 0.0
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n + 1):
            cell = cell_index(i, j)
            for item in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
                if _is_piece(chart.symbol[item], rules):
                    best[i] = max(best[i], PENALTY + chart.inside[item] + best[j])
    return best


@njit(cache=True, nogil=True)
def glue_edges(n, chart, rules, best, outside, threshold):
    """Edges of glue within the threshold; fills the outside scores of the pieces.

    Item `items + 1 + i` stands for the glued pieces from token i on, the last one for no piece.

    Returns:
        ptr [n+1] int64 (edges of the piece that begins at each token), the `Edges` and the
        outside scores [n+1] of the glue items.
    """
    base = chart.symbol.shape[0] + 1
    glue_outside = np.full(n + 1, NEG_INF)
    glue_outside[0] = 0.0
    ptr = np.zeros(n + 1, np.int64)
    edges = new_edges(1024)
    count = 0
    for i in range(n):
        above = glue_outside[i] + PENALTY
        for j in range(i + 1, n + 1):
            cell = cell_index(i, j)
            for item in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
                if not _is_piece(chart.symbol[item], rules):
                    continue
                if not above + chart.inside[item] + best[j] >= threshold:
                    continue
                outside[item] = max(outside[item], above + best[j])
                glue_outside[j] = max(glue_outside[j], above + chart.inside[item])
                if count == edges.parent.shape[0]:
                    edges = more_edges(edges)
                put_edge(edges, count, base + i, item, base + j, PENALTY, False)
                count += 1
        ptr[i + 1] = count
    return ptr, edges, glue_outside


def with_glue(
    n: int, graph: Hypergraph, ptr: np.ndarray, edges: Edges, glue_outside: np.ndarray
) -> Hypergraph:
    """Put the cells of glue above those of the chart."""
    count = int(ptr[-1])
    return graph._replace(
        cell=np.concatenate([n * (n + 1) // 2 + np.arange(n), graph.cell]),
        edge_ptr=np.concatenate([ptr, graph.edge_ptr[1:] + count]),
        edges=Edges(
            *(np.concatenate([a[:count], b]) for a, b in zip(edges, graph.edges, strict=True))
        ),
        outside=np.concatenate([graph.outside, glue_outside]),
        pruned=True,
    )
