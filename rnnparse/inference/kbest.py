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
    Contents,
    export,
    has_room,
    intern_node,
    intern_sequence,
    more_contents,
    new_contents,
)
from rnnparse.inference.graph import CELLS
from rnnparse.inference.hashing import crowded, find_slot, intern, larger, new_table
from rnnparse.inference.heap import ENTRY, pop, push

DERIVATION = np.dtype(
    [
        ("score", np.float64),
        ("content", np.int32),  # node, or sequence for an intermediate symbol
        ("chain", np.int32),  # the unary chain at its top
        ("vertex", np.int32),
    ],
    align=True,
)
# A unary chain: its uppermost category and the chain below; chain 0 is empty.
CHAIN = np.dtype([("category", np.int32), ("below", np.int32)], align=True)
DERIVATIONS, CHAINS, KEPT, SEEN = range(4)


class Search(NamedTuple):
    """What the search holds; its derivations are grouped by vertex, best first.

    Attributes:
        derivations: DERIVATION.
        chains: CHAIN.
        chain_table: the chain that a category makes of a chain.
        kept_table: number of derivations kept for a vertex and a chain.
        seen_table: contents that a vertex has.
        heap: ENTRY; `left` and `right` are ranks among the children's derivations. In a unary
            entry `left` is the child's derivation. Edge -1 - x is the tag state x.
        heap_size [2] int64, size [4] int64: number of derivations and of each table's entries.
        contents: the trees.
    """

    derivations: np.ndarray
    chains: np.ndarray
    chain_table: np.ndarray
    kept_table: np.ndarray
    seen_table: np.ndarray
    size: np.ndarray
    heap: np.ndarray
    heap_size: np.ndarray
    contents: Contents


@njit(cache=True, nogil=True)
def _new_search():
    size = np.zeros(4, np.int64)
    size[CHAINS] = 1
    return Search(
        np.empty(2048, DERIVATION), np.empty(64, CHAIN), new_table(64), new_table(2048),
        new_table(2048), size, np.empty(1024, ENTRY), np.zeros(2, np.int64), new_contents(),
    )


@njit(cache=True, nogil=True)
def _with_room(search, pushes, length):
    """The same search with room for one more derivation, which `_run` asks for.

    Args:
        pushes: how many entries the queue must take.
        length: longest sequence of nodes.
    """
    size, contents = search.size, search.contents
    chain_table, kept_table, seen_table = search.chain_table, search.kept_table, search.seen_table
    if crowded(chain_table, size[CHAINS]):
        chain_table = larger(chain_table)
    if crowded(kept_table, size[KEPT]):
        kept_table = larger(kept_table)
    if crowded(seen_table, size[SEEN]):
        seen_table = larger(seen_table)
    return Search(
        grow(search.derivations, size[DERIVATIONS] + 1),
        grow(search.chains, size[CHAINS] + 1),
        chain_table, kept_table, seen_table, size,
        grow(search.heap, search.heap_size[0] + pushes),
        search.heap_size,
        more_contents(contents, length),
    )


@njit(cache=True, nogil=True)
def _append(derivations, vertices, size, score, content, chain, vertex):
    new = derivations[size[DERIVATIONS]]
    new.score = score
    new.content = content
    new.chain = chain
    new.vertex = vertex
    vertices[vertex].count += 1
    size[DERIVATIONS] += 1


@njit(cache=True, nogil=True)
def _sort_cell(derivations, vertices, begin):
    """Bring the derivations of a cell together by vertex; within one they keep their order.

    `begin` is the number of the first of them.
    """
    old = derivations.copy()
    at = 0
    for d in range(old.shape[0]):
        vertex = vertices[old[d].vertex]
        if vertex.first < 0:
            vertex.first = at
            at += vertex.count
        derivations[vertex.first] = old[d]
        vertex.first += 1
    d = 0
    while d < old.shape[0]:
        vertex = vertices[derivations[d].vertex]
        vertex.first = begin + d
        d += vertex.count


@njit(cache=True, nogil=True)
def _chain_above(chain, category, categories, chains, chain_table, size):
    """The chain with one more category on top, or -1 where it holds that category already."""
    at = chain
    while at > 0:
        if chains[at].category == category:
            return np.int64(-1)
        at = np.int64(chains[at].below)
    new = size[CHAINS]
    found = intern(chain_table, chain * categories + category, new)
    if found == new:
        chains[new].category = category
        chains[new].below = chain
        size[CHAINS] += 1
    return found


@njit(cache=True, nogil=True)
def _kept_slot(vertex, chain, kept_table, size):
    """Where the number of derivations kept for a vertex and a chain is counted."""
    key = (np.int64(vertex) << 32) + chain
    slot = find_slot(kept_table, key)
    if kept_table[slot, 0] != key:
        kept_table[slot, 0] = key
        kept_table[slot, 1] = 0
        size[KEPT] += 1
    return slot


