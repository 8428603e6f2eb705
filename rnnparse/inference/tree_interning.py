"""Trees and parts of trees, each stored once: the contents of derivations.

A *node* is a category over a sequence of nodes, or a tag over a token. A *sequence* is what an
intermediate symbol of the binarization spans. Equal nodes have equal numbers, and children have
smaller numbers than their parents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.arrays import grow
from rnnparse.inference.hashing import EMPTY, crowded, find_slot, intern, larger, new_table


class Candidates(NamedTuple):
    """The k best trees of a sentence as n-ary nodes that they share.

    Attributes:
        category [M] int32: basic category of each node.
        start, end [M] int32: its span.
        child_ptr [M+1] int64, child int32: its children in order; none for a preterminal.
        root [K] int32: the trees, best first.
        score [K] float64: log probability plus the scores of all vertices.
        added [K] float64: the latter.
    """

    category: np.ndarray
    start: np.ndarray
    end: np.ndarray
    child_ptr: np.ndarray
    child: np.ndarray
    root: np.ndarray
    score: np.ndarray
    added: np.ndarray


SEQUENCE = np.dtype(
    [
        ("first", np.int64),  # its nodes are members[first:first+length]
        ("length", np.int32),
        ("next", np.int32),  # the next sequence with the same hash code, or -1
    ],
    align=True,
)
NODE = np.dtype(
    [
        ("category", np.int32),
        ("sequence", np.int32),  # -1 for a tag
        ("start", np.int32),
        ("end", np.int32),
    ],
    align=True,
)
SEQUENCES, MEMBERS, NODES = range(3)


class Contents(NamedTuple):
    """Interned sequences and nodes."""

    sequences: np.ndarray  # SEQUENCE
    members: np.ndarray  # int32, the nodes of all sequences
    sequence_table: np.ndarray  # hash code to the latest sequence
    nodes: np.ndarray  # NODE
    node_table: np.ndarray  # category and sequence, or category and position, to the node
    size: np.ndarray  # [3] int64: number of sequences, members and nodes


@njit(nogil=True)
def new_contents():
    """`Contents` without sequences and nodes."""
    return Contents(
        np.empty(1024, SEQUENCE), np.empty(4096, np.int32), new_table(1024),
        np.empty(1024, NODE), new_table(1024), np.zeros(3, np.int64),
    )


@njit(nogil=True)
def has_room(length, sequences, members, sequence_table, nodes, node_table, size):
    """Whether there is room for a node over a new sequence of at most `length` nodes."""
    return (
        size[SEQUENCES] < sequences.shape[0]
        and size[MEMBERS] + length <= members.shape[0]
        and size[NODES] < nodes.shape[0]
        and not crowded(sequence_table, size[SEQUENCES])
        and not crowded(node_table, size[NODES])
    )


@njit(nogil=True)
def more_contents(contents, length):
    """The contents, with arrays grown so that `has_room` holds."""
    size, sequence_table, node_table = contents.size, contents.sequence_table, contents.node_table
    if crowded(sequence_table, size[SEQUENCES]):
        sequence_table = larger(sequence_table)
    if crowded(node_table, size[NODES]):
        node_table = larger(node_table)
    return Contents(
        grow(contents.sequences, size[SEQUENCES] + 1),
        grow(contents.members, size[MEMBERS] + length),
        sequence_table,
        grow(contents.nodes, size[NODES] + 1),
        node_table,
        size,
    )


@njit(nogil=True)
def _same(sequence, members, buffer, length):
    same = sequence.length == length
    p = 0
    while same and p < length:
        same = members[sequence.first + p] == buffer[p]
        p += 1
    return same


@njit(nogil=True)
def intern_sequence(buffer, length, sequences, members, table, size):
    """The number of the sequence buffer[:length], which is added if it is new."""
    code = np.int64(0)
    for p in range(length):
        code = code * np.int64(1000003) + buffer[p] + 1
    code &= np.int64(0x3FFFFFFFFFFFFFFF)
    slot = find_slot(table, code)
    latest = np.int64(-1) if table[slot, 0] == EMPTY else table[slot, 1]
    index = latest
    while index >= 0 and not _same(sequences[index], members, buffer, length):
        index = np.int64(sequences[index].next)
    if index >= 0:
        return index
    new = size[SEQUENCES]
    table[slot, 0] = code
    table[slot, 1] = new
    sequence = sequences[new]
    sequence.first = size[MEMBERS]
    sequence.length = length
    sequence.next = latest
    for p in range(length):
        members[size[MEMBERS] + p] = buffer[p]
    size[SEQUENCES] += 1
    size[MEMBERS] += length
    return new


@njit(nogil=True)
def intern_node(category, sequence, start, end, categories, nodes, table, size):
    """The number of the node `category` over a sequence, or over token `start` (sequence -1).

    `categories` is a number above all categories.
    """
    place = 2 * np.int64(sequence) if sequence >= 0 else 2 * np.int64(start) + 1
    new = size[NODES]
    index = intern(table, place * categories + category, new)
    if index == new:
        node = nodes[new]
        node.category = category
        node.sequence = sequence
        node.start = start
        node.end = end
        size[NODES] += 1
    return index


@njit(nogil=True)
def export(contents, root, score, added):
    """The contents as `Candidates` with the given roots."""
    count = contents.size[NODES]
    category, start, end = (
        np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    )
    child_ptr = np.zeros(count + 1, np.int64)
    for v in range(count):
        node = contents.nodes[v]
        category[v], start[v], end[v] = node.category, node.start, node.end
        length = contents.sequences[node.sequence].length if node.sequence >= 0 else 0
        child_ptr[v + 1] = child_ptr[v] + length
    child = np.empty(child_ptr[count], np.int32)
    for v in range(count):
        q = contents.nodes[v].sequence
        for c in range(child_ptr[v], child_ptr[v + 1]):
            child[c] = contents.members[contents.sequences[q].first + c - child_ptr[v]]
    return Candidates(category, start, end, child_ptr, child, root, score, added)
