"""The best unary chain between every two symbols in which no category repeats.

For each top symbol, Dijkstra's search down the unary rules finds the best chain from every symbol
below. Most of these chains repeat no category and are final. For the others, branch and bound
follows: a valid chain lacks at least one of two nodes with the same category, so the search is
repeated without the one and without the other. This does not enumerate chains, whose number grows
exponentially in dense grammars.

A chain *enters* a symbol by a unary rule that leaves a node in the tree. Links leave no node, so a
category occurs once for each entry, and once for the first symbol of the chain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.arrays import copy_to, grow
from rnnparse.inference.chart import NEG_INF
from rnnparse.inference.heap import ENTRY, pop, push
from rnnparse.threads import apart


class Chains(NamedTuple):
    """Unary rules, and the state of a search among them.

    Attributes:
        ptr [S+1], rule (UNARY): unary rules by parent.
        parent [U] int64: the parent of each rule.
        category [S] int32: category of each symbol.
        score [S] float64: log probability of the best chain up to the top, -inf if there is
            none.
        above [S] int64: the first rule of that chain.
        seen [2C] int64: the latest walk on which a category occurred; the number of walks is
            seen[-1].
        heap (ENTRY), heap_size [2]: the queue, with room for all rules.
    """

    ptr: np.ndarray
    rule: np.ndarray
    parent: np.ndarray
    category: np.ndarray
    score: np.ndarray
    above: np.ndarray
    seen: np.ndarray
    heap: np.ndarray
    heap_size: np.ndarray


@njit(nogil=True)
def _search(top, closed, goal, floor, chains):
    """Find the best chains up to `top`, best first.

    Args:
        closed [S] bool: symbols that no chain may enter.
        goal: the symbol at which to stop, or -1 to visit all.
        floor: only chains with a higher log probability matter.
    """
    ptr, rule, _, _, score, above, _, heap, size = chains
    score[:] = NEG_INF
    size[:] = 0
    push(heap, size, 0.0, np.int64(top), np.int64(-1), np.int64(0))
    while size[0] > 0:
        total, symbol, first, _ = pop(heap, size)
        if score[symbol] > NEG_INF:
            continue
        if total <= floor:
            return
        score[symbol], above[symbol] = total, first
        if symbol == goal:
            return
        for r in range(ptr[symbol], ptr[symbol + 1]):
            if score[rule[r].child] == NEG_INF and (rule[r].link or not closed[symbol]):
                push(heap, size, total + rule[r].logp, np.int64(rule[r].child), r, np.int64(0))


@njit(nogil=True)
def _clash(child, top, chains):
    """The first symbol at which the best chain of `child` repeats a category, or -1."""
    category, seen = chains.category, chains.seen
    seen[-1] += 1
    walk = seen[-1]
    seen[category[child]] = walk
    symbol = np.int64(child)
    while symbol != top:
        r = chains.above[symbol]
        symbol = chains.parent[r]
        if not chains.rule[r].link:
            if seen[category[symbol]] == walk:
                return symbol
            seen[category[symbol]] = walk
    return np.int64(-1)


@njit(nogil=True)
def _log_probability(child, top, chains):
    """Log probability of the best chain of `child`, summed from below."""
    total, symbol = 0.0, np.int64(child)
    while symbol != top:
        total += chains.rule[chains.above[symbol]].logp
        symbol = chains.parent[chains.above[symbol]]
    return total


@njit(nogil=True)
def _close(closed, category, chains):
    """Close all symbols of a category."""
    for s in range(closed.shape[0]):
        closed[s] |= chains.category[s] == category


@njit(nogil=True)
def _closed_below(top, chains):
    """[S] bool: the symbols with the category of `top` through which no valid chain reaches it.

    Chains may enter `top` and the symbols from which only links lead up to it.
    """
    closed = np.zeros(chains.category.shape[0], np.bool_)
    linked = np.empty(chains.category.shape[0], np.int64)
    _close(closed, chains.category[top], chains)
    closed[top] = False
    linked[0], done, count = top, 0, 1
    while done < count:
        symbol = linked[done]
        done += 1
        for r in range(chains.ptr[symbol], chains.ptr[symbol + 1]):
            below = chains.rule[r].child
            if chains.rule[r].link and closed[below]:
                closed[below] = False
                linked[count] = below
                count += 1
    return closed


@njit(nogil=True)
def _best_valid(child, top, closed, chains):
    """Log probability of the best chain from `child` to `top` without repeated category, or -inf.

    Branch and bound, depth first: if the best chain enters a symbol and so repeats a category, a
    valid chain either does not enter that symbol, or enters no other symbol of its category.
    """
    size = closed.shape[0]
    stack = np.empty(16 * size, np.bool_)
    copy_to(stack, closed)
    count, best = 1, NEG_INF
    while count > 0:
        count -= 1
        at = stack[count * size : (count + 1) * size].copy()
        _search(top, at, child, best, chains)
        if chains.score[child] <= best:
            continue
        clash = _clash(child, top, chains)
        if clash < 0:
            best = _log_probability(child, top, chains)
            continue
        stack = grow(stack, (count + 2) * size)
        without = stack[count * size : (count + 1) * size]
        copy_to(without, at)
        without[clash] = True
        alone = stack[(count + 1) * size : (count + 2) * size]
        copy_to(alone, at)
        _close(alone, chains.category[clash], chains)
        alone[clash] = at[clash]
        count += 2
    return best


@njit(nogil=True)
def _take_valid(symbols, top, chains, valid):
    """Store the best chains of some symbols that are valid; returns the symbols of the others."""
    others, count = np.empty_like(symbols), 0
    for s in symbols:
        if chains.score[s] == NEG_INF:
            continue
        if _clash(s, top, chains) < 0:
            valid[s] = _log_probability(s, top, chains)
        else:
            others[count] = s
            count += 1
    return others[:count]


@njit(nogil=True)
def _chains_to(top, chains):
    """[S] float64: log probability of the best valid chain from each symbol to `top`, or -inf."""
    valid = np.full(chains.category.shape[0], NEG_INF)
    closed = _closed_below(top, chains)
    _search(top, closed, np.int64(-1), NEG_INF, chains)
    waiting = _take_valid(np.arange(valid.shape[0]), top, chains, valid)
    while waiting.shape[0] > 0:  # symbols of one category share a search
        category = chains.category[waiting]
        at = closed.copy()
        _close(at, category[0], chains)
        _search(top, at, np.int64(-1), NEG_INF, chains)
        for s in _take_valid(waiting[category == category[0]], top, chains, valid):
            valid[s] = _best_valid(s, top, at, chains)
        waiting = waiting[category != category[0]]
    valid[top] = NEG_INF
    return valid


@apart
@njit(nogil=True)
def unary_closure(ptr, rule, category):
    """The best valid chain for each pair of symbols that has one.

    Args:
        ptr [S+1], rule (UNARY): unary rules by parent.
        category [S]: category of each symbol.

    Returns:
        child, parent (int32) and log probability (float64) of each chain, by parent.
    """
    symbols, rules = category.shape[0], rule.shape[0]
    parent = np.empty(rules, np.int64)
    for s in range(symbols):
        parent[ptr[s] : ptr[s + 1]] = s
    chains = Chains(
        ptr,
        rule,
        parent,
        category,
        np.empty(symbols),
        np.empty(symbols, np.int64),
        np.zeros(category.max() + 2, np.int64),
        np.empty(rules + 1, ENTRY),
        np.zeros(2, np.int64),
    )
    below, top, logp = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024)
    count = 0
    for t in range(symbols):
        if ptr[t] == ptr[t + 1]:
            continue
        valid = _chains_to(t, chains)
        below, top = grow(below, count + symbols), grow(top, count + symbols)
        logp = grow(logp, count + symbols)
        for s in range(symbols):
            if valid[s] > NEG_INF:
                below[count], top[count], logp[count] = s, t, valid[s]
                count += 1
    return below[:count].copy(), top[:count].copy(), logp[:count].copy()
