"""The linear classifier of chart cells, as numba kernels; see `cell_closing`.

A cell's score is the sum of weights of its features: combinations of the tags near its two ends,
some with its length. Features are hashed into one table of weights.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.grammar.cell_closing import BITS
from rnnparse.threads import apart

EPOCHS = 3
RATE = 0.1  # of AdaGrad
SIDE, INNER = 3, 9  # features of one end, and of both ends together


@njit(nogil=True)
def _slot(kind, a, b, c, d):
    """The place of a feature in the table of weights.

    All arguments are int64: numba compiles a variant for each literal number.
    """
    mixed = np.uint64(kind)
    for value in (a, b, c, d):
        mixed = (mixed ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64((mixed * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(64 - BITS))


@njit(nogil=True)
def _at(tags, i):
    """The code of a tag, plus 2; 0 and 1 before and after the sentence."""
    if i < 0:
        return np.int64(0)
    return np.int64(1) if i >= tags.shape[0] else tags[i] + 2


@njit(nogil=True)
def _side_features(tags, i, kind, slots):
    """Features of a cell that begins or ends between tokens i-1 and i."""
    before, after = _at(tags, i - 1), _at(tags, i)
    none = np.int64(0)
    slots[0] = _slot(kind, before, after, none, none)
    slots[1] = _slot(kind + 1, _at(tags, i - 2), before, after, none)
    slots[2] = _slot(kind + 2, before, after, _at(tags, i + 1), none)


@njit(nogil=True)
def _length_class(length):
    if length <= 8:
        return length
    return 9 if length <= 12 else (10 if length <= 20 else 11)


@njit(nogil=True)
def _inner_features(tags, i, j, slots):
    """Features of both ends of the cell over tokens i..j-1."""
    a, b, c, d = _at(tags, i - 1), _at(tags, i), _at(tags, j - 1), _at(tags, j)
    length = _length_class(j - i)
    kind, none = np.int64(10), np.int64(0)
    slots[0] = _slot(kind, a, d, none, none)
    slots[1] = _slot(kind + 1, b, c, none, none)
    slots[2] = _slot(kind + 2, a, c, d, none)
    slots[3] = _slot(kind + 3, a, b, d, none)
    slots[4] = _slot(kind + 4, a, b, c, d)
    slots[5] = _slot(kind + 5, length, none, none, none)
    slots[6] = _slot(kind + 6, length, b, none, none)
    slots[7] = _slot(kind + 7, length, c, none, none)
    slots[8] = _slot(kind + 8, length, a, d, none)


@njit(nogil=True)
def _ends(tags, begin, end):
    """Features of all ends: `begin` and `end` [n+1, SIDE]."""
    for i in range(tags.shape[0] + 1):
        _side_features(tags, i, np.int64(1), begin[i])
        _side_features(tags, i, np.int64(5), end[i])


@njit(nogil=True)
def _sum(weights, slots):
    total = 0.0
    for slot in slots:
        total += weights[slot]
    return total


@njit(nogil=True)
def cell_scores(tags, weights):
    """[cells] float64: the score of every cell of a sentence; inf for single tokens and the whole.

    Cells are numbered as in `rnnparse.inference.chart.cell_index`.
    """
    n = tags.shape[0]
    begin, end = np.empty((n + 1, SIDE), np.int64), np.empty((n + 1, SIDE), np.int64)
    inner = np.empty(INNER, np.int64)
    _ends(tags, begin, end)
    of_begin, of_end = np.empty(n + 1), np.empty(n + 1)
    for i in range(n + 1):
        of_begin[i], of_end[i] = _sum(weights, begin[i]), _sum(weights, end[i])
    scores, cell = np.empty(n * (n + 1) // 2), 0
    for j in range(1, n + 1):
        scores[cell] = np.inf
        for i in range(j - 2, -1, -1):
            cell += 1
            _inner_features(tags, i, j, inner)
            scores[cell] = of_begin[i] + of_end[j] + _sum(weights, inner)
        cell += 1
    scores[n * (n - 1) // 2 + n - 1] = np.inf
    return scores


@njit(nogil=True)
def _update(slots, gradient, weights, squares):
    """One step of AdaGrad on some weights."""
    for slot in slots:
        squares[slot] += gradient * gradient
        weights[slot] -= RATE * gradient / np.sqrt(squares[slot])


@apart
@njit(nogil=True)
def fit_cells(ptr, tags, gold, weights):
    """Fit a logistic regression in place, over all cells of two tokens or more.

    Args:
        ptr [sentences+1] int64, tags int64: the codes of the tags of sentence s are
            tags[ptr[s]:ptr[s+1]].
        gold uint8: of all cells, sentence by sentence, whether a constituent spans it.
        weights [2**BITS] float32.
    """
    squares = np.ones(weights.shape[0], np.float32)
    inner = np.empty(INNER, np.int64)
    for _ in range(EPOCHS):
        cell = 0
        for s in range(ptr.shape[0] - 1):
            own = tags[ptr[s] : ptr[s + 1]]
            n = own.shape[0]
            begin, end = np.empty((n + 1, SIDE), np.int64), np.empty((n + 1, SIDE), np.int64)
            _ends(own, begin, end)
            for j in range(1, n + 1):
                for i in range(j - 2, -1, -1):
                    cell += 1
                    _inner_features(own, i, j, inner)
                    score = _sum(weights, begin[i]) + _sum(weights, end[j]) + _sum(weights, inner)
                    gradient = 1.0 / (1.0 + np.exp(-score)) - gold[cell]
                    _update(begin[i], gradient, weights, squares)
                    _update(end[j], gradient, weights, squares)
                    _update(inner, gradient, weights, squares)
                cell += 1


@apart
@njit(nogil=True)
def gold_scores(ptr, tags, gold, weights):
    """float64: the scores of the cells that constituents span, but for single tokens and wholes."""
    scores, count, cell = np.empty(gold.shape[0]), 0, 0
    for s in range(ptr.shape[0] - 1):
        of_sentence = cell_scores(tags[ptr[s] : ptr[s + 1]], weights)
        for score in of_sentence:
            if gold[cell] and score < np.inf:
                scores[count] = score
                count += 1
            cell += 1
    return scores[:count]
