"""Trees and parts of trees, each stored once: what derivations stand for.

A *node* is a category over a sequence of nodes, or a tag over a token. A *sequence* is what an
intermediate symbol of the binarization spans. Equal nodes have equal numbers, and children have
smaller numbers than their parents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.inference.cky import grow
from rnnparse.inference.hashing import EMPTY, Map, find_slot, grow_map, intern, new_map


class Candidates(NamedTuple):
    """The k best trees of a sentence as n-ary nodes that they share.

    Attributes:
        category [M] int32: basic category of each node.
        start, end [M] int32: its span.
        child_ptr [M+1] int64, child int32: its children in order; none for a preterminal.
        root [K] int32, logp [K] float64: the trees, best first.
    """

    category: np.ndarray
    start: np.ndarray
    end: np.ndarray
    child_ptr: np.ndarray
    child: np.ndarray
    root: np.ndarray
    logp: np.ndarray


class Contents(NamedTuple):
    """The store of sequences and nodes; `size` holds how many there are of each."""

    size: np.ndarray  # [2] int64
    seq_ptr: np.ndarray  # sequence q is seq_node[seq_ptr[q]:seq_ptr[q+1]]
    seq_node: np.ndarray
    seq_next: np.ndarray  # the next sequence with the same hash code, or -1
    seq_map: Map  # hash code to the latest sequence
    category: np.ndarray
    sequence: np.ndarray  # of each node, -1 for a preterminal
    start: np.ndarray
    end: np.ndarray
    node_map: Map


@njit(cache=True, nogil=True)
def new_contents():  # type: ignore[no-untyped-def]
    """An empty store."""
    return Contents(
        np.zeros(2, np.int64),
        np.zeros(1024, np.int64), np.empty(4096, np.int32), np.empty(1024, np.int32),
        new_map(1024),
        np.empty(512, np.int32), np.empty(512, np.int32), np.empty(512, np.int32),
        np.empty(512, np.int32), new_map(512),
    )


@njit(cache=True, nogil=True)
def _same(contents, sequence, buffer, length):  # type: ignore[no-untyped-def]
    first = contents.seq_ptr[sequence]
    if contents.seq_ptr[sequence + 1] - first != length:
        return False
    for p in range(length):
        if contents.seq_node[first + p] != buffer[p]:
            return False
    return True


@njit(cache=True, nogil=True)
def intern_sequence(contents, buffer, length):  # type: ignore[no-untyped-def]
    """The number of the sequence buffer[:length]; returns the store, maybe moved, and the number."""
    code = np.int64(0)
    for p in range(length):
        code = code * np.int64(1000003) + buffer[p] + 1
    code &= np.int64(0x3FFFFFFFFFFFFFFF)
    table = contents.seq_map
    slot = find_slot(table.keys, code)
    latest = np.int32(-1) if table.keys[slot] == EMPTY else table.values[slot]
    found = latest
    while found >= 0 and not _same(contents, found, buffer, length):
        found = contents.seq_next[found]
    if found >= 0:
        return contents, found
    new = contents.size[0]
    table.keys[slot] = code
    table.values[slot] = new
    if 2 * (new + 2) >= table.keys.shape[0]:
        table = grow_map(table)
    seq_ptr = grow(contents.seq_ptr, new + 2)
    seq_next = grow(contents.seq_next, new + 1)
    seq_node = grow(contents.seq_node, seq_ptr[new] + length)
    seq_next[new] = latest
    for p in range(length):
        seq_node[seq_ptr[new] + p] = buffer[p]
    seq_ptr[new + 1] = seq_ptr[new] + length
    contents.size[0] += 1
    moved = Contents(
        contents.size, seq_ptr, seq_node, seq_next, table,
        contents.category, contents.sequence, contents.start, contents.end, contents.node_map,
    )
    return moved, np.int32(new)


@njit(cache=True, nogil=True)
def intern_node(contents, category, sequence, start, end, categories):  # type: ignore[no-untyped-def]
    """The number of the node `category` over a sequence, or over token `start` (sequence -1).

    Returns:
        The store, maybe moved, and the number.
    """
    place = 2 * np.int64(sequence) if sequence >= 0 else 2 * np.int64(start) + 1
    new = contents.size[1]
    table, node = intern(contents.node_map, place * categories + category, new)
    if node < new:
        return contents, node
    labels, sequences = grow(contents.category, new + 1), grow(contents.sequence, new + 1)
    starts, ends = grow(contents.start, new + 1), grow(contents.end, new + 1)
    labels[new] = category
    sequences[new] = sequence
    starts[new] = start
    ends[new] = end
    contents.size[1] += 1
    moved = Contents(
        contents.size, contents.seq_ptr, contents.seq_node, contents.seq_next, contents.seq_map,
        labels, sequences, starts, ends, table,
    )
    return moved, node


@njit(cache=True, nogil=True)
def export(contents, root, logp):  # type: ignore[no-untyped-def]
    """The store as `Candidates` with the given roots."""
    nodes = contents.size[1]
    child_ptr = np.zeros(nodes + 1, np.int64)
    for v in range(nodes):
        q = contents.sequence[v]
        length = contents.seq_ptr[q + 1] - contents.seq_ptr[q] if q >= 0 else 0
        child_ptr[v + 1] = child_ptr[v] + length
    child = np.empty(child_ptr[nodes], np.int32)
    for v in range(nodes):
        q = contents.sequence[v]
        if q >= 0:
            child[child_ptr[v] : child_ptr[v + 1]] = contents.seq_node[
                contents.seq_ptr[q] : contents.seq_ptr[q + 1]
            ]
    return Candidates(
        contents.category[:nodes].copy(), contents.start[:nodes].copy(),
        contents.end[:nodes].copy(), child_ptr, child, root, logp,
    )