@njit(cache=True, nogil=True)
def _first_sight(vertex, content, seen_table, size):
    """Whether a vertex has not had this content yet; notes that it has."""
    new = size[SEEN]
    if intern(seen_table, (np.int64(vertex) << 32) + content, new) < new:
        return False
    size[SEEN] += 1
    return True


@njit(cache=True, nogil=True)
def _seed(
    first, last, states, lex_vertex, lex_logp, cut, edges, vertices, derivations, heap, heap_size
):
    """Queue the best derivation of every binary edge and every tag state of a cell.

    Args:
        first, last: the cell's edges.
        states: first and last of the tag states, equal for all but single tokens.

    Returns:
        Whether anything was left out, and the largest number of unary edges above one vertex.
    """
    dropped, most, zero = False, 0, np.int64(0)
    for x in range(*states):
        if lex_vertex[x] >= 0:
            if lex_logp[x] + vertices[lex_vertex[x]].outside >= cut:
                push(heap, heap_size, lex_logp[x], -1 - x, zero, zero)
            else:
                dropped = True
    for e in range(first, last):
        edge = edges[e]
        left = vertices[edge.left]
        if edge.right < 0:
            edge.next = left.up
            left.up = e
            above = 0
            while e >= 0:
                above += 1
                e = np.int64(edges[e].next)
            most = max(most, above)
            continue
        right = vertices[edge.right]
        if left.count > 0 and right.count > 0:
            score = edge.logp + (derivations[left.first].score + derivations[right.first].score)
            if score + vertices[edge.parent].outside >= cut:
                push(heap, heap_size, score, e, zero, zero)
            else:
                dropped = True
    return dropped, most


@njit(cache=True, nogil=True)
def _next_of_edge(
    e, left_rank, right_rank, cut, edges, vertices, derivations, heap, heap_size
):
    """Queue what follows a binary derivation; each pair of ranks is reached in one way only."""
    edge = edges[e]
    left, right = vertices[edge.left], vertices[edge.right]
    dropped = False
    for side in range(2):
        a, b = left_rank + 1 - side, right_rank + side
        if (side == 0 and right_rank > 0) or a >= left.count or b >= right.count:
            continue
        score = edge.logp + (derivations[left.first + a].score + derivations[right.first + b].score)
        if score + vertices[edge.parent].outside >= cut:
            push(heap, heap_size, score, e, a, b)
        else:
            dropped = True
    return dropped


@njit(cache=True, nogil=True)
def _next_above(e, score, derivation, cut, edges, vertices, heap, heap_size):
    """Queue the unary derivations that a new derivation allows, from edge `e` on."""
    dropped = False
    while e >= 0:
        total = score + edges[e].logp
        if total + vertices[edges[e].parent].outside >= cut:
            push(heap, heap_size, total, e, derivation, np.int64(0))
        else:
            dropped = True
        e = np.int64(edges[e].next)
    return dropped


@njit(cache=True, nogil=True)
def _gather(derivation, partial, sequences, members, buffer, length):
    """Append what a child stands for to the buffer: a node, or an intermediate's sequence."""
    if not partial:
        buffer[length] = derivation.content
        return length + 1
    sequence = sequences[derivation.content]
    for p in range(sequence.length):
        buffer[length + p] = members[sequence.first + p]
    return length + sequence.length


@njit(cache=True, nogil=True)
def _content(
    e, left_rank, right_rank, vertex, start, end, categories, edges, vertices, derivations,
    sequences, members, sequence_table, nodes, node_table, content_size, buffer,
):
    """What a derivation stands for: a node, or a sequence for an intermediate symbol."""
    sequence = np.int64(-1)
    if e >= 0:
        left = vertices[edges[e].left]
        below = left_rank if edges[e].right < 0 else left.first + left_rank
        length = _gather(derivations[below], left.partial, sequences, members, buffer, np.int64(0))
        if edges[e].right >= 0:
            right = vertices[edges[e].right]
            length = _gather(
                derivations[right.first + right_rank], right.partial, sequences, members, buffer,
                length,
            )
        sequence = intern_sequence(
            buffer, length, sequences, members, sequence_table, content_size
        )
    if vertices[vertex].partial:
        return sequence
    return intern_node(
        vertices[vertex].category, sequence, start, end, categories, nodes, node_table,
        content_size,
    )


