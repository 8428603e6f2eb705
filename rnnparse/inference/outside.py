"""The max-outside pass: what of the chart can be part of a tree within T of the best.

It walks the chart from the root down. An edge (a rule applied to items) is kept when the best
tree that uses it has a log probability of at least `threshold`; everything else cannot occur in
any tree that good, so that k-best enumeration over the kept edges is exact down to `threshold`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.inference.cky import NEG_INF, cell_index, grow


class Edges(NamedTuple):
    """A growing list of edges, by item number; `right` is -1 in a unary edge."""

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


class Positions(NamedTuple):
    """Items of a row or a column: entry s*width + k is symbol s at split point k, or -1."""

    item: np.ndarray  # int32
    low: np.ndarray
    high: np.ndarray
    width: int


@njit(cache=True, nogil=True)
def _new_positions(symbols, width):  # type: ignore[no-untyped-def]
    return Positions(
        np.full(symbols * width, -1, np.int32),
        np.full(symbols, width, np.int32),
        np.full(symbols, -1, np.int32),
        width,
    )


@njit(cache=True, nogil=True)
def _place(positions, chart, cell, k):  # type: ignore[no-untyped-def]
    """Enter the items of a cell at split point k."""
    for t in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
        s = chart.symbol[t]
        positions.item[s * positions.width + k] = t
        positions.low[s] = min(positions.low[s], k)
        positions.high[s] = max(positions.high[s], k)


@njit(cache=True, nogil=True)
def _clear(positions, chart, cell, k):  # type: ignore[no-untyped-def]
    for t in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
        s = chart.symbol[t]
        positions.item[s * positions.width + k] = -1
        positions.low[s] = positions.width
        positions.high[s] = -1


@njit(cache=True, nogil=True)
def add_edge(edges, count, parent, left, right, logp, link):  # type: ignore[no-untyped-def]
    """Append an edge; returns the list, maybe moved to a larger place."""
    if count == edges.parent.shape[0]:
        edges = Edges(
            grow(edges.parent, count + 1), grow(edges.left, count + 1),
            grow(edges.right, count + 1), grow(edges.logp, count + 1), grow(edges.link, count + 1),
        )
    edges.parent[count] = parent
    edges.left[count] = left
    edges.right[count] = right
    edges.logp[count] = logp
    edges.link[count] = link
    return edges


@njit(cache=True, nogil=True)
def new_edges(capacity):  # type: ignore[no-untyped-def]
    """An empty list of edges."""
    return Edges(
        np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32),
        np.empty(capacity, np.float64), np.empty(capacity, np.bool_),
    )


@njit(cache=True, nogil=True)
def _unary_edges(cell, chart, rules, item_of, outside, threshold, edges, count):  # type: ignore[no-untyped-def]
    """Push outside scores down the unary rules of one cell, then list the edges kept."""
    first, last = chart.cell_ptr[cell], chart.cell_ptr[cell + 1]
    pruned = False
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
            edges = add_edge(
                edges, count, parent, child, -1, rules.unary_logp[u], rules.unary_link[u]
            )
            count += 1
    return edges, count, pruned


@njit(cache=True, nogil=True)
def _binary_edges(cell, chart, rules, row, column, outside, threshold, edges, count):  # type: ignore[no-untyped-def]
    """List the binary edges kept in one cell and push outside scores to their children."""
    pruned = False
    for parent in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
        above = outside[parent]
        if above == NEG_INF:
            continue
        s = chart.symbol[parent]
        for r in range(rules.parent_ptr[s], rules.parent_ptr[s + 1]):
            a, b = rules.left_of[r], rules.right_of[r]
            here = above + rules.logp_of[r]
            low, high = max(row.low[a], column.low[b]), min(row.high[a], column.high[b])
            for k in range(low, high + 1):
                left, right = row.item[a * row.width + k], column.item[b * column.width + k]
                if left < 0 or right < 0:
                    continue
                if here + chart.inside[left] + chart.inside[right] < threshold:
                    pruned = True
                    continue
                outside[left] = max(outside[left], here + chart.inside[right])
                outside[right] = max(outside[right], here + chart.inside[left])
                edges = add_edge(edges, count, parent, left, right, rules.logp_of[r], False)
                count += 1
    return edges, count, pruned


@njit(cache=True, nogil=True)
def _alive(chart, cell, outside):  # type: ignore[no-untyped-def]
    for t in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
        if outside[t] > NEG_INF:
            return True
    return False


@njit(cache=True, nogil=True)
def prune(n, chart, rules, outside, threshold):  # type: ignore[no-untyped-def]
    """Outside scores and the edges within the threshold.

    Args:
        n: number of tokens.
        chart: a filled `Chart`.
        rules: the same `RuleArrays`.
        outside [items + 1] float64: 0 for the root item (or what glue rules give), else -inf;
            filled in place. The last entry stays -inf: it stands for symbols a cell lacks.
        threshold: the least log probability of a tree that matters.
    """
    symbols = rules.category.shape[0]
    cells = n * (n + 1) // 2
    live = np.empty(cells, np.int64)
    edge_ptr = np.zeros(cells + 1, np.int64)
    edges = new_edges(4096)
    count = lives = 0
    pruned = False
    item_of = np.full(symbols, chart.symbol.shape[0], np.int64)
    row = _new_positions(symbols, n + 1)
    column = _new_positions(symbols, n + 1)
    for j in range(n, 0, -1):
        for k in range(j):
            _place(column, chart, cell_index(k, j), k)
        for i in range(j):
            cell = cell_index(i, j)
            if not _alive(chart, cell, outside):
                continue
            for t in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
                item_of[chart.symbol[t]] = t
            edges, count, cut = _unary_edges(
                cell, chart, rules, item_of, outside, threshold, edges, count
            )
            pruned = pruned or cut
            for t in range(chart.cell_ptr[cell], chart.cell_ptr[cell + 1]):
                item_of[chart.symbol[t]] = chart.symbol.shape[0]
            for k in range(i + 1, j):
                _place(row, chart, cell_index(i, k), k)
            edges, count, cut = _binary_edges(
                cell, chart, rules, row, column, outside, threshold, edges, count
            )
            pruned = pruned or cut
            for k in range(i + 1, j):
                _clear(row, chart, cell_index(i, k), k)
            live[lives] = cell
            lives += 1
            edge_ptr[lives] = count
        for k in range(j):
            _clear(column, chart, cell_index(k, j), k)
    kept = Edges(
        edges.parent[:count].copy(), edges.left[:count].copy(), edges.right[:count].copy(),
        edges.logp[:count].copy(), edges.link[:count].copy(),
    )
    return Hypergraph(live[:lives].copy(), edge_ptr[: lives + 1].copy(), kept, outside, pruned)
