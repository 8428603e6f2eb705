"""The rules of a grammar, grouped by the coarse rules that stand for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.grammar.pcfg import Pcfg
from rnnparse.inference.rules import LEFT, RuleArrays, chain_offsets, unary_chains

CLASS_RULE = np.dtype([("logp", np.float64), ("parent", np.int32), ("right", np.int32)], align=True)


class RuleClasses(NamedTuple):
    """Binary rules over S symbols, grouped by their coarse rule over N symbols and the left child.

    Within a group, a symbol is given by its place among those of its coarse symbol.
    """

    coarse: np.ndarray  # [S] int32: the coarse symbol of each symbol
    symbol_ptr: np.ndarray  # [N+1] int64: symbols by coarse symbol
    symbol: np.ndarray  # [S] int32
    place: np.ndarray  # [S] int32: of each symbol
    left_ptr: np.ndarray  # int64: groups by coarse rule, in the order of `RuleArrays.binary`
    left: np.ndarray  # LEFT: the left child, and its first rule; one more ends the list
    rule: np.ndarray  # [R] CLASS_RULE
    chain_ptr: np.ndarray  # [S+1] int64: chains in `RuleArrays.closure_parent` by the symbol below
    via_ptr: np.ndarray  # int64: by chain, the coarse symbols that it passes through
    via: np.ndarray  # int32


def rule_classes(grammar: Pcfg, rules: RuleArrays, coarse: Pcfg, of: np.ndarray) -> RuleClasses:
    """Group rules.

    Args:
        grammar: the grammar.
        rules: its rule arrays.
        coarse: the grammar projected to coarse symbols.
        of [S] int32: the coarse symbol of each symbol.
    """
    size = len(coarse.symbols)
    symbol = np.argsort(of, kind="stable").astype(np.int32)
    symbol_ptr = np.searchsorted(of[symbol], np.arange(size + 1)).astype(np.int64)
    place = np.empty(len(symbol), np.int32)
    place[symbol] = np.arange(len(symbol)) - symbol_ptr[of[symbol]]

    def key(binary: np.ndarray) -> np.ndarray:
        parent, left, right = binary.astype(np.int64).T
        return (parent * size + left) * size + right

    coarse_rule = np.searchsorted(np.sort(key(coarse.binary)), key(of[grammar.binary]))
    places = place[grammar.binary]
    order = np.lexsort((places[:, 0], places[:, 2], places[:, 1], coarse_rule))
    rule = np.zeros(len(order), CLASS_RULE)
    rule["logp"] = grammar.binary_logp[order]
    rule["parent"], rule["right"] = places[order, 0], places[order, 2]
    pairs = coarse_rule[order] * len(symbol) + places[order, 1]
    distinct, first = np.unique(pairs, return_index=True)
    left = np.zeros(len(distinct) + 1, LEFT)
    left["left"][:-1] = distinct % len(symbol)
    left["first"] = np.append(first, len(order))
    left_ptr = np.searchsorted(distinct // len(symbol), np.arange(len(coarse.binary) + 1))
    chain_ptr = chain_offsets(rules)
    return RuleClasses(
        of,
        symbol_ptr,
        symbol,
        place,
        left_ptr.astype(np.int64),
        left,
        rule,
        chain_ptr,
        *_passed(grammar, of),
    )


def _passed(grammar: Pcfg, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets by chain, and the coarse symbols between the ends of each.

    A pruned chart may lack some of them, and then the chain is not possible there.
    """
    coarse, passed = of.tolist(), []
    for chain in unary_chains(grammar):
        ends = coarse[chain.child], coarse[chain.parent]
        passed.append([coarse[s] for s in chain.between if coarse[s] not in ends])
    ptr = np.cumsum([0, *map(len, passed)], dtype=np.int64)
    return ptr, np.array([symbol for symbols in passed for symbol in symbols], np.int32)