@njit(cache=True, nogil=True)
def _run(
    k, cut, categories, start, end, pushes, lex_vertex, edges, vertices,
    derivations, chains, chain_table, kept_table, seen_table, size, heap, heap_size,
    sequences, members, sequence_table, nodes, node_table, content_size, buffer,
):
    """Take derivations from the queue, best first, while there is room for more.

    A derivation is kept if its content is new to its vertex, its vertex has not k derivations of
    the same chain, and its chain holds no category twice.

    Returns:
        Whether anything was left out because of the cut.
    """
    dropped = False
    while (
        heap_size[0] > 0
        and heap_size[0] + pushes <= heap.shape[0]
        and size[DERIVATIONS] < derivations.shape[0]
        and size[CHAINS] < chains.shape[0]
        and not crowded(chain_table, size[CHAINS])
        and not crowded(kept_table, size[KEPT])
        and not crowded(seen_table, size[SEEN])
        and has_room(
            buffer.shape[0], sequences, members, sequence_table, nodes, node_table, content_size
        )
    ):
        score, e, left, right = pop(heap, heap_size)
        v = np.int64(lex_vertex[-1 - e] if e < 0 else edges[e].parent)
        unary = e >= 0 and edges[e].right < 0
        link = unary and edges[e].link
        chain = np.int64(derivations[left].chain) if unary else np.int64(0)
        if not link:
            chain = _chain_above(
                chain, vertices[v].category, categories, chains, chain_table, size
            )
            if chain < 0:
                continue
        slot = _kept_slot(v, chain, kept_table, size)
        if kept_table[slot, 1] >= k:
            continue
        if e >= 0 and not unary:
            dropped |= _next_of_edge(
                e, left, right, cut, edges, vertices, derivations, heap, heap_size
            )
        if link:
            content = np.int64(derivations[left].content)
        else:
            content = _content(
                e, left, right, v, start, end, categories, edges, vertices, derivations,
                sequences, members, sequence_table, nodes, node_table, content_size, buffer,
            )
        if _first_sight(v, content, seen_table, size):
            kept_table[slot, 1] += 1
            dropped |= _next_above(
                vertices[v].up, score, size[DERIVATIONS], cut, edges, vertices, heap, heap_size
            )
            _append(derivations, vertices, size, score, content, chain, v)
    return dropped


@njit(cache=True, nogil=True)
def _finish_cell(k, cut, categories, start, end, pushes, lex_vertex, graph, search, buffer):
    """Empty the queue of one cell; returns the search, maybe moved, and as `_run`."""
    dropped = False
    while search.heap_size[0] > 0:
        search = _with_room(search, pushes, buffer.shape[0])
        contents = search.contents
        dropped |= _run(
            k, cut, categories, start, end, pushes, lex_vertex, graph.edges, graph.vertices,
            search.derivations, search.chains, search.chain_table, search.kept_table,
            search.seen_table, search.size, search.heap, search.heap_size,
            contents.sequences, contents.members, contents.sequence_table, contents.nodes,
            contents.node_table, contents.size, buffer,
        )
    return search, dropped


@njit(cache=True, nogil=True)
def enumerate_trees(n, k, cut, categories, graph, lex_ptr, lex_vertex, lex_logp, epsilon):
    """The k best distinct trees whose log probability is at least `cut`.

    Args:
        n: number of tokens.
        k: most trees wanted.
        cut: least log probability of a tree that matters.
        categories: more than any category.
        graph: a `Graph`; vertex 0 is the root.
        lex_ptr [n+1], lex_vertex, lex_logp: the vertices (or -1) of each token's tag states and
            their scores.
        epsilon: a vertex that stands for nothing (the end of glue), or -1.

    Returns:
        `Candidates`, and whether anything was left out because of the cut.
    """
    search, vertices = _new_search(), graph.vertices
    buffer = np.empty(n, np.int32)
    dropped = False
    if epsilon >= 0:
        contents, zero = search.contents, np.int64(0)
        nothing = intern_sequence(
            buffer, zero, contents.sequences, contents.members, contents.sequence_table,
            contents.size,
        )
        _append(search.derivations, vertices, search.size, 0.0, nothing, zero, epsilon)
        vertices[epsilon].first = 0
    for c in range(graph.size[CELLS] - 1, -1, -1):
        cell = graph.cells[c]
        start, end = np.int64(cell.start), np.int64(cell.end)
        first = graph.cells[c - 1].last if c > 0 else np.int64(0)
        tags = end - start == 1 and not cell.glue
        states = (lex_ptr[start], lex_ptr[end] if tags else lex_ptr[start])
        begin = search.size[DERIVATIONS]
        search = _with_room(search, cell.last - first + states[1] - states[0], n)
        cut_off, most = _seed(
            first, cell.last, states, lex_vertex, lex_logp, cut, graph.edges, vertices,
            search.derivations, search.heap, search.heap_size,
        )
        search, left_out = _finish_cell(
            k, cut, categories, start, end, most + 2, lex_vertex, graph, search, buffer
        )
        dropped |= cut_off or left_out
        _sort_cell(search.derivations[begin : search.size[DERIVATIONS]], vertices, begin)
    root = vertices[0]
    best = search.derivations[root.first : root.first + min(k, root.count)]
    return export(search.contents, best.content.copy(), best.score.copy()), dropped
