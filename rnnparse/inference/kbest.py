"""Exact k-best enumeration of *distinct* trees over a pruned hypergraph.

Lazy k-best (Huang & Chiang, "Better k-best Parsing", IWPT 2005) with one priority queue a cell.
All probabilities are at most 1, so in each cell derivations leave the queue best first, unary
chains included (Knuth 1977). Every derivation is named by its *content*: the tree that it stands
for once annotation and binarization are undone (see `contents`). Of two derivations of one item
with the same content the worse is dropped at once: in any tree the better could replace it.

A unary chain never holds the same category twice. An item keeps k derivations for each chain of
categories at its top, so that forbidding a chain above it cannot make a list too short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.inference.cky import grow
from rnnparse.inference.contents import (
    export,
    intern_node,
    intern_sequence,
    new_contents,
)
from rnnparse.inference.hashing import Map, intern, new_map
from rnnparse.inference.heap import new_heap, pop, push
from rnnparse.inference.outside import Hypergraph

TOLERANCE = 1e-9  # rounding of sums in another order


class Problem(NamedTuple):
    """What is searched.

    Attributes:
        k: most derivations wanted of an item (for each unary chain).
        cut: least log probability of a tree that matters, less the tolerance.
        n: number of tokens.
        graph: the kept edges; cells numbered from n(n+1)/2 on are glue.
        category [items] int32, partial [items] bool: of each item's symbol.
        lex_ptr [n+1], lex_item, lex_logp: items of each token's states and their scores.
    """

    k: int
    cut: float
    n: int
    graph: Hypergraph
    category: np.ndarray
    partial: np.ndarray
    lex_ptr: np.ndarray
    lex_item: np.ndarray
    lex_logp: np.ndarray


class Lists(NamedTuple):
    """Derivations found so far; those of item v are first[v]:first[v]+count[v], best first."""

    score: np.ndarray
    content: np.ndarray  # node, or sequence for an intermediate symbol
    chain: np.ndarray  # the unary chain at its top
    item: np.ndarray
    first: np.ndarray  # [items]
    count: np.ndarray  # [items]
    up_first: np.ndarray  # [items] first unary edge above an item
    up_count: np.ndarray  # [items]
    size: np.ndarray  # [1] int64: number of derivations


class Marks(NamedTuple):
    """Unary chains (linked lists of categories; 0 is empty) and what has been counted and seen."""

    category: np.ndarray
    below: np.ndarray
    chain_map: Map
    kept: np.ndarray  # derivations kept for each (item, chain)
    kept_map: Map
    seen_map: Map  # (item, content)
    size: np.ndarray  # [3] int64: chains, (item, chain) pairs, (item, content) pairs


@njit(cache=True, nogil=True)
def _new_lists(items):  # type: ignore[no-untyped-def]
    return Lists(
        np.empty(2048, np.float64), np.empty(2048, np.int32), np.empty(2048, np.int32),
        np.empty(2048, np.int32), np.full(items, -1, np.int64), np.zeros(items, np.int64),
        np.zeros(items, np.int64), np.zeros(items, np.int64), np.zeros(1, np.int64),
    )


@njit(cache=True, nogil=True)
def _new_marks():  # type: ignore[no-untyped-def]
    size = np.zeros(3, np.int64)
    size[0] = 1
    return Marks(
        np.empty(64, np.int32), np.empty(64, np.int32), new_map(64),
        np.empty(2048, np.int32), new_map(2048), new_map(2048), size,
    )


@njit(cache=True, nogil=True)
def _append(lists, score, content, chain, item):  # type: ignore[no-untyped-def]
    at = lists.size[0]
    if at == lists.score.shape[0]:
        lists = Lists(
            grow(lists.score, at + 1), grow(lists.content, at + 1), grow(lists.chain, at + 1),
            grow(lists.item, at + 1), lists.first, lists.count, lists.up_first, lists.up_count,
            lists.size,
        )
    lists.score[at] = score
    lists.content[at] = content
    lists.chain[at] = chain
    lists.item[at] = item
    lists.count[item] += 1
    lists.size[0] += 1
    return lists


@njit(cache=True, nogil=True)
def _sort_cell(lists, begin):  # type: ignore[no-untyped-def]
    """Bring the derivations from `begin` on together by item; within one they keep their order."""
    end = lists.size[0]
    target = np.empty(end - begin, np.int64)
    at = begin
    for d in range(begin, end):
        item = lists.item[d]
        if lists.first[item] < 0:
            lists.first[item] = at
            at += lists.count[item]
        target[d - begin] = lists.first[item]
        lists.first[item] += 1
    for d in range(begin, end):
        item = lists.item[d]
        if lists.first[item] >= 0 and target[d - begin] == lists.first[item] - 1:
            lists.first[item] -= lists.count[item]
    for array in (lists.content, lists.chain, lists.item):
        old = array[begin:end].copy()
        for t in range(end - begin):
            array[target[t]] = old[t]
    scores = lists.score[begin:end].copy()
    for t in range(end - begin):
        lists.score[target[t]] = scores[t]


@njit(cache=True, nogil=True)
def _span(cell, n):  # type: ignore[no-untyped-def]
    """Start and end of a cell, by its number; glue cells reach to the end."""
    cells = n * (n + 1) // 2
    if cell >= cells:
        return cell - cells, np.int64(n)
    end = np.int64(1)
    while end * (end + 1) // 2 <= cell:
        end += 1
    return end - 1 - (cell - end * (end - 1) // 2), end


@njit(cache=True, nogil=True)
def _seed(problem, live, start, end, glued, lists, heap):  # type: ignore[no-untyped-def]
    """Queue the best derivation of every binary edge and every tag of a cell."""
    graph, cut = problem.graph, problem.cut
    dropped = False
    if end - start == 1 and not glued:
        for x in range(problem.lex_ptr[start], problem.lex_ptr[end]):
            if problem.lex_logp[x] + graph.outside[problem.lex_item[x]] >= cut:
                heap = push(heap, problem.lex_logp[x], -1 - x, 0, 0)
            else:
                dropped = True
    for e in range(graph.edge_ptr[live], graph.edge_ptr[live + 1]):
        left, right = graph.edges.left[e], graph.edges.right[e]
        if right < 0:
            if lists.up_count[left] == 0:
                lists.up_first[left] = e
            lists.up_count[left] += 1
        elif lists.count[left] > 0 and lists.count[right] > 0:
            score = graph.edges.logp[e] + (
                lists.score[lists.first[left]] + lists.score[lists.first[right]]
            )
            if score + graph.outside[graph.edges.parent[e]] >= cut:
                heap = push(heap, score, e, 0, 0)
            else:
                dropped = True
    return heap, dropped


@njit(cache=True, nogil=True)
def _next_of_edge(problem, e, left_rank, right_rank, lists, heap):  # type: ignore[no-untyped-def]
    """Queue what follows a binary derivation; each pair of ranks is reached in one way only."""
    edges = problem.graph.edges
    left, right = edges.left[e], edges.right[e]
    above = problem.graph.outside[edges.parent[e]]
    dropped = False
    for side in range(2):
        a, b = left_rank + 1 - side, right_rank + side
        if (side == 0 and right_rank > 0) or a >= lists.count[left] or b >= lists.count[right]:
            continue
        score = edges.logp[e] + (
            lists.score[lists.first[left] + a] + lists.score[lists.first[right] + b]
        )
        if score + above >= problem.cut:
            heap = push(heap, score, e, a, b)
        else:
            dropped = True
    return heap, dropped


@njit(cache=True, nogil=True)
def _next_above(problem, item, score, derivation, lists, heap):  # type: ignore[no-untyped-def]
    """Queue the unary derivations that a new derivation allows."""
    edges = problem.graph.edges
    dropped = False
    for e in range(lists.up_first[item], lists.up_first[item] + lists.up_count[item]):
        total = score + edges.logp[e]
        if total + problem.graph.outside[edges.parent[e]] >= problem.cut:
            heap = push(heap, total, e, derivation, 0)
        else:
            dropped = True
    return heap, dropped


@njit(cache=True, nogil=True)
def _chain_above(marks, chain, category, categories):  # type: ignore[no-untyped-def]
    """The chain with one more category on top, or -1 where it holds that category already."""
    at = chain
    while at > 0:
        if marks.category[at] == category:
            return marks, np.int32(-1)
        at = marks.below[at]
    new = marks.size[0]
    chain_map, found = intern(marks.chain_map, np.int64(chain) * categories + category, new)
    if found == new:
        names, below = grow(marks.category, new + 1), grow(marks.below, new + 1)
        names[new] = category
        below[new] = chain
        marks.size[0] += 1
        marks = Marks(
            names, below, chain_map, marks.kept, marks.kept_map, marks.seen_map, marks.size
        )
    return marks, found


@njit(cache=True, nogil=True)
def _kept_slot(marks, item, chain):  # type: ignore[no-untyped-def]
    """Where the number of derivations kept for an item and a chain is counted."""
    new = marks.size[1]
    kept_map, slot = intern(marks.kept_map, (np.int64(item) << 24) + chain, new)
    if slot == new:
        kept = grow(marks.kept, new + 1)
        kept[new] = 0
        marks.size[1] += 1
        marks = Marks(
            marks.category, marks.below, marks.chain_map, kept, kept_map, marks.seen_map, marks.size
        )
    return marks, slot


@njit(cache=True, nogil=True)
def _first_sight(marks, item, content):  # type: ignore[no-untyped-def]
    """Whether an item has not had this content yet; notes that it has."""
    new = marks.size[2]
    seen_map, number = intern(marks.seen_map, (np.int64(item) << 32) + content, new)
    if number < new:
        return marks, False
    marks.size[2] += 1
    return (
        Marks(
            marks.category, marks.below, marks.chain_map, marks.kept, marks.kept_map, seen_map,
            marks.size,
        ),
        True,
    )


@njit(cache=True, nogil=True)
def _gather(part, derivation, problem, lists, contents, buffer, length):  # type: ignore[no-untyped-def]
    """Append what a child stands for to the buffer: a node, or an intermediate's sequence."""
    content = lists.content[derivation]
    if not problem.partial[part]:
        buffer = grow(buffer, length + 1)
        buffer[length] = content
        return buffer, length + 1
    first, last = contents.seq_ptr[content], contents.seq_ptr[content + 1]
    buffer = grow(buffer, length + last - first)
    for p in range(first, last):
        buffer[length + p - first] = contents.seq_node[p]
    return buffer, length + last - first


