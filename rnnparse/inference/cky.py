"""Viterbi CKY over sparse cells (Cocke, Kasami, Younger), as a numba kernel on rule arrays.

The chart is filled one column (end position) after the other. A cell keeps only the symbols that
span it; the column in work is also held densely, so that the inner loop is: for each symbol of a
left cell, for each rule that begins with it, look the right child up. Memory is therefore the
number of items plus one column, not words² x symbols.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.grammar.pcfg import Pcfg

NEG_INF = -np.inf


class RuleArrays(NamedTuple):
    """Rules sorted for the kernels; `*_ptr` are CSR offsets by symbol.

    Shapes: S symbols, R binary rules, U unary rules. Symbols are int32, log probabilities
    float64. Binary rules are sorted by left child, unary rules by child. A *link* is a unary rule
    that leaves no node in the tree: it leads from an annotated symbol to its smoothing back-off.
    """

    left_ptr: np.ndarray  # [S+1] rules by left child
    right: np.ndarray  # [R]
    parent: np.ndarray  # [R]
    logp: np.ndarray  # [R]
    child_ptr: np.ndarray  # [S+1] unary rules by child
    unary_parent: np.ndarray  # [U]
    unary_logp: np.ndarray  # [U]
    unary_link: np.ndarray  # [U] bool
    category: np.ndarray  # [S] basic category of each symbol
    partial: np.ndarray  # [S] bool: intermediate symbol of the binarization
    root: int  # the symbol that spans a sentence


def rule_arrays(grammar: Pcfg) -> RuleArrays:
    """The rules of a grammar, sorted for the kernels."""
    size = len(grammar.symbols)
    return RuleArrays(
        left_ptr=np.searchsorted(grammar.binary[:, 1], np.arange(size + 1)).astype(np.int64),
        right=np.ascontiguousarray(grammar.binary[:, 2]),
        parent=np.ascontiguousarray(grammar.binary[:, 0]),
        logp=grammar.binary_logp,
        child_ptr=np.searchsorted(grammar.unary[:, 1], np.arange(size + 1)).astype(np.int64),
        unary_parent=np.ascontiguousarray(grammar.unary[:, 0]),
        unary_logp=grammar.unary_logp,
        unary_link=grammar.link,
        category=grammar.category,
        partial=grammar.partial,
        root=grammar.root,
    )


class Chart(NamedTuple):
    """Items of all cells. Cell (i, j) has number `cell_index(i, j)`; cells are stored by column."""

    cell_ptr: np.ndarray  # [cells+1] int64
    symbol: np.ndarray  # [items] int32
    inside: np.ndarray  # [items] float64, log probability of the best derivation


@njit(cache=True, nogil=True, inline="always")
def cell_index(i: int, j: int) -> int:
    """Number of the cell that spans tokens i..j-1: columns in order, and in each from its end."""
    return j * (j - 1) // 2 + (j - 1 - i)


@njit(cache=True, nogil=True)
def grow_int(array: np.ndarray, size: int) -> np.ndarray:
    """Return `array` itself, or a copy of at least twice its length that holds `size` entries."""
    if size <= array.shape[0]:
        return array
    bigger = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    bigger[: array.shape[0]] = array
    return bigger


@njit(cache=True, nogil=True)
def close_unary(best, touched, count, queue, queued, rules):  # type: ignore[no-untyped-def]
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
        score = best[child]
        for u in range(rules.child_ptr[child], rules.child_ptr[child + 1]):
            parent = rules.unary_parent[u]
            total = score + rules.unary_logp[u]
            old = best[parent]
            if total > old:
                best[parent] = total
                if old == NEG_INF:
                    touched[count] = parent
                    count += 1
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
    column = np.full((n + 1) * symbols, NEG_INF)  # column[k*S + s]: s over tokens k..j-1
    best = np.full(symbols, NEG_INF)
    touched = np.empty(symbols, np.int32)
    queue = np.empty(symbols, np.int32)
    queued = np.zeros(symbols, np.bool_)
    for j in range(1, n + 1):
        if j > 1:  # forget the column before
            for c in range(cell_index(j - 2, j - 1), cell_index(0, j - 1) + 1):
                base = (j - 2 - (c - cell_index(j - 2, j - 1))) * symbols
                for t in range(cell_ptr[c], cell_ptr[c + 1]):
                    column[base + item_symbol[t]] = NEG_INF
        for i in range(j - 1, -1, -1):
            count = 0
            if i == j - 1:
                for t in range(lex_ptr[i], lex_ptr[i + 1]):
                    symbol = lex_symbol[t]
                    if best[symbol] == NEG_INF:
                        touched[count] = symbol
                        count += 1
                    if lex_logp[t] > best[symbol]:
                        best[symbol] = lex_logp[t]
            for k in range(i + 1, j):
                base = k * symbols
                left_cell = cell_index(i, k)
                for t in range(cell_ptr[left_cell], cell_ptr[left_cell + 1]):
                    left = item_symbol[t]
                    left_score = item_inside[t]
                    for r in range(rules.left_ptr[left], rules.left_ptr[left + 1]):
                        right_score = column[base + rules.right[r]]
                        if right_score == NEG_INF:
                            continue
                        total = left_score + right_score + rules.logp[r]
                        parent = rules.parent[r]
                        old = best[parent]
                        if total > old:
                            best[parent] = total
                            if old == NEG_INF:
                                touched[count] = parent
                                count += 1
            count = close_unary(best, touched, count, queue, queued, rules)
            cell = cell_index(i, j)
            item_symbol = grow_int(item_symbol, items + count)
            item_inside = grow_int(item_inside, items + count)
            for t in range(count):
                symbol = touched[t]
                item_symbol[items] = symbol
                item_inside[items] = best[symbol]
                column[i * symbols + symbol] = best[symbol]
                best[symbol] = NEG_INF
                items += 1
            cell_ptr[cell + 1] = items
    return Chart(cell_ptr, item_symbol[:items].copy(), item_inside[:items].copy())
