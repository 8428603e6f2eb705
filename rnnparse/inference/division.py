"""Sentences that are parsed in parts: where to divide them, and how to join the trees."""

from __future__ import annotations

from collections.abc import Sequence

from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.forest import Forest, ForestBuilder, candidate_as
from rnnparse.inference.glue import PENALTY
from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.cleaning import ROOT
from rnnparse.trees.node import Node

ENDS = (".!?。！？…", ";:", ",")  # characters of marks after which to divide, best first


def place_to_divide(tokens: Sequence[str]) -> int:
    """The first token of the second part of a sentence of at least two tokens.

    Both parts have a quarter of the tokens at least. The first part ends with a mark that ends
    sentences if there is one, else with one that ends clauses, else in the middle; among several
    places the one nearest to the middle is taken.
    """
    n = len(tokens)
    places = sorted(range(max(1, n // 4), n - n // 4 + 1), key=lambda p: abs(2 * p - n))
    places = [p for p in places if 0 < p < n]
    for marks in ENDS:
        for place in places:
            if not unescape_token(tokens[place - 1]).strip(marks):
                return place
    return places[0]


def join(forests: Sequence[Forest], sizes: Sequence[int], grammar: Grammar) -> Forest:
    """A forest of one tree, whose root has the constituents of the best trees of all parts.

    Args:
        forests: of each part.
        sizes: tokens in each part.
        grammar: the grammar of the trees.
    """
    names = grammar.pcfg.categories
    pieces: list[Node] = []
    logp = 0.0
    for forest, size in zip(forests, sizes, strict=True):
        pieces.extend(candidate_as(Node, forest, 0, ["-"] * size, names))
        logp += float(forest.logp[0]) + PENALTY
    builder = ForestBuilder(names, grammar.heads)
    builder.add(Node(ROOT, pieces), logp)
    return builder.forest()
