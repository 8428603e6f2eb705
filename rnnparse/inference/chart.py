"""The CKY chart: its arrays, and look-ups of cells and items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit

NEG_INF = -np.inf
SLOT = np.dtype(
    [
        ("start", np.int64),
        ("top", np.float64),
        ("number", np.int32),
        ("low", np.int32),
        ("high", np.int32),
    ],
    align=True,
)


class Rows(NamedTuple):
    """Scores of the left children: one slot for each start position and symbol there.

    The score of slot x over tokens i..k-1 is score[slots[x].start + k], -inf without a score; all
    k with a score lie in slots[x].low..high. `top` is the greatest score, `number` the number of
    the left child.
    """

    slot: np.ndarray  # [n, L] int32: slot of each left child's number, or -1
    slots: np.ndarray  # SLOT
    score: np.ndarray  # float64
    item: np.ndarray  # int32: the item with that score; undefined without one


class Column(NamedTuple):
    """Scores of the M right children that end at one position.

    The score of right child b over the tokens from k on is score[b*width + k]; all k with a score
    lie in low[b]..high[b].
    """

    score: np.ndarray  # [M*width] float64
    item: np.ndarray  # [M*width] int32: the item with that score; undefined without one
    low: np.ndarray  # [M] int32
    high: np.ndarray  # [M] int32
    top: np.ndarray  # [M] float64: the greatest score; only when pruning
    width: int


class Beam(NamedTuple):
    """Estimates by which the inside pass discards unlikely items (see `figure_of_merit`).

    The merit of an item over tokens i..j-1 is its inside score + left[i, symbol] +
    right[j, symbol]. In each open cell the pass keeps the items within `width` nats of the best
    merit that also reach `least`; other cells stay empty. Without a beam, the arrays are empty.
    """

    left: np.ndarray  # [n+1, S] float64
    right: np.ndarray  # [n+1, S] float64
    width: float
    least: float
    is_open: np.ndarray  # [cells] bool


class Chart(NamedTuple):
    """The items of all cells; those of cell c are cell_ptr[c]:cell_ptr[c+1] (see `cell_index`)."""

    cell_ptr: np.ndarray  # [cells+1] int64
    symbol: np.ndarray  # [items] int32, in rising order within a cell
    inside: np.ndarray  # [items] float64, log probability of the best derivation
    rows: Rows


@njit(nogil=True, inline="always")
def cell_index(i, j):
    """Number of the cell over tokens i..j-1: columns in order, shortest spans first."""
    return j * (j - 1) // 2 + (j - 1 - i)


@njit(nogil=True)
def find_item(cell_ptr, symbol, cell, wanted):
    """Number of a symbol's item in a cell of a `Chart`, or -1; a binary search."""
    low, high = cell_ptr[cell], cell_ptr[cell + 1]
    while low < high:
        middle = (low + high) // 2
        if symbol[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    present = low < cell_ptr[cell + 1] and symbol[low] == wanted
    return low if present else np.int64(-1)


@njit(nogil=True)
def lexical_items(chart, sentence):
    """int64: the item of each tag state of a `Sentence` in a `Chart` without a beam."""
    items = np.empty(sentence.symbol.shape[0], np.int64)
    for i in range(sentence.ptr.shape[0] - 1):
        cell = cell_index(i, i + 1)
        for t in range(sentence.ptr[i], sentence.ptr[i + 1]):
            items[t] = find_item(chart.cell_ptr, chart.symbol, cell, sentence.symbol[t])
    return items


@njit(nogil=True)
def new_column(symbols, width):
    """An empty column over the positions 0..width-1."""
    return Column(
        np.full(symbols * width, NEG_INF),
        np.empty(symbols * width, np.int32),
        np.full(symbols, width, np.int32),
        np.full(symbols, -1, np.int32),
        np.full(symbols, NEG_INF),
        width,
    )


@njit(nogil=True)
def clear_column(column):
    """Empty a `Column`."""
    score, _, low, high, top, width = column
    for b in range(low.shape[0]):
        if high[b] >= 0:
            for k in range(low[b], high[b] + 1):
                score[b * width + k] = NEG_INF
            low[b] = width
            high[b] = -1
            top[b] = NEG_INF
