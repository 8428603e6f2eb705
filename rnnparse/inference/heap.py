"""A priority queue of partial derivations, best first, for use inside numba kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.inference.cky import grow


class Heap(NamedTuple):
    """A binary heap; row r of `entry` is (edge, left rank, right rank, number of the push).

    Equal scores leave the queue in the order of their pushes, so that runs are repeatable.
    `size` is [2] int64: entries in the heap, and pushes so far.
    """

    score: np.ndarray  # float64
    entry: np.ndarray  # [n, 4] int64
    size: np.ndarray


@njit(cache=True, nogil=True)
def new_heap():  # type: ignore[no-untyped-def]
    """An empty heap."""
    return Heap(np.empty(256, np.float64), np.empty((256, 4), np.int64), np.zeros(2, np.int64))


@njit(cache=True, nogil=True)
def _before(heap, a_score, a_push, b):  # type: ignore[no-untyped-def]
    return a_score > heap.score[b] or (a_score == heap.score[b] and a_push < heap.entry[b, 3])


@njit(cache=True, nogil=True)
def push(heap, score, edge, left, right):  # type: ignore[no-untyped-def]
    """Add an entry; returns the heap, maybe moved to a larger place."""
    size = heap.size[0]
    if size == heap.score.shape[0]:
        rows = np.empty((2 * size, 4), np.int64)
        rows[:size] = heap.entry
        heap = Heap(grow(heap.score, size + 1), rows, heap.size)
    number = heap.size[1]
    at = size
    while at > 0:
        up = (at - 1) // 2
        if not _before(heap, score, number, up):
            break
        heap.score[at] = heap.score[up]
        heap.entry[at] = heap.entry[up]
        at = up
    heap.score[at] = score
    heap.entry[at, 0] = edge
    heap.entry[at, 1] = left
    heap.entry[at, 2] = right
    heap.entry[at, 3] = number
    heap.size[0] += 1
    heap.size[1] += 1
    return heap


@njit(cache=True, nogil=True)
def pop(heap):  # type: ignore[no-untyped-def]
    """Remove the best entry and return its score, edge, left rank and right rank."""
    best = heap.score[0]
    edge, left, right = heap.entry[0, 0], heap.entry[0, 1], heap.entry[0, 2]
    size = heap.size[0] - 1
    heap.size[0] = size
    score, number = heap.score[size], heap.entry[size, 3]
    at = 0
    while 2 * at + 1 < size:
        down = 2 * at + 1
        if down + 1 < size and _before(heap, heap.score[down + 1], heap.entry[down + 1, 3], down):
            down += 1
        if score > heap.score[down] or (
            score == heap.score[down] and number < heap.entry[down, 3]
        ):
            break
        heap.score[at] = heap.score[down]
        heap.entry[at] = heap.entry[down]
        at = down
    if at < size:
        heap.score[at] = score
        heap.entry[at] = heap.entry[size]
    return best, edge, left, right
