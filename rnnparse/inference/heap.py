"""A priority queue of partial derivations, best first, for use inside numba kernels."""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit

ENTRY = np.dtype(
    [
        ("score", np.float64),
        ("number", np.int64),  # of the push
        ("edge", np.int64),
        ("left", np.int64),  # ranks, or other numbers of the caller
        ("right", np.int64),
    ],
    align=True,
)


@njit(nogil=True)
def _before(score, number, other):
    """Whether a score with the number of its push goes before another entry.

    Equal scores leave the queue in the order of their pushes, so that runs are repeatable.
    """
    return score > other.score or (score == other.score and number < other.number)


@njit(nogil=True)
def push(heap, size, score, edge, left, right):
    """Add an entry to a binary heap (ENTRY) that has room for it.

    `size` is [2] int64: entries in the heap, and pushes so far.
    """
    at = size[0]
    number = size[1]
    while at > 0 and _before(score, number, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    entry = heap[at]
    entry.score = score
    entry.number = number
    entry.edge = edge
    entry.left = left
    entry.right = right
    size[0] += 1
    size[1] += 1


@njit(nogil=True)
def pop(heap, size):
    """Remove the best entry and return its score, edge, left and right."""
    best = heap[0].score, heap[0].edge, heap[0].left, heap[0].right
    last = size[0] - 1
    size[0] = last
    at = 0
    while 2 * at + 1 < last:
        down = 2 * at + 1
        if down + 1 < last and _before(heap[down + 1].score, heap[down + 1].number, heap[down]):
            down += 1
        if _before(heap[last].score, heap[last].number, heap[down]):
            break
        heap[at] = heap[down]
        at = down
    heap[at] = heap[last]
    return best
