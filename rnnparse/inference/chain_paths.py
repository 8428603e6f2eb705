"""The coarse symbols that the best unary chains pass through.

A pruned chart may lack some of them, and then a chain is not possible there.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.grammar.pcfg import Pcfg
from rnnparse.inference.arrays import grow
from rnnparse.inference.chart import NEG_INF
from rnnparse.inference.rules import RuleArrays
from rnnparse.threads import apart

TOLERANCE = 1e-9  # for sums in another order


@njit(nogil=True)
def _chain_score(child, parent, chain_ptr, chain_parent, chain_logp):
    """Log probability of the best chain between two symbols; -inf if there is none."""
    if child == parent:
        return 0.0
    for u in range(chain_ptr[child], chain_ptr[child + 1]):
        if chain_parent[u] == parent:
            return chain_logp[u]
    return NEG_INF


@njit(nogil=True)
def _find_path(
    child, parent, goal, chain_ptr, chain_parent, chain_logp, up_ptr, up_parent, up_logp, up_link,
    category, seen, visited, path, rule, total,
):
    """Find the chain of the given log probability, depth first.

    A step is taken only if the best chain from there on can still reach the goal.

    Args:
        goal: the log probability of the chain.
        seen, visited: scratch [categories] and [S], False.
        path, rule, total: scratch; `path` receives the symbols from `child` to `parent`.

    Returns:
        The length of the path; 0 if there is none.
    """
    depth, entered = 0, np.zeros(path.shape[0], np.bool_)
    path[0], rule[0], total[0] = child, up_ptr[child], 0.0
    seen[category[child]], visited[child] = True, True
    while depth >= 0 and path[depth] != parent:
        symbol, r = path[depth], rule[depth]
        if r == up_ptr[symbol + 1]:  # a dead end
            if entered[depth] or depth == 0:
                seen[category[symbol]] = False
            visited[symbol] = False
            depth -= 1
            continue
        rule[depth] += 1
        above, reached = up_parent[r], total[depth] + up_logp[r]
        if visited[above] or (not up_link[r] and seen[category[above]]):
            continue
        rest = _chain_score(above, parent, chain_ptr, chain_parent, chain_logp)
        if reached + rest < goal - TOLERANCE:
            continue
        depth += 1
        path[depth], rule[depth], total[depth] = above, up_ptr[above], reached
        entered[depth] = not up_link[r]
        seen[category[above]], visited[above] = True, True
    for d in range(depth + 1):
        seen[category[path[d]]], visited[path[d]] = False, False
    return depth + 1


@apart
@njit(nogil=True)
def _paths(
    chain_ptr, chain_parent, chain_logp, up_ptr, up_parent, up_logp, up_link, category, coarse
):
    symbols = category.shape[0]
    seen, visited = np.zeros(category.max() + 1, np.bool_), np.zeros(symbols, np.bool_)
    path, rule = np.empty(symbols + 1, np.int64), np.empty(symbols + 1, np.int64)
    total = np.empty(symbols + 1)
    ptr, via, count = np.zeros(chain_parent.shape[0] + 1, np.int64), np.empty(1024, np.int32), 0
    for child in range(symbols):
        for u in range(chain_ptr[child], chain_ptr[child + 1]):
            parent = np.int64(chain_parent[u])
            length = _find_path(
                child, parent, chain_logp[u], chain_ptr, chain_parent, chain_logp, up_ptr,
                up_parent, up_logp, up_link, category, seen, visited, path, rule, total,
            )
            via = grow(via, count + length)
            for d in range(1, length - 1):
                between = coarse[path[d]]
                if between != coarse[child] and between != coarse[parent]:
                    via[count] = between
                    count += 1
            ptr[u + 1] = count
    return ptr, via[:count].copy()


def chain_paths(
    rules: RuleArrays, chain_ptr: np.ndarray, grammar: Pcfg, coarse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The coarse symbols between the ends of each chain of `rules.closure_parent`.

    Args:
        rules: the rule arrays of the grammar.
        chain_ptr [S+1] int64: its `chain_offsets`.
        grammar: the grammar.
        coarse [S] int32: the coarse symbol of each symbol.

    Returns:
        Offsets by chain (int64), and the coarse symbols (int32) other than those of the ends.
    """
    parent, child = grammar.unary.T
    paths: tuple[np.ndarray, np.ndarray] = _paths(
        chain_ptr,
        rules.closure_parent.astype(np.int64),
        rules.closure_logp,
        np.searchsorted(child, np.arange(len(coarse) + 1)).astype(np.int64),
        parent.astype(np.int64),
        grammar.unary_logp,
        grammar.link,
        rules.category,
        coarse,
    )
    return paths
