"""The max-outside pass: what of the chart can be part of a tree within T of the best.

It walks the chart from the root down. An edge (a rule applied to items) is kept when the best
tree that uses it has a log probability of at least `threshold`; everything else cannot occur in
any tree that good, so that k-best enumeration over the kept edges is exact down to `threshold`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.inference.cky import NEG_INF, cell_index, grow_int


class Hypergraph(NamedTuple):
    """Kept edges, grouped by cell; cells from the root down, so reversed they go bottom-up.

    Attributes:
        cell [L]: number of each live cell.
        binary_ptr [L+1]: binary edges of each live cell.
        unary_ptr [L+1]: unary edges of each live cell, those of one child side by side.
        parent, left, right, logp: binary edges, by item number.
        unary_parent, unary_child, unary_logp, unary_link: unary edges.
        outside [items]: max-outside log probability, -inf where never reached.
        pruned: whether the threshold left anything out.
    """

    cell: np.ndarray
    binary_ptr: np.ndarray
    unary_ptr: np.ndarray
    parent: np.ndarray
    left: np.ndarray
    right: np.ndarray
    logp: np.ndarray
    unary_parent: np.ndarray
    unary_child: np.ndarray
    unary_logp: np.ndarray
    unary_link: np.ndarray
    outside: np.ndarray
    pruned: bool


@njit(cache=True, nogil=True)
def _relax_unary(first, last, chart, out, position, outside, threshold, rules):  # type: ignore[no-untyped-def]
    """Push outside scores down the unary rules inside one cell, to the fixed point."""
    pruned = False
    changed = True
    while changed:
        changed = False
        for item in range(first, last):
            child = chart.symbol[item]
            for u in range(rules.child_ptr[child], rules.child_ptr[child + 1]):
                score = out[rules.unary_parent[u]] + rules.unary_logp[u]
                if score > outside[item]:
                    if score + chart.inside[item] >= threshold:
                        outside[item] = score
                        out[child] = score
                        changed = True
                    else:
                        pruned = True
    return pruned


@njit(cache=True, nogil=True)
def prune(n, chart, rules, outside, threshold):  # type: ignore[no-untyped-def]
    """Outside scores and the edges within the threshold.

    Args:
        n: number of tokens.
        chart: a filled `Chart`.
        rules: the same `RuleArrays`.
        outside [items] float64: 0 for the root item (or what glue rules give), else -inf;
            filled in place.
        threshold: the least log probability of a tree that matters.
    """
    symbols = rules.category.shape[0]
    live = np.empty(64, np.int64)
    binary_ptr = np.zeros(65, np.int64)
    unary_ptr = np.zeros(65, np.int64)
    e_parent = np.empty(1024, np.int32)
    e_left = np.empty(1024, np.int32)
    e_right = np.empty(1024, np.int32)
    e_logp = np.empty(1024, np.float64)
    u_parent = np.empty(256, np.int32)
    u_child = np.empty(256, np.int32)
    u_logp = np.empty(256, np.float64)
    u_link = np.empty(256, np.bool_)
    cells = edges = unaries = 0
    pruned = False
    out = np.full(symbols, NEG_INF)
    position = np.full(symbols, -1, np.int32)  # item of each symbol in the cell in work
    column = np.full((n + 1) * symbols, -1, np.int32)
    for j in range(n, 0, -1):
        first_cell = cell_index(j - 1, j)
        for c in range(first_cell, first_cell + j):
            base = (j - 1 - (c - first_cell)) * symbols
            for item in range(chart.cell_ptr[c], chart.cell_ptr[c + 1]):
                column[base + chart.symbol[item]] = item
        for i in range(j):
            cell = cell_index(i, j)
            first, last = chart.cell_ptr[cell], chart.cell_ptr[cell + 1]
            alive = False
            for item in range(first, last):
                out[chart.symbol[item]] = outside[item]
                position[chart.symbol[item]] = item
                alive = alive or outside[item] > NEG_INF
            if alive:
                if _relax_unary(first, last, chart, out, position, outside, threshold, rules):
                    pruned = True
                for item in range(first, last):
                    child = chart.symbol[item]
                    for u in range(rules.child_ptr[child], rules.child_ptr[child + 1]):
                        above = out[rules.unary_parent[u]]
                        if above == NEG_INF:
                            continue
                        if above + rules.unary_logp[u] + chart.inside[item] < threshold:
                            pruned = True
                            continue
                        u_parent = grow_int(u_parent, unaries + 1)
                        u_child = grow_int(u_child, unaries + 1)
                        u_logp = grow_int(u_logp, unaries + 1)
                        u_link = grow_int(u_link, unaries + 1)
                        u_parent[unaries] = position[rules.unary_parent[u]]
                        u_child[unaries] = item
                        u_logp[unaries] = rules.unary_logp[u]
                        u_link[unaries] = rules.unary_link[u]
                        unaries += 1
                for k in range(i + 1, j):
                    left_cell = cell_index(i, k)
                    base = k * symbols
                    for left_item in range(chart.cell_ptr[left_cell], chart.cell_ptr[left_cell + 1]):
                        left = chart.symbol[left_item]
                        left_score = chart.inside[left_item]
                        for r in range(rules.left_ptr[left], rules.left_ptr[left + 1]):
                            above = out[rules.parent[r]]
                            if above == NEG_INF:
                                continue
                            right_item = column[base + rules.right[r]]
                            if right_item < 0:
                                continue
                            right_score = chart.inside[right_item]
                            here = above + rules.logp[r]
                            if here + left_score + right_score < threshold:
                                pruned = True
                                continue
                            outside[left_item] = max(outside[left_item], here + right_score)
                            outside[right_item] = max(outside[right_item], here + left_score)
                            if edges == e_parent.shape[0]:
                                e_parent = grow_int(e_parent, edges + 1)
                                e_left = grow_int(e_left, edges + 1)
                                e_right = grow_int(e_right, edges + 1)
                                e_logp = grow_int(e_logp, edges + 1)
                            e_parent[edges] = position[rules.parent[r]]
                            e_left[edges] = left_item
                            e_right[edges] = right_item
                            e_logp[edges] = rules.logp[r]
                            edges += 1
                if cells + 1 >= live.shape[0]:
                    live = grow_int(live, cells + 2)
                    binary_ptr = grow_int(binary_ptr, cells + 3)
                    unary_ptr = grow_int(unary_ptr, cells + 3)
                live[cells] = cell
                cells += 1
                binary_ptr[cells] = edges
                unary_ptr[cells] = unaries
            for item in range(first, last):
                out[chart.symbol[item]] = NEG_INF
        for c in range(first_cell, first_cell + j):
            base = (j - 1 - (c - first_cell)) * symbols
            for item in range(chart.cell_ptr[c], chart.cell_ptr[c + 1]):
                column[base + chart.symbol[item]] = -1
    return Hypergraph(
        live[:cells], binary_ptr[: cells + 1], unary_ptr[: cells + 1],
        e_parent[:edges], e_left[:edges], e_right[:edges], e_logp[:edges],
        u_parent[:unaries], u_child[:unaries], u_logp[:unaries], u_link[:unaries],
        outside, pruned,
    )
