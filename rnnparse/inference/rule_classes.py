"""The rules of a grammar, grouped by the coarse rules that stand for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.grammar.pcfg import Pcfg
from rnnparse.inference.chain_paths import chain_paths
from rnnparse.inference.rules import RuleArrays, chain_offsets

LEFT_GROUP = np.dtype([("first", np.int64), ("left", np.int64)], align=True)
CLASS_RULE = np.dtype([("logp", np.float64), ("parent", np.int32), ("right", np.int32)], align=True)

class RuleClasses(NamedTuple):
    """Binary rules over S symbols of N categories, grouped by the coarse rule and the left child.

    Within a group, a symbol is given by its place among the symbols of its category.
    """

    coarse: np.ndarray  # [S] int32: the coarse symbol of each symbol
    symbol_ptr: np.ndarray  # [N+1] int64: symbols by category
    symbol: np.ndarray  # [S] int32
    place: np.ndarray  # [S] int32: of each symbol
    left_ptr: np.ndarray  # int64: groups by coarse rule, in the order of `RuleArrays.binary`
    left: np.ndarray  # LEFT_GROUP: the left child, and its first rule; one more ends the list
    rule: np.ndarray  # [R] CLASS_RULE
    chain_ptr: np.ndarray  # [S+1] int64: chains in `RuleArrays.closure_parent` by the symbol below
    via_ptr: np.ndarray  # int64: by chain, the categories that it passes through
    via: np.ndarray  # int32


def rule_classes(grammar: Pcfg, rules: RuleArrays, coarse: Pcfg, of: np.ndarray) -> RuleClasses:
    """Group rules.

    Args:
        grammar: the grammar.
        rules: its rule arrays.
        coarse: the grammar projected to its categories.
    """
    size, category = len(coarse.symbols), of
    symbol = np.argsort(category, kind="stable").astype(np.int32)
    symbol_ptr = np.searchsorted(category[symbol], np.arange(size + 1)).astype(np.int64)
    place = np.empty(len(symbol), np.int32)
    place[symbol] = np.arange(len(symbol)) - symbol_ptr[category[symbol]]

    def key(binary: np.ndarray) -> np.ndarray:
        parent, left, right = binary.astype(np.int64).T
        return (parent * size + left) * size + right

    coarse_rule = np.searchsorted(np.sort(key(coarse.binary)), key(category[grammar.binary]))
    places = place[grammar.binary]
    order = np.lexsort((places[:, 0], places[:, 2], places[:, 1], coarse_rule))
    rule = np.zeros(len(order), CLASS_RULE)
    rule["logp"] = grammar.binary_logp[order]
    rule["parent"], rule["right"] = places[order, 0], places[order, 2]
    pairs = coarse_rule[order] * len(symbol) + places[order, 1]
    distinct, first = np.unique(pairs, return_index=True)
    left = np.zeros(len(distinct) + 1, LEFT_GROUP)
    left["left"][:-1] = distinct % len(symbol)
    left["first"] = np.append(first, len(order))
    left_ptr = np.searchsorted(distinct // len(symbol), np.arange(len(coarse.binary) + 1))
    return RuleClasses(
        of,
        symbol_ptr,
        symbol,
        place,
        left_ptr.astype(np.int64),
        left,
        rule,
        chain_offsets(rules),
        *chain_paths(rules, grammar.unary, grammar.unary_logp, grammar.link, of),
    )
