"""Viterbi CKY over sparse cells (Cocke, Kasami, Younger), as numba kernels on rule arrays.

The chart is filled column by column (end positions), in each from the shortest span up. A cell
keeps only the symbols that span it. Two dense strips are laid out beside it: the column in work,
and the row (start position) in work, each with the split points side by side for every symbol.
The best split for a pair of children is then a maximum over two contiguous stretches, and a
pair's rules are visited once a cell, not once a split. Memory is the items plus two strips, not
words² x symbols.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.grammar.pcfg import Pcfg

NEG_INF = -np.inf


class RuleArrays(NamedTuple):
    """The rules of a grammar in the orders that the kernels walk them.

    S symbols, Q pairs of children, R binary rules, U unary rules; `*_ptr` are CSR offsets
    (int64), symbols int32, log probabilities float64. A *link* is a unary rule that leaves no
    node in the tree: it leads from an annotated symbol to its smoothing back-off.
    """

    pair_ptr: np.ndarray  # [S+1] pairs by left child
    pair_right: np.ndarray  # [Q]
    rule_ptr: np.ndarray  # [Q+1] rules by pair
    parent: np.ndarray  # [R]
    logp: np.ndarray  # [R]
    parent_ptr: np.ndarray  # [S+1] rules by parent
    left_of: np.ndarray  # [R] in the order of parent_ptr
    right_of: np.ndarray  # [R]
    logp_of: np.ndarray  # [R]
    child_ptr: np.ndarray  # [S+1] unary rules by child
    unary_parent: np.ndarray  # [U]
    unary_logp: np.ndarray  # [U]
    unary_link: np.ndarray  # [U] bool
    category: np.ndarray  # [S] category of each symbol
    partial: np.ndarray  # [S] bool: intermediate symbol of the binarization
    root: int  # the symbol that spans a sentence


def rule_arrays(grammar: Pcfg) -> RuleArrays:
    """Lay the rules of a grammar out for the kernels."""
    size = len(grammar.symbols)
    steps = np.arange(size + 1)
    parent, left, right = grammar.binary.T
    by_pair = np.lexsort((parent, right, left))
    pairs, first = np.unique(grammar.binary[by_pair, 1:], axis=0, return_index=True)
    by_parent = np.lexsort((right, left, parent))
    return RuleArrays(
        pair_ptr=np.searchsorted(pairs[:, 0], steps).astype(np.int64),
        pair_right=np.ascontiguousarray(pairs[:, 1]),
        rule_ptr=np.append(first, len(parent)).astype(np.int64),
        parent=parent[by_pair],
        logp=grammar.binary_logp[by_pair],
        parent_ptr=np.searchsorted(parent[by_parent], steps).astype(np.int64),
        left_of=left[by_parent],
        right_of=right[by_parent],
        logp_of=grammar.binary_logp[by_parent],
        child_ptr=np.searchsorted(grammar.unary[:, 1], steps).astype(np.int64),
        unary_parent=np.ascontiguousarray(grammar.unary[:, 0]),
        unary_logp=grammar.unary_logp,
        unary_link=grammar.link,
        category=grammar.category,
        partial=grammar.partial,
        root=grammar.root,
    )


class Chart(NamedTuple):
    """Items of all cells; the items of cell c are cell_ptr[c]:cell_ptr[c+1] (see `cell_index`)."""

    cell_ptr: np.ndarray  # [cells+1] int64
    symbol: np.ndarray  # [items] int32
    inside: np.ndarray  # [items] float64, log probability of the best derivation


class Strip(NamedTuple):
    """Scores of a row or a column: entry s*width + k is symbol s at split point k.

    `low` and `high` [S] bound the split points where a symbol has a score (low > high: none).
    """

    score: np.ndarray
    low: np.ndarray
    high: np.ndarray
    width: int


@njit(cache=True, nogil=True, inline="always")
def cell_index(i: int, j: int) -> int:
    """Number of the cell that spans tokens i..j-1: columns in order, shortest spans first."""
    return j * (j - 1) // 2 + (j - 1 - i)


@njit(cache=True, nogil=True)
def grow(array: np.ndarray, size: int) -> np.ndarray:
    """Return `array` itself, or a copy of at least twice its length that holds `size` entries."""
    if size <= array.shape[0]:
        return array
    bigger = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    bigger[: array.shape[0]] = array
    return bigger


@njit(cache=True, nogil=True)
def new_strip(symbols, width):  # type: ignore[no-untyped-def]
    """An empty strip over split points 0..width-1."""
    return Strip(
        np.full(symbols * width, NEG_INF),
        np.full(symbols, width, np.int32),
        np.full(symbols, -1, np.int32),
        width,
    )


@njit(cache=True, nogil=True)
def _best_split(row, column, left, right):  # type: ignore[no-untyped-def]
    """The largest sum of scores of a left and a right child over all split points."""
    low = max(row.low[left], column.low[right])
    high = min(row.high[left], column.high[right])
    best = NEG_INF
    a, b = left * row.width, right * column.width
    for k in range(low, high + 1):
        total = row.score[a + k] + column.score[b + k]
        best = total if total > best else best
    return best


@njit(cache=True, nogil=True)
def _load_row(i, j, cell_ptr, symbol, inside, rules, row, present):  # type: ignore[no-untyped-def]
    """Put the left children of cell (i, j) into the row strip; returns how many symbols it has."""
    count = 0
    for k in range(i + 1, j):
        cell = cell_index(i, k)
        for t in range(cell_ptr[cell], cell_ptr[cell + 1]):
            s = symbol[t]
            if rules.pair_ptr[s] == rules.pair_ptr[s + 1]:
                continue
            row.score[s * row.width + k] = inside[t]
            if row.high[s] < 0:
                row.low[s] = k
                present[count] = s
                count += 1
            row.high[s] = k
    return count


@njit(cache=True, nogil=True)
def _apply_binary(row, column, present, count, rules, best):  # type: ignore[no-untyped-def]
    """Raise `best` by every binary rule over the strips, and empty the row strip again."""
    for q in range(count):
        left = present[q]
        for pair in range(rules.pair_ptr[left], rules.pair_ptr[left + 1]):
            split = _best_split(row, column, left, rules.pair_right[pair])
            if split == NEG_INF:
                continue
            for r in range(rules.rule_ptr[pair], rules.rule_ptr[pair + 1]):
                total = split + rules.logp[r]
                old = best[rules.parent[r]]
                best[rules.parent[r]] = total if total > old else old
        base = left * row.width
        row.score[base + row.low[left] : base + row.high[left] + 1] = NEG_INF
        row.low[left] = row.width
        row.high[left] = -1


@njit(cache=True, nogil=True)
def _close_unary(best, touched, count, queue, queued, rules):  # type: ignore[no-untyped-def]
    """Raise `best` to the fixed point of the unary rules; returns the new number of touched ones.

    Probabilities are at most 1, so the relaxation ends; cycles never raise a score.
    """
    head, size = 0, 0
    capacity = queue.shape[0]
    for t in range(count):
        symbol = touched[t]
        if rules.child_ptr[symbol] < rules.child_ptr[symbol + 1]:
            queue[size] = symbol
            queued[symbol] = True
            size += 1
    while size > 0:
        child = queue[head]
        head = head + 1 if head + 1 < capacity else 0
        size -= 1
        queued[child] = False
        for u in range(rules.child_ptr[child], rules.child_ptr[child + 1]):
            parent = rules.unary_parent[u]
            total = best[child] + rules.unary_logp[u]
            if total <= best[parent]:
                continue
            if best[parent] == NEG_INF:
                touched[count] = parent
                count += 1
            best[parent] = total
            if not queued[parent] and rules.child_ptr[parent] < rules.child_ptr[parent + 1]:
                tail = head + size
                queue[tail if tail < capacity else tail - capacity] = parent
                queued[parent] = True
                size += 1
    return count


@njit(cache=True, nogil=True)
def inside_chart(n, lex_ptr, lex_symbol, lex_logp, rules):  # type: ignore[no-untyped-def]
    """Fill the chart of a sentence of n tokens.

    Args:
        n: number of tokens.
        lex_ptr [n+1], lex_symbol, lex_logp: the tag states of each token with log P(word | tag).
        rules: a `RuleArrays`.

    Returns:
        A `Chart`. Scores are log probabilities of the best derivation (Viterbi inside).
    """
    symbols = rules.category.shape[0]
    cells = n * (n + 1) // 2
    cell_ptr = np.zeros(cells + 1, np.int64)
    item_symbol = np.empty(64 * cells + symbols, np.int32)
    item_inside = np.empty(64 * cells + symbols, np.float64)
    items = 0
    row = new_strip(symbols, n + 1)
    best = np.full(symbols, NEG_INF)
    present = np.empty(symbols, np.int32)
    touched = np.empty(symbols, np.int32)
    queue = np.empty(symbols, np.int32)
    queued = np.zeros(symbols, np.bool_)
    for j in range(1, n + 1):
        column = new_strip(symbols, n + 1)
        for i in range(j - 1, -1, -1):
            if i == j - 1:
                for t in range(lex_ptr[i], lex_ptr[j]):
                    best[lex_symbol[t]] = max(best[lex_symbol[t]], lex_logp[t])
            else:
                count = _load_row(i, j, cell_ptr, item_symbol, item_inside, rules, row, present)
                _apply_binary(row, column, present, count, rules, best)
            count = 0
            for s in range(symbols):
                if best[s] > NEG_INF:
                    touched[count] = s
                    count += 1
            count = _close_unary(best, touched, count, queue, queued, rules)
            item_symbol = grow(item_symbol, items + count)
            item_inside = grow(item_inside, items + count)
            for t in range(count):
                s = touched[t]
                item_symbol[items] = s
                item_inside[items] = best[s]
                column.score[s * column.width + i] = best[s]
                column.low[s] = i
                column.high[s] = max(column.high[s], i)
                best[s] = NEG_INF
                items += 1
            cell_ptr[cell_index(i, j) + 1] = items
    return Chart(cell_ptr, item_symbol[:items].copy(), item_inside[:items].copy())
