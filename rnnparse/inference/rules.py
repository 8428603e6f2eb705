"""The rules of a grammar in the orders that the kernels walk them."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from rnnparse.grammar.pcfg import Pcfg

BINARY = np.dtype([("logp", np.float64), ("left", np.int32), ("right", np.int32)], align=True)
UNARY = np.dtype([("logp", np.float64), ("child", np.int32), ("link", np.bool_)], align=True)


class RuleArrays(NamedTuple):
    """Rules of S symbols, L of which occur as left children and M as right ones.

    `*_ptr` are CSR offsets. What only indexes other arrays is unsigned, which spares numba's test
    for negative indices in the innermost loops. A *link* is a unary rule that leaves no node in
    the tree: it leads from an annotated symbol to its smoothing back-off.
    """

    left_number: np.ndarray  # [S] int32: number among the left children, or -1
    right_number: np.ndarray  # [S] int32: the same for right children
    left_symbol: np.ndarray  # [L] int32: the symbol of each left number
    right_symbol: np.ndarray  # [M] int32
    pair_ptr: np.ndarray  # [L+1] uint64: pairs of children by left number
    pair_right: np.ndarray  # [Q] uint32: right number
    rule_ptr: np.ndarray  # [Q+1] uint64: binary rules by pair
    rule_parent: np.ndarray  # [R] uint32
    rule_logp: np.ndarray  # [R] float64
    binary_ptr: np.ndarray  # [S+1] int64: the same rules by parent
    binary: np.ndarray  # [R] BINARY: left and right numbers
    unary_ptr: np.ndarray  # [S+1] int64: unary rules by parent
    unary: np.ndarray  # [U] UNARY
    closure_symbol: np.ndarray  # [K] uint32: the symbols that occur as children of unary rules
    closure_ptr: np.ndarray  # [K+1] uint64
    closure_parent: np.ndarray  # uint32: what lies above through one or more unary rules
    closure_logp: np.ndarray  # float64: by the best way that repeats no category
    category: np.ndarray  # [S] int32: category of each symbol
    partial: np.ndarray  # [S] bool: intermediate symbol of the binarization
    root: int  # the symbol that spans a sentence


def rule_arrays(grammar: Pcfg) -> RuleArrays:
    """Lay the rules of a grammar out for the kernels."""
    size = len(grammar.symbols)
    parent, left, right = grammar.binary.T
    left_symbol, left_number = _numbered(left, size)
    right_symbol, right_number = _numbered(right, size)
    by_pair = np.lexsort((parent, right, left))
    pairs, first = np.unique(grammar.binary[by_pair, 1:], axis=0, return_index=True)
    by_parent = np.lexsort((right, left, parent))
    binary = np.zeros(len(parent), BINARY)
    binary["logp"] = grammar.binary_logp[by_parent]
    binary["left"] = left_number[left[by_parent]]
    binary["right"] = right_number[right[by_parent]]
    return RuleArrays(
        left_number=left_number,
        right_number=right_number,
        left_symbol=left_symbol,
        right_symbol=right_symbol,
        pair_ptr=_offsets(left_number[pairs[:, 0]], len(left_symbol)).astype(np.uint64),
        pair_right=right_number[pairs[:, 1]].astype(np.uint32),
        rule_ptr=np.append(first, len(parent)).astype(np.uint64),
        rule_parent=parent[by_pair].astype(np.uint32),
        rule_logp=grammar.binary_logp[by_pair],
        binary_ptr=_offsets(parent[by_parent], size),
        binary=binary,
        **_unary_by_parent(grammar),
        **_closure(grammar),
        category=grammar.category,
        partial=grammar.partial,
        root=grammar.root,
    )


def _unary_by_parent(grammar: Pcfg) -> dict[str, np.ndarray]:
    parent, child = grammar.unary.T
    order = np.lexsort((child, parent))
    unary = np.zeros(len(parent), UNARY)
    unary["logp"] = grammar.unary_logp[order]
    unary["child"] = child[order]
    unary["link"] = grammar.link[order]
    return {"unary_ptr": _offsets(parent[order], len(grammar.symbols)), "unary": unary}


def _numbered(symbols: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct symbols, and the place of every symbol among them (-1: not there)."""
    distinct = np.unique(symbols).astype(np.int32)
    number = np.full(size, -1, np.int32)
    number[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, number


def _offsets(ordered: np.ndarray, size: int) -> np.ndarray:
    """Where each of the numbers 0..size begins among ordered numbers."""
    return np.searchsorted(ordered, np.arange(size + 1)).astype(np.int64)


def _closure(grammar: Pcfg) -> dict[str, np.ndarray]:
    """The unary closure, by child."""
    above: dict[int, list[tuple[int, float, int]]] = defaultdict(list)
    for (parent, child), logp, link in zip(
        grammar.unary.tolist(), grammar.unary_logp.tolist(), grammar.link.tolist(), strict=True
    ):
        # A link leaves no node, so it adds no category to the chain.
        above[child].append((parent, logp, 0 if link else 1 << int(grammar.category[parent])))
    children = sorted(above)
    found = [_closure_of(child, 1 << int(grammar.category[child]), above) for child in children]
    return {
        "closure_symbol": np.array(children, np.uint32),
        "closure_ptr": np.cumsum([0, *map(len, found)]).astype(np.uint64),
        "closure_parent": np.array([s for best in found for s in best], np.uint32),
        "closure_logp": np.array([x for best in found for x in best.values()], np.float64),
    }


def _closure_of(
    child: int, category: int, above: dict[int, list[tuple[int, float, int]]]
) -> dict[int, float]:
    """The log probability of the best unary chain from a child to every symbol above it.

    No chain holds a category twice. Categories are bit sets. The search goes on from the best
    chain so far (Dijkstra) and gives one up whose symbol was reached with no more categories
    before: whatever can stand above the worse chain can stand above the better.
    """
    best: dict[int, float] = {}
    reached: dict[int, list[int]] = defaultdict(list)
    queue = [(0.0, child, category)]
    while queue:
        cost, symbol, used = heapq.heappop(queue)
        if any(old & ~used == 0 for old in reached[symbol]):
            continue
        reached[symbol].append(used)
        best.setdefault(symbol, -cost)
        for parent, logp, new in above.get(symbol, ()):
            if not used & new:
                heapq.heappush(queue, (cost - logp, parent, used | new))
    del best[child]
    return best
