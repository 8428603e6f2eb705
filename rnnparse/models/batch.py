"""A minibatch of forests as level arrays, with restriction to some trees and padding.

Nodes are sorted by height, so that a level depends only on the levels below it. Within a level they
are sorted by their weights, so that a kernel finds a matrix in the CPU's cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.threads import apart


class LevelBatch(NamedTuple):
    """Forests of B sentences as one forest (N nodes, T candidate trees, at most K a sentence).

    Level 0 holds the U distinct words: a preterminal has the vector of its word, so that all
    preterminals over the same word are one node. TensorFlow and Keras unpack named tuples; the
    fields are then tensors.

    Attributes:
        words: int32 [U], vocabulary rows, ascending; nodes 0 … U-1.
        rows: int32 [A], ascending: the rows of W and v that occur in the batch.
        key: int32 [N], position in `rows` of the node's weights; -1 for words.
        left, right: int32 [N], child nodes; both -1 for words, right -1 for unary nodes.
        level_offsets: int32 [L + 1]; level h is nodes level_offsets[h] … level_offsets[h + 1] - 1.
        root: int32 [T], root nodes of the candidates, sentence by sentence.
        logp: float64 [T], natural log of the candidate's probability under the base PCFG.
        cost: float64 [T], structured margin Δ for κ = 1: the number of wrong labelled spans.
        candidates: int32 [B, K], positions of a sentence's candidates in `root`; 0 if masked.
        mask: bool [B, K], whether the candidate exists.
        gold: int32 [B], the column of the target tree.

    The fields may be tensors, so the constructor checks nothing; kernels call `check_structure`.
    """

    words: np.ndarray
    rows: np.ndarray
    key: np.ndarray
    left: np.ndarray
    right: np.ndarray
    level_offsets: np.ndarray
    root: np.ndarray
    logp: np.ndarray
    cost: np.ndarray
    candidates: np.ndarray
    mask: np.ndarray
    gold: np.ndarray


def restrict(batch: LevelBatch, candidates: np.ndarray, gold: np.ndarray) -> LevelBatch:
    """The batch with only some of its candidates.

    Args:
        batch: any batch of NumPy arrays.
        candidates: int [B', K'], positions in `batch.root`, or -1. Each row is an example of the
            new batch, which need not be a complete sentence.
        gold: int [B'], the column of the target tree.

    Returns:
        A batch with the nodes of these trees, in the same order; its candidates are those of
        `candidates`, row by row.
    """
    mask = candidates >= 0
    chosen = candidates[mask]
    words, nodes, rows, left, right, key, root = _reachable(
        batch.key, batch.left, batch.right, batch.root[chosen], len(batch.words), len(batch.rows)
    )
    kept = np.concatenate([words, nodes])
    index = np.zeros(candidates.shape, np.int32)
    index[mask] = np.arange(len(chosen), dtype=np.int32)
    offsets = np.searchsorted(kept, batch.level_offsets).astype(np.int32)
    return LevelBatch(
        words=batch.words[words],
        rows=batch.rows[rows],
        key=key,
        left=left,
        right=right,
        level_offsets=_without_empty_levels(offsets),
        root=root,
        logp=batch.logp[chosen],
        cost=batch.cost[chosen],
        candidates=index,
        mask=mask,
        gold=np.asarray(gold, np.int32),
    )


def _without_empty_levels(offsets: np.ndarray) -> np.ndarray:
    """Remove empty levels above the words."""
    return np.concatenate([offsets[:2], offsets[2:][np.diff(offsets[1:]) > 0]])


@njit(nogil=True)
def check_structure(
    words: int, rows: int, key: np.ndarray, left: np.ndarray, right: np.ndarray
) -> None:
    """Raise ValueError if a node's weights do not exist, or its children do not precede it.

    Kernels rely on this; the check is fast.

    Args:
        words: U, the number of nodes that are words.
        rows: A, the number of rows of weights that occur.
        key, left, right: fields of a `LevelBatch`.
    """
    if words > len(key) or len(left) != len(key) or len(right) != len(key):
        raise ValueError("the nodes of a batch have arrays of different lengths")
    for node in range(words, len(key)):
        if key[node] < 0 or key[node] >= rows:
            raise ValueError("a node of a batch refers to weights outside the batch")
        if left[node] < 0 or left[node] >= node or right[node] >= node:
            raise ValueError("a node of a batch precedes one of its children")


@njit(nogil=True)
def check_positions(positions: np.ndarray, size: int) -> None:
    """Raise ValueError if positions lie outside an array of so many entries."""
    for position in positions:
        if position < 0 or position >= size:
            raise ValueError("a position in a batch is out of range")


@njit(nogil=True)
def number_marked(slot: np.ndarray) -> np.ndarray:
    """Number the marked (>= 0) entries of `slot` in order; return their positions, int32."""
    count = 0
    for i in range(len(slot)):
        if slot[i] >= 0:
            count += 1
    marked = np.empty(count, np.int32)
    count = 0
    for i in range(len(slot)):
        if slot[i] >= 0:
            marked[count] = i
            slot[i] = count
            count += 1
    return marked


@apart
@njit(nogil=True)
def _reachable(
    key: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    root: np.ndarray,
    word_count: int,
    row_count: int,
) -> tuple[np.ndarray, ...]:
    """Nodes below `root`, renumbered; see `restrict`."""
    check_structure(word_count, row_count, key, left, right)
    check_positions(root, len(key))
    slot = np.full(len(key), -1, np.int32)
    row_slot = np.full(row_count, -1, np.int32)
    for node in root:
        slot[node] = 0
    for node in range(len(key) - 1, word_count - 1, -1):
        if slot[node] >= 0:
            row_slot[key[node]] = 0
            slot[left[node]] = 0
            if right[node] >= 0:
                slot[right[node]] = 0
    kept = number_marked(slot)
    rows = number_marked(row_slot)
    split = np.searchsorted(kept, word_count)
    new_key = np.full(len(kept), -1, np.int32)
    new_left = np.full(len(kept), -1, np.int32)
    new_right = np.full(len(kept), -1, np.int32)
    for i in range(split, len(kept)):
        node = kept[i]
        new_key[i] = row_slot[key[node]]
        new_left[i] = slot[left[node]]
        if right[node] >= 0:
            new_right[i] = slot[right[node]]
    new_root = np.empty(len(root), np.int32)
    for i in range(len(root)):
        new_root[i] = slot[root[i]]
    return kept[:split], kept[split:], rows, new_left, new_right, new_key, new_root


def pad_batch(batch: LevelBatch, width: int = 128) -> LevelBatch:
    """Pad all arrays to a few sizes, so that XLA compiles few versions of a function.

    Levels wider than `width` are split, so that every level lies in a window of `width` nodes that
    begins at its offset. Results in the window after the end of a level are overwritten by the next
    level; the same holds for empty levels at the end.

    Args:
        batch: a batch of NumPy arrays.
        width: nodes in a window; pass it to `scores_tensorflow`, too.

    Returns:
        A batch whose sizes are of the form 2^i or 3·2^i. Added examples and candidates are masked.
    """
    words, nodes = len(batch.words), len(batch.key)
    shift = _round_up(words) - words
    starts = [
        np.arange(start, end, width)
        for start, end in zip(batch.level_offsets[1:-1], batch.level_offsets[2:], strict=True)
    ]
    starts.append(np.array([nodes]))
    offsets = np.concatenate([[-shift], *starts]).astype(np.int32) + shift
    behind = _round_up(nodes + shift + width) - nodes - shift

    def shifted(child: np.ndarray) -> np.ndarray:
        return np.where(child >= words, child + shift, child)

    def with_gap(values: np.ndarray, fill: int) -> np.ndarray:
        gap = np.full(shift, -1, np.int32)
        tail = np.full(behind, fill, np.int32)
        return np.concatenate([values[:words], gap, values[words:], tail])

    return batch._replace(
        words=_pad(batch.words),
        rows=_pad(batch.rows),
        key=with_gap(batch.key, 0),
        left=with_gap(shifted(batch.left), 0),
        right=with_gap(shifted(batch.right), -1),
        level_offsets=_pad(offsets, int(offsets[-1])),
        root=_pad(shifted(batch.root)),
        logp=_pad(batch.logp),
        cost=_pad(batch.cost),
        candidates=_pad(_pad(batch.candidates, axis=1)),
        mask=_pad(_pad(batch.mask, axis=1)),
        gold=_pad(batch.gold),
    )


def _round_up(size: int) -> int:
    """The least 2^i or 3·2^i that is at least `size`, and at least 1."""
    power = 1
    size = max(size, 1)
    while power < size:
        power *= 2
    three_quarters = 3 * (power // 4)
    return three_quarters if three_quarters >= size else power


def _pad(values: np.ndarray, fill: int = 0, axis: int = 0) -> np.ndarray:
    size = values.shape[axis]
    width = [(0, 0)] * values.ndim
    width[axis] = (0, _round_up(size) - size)
    return np.pad(values, width, constant_values=fill)
