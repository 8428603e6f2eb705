"""Trees for sentences that the grammar cannot span: glue rules.

The root takes a sequence of constituents, as few as possible, each at a penalty so large that no
tree with glue competes with one without.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rnnparse.inference.cky import NEG_INF, cell_index
from rnnparse.inference.outside import Hypergraph

PENALTY = -1000.0  # log probability of each piece


@njit(cache=True, nogil=True)
def glue_scores(n, chart, rules):  # type: ignore[no-untyped-def]
    """[n+1] float64: best log probability of glued pieces from each token to the end."""
    best = np.full(n + 1, NEG_INF)
    best[n] = 0.0
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n + 1):
            cell = cell_index(i, j)
            for item in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
                symbol = chart.symbol[item]
                if not rules.partial[symbol] and symbol != rules.root:
                    best[i] = max(best[i], PENALTY + chart.inside[item] + best[j])
    return best


@njit(cache=True, nogil=True)
def glue_edges(n, chart, rules, best, outside, threshold):  # type: ignore[no-untyped-def]
    """Edges of glue within the threshold; fills the outside scores of the pieces.

    Item `items + i` stands for the glued pieces from token i on, `items + n` for no piece.

    Returns:
        ptr [n+1] (edges of the piece that begins at each token), parent, left, right (int32) and
        the outside scores of the n+1 glue items.
    """
    items = chart.symbol.shape[0]
    glue_outside = np.full(n + 1, NEG_INF)
    glue_outside[0] = 0.0
    ptr = np.zeros(n + 1, np.int64)
    parent, left, right = [np.int32(0)], [np.int32(0)], [np.int32(0)]
    for i in range(n):
        if glue_outside[i] > NEG_INF:
            for j in range(i + 1, n + 1):
                cell = cell_index(i, j)
                for item in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
                    symbol = chart.symbol[item]
                    if rules.partial[symbol] or symbol == rules.root:
                        continue
                    above = glue_outside[i] + PENALTY
                    if above + chart.inside[item] + best[j] < threshold:
                        continue
                    outside[item] = max(outside[item], above + best[j])
                    glue_outside[j] = max(glue_outside[j], above + chart.inside[item])
                    parent.append(np.int32(items + i))
                    left.append(np.int32(item))
                    right.append(np.int32(items + j))
        ptr[i + 1] = len(parent) - 1
    return ptr, np.array(parent[1:]), np.array(left[1:]), np.array(right[1:]), glue_outside


def with_glue(n: int, graph: Hypergraph, glue: tuple[np.ndarray, ...]) -> Hypergraph:
    """Put the cells of glue above those of the chart."""
    ptr, parent, left, right, glue_outside = glue
    return graph._replace(
        cell=np.concatenate([n * (n + 1) // 2 + np.arange(n), graph.cell]),
        binary_ptr=np.concatenate([ptr, graph.binary_ptr[1:] + len(parent)]),
        unary_ptr=np.concatenate([np.zeros(n, np.int64), graph.unary_ptr]),
        parent=np.concatenate([parent, graph.parent]),
        left=np.concatenate([left, graph.left]),
        right=np.concatenate([right, graph.right]),
        logp=np.concatenate([np.full(len(parent), PENALTY), graph.logp]),
        outside=np.concatenate([graph.outside, glue_outside]),
        pruned=True,
    )
