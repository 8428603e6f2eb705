"""Viterbi CKY over sparse cells (Cocke, Kasami, Younger), as numba kernels on rule arrays.

The chart is filled column by column (end positions), and within a column from short to long spans.
A cell keeps only the symbols that span it. The scores of left children are also stored by start
position (`Rows`), and those of right children by the current end position (`Column`), with split
points side by side. The best split for a pair of children is then a maximum over two contiguous
ranges, and the rules of a pair are visited once per cell instead of once per split.

The innermost kernels take NumPy arrays and create none. Otherwise numba counts references to arrays
in their loops, which doubles the time.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.arrays import copy_to, grow
from rnnparse.inference.chart import (
    NEG_INF,
    SLOT,
    Beam,
    Chart,
    Rows,
    cell_index,
    clear_column,
    new_column,
)


@njit(nogil=True)
def _apply_binary(
    best, row, slots, left_score, score, low, high, width,
    pair_ptr, pair_right, rule_ptr, rule_parent, rule_logp,
):
    """Raise `best` by every binary rule over the slots of a row and the column."""
    one = np.uint64(1)
    for x in row:
        slot = slots[x]
        left, a, first, last = np.uint64(slot.number), np.uint64(slot.start), slot.low, slot.high
        for pair in range(pair_ptr[left], pair_ptr[left + one]):
            right = pair_right[pair]
            begin, end = max(first, low[right]), min(last, high[right])
            if begin > end:
                continue
            b = np.uint64(right) * np.uint64(width)
            split = NEG_INF
            for k in range(np.uint64(begin), np.uint64(end) + one):
                total = left_score[a + k] + score[b + k]
                split = total if total > split else split
            if split == NEG_INF:
                continue
            for r in range(rule_ptr[pair], rule_ptr[pair + one]):
                total, old = split + rule_logp[r], best[rule_parent[r]]
                best[rule_parent[r]] = total if total > old else old


@njit(nogil=True)
def _close_unary(best, base, closure_symbol, closure_ptr, closure_parent, closure_logp):
    """Raise `best` by unary chains.

    Chains start from the scores of tags and binary rules (kept in `base`), not from those of other
    chains, because two chains in a row might repeat a category.
    """
    for x in range(closure_symbol.shape[0]):
        base[x] = best[closure_symbol[x]]
    for x in range(closure_symbol.shape[0]):
        if base[x] > NEG_INF:
            for u in range(closure_ptr[x], closure_ptr[x + 1]):
                total, old = base[x] + closure_logp[u], best[closure_parent[u]]
                best[closure_parent[u]] = total if total > old else old


@njit(nogil=True)
def _apply_rules(best, base, row, slots, left_score, column, rules):
    """Raise `best` by all rules."""
    _apply_binary(
        best, row, slots, left_score, column.score, column.low, column.high, column.width,
        rules.pair_ptr, rules.pair_right, rules.rule_ptr, rules.rule_parent, rules.rule_logp,
    )
    _close_unary(
        best, base, rules.closure_symbol, rules.closure_ptr, rules.closure_parent,
        rules.closure_logp,
    )


@njit(nogil=True)
def no_beam():
    """A `Beam` that keeps everything."""
    nothing = np.empty((0, 0))
    return Beam(nothing, nothing, np.inf, NEG_INF, np.empty(0, np.bool_))


@njit(nogil=True)
def _collect(best, symbol):
    """List the symbols that have a score, in ascending order; returns their number."""
    count = 0
    for s in range(best.shape[0]):
        if best[s] > NEG_INF:
            symbol[count] = s
            count += 1
    return count


@njit(nogil=True)
def _discard(best, symbol, count, left, right, width, least):
    """Remove the symbols outside the beam from `best` and the list; returns the new number."""
    top = NEG_INF
    for t in range(count):
        s = symbol[t]
        top = max(top, best[s] + left[s] + right[s])
    cut = max(top - width, least)
    kept = 0
    for t in range(count):
        s = symbol[t]
        if best[s] + left[s] + right[s] >= cut:
            symbol[kept] = s
            kept += 1
        else:
            best[s] = NEG_INF
    return kept


@njit(nogil=True)
def _store(i, best, symbol, inside, right_number, score, low, high, width):
    """Move the scores of the listed symbols from `best` to their items and the column."""
    for t in range(symbol.shape[0]):
        s = symbol[t]
        inside[t] = best[s]
        best[s] = NEG_INF
        b = right_number[s]
        if b >= 0:
            score[b * width + i] = inside[t]
            low[b] = i
            high[b] = max(high[b], i)


@njit(nogil=True)
def _extend_row(
    i, j, n, first, symbol, inside, left_number, slot, slots, score, number, row, size
):
    """Enter the left children of cell (i, j) into their row.

    Args:
        i, j, n: start and end of the cell, number of tokens.
        first: number of the cell's first item.
        symbol, inside: the items of the cell.
        left_number, slot, slots, score, number: see `RuleArrays` and `Rows`; `slot` [L] is of this
            row.
        row: the slots of this row.
        size [2]: number of slots and scores of all rows.

    Returns:
        The number of slots that were added to the row.
    """
    width = n - 1 - i  # a left child ends before the last token
    added = 0
    for t in range(symbol.shape[0]):
        a = left_number[symbol[t]]
        if a < 0:
            continue
        x = slot[a]
        if x < 0:
            x = size[0]
            slot[a] = x
            row[added] = x
            slots[x].start = size[1] - (i + 1)
            slots[x].number = a
            slots[x].low = j
            slots[x].top = NEG_INF
            for k in range(size[1], size[1] + width):
                score[k] = NEG_INF
            size[0] += 1
            size[1] += width
            added += 1
        score[slots[x].start + j] = inside[t]
        number[slots[x].start + j] = first + t
        slots[x].high = j
        slots[x].top = max(slots[x].top, inside[t])
    return added


@njit(nogil=True)
def inside_chart(n, lex_ptr, lex_symbol, lex_logp, rules, beam, stop):
    """Fill the chart of a sentence of n tokens.

    Args:
        n: number of tokens.
        lex_ptr [n+1] int64, lex_symbol int32, lex_logp float64: the tag states of each token with
            log P(word | tag).
        rules: a `RuleArrays`.
        beam: a `Beam`; `no_beam()` for an exact chart.
        stop [1]: nonzero to stop early, with an incomplete chart.

    Returns:
        A `Chart`. Scores are log probabilities of the best derivation (Viterbi inside) in which
        no unary chain repeats a category.
    """
    left_children = rules.left_symbol.shape[0]
    cells = n * (n + 1) // 2
    cell_ptr = np.zeros(cells + 1, np.int64)
    room = 16 * cells + 1024
    item_symbol, item_inside = np.empty(room, np.int32), np.empty(room, np.float64)
    items = 0
    slot = np.full((n, left_children), -1, np.int32)
    slots, size = np.empty(1024, SLOT), np.zeros(2, np.int64)
    left_score, left_item = np.empty(16 * n * n + 1024), np.empty(16 * n * n + 1024, np.int32)
    row, row_count = np.empty((n, left_children), np.int32), np.zeros(n, np.int64)
    column = new_column(rules.right_symbol.shape[0], n + 1)
    best, symbols = np.full(rules.category.shape[0], NEG_INF), np.empty_like(rules.category)
    base = np.empty(rules.closure_symbol.shape[0])
    for j in range(1, n + 1):
        for t in range(lex_ptr[j - 1], lex_ptr[j]):
            best[lex_symbol[t]] = max(best[lex_symbol[t]], lex_logp[t])
        for i in range(j - 1, -1, -1):
            if stop[0]:
                break
            cell = cell_index(i, j)
            if beam.is_open.shape[0] > 0 and not beam.is_open[cell]:
                cell_ptr[cell + 1] = items
                continue
            _apply_rules(best, base, row[i, : row_count[i]], slots, left_score, column, rules)
            count = _collect(best, symbols)
            if beam.left.shape[0] > 0:
                count = _discard(
                    best, symbols, count, beam.left[i], beam.right[j], beam.width, beam.least
                )
            item_symbol = grow(item_symbol, items + count)
            item_inside = grow(item_inside, items + count)
            copy_to(item_symbol[items:], symbols[:count])
            symbol, inside = item_symbol[items : items + count], item_inside[items : items + count]
            _store(
                i, best, symbol, inside, rules.right_number,
                column.score, column.low, column.high, column.width,
            )
            if j < n:
                slots = grow(slots, size[0] + count)
                left_score = grow(left_score, size[1] + count * (n - 1 - i))
                left_item = grow(left_item, size[1] + count * (n - 1 - i))
                row_count[i] += _extend_row(
                    i, j, n, items, symbol, inside, rules.left_number, slot[i], slots, left_score,
                    left_item, row[i, row_count[i] :], size,
                )
            items += count
            cell_ptr[cell + 1] = items
        clear_column(column)
    rows = Rows(slot, slots, left_score, left_item)
    return Chart(cell_ptr, item_symbol[:items], item_inside[:items], rows)
