"""What every forest promises, on random grammars and on a real one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.pcfg import category_names
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.forest import Forest, ForestBuilder, candidate_tree, nodes_of
from rnnparse.trees.binarization import binarize
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import small_grammar, trees
from tests.inference.random_grammar import CATEGORIES, World, random_tests, worlds


def binary_tree(forest: Forest, v: int, tokens: list[str], names: list[str]) -> Tree:
    """The binarized tree below a node, by plain recursion."""
    below = [int(c) for c in (forest.left[v], forest.right[v]) if c >= 0]
    label = names[forest.cat[v]]
    if not below:
        return Tree(label, [tokens[forest.start[v]]])
    return Tree(label, [binary_tree(forest, c, tokens, names) for c in below])


def check_forest(
    parse: Parse, tokens: list[str], categories: tuple[str, ...], heads: HeadTable
) -> None:
    forest = parse.forest
    size, names = len(forest.cat), category_names(categories)
    for name in ("cat", "left", "right", "start", "end", "root"):
        assert getattr(forest, name).dtype == np.int32
        assert getattr(forest, name).flags.c_contiguous
    assert forest.logp.dtype == np.float64
    assert len(forest.root) == len(forest.logp) == len(set(forest.root.tolist())) > 0
    assert (np.diff(forest.logp) <= 0).all()
    nodes = list(zip(forest.cat, forest.left, forest.right, forest.start, forest.end, strict=True))
    assert len(set(nodes)) == size
    for v, (_, left, right, start, end) in enumerate(nodes):
        assert -1 <= right < v
        assert -1 <= left < v
        if left < 0:
            assert right < 0
            assert end == start + 1
        else:
            assert (forest.start[left], forest.end[right if right >= 0 else left]) == (start, end)
            assert right < 0 or forest.end[left] == forest.start[right]
    reached: set[int] = set()
    for c, root in enumerate(forest.root):
        inside = nodes_of(forest, c)
        assert max(Counter(inside).values()) == 1
        assert inside[-1] == root
        place = {v: i for i, v in enumerate(inside)}
        for v in inside:
            below = [int(c) for c in (forest.left[v], forest.right[v]) if c >= 0]
            assert all(place[c] < place[v] for c in below)
        reached |= set(inside)
        assert (forest.start[root], forest.end[root]) == (0, len(tokens))
        tree = candidate_tree(forest, c, tokens, categories)
        assert tree.label() == "TOP"
        assert tree.leaves() == tokens
        assert binarize(tree, heads) == binary_tree(forest, int(root), tokens, names)
    assert reached == set(range(size))


@random_tests
@given(worlds(), st.sampled_from(["left", "right"]), st.integers(1, 20))
def test_forests_of_random_grammars(world: World, side: str, k: int) -> None:
    heads = HeadTable({}, side)
    parse = Decoder(world.grammar(heads)).parse(world.tokens, k)
    check_forest(parse, world.tokens, CATEGORIES, heads)


@pytest.mark.parametrize("k", [1, 2, 40])
def test_forests_of_a_real_grammar(grammar: Grammar, k: int) -> None:
    decoder = Decoder(grammar)
    sentences = [tree.leaves() for tree in trees(12, "dev")]
    for tokens in [*sentences, ["They"], ["with", "with", "with", "of"]]:
        check_forest(decoder.parse(tokens, k), tokens, grammar.pcfg.categories, grammar.heads)


def test_trees_of_the_forest_join_it_as_the_candidates_that_they_are() -> None:
    grammar = small_grammar()
    tokens = trees(1, "dev")[0].leaves()
    forest = Decoder(grammar).parse(tokens, 25).forest
    builder = ForestBuilder(grammar.pcfg.categories, grammar.heads, forest)
    for c in range(len(forest.root)):
        assert builder.add(candidate_tree(forest, c, tokens, grammar.pcfg.categories), -1.0) == c
    again = builder.forest()
    for name in ("cat", "left", "right", "start", "end", "root", "logp"):
        np.testing.assert_array_equal(getattr(again, name), getattr(forest, name))
