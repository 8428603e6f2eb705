"""State of the k-best search: derivations, unary chains, and tables of both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.arrays import grow
from rnnparse.inference.hashing import crowded, find_slot, intern, larger, new_table
from rnnparse.inference.heap import ENTRY, pop, push
from rnnparse.inference.tree_interning import Contents, has_room, more_contents, new_contents

DERIVATION = np.dtype(
    [
        ("score", np.float64),
        ("added", np.float64),  # the sum of the scores of its vertices, which `score` includes
        ("content", np.int32),  # node; sequence for an intermediate symbol
        ("chain", np.int32),  # the unary chain at its top
        ("vertex", np.int32),
    ],
    align=True,
)
# A unary chain: its uppermost category, the chain below and its length; chain 0 is empty.
CHAIN = np.dtype([("category", np.int32), ("below", np.int32), ("length", np.int32)], align=True)
DERIVATIONS, CHAINS, KEPT, SEEN = range(4)


class Search(NamedTuple):
    """State of the k-best search; its derivations are grouped by vertex, best first.

    Attributes:
        derivations: DERIVATION.
        chains: CHAIN.
        chain_table: chain number by (chain below, category).
        kept_table: number of derivations kept by (vertex, chain).
        seen_table: the (vertex, content) pairs so far.
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


@njit(nogil=True)
def new_search():
    size, chains = np.zeros(4, np.int64), np.empty(64, CHAIN)
    size[CHAINS] = 1
    chains[0].length = 0
    return Search(
        np.empty(2048, DERIVATION), chains, new_table(64), new_table(2048),
        new_table(2048), size, np.empty(1024, ENTRY), np.zeros(2, np.int64), new_contents(),
    )


@njit(nogil=True)
def with_room(search, pushes, length):
    """The search, with arrays grown so that `room_for_one` holds.

    Args:
        pushes: entries that the queue must have room for.
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


@njit(nogil=True)
def append(derivations, vertices, size, score, added, content, chain, vertex):
    new = derivations[size[DERIVATIONS]]
    new.score = score
    new.added = added
    new.content = content
    new.chain = chain
    new.vertex = vertex
    vertices[vertex].count += 1
    size[DERIVATIONS] += 1


@njit(nogil=True)
def order_cell(derivations, heap):
    """Put the derivations of a cell in the order of their scores; the heap has room for them."""
    old, size, zero = derivations.copy(), np.zeros(2, np.int64), np.int64(0)
    for d in range(old.shape[0]):
        push(heap, size, old[d].score, np.int64(d), zero, zero)
    for d in range(old.shape[0]):
        _, place, _, _ = pop(heap, size)
        derivations[d] = old[place]


@njit(nogil=True)
def sort_cell(derivations, vertices, begin):
    """Group the derivations of a cell by vertex; those of a vertex keep their order.

    `begin` is the number of the first derivation.
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


@njit(nogil=True)
def chain_above(chain, category, categories, chains, chain_table, size):
    """The chain with one more category on top, or -1 if it already contains that category."""
    at = chain
    while at > 0:
        if chains[at].category == category:
            return np.int64(-1)
        at = np.int64(chains[at].below)
    new = size[CHAINS]
    above = intern(chain_table, chain * categories + category, new)
    if above == new:
        chains[new].category = category
        chains[new].below = chain
        chains[new].length = chains[chain].length + 1
        size[CHAINS] += 1
    return above


@njit(nogil=True)
def kept_slot(vertex, chain, kept_table, size):
    """The slot that counts the derivations kept for a vertex and a chain."""
    key = (np.int64(vertex) << 32) + chain
    slot = find_slot(kept_table, key)
    if kept_table[slot, 0] != key:
        kept_table[slot, 0] = key
        kept_table[slot, 1] = 0
        size[KEPT] += 1
    return slot


@njit(nogil=True)
def first_sight(vertex, content, seen_table, size):
    """Add a content to a vertex; returns whether it is new."""
    new = size[SEEN]
    if intern(seen_table, (np.int64(vertex) << 32) + content, new) < new:
        return False
    size[SEEN] += 1
    return True


@njit(nogil=True)
def room_for_one(
    pushes, length, derivations, chains, chain_table, kept_table, seen_table, size, heap,
    heap_size, sequences, members, sequence_table, nodes, node_table, content_size,
):
    """Whether one more derivation fits, with its content and its entries in the queue."""
    return (
        heap_size[0] + pushes <= heap.shape[0]
        and size[DERIVATIONS] < derivations.shape[0]
        and size[CHAINS] < chains.shape[0]
        and not crowded(chain_table, size[CHAINS])
        and not crowded(kept_table, size[KEPT])
        and not crowded(seen_table, size[SEEN])
        and has_room(
            length, sequences, members, sequence_table, nodes, node_table, content_size
        )
    )