@njit(cache=True, nogil=True)
def _content(  # type: ignore[no-untyped-def]
    problem, edge, left_rank, right_rank, item, start, end, categories, lists, contents, buffer
):
    """What a derivation stands for: a node, or a sequence for an intermediate symbol."""
    sequence = np.int32(-1)
    if edge >= 0:
        edges = problem.graph.edges
        left, right = edges.left[edge], edges.right[edge]
        below = left_rank if right < 0 else lists.first[left] + left_rank
        buffer, length = _gather(left, below, problem, lists, contents, buffer, 0)
        if right >= 0:
            below = lists.first[right] + right_rank
            buffer, length = _gather(right, below, problem, lists, contents, buffer, length)
        contents, sequence = intern_sequence(contents, buffer, length)
    if problem.partial[item]:
        return contents, sequence, buffer
    contents, node = intern_node(
        contents, problem.category[item], sequence, start, end, categories
    )
    return contents, node, buffer


@njit(cache=True, nogil=True)
def _fill_cell(problem, live, categories, lists, marks, contents, heap, buffer):  # type: ignore[no-untyped-def]
    """Enumerate the derivations of all items of one cell, best first."""
    edges = problem.graph.edges
    cell = problem.graph.cell[live]
    start, end = _span(cell, problem.n)
    glued = cell >= problem.n * (problem.n + 1) // 2
    begin = lists.size[0]
    heap, dropped = _seed(problem, live, start, end, glued, lists, heap)
    while heap.size[0] > 0:
        score, edge, left_rank, right_rank = pop(heap)
        item = problem.lex_item[-1 - edge] if edge < 0 else edges.parent[edge]
        unary = edge >= 0 and edges.right[edge] < 0
        link = unary and edges.link[edge]
        if link:
            chain = lists.chain[left_rank]
        else:
            chain = lists.chain[left_rank] if unary else np.int32(0)
            marks, chain = _chain_above(marks, chain, problem.category[item], categories)
            if chain < 0:
                continue
        marks, slot = _kept_slot(marks, item, chain)
        if marks.kept[slot] >= problem.k:
            continue
        if edge >= 0 and not unary:
            heap, cut = _next_of_edge(problem, edge, left_rank, right_rank, lists, heap)
            dropped = dropped or cut
        if link:
            content = lists.content[left_rank]
        else:
            contents, content, buffer = _content(
                problem, edge, left_rank, right_rank, item, start, end, categories, lists,
                contents, buffer,
            )
        marks, fresh = _first_sight(marks, item, content)
        if not fresh:
            continue
        marks.kept[slot] += 1
        heap, cut = _next_above(problem, item, score, lists.size[0], lists, heap)
        dropped = dropped or cut
        lists = _append(lists, score, content, chain, item)
    _sort_cell(lists, begin)
    return lists, marks, contents, heap, buffer, dropped


@njit(cache=True, nogil=True)
def enumerate_trees(problem, root, epsilon):  # type: ignore[no-untyped-def]
    """The k best distinct trees whose log probability is at least the problem's cut.

    Args:
        problem: a `Problem`.
        root: item that spans the sentence.
        epsilon: an item that stands for nothing (the end of glue), or -1.

    Returns:
        `Candidates`, and whether anything was left out because of the cut.
    """
    categories = np.int64(problem.category.max()) + 1
    lists, marks, contents = _new_lists(problem.category.shape[0]), _new_marks(), new_contents()
    heap = new_heap()
    buffer = np.empty(64, np.int32)
    dropped = False
    if epsilon >= 0:
        contents, nothing = intern_sequence(contents, buffer, 0)
        lists = _append(lists, 0.0, nothing, 0, epsilon)
        lists.first[epsilon] = 0
    for live in range(problem.graph.cell.shape[0] - 1, -1, -1):
        lists, marks, contents, heap, buffer, cut = _fill_cell(
            problem, live, categories, lists, marks, contents, heap, buffer
        )
        dropped = dropped or cut
    first = lists.first[root]
    last = first + min(problem.k, lists.count[root])
    return export(contents, lists.content[first:last].copy(), lists.score[first:last].copy()), dropped
