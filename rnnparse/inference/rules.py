"""The rules of a grammar in the orders in which the kernels use them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.grammar.pcfg import Pcfg
from rnnparse.inference.closure import Chain, unary_closure

BINARY = np.dtype([("logp", np.float64), ("right", np.int64)], align=True)
LEFT = np.dtype([("first", np.int64), ("left", np.int64)], align=True)
UNARY = np.dtype([("logp", np.float64), ("child", np.int32), ("link", np.bool_)], align=True)


class RuleArrays(NamedTuple):
    """Rules of S symbols, L of which occur as left children and M as right ones.

    `*_ptr` are CSR offsets. Arrays of indices are unsigned, which saves numba's test for negative
    indices in the innermost loops. A *link* is a unary rule that leaves no node in the tree: it
    leads from an annotated symbol to its back-off.
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
    left_ptr: np.ndarray  # [S+1] int64: the left children by parent
    left: np.ndarray  # LEFT: left number, and its first rule; one more ends the list
    binary: np.ndarray  # [R] BINARY: the same rules by parent and left child; right numbers
    unary_ptr: np.ndarray  # [S+1] int64: unary rules by parent
    unary: np.ndarray  # [U] UNARY
    closure_symbol: np.ndarray  # [K] uint32: the symbols that occur as children of unary rules
    closure_ptr: np.ndarray  # [K+1] uint64
    closure_parent: np.ndarray  # uint32: the symbols above through unary rules
    closure_logp: np.ndarray  # float64: of the best chain that repeats no category
    category: np.ndarray  # [S] int32: category of each symbol
    partial: np.ndarray  # [S] bool: intermediate symbol of the binarization
    root: int  # the root symbol


def rule_arrays(grammar: Pcfg) -> RuleArrays:
    """The rules of a grammar as arrays for the kernels."""
    size = len(grammar.symbols)
    parent, left, right = grammar.binary.T
    left_symbol, left_number = _numbered(left, size)
    right_symbol, right_number = _numbered(right, size)
    by_pair = np.lexsort((parent, right, left))
    pairs, first = np.unique(grammar.binary[by_pair, 1:], axis=0, return_index=True)
    by_parent = np.lexsort((right, left, parent))
    binary = np.zeros(len(parent), BINARY)
    binary["logp"] = grammar.binary_logp[by_parent]
    binary["right"] = right_number[right[by_parent]]
    lefts, first_rule = np.unique(
        grammar.binary[by_parent, :2], axis=0, return_index=True
    )
    group = np.zeros(len(lefts) + 1, LEFT)
    group["left"][:-1] = left_number[lefts[:, 1]]
    group["first"] = np.append(first_rule, len(parent))
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
        left_ptr=_offsets(lefts[:, 0], size),
        left=group,
        binary=binary,
        **_unary_by_parent(grammar),
        **_closure(grammar),
        category=grammar.category,
        partial=grammar.partial,
        root=grammar.root,
    )


def chain_offsets(rules: RuleArrays) -> np.ndarray:
    """[S+1] int64: offsets of `closure_parent` by the symbol below, for all symbols."""
    chains = np.zeros(len(rules.category), np.int64)
    chains[rules.closure_symbol] = np.diff(rules.closure_ptr.astype(np.int64))
    return np.append(0, np.cumsum(chains))


def _unary_by_parent(grammar: Pcfg) -> dict[str, np.ndarray]:
    parent, child = grammar.unary.T
    order = np.lexsort((child, parent))
    unary = np.zeros(len(parent), UNARY)
    unary["logp"] = grammar.unary_logp[order]
    unary["child"] = child[order]
    unary["link"] = grammar.link[order]
    return {"unary_ptr": _offsets(parent[order], len(grammar.symbols)), "unary": unary}


def _numbered(symbols: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct symbols, and the position of every symbol among them, or -1."""
    distinct = np.unique(symbols).astype(np.int32)
    number = np.full(size, -1, np.int32)
    number[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, number


def _offsets(ordered: np.ndarray, size: int) -> np.ndarray:
    """The first position of each number 0..size in a sorted array."""
    return np.searchsorted(ordered, np.arange(size + 1)).astype(np.int64)


def _closure(grammar: Pcfg) -> dict[str, np.ndarray]:
    """The unary closure, by child."""
    chains = unary_chains(grammar)
    child = np.array([chain.child for chain in chains], np.int64)
    closure_symbol = np.unique(grammar.unary[:, 1])
    bounds = np.append(closure_symbol, len(grammar.symbols))
    return {
        "closure_symbol": closure_symbol.astype(np.uint32),
        "closure_ptr": np.searchsorted(child, bounds).astype(np.uint64),
        "closure_parent": np.array([chain.parent for chain in chains], np.uint32),
        "closure_logp": np.array([chain.logp for chain in chains], np.float64),
    }


def unary_chains(grammar: Pcfg) -> list[Chain]:
    """The best chain for each pair of symbols that has one, by child, then by parent."""
    unary = _unary_by_parent(grammar)
    chains = unary_closure(unary["unary_ptr"], unary["unary"], grammar.category)
    return sorted(chains, key=lambda chain: chain.child)


