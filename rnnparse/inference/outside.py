"""The max-outside pass: what of the chart can be part of a tree within T of the best.

It walks the chart from the root down. An edge (a rule applied to items) is kept when the best
tree that uses it has a log probability of at least `threshold`; everything else cannot occur in
any tree that good, so that k-best enumeration over the kept edges is exact down to `threshold`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.inference.cky import (
    NEG_INF,
    cell_index,
    clear_column,
    find_item,
    grow,
    new_column,
)


class Edges(NamedTuple):
    """A list of edges, by item number; `right` is -1 in a unary edge."""

    parent: np.ndarray  # int32
    left: np.ndarray  # int32
    right: np.ndarray  # int32
    logp: np.ndarray  # float64
    link: np.ndarray  # bool


class Hypergraph(NamedTuple):
    """Kept edges, grouped by cell; cells from the root down, so reversed they go bottom-up.

    Attributes:
        cell [L] int64: number of each live cell.
        edge_ptr [L+1] int64: its edges, unary ones first and those of one child side by side.
        edges: an `Edges`.
        outside [items] float64: max-outside log probability, -inf where never reached.
        pruned: whether the threshold left anything out.
    """

    cell: np.ndarray
    edge_ptr: np.ndarray
    edges: Edges
    outside: np.ndarray
    pruned: bool


@njit(cache=True, nogil=True)
def new_edges(capacity):
    """Room for edges."""
    return Edges(
        np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32),
        np.empty(capacity, np.float64), np.empty(capacity, np.bool_),
    )


@njit(cache=True, nogil=True)
def more_edges(edges):
    """The same edges with room for twice as many."""
    size = 2 * edges.parent.shape[0]
    return Edges(
        grow(edges.parent, size), grow(edges.left, size), grow(edges.right, size),
        grow(edges.logp, size), grow(edges.link, size),
    )


@njit(cache=True, nogil=True)
def put_edge(edges, at, parent, left, right, logp, link):
    """Write an edge where there is room for it."""
    edges.parent[at] = parent
    edges.left[at] = left
    edges.right[at] = right
    edges.logp[at] = logp
    edges.link[at] = link


@njit(cache=True, nogil=True)
def _push_unary(first, last, chart, rules, item_of, outside, threshold):
    """Push outside scores down the unary rules of one cell, to their fixed point."""
    changed = True
    while changed:
        changed = False
        for child in range(first, last):
            s = chart.symbol[child]
            for u in range(rules.child_ptr[s], rules.child_ptr[s + 1]):
                score = outside[item_of[rules.unary_parent[u]]] + rules.unary_logp[u]
                if score > outside[child] and score + chart.inside[child] >= threshold:
                    outside[child] = score
                    changed = True


@njit(cache=True, nogil=True)
def _unary_edges(first, last, chart, rules, item_of, outside, threshold, edges, count):
    """List the unary edges kept in one cell, child by child.

    Returns:
        The new number of edges, or -1 where there was no room, and whether any was left out.
    """
    pruned = False
    for child in range(first, last):
        s = chart.symbol[child]
        for u in range(rules.child_ptr[s], rules.child_ptr[s + 1]):
            parent = item_of[rules.unary_parent[u]]
            above = outside[parent]
            if above == NEG_INF:
                continue
            if above + rules.unary_logp[u] + chart.inside[child] < threshold:
                pruned = True
                continue
            if count == edges.parent.shape[0]:
                return -1, pruned
            put_edge(
                edges, count, parent, child, -1, rules.unary_logp[u], rules.unary_link[u]
            )
            count += 1
    return count, pruned


@njit(cache=True, nogil=True)
def _binary_edges(i, j, chart, rules, column, outside, threshold, edges, count):
    """List the binary edges kept in cell (i, j) and push outside scores to their children.

    Scores of children are looked up in the rows of the chart and in the column; only for the few
    edges that are kept, the children's items are searched for.

    Returns:
        The new number of edges, or -1 where there was no room (what was pushed stays, and is
        pushed again to no effect), and whether any was left out.
    """
    rows, pruned = chart.rows, False
    cell = cell_index(i, j)
    for parent in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
        above = outside[parent]
        if above == NEG_INF:
            continue
        s = chart.symbol[parent]
        for r in range(rules.parent_ptr[s], rules.parent_ptr[s + 1]):
            a, b = rules.left_of[r], rules.right_of[r]
            x = rows.slot[i, a]
            if x < 0:
                continue
            here = above + rules.logp_of[r]
            for k in range(
                max(rows.low[x], column.low[b]), min(rows.high[x], column.high[b]) + 1
            ):
                one, other = rows.score[rows.start[x] + k], column.score[b * column.width + k]
                if here + one + other < threshold:
                    pruned = pruned or one + other > NEG_INF
                    continue
                if count == edges.parent.shape[0]:
                    return -1, pruned
                left = find_item(chart, cell_index(i, k), rules.left_symbol[a])
                right = find_item(chart, cell_index(k, j), rules.right_symbol[b])
                outside[left] = max(outside[left], here + other)
                outside[right] = max(outside[right], here + one)
                put_edge(edges, count, parent, left, right, rules.logp_of[r], False)
                count += 1
    return count, pruned


@njit(cache=True, nogil=True)
def _load_column(j, chart, rules, column):
    """Enter the right children that end at j."""
    for k in range(j):
        cell = cell_index(k, j)
        for t in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
            b = rules.right_number[chart.symbol[t]]
            if b >= 0:
                column.score[b * column.width + k] = chart.inside[t]
                column.low[b] = min(column.low[b], k)
                column.high[b] = k


@njit(cache=True, nogil=True)
def _alive(first, last, outside):
    for t in range(first, last):
        if outside[t] > NEG_INF:
            return True
    return False


@njit(cache=True, nogil=True)
def _cell_edges(i, j, chart, rules, column, item_of, outside, threshold, edges, count):
    """The edges kept in cell (i, j), as `_unary_edges` and `_binary_edges`."""
    cell = cell_index(i, j)
    first, last = chart.cell_ptr[cell], chart.cell_ptr[cell + 1]
    for t in range(first, last):
        item_of[chart.symbol[t]] = t
    _push_unary(first, last, chart, rules, item_of, outside, threshold)
    count, pruned = _unary_edges(
        first, last, chart, rules, item_of, outside, threshold, edges, count
    )
    for t in range(first, last):
        item_of[chart.symbol[t]] = chart.symbol.shape[0]
    if count < 0:
        return count, pruned
    count, cut = _binary_edges(i, j, chart, rules, column, outside, threshold, edges, count)
    return count, pruned or cut


@njit(cache=True, nogil=True)
def prune(n, chart, rules, outside, threshold):
    """Outside scores and the edges within the threshold.

    Args:
        n: number of tokens.
        chart: a filled `Chart`.
        rules: the same `RuleArrays`.
        outside [items + 1] float64: 0 for the root item (or what glue rules give), else -inf;
            filled in place. The last entry stays -inf: it stands for symbols a cell lacks.
        threshold: the least log probability of a tree that matters.

    Returns:
        A `Hypergraph`.
    """
    live = np.empty(n * (n + 1) // 2, np.int64)
    edge_ptr = np.zeros(n * (n + 1) // 2 + 1, np.int64)
    edges = new_edges(4096)
    lives = 0
    pruned = False
    item_of = np.full(rules.category.shape[0], chart.symbol.shape[0], np.int64)
    column = new_column(rules.right_symbol.shape[0], n + 1)
    for j in range(n, 0, -1):
        _load_column(j, chart, rules, column)
        for i in range(j):
            cell = cell_index(i, j)
            if not _alive(chart.cell_ptr[cell], chart.cell_ptr[cell + 1], outside):
                continue
            count, cut = np.int64(-1), False
            while count < 0:
                count, cut = _cell_edges(
                    i, j, chart, rules, column, item_of, outside, threshold, edges,
                    edge_ptr[lives],
                )
                if count < 0:
                    edges = more_edges(edges)
            pruned = pruned or cut
            live[lives] = cell
            lives += 1
            edge_ptr[lives] = count
        clear_column(column)
    count = edge_ptr[lives]
    kept = Edges(
        edges.parent[:count], edges.left[:count], edges.right[:count], edges.logp[:count],
        edges.link[:count],
    )
    return Hypergraph(live[:lives], edge_ptr[: lives + 1], kept, outside, pruned)
