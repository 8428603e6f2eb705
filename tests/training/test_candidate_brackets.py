"""The fast bracket counts of all candidates against EVALB's rules on whole trees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.evaluation import evaluate
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import Forest, ForestBuilder, candidate_tree
from rnnparse.training.candidate_brackets import bracket_counts
from rnnparse.trees.cleaning import tags, words
from rnnparse.trees.heads import HeadTable
from tests.evaluation.strategies import plain_spans
from tests.grammar.small import small_grammar, trees

TAGS = ("N", "V", ",", ".", ":", "``", "-LRB-", "ADVP")
LABELS = ("S", "NP", "ADVP", "PRT", "TOP", "-X-", "=Y", "A|B", "NP=2", ".", "@Z", "\\Q")
UNSEEN = ("NEW", "-NEW-", "S-NEW")
CATEGORIES = tuple(sorted({*TAGS, *LABELS}))
DELETED = {"TOP", "-NONE-", ",", ":", "``", "''", "."}


@st.composite
def trees_over(draw: st.DrawFn, given_tags: list[str], labels: Sequence[str]) -> Tree:
    """A tree over words with these tags; children of one label and unary chains occur."""
    if len(given_tags) == 1:
        tree = Tree(given_tags[0], ["w"])
        labelled = draw(st.booleans())
    else:
        places = st.integers(1, len(given_tags) - 1)
        cuts = sorted(draw(st.sets(places, min_size=1, max_size=4)))
        edges = [0, *cuts, len(given_tags)]
        parts = [draw(trees_over(given_tags[a:b], labels)) for a, b in pairwise(edges)]
        tree = Tree(draw(st.sampled_from(labels)), parts)
        labelled = draw(st.integers(0, 3)) == 0
    return Tree(draw(st.sampled_from(labels)), [tree]) if labelled else tree


def pasted(tree: Tree, given_tags: Sequence[str]) -> Tree:
    """The tree with other tags."""
    tree = tree.copy(deep=True)
    for position, tag in zip(tree.treepositions("leaves"), given_tags, strict=True):
        tree[position[:-1]].set_label(tag)
    return tree


def assert_same_as_evalb(
    forest: Forest, gold: Tree, categories: Sequence[str], whole: Sequence[Tree]
) -> None:
    counts = bracket_counts(forest, gold, categories)
    rows = evaluate([gold] * len(whole), whole).sentences
    assert counts.matched.tolist() == [row.matched for row in rows]
    assert counts.test.tolist() == [row.test for row in rows]
    assert {counts.gold} == {row.gold for row in rows}
    for f1, row in zip(counts.f1(), rows, strict=True):
        total = row.test + row.gold
        assert f1 == (2 * row.matched / total if total else 1.0)


@pytest.mark.slow
@given(st.data(), st.lists(st.sampled_from(TAGS), min_size=1, max_size=8))
def test_counts_of_any_trees_are_evalbs(data: st.DataObject, gold_tags: list[str]) -> None:
    gold = Tree("TOP", [data.draw(trees_over(gold_tags, (*LABELS, *UNSEEN)))])
    one = trees_over(gold_tags, LABELS)
    candidates = [Tree("TOP", [tree]) for tree in data.draw(st.lists(one, min_size=1, max_size=5))]
    builder = ForestBuilder(CATEGORIES, HeadTable.left())
    for tree in candidates:
        builder.add(tree, 0.0)
    forest = builder.forest()
    whole = [candidate_tree(forest, k, ["w"] * 9, CATEGORIES) for k in range(len(forest.root))]
    assert_same_as_evalb(forest, gold, CATEGORIES, whole)


@pytest.mark.parametrize("seen", [True, False])
def test_counts_of_the_decoders_candidates_are_evalbs(seen: bool) -> None:
    grammar = small_grammar()
    decoder, categories = Decoder(grammar), grammar.pcfg.categories
    for gold in trees(25, "train" if seen else "dev"):
        forest = decoder.parse(words(gold), 30).forest
        whole = [
            pasted(candidate_tree(forest, k, words(gold), categories), tags(gold))
            for k in range(len(forest.root))
        ]
        assert_same_as_evalb(forest, gold, categories, whole)
        counts = bracket_counts(forest, gold, categories)
        assert counts.test.tolist() == [len(plain_spans(tree, DELETED)) for tree in whole]


def test_gold_tags_decide_which_words_are_deleted() -> None:
    gold = Tree.fromstring("(TOP (S (NP (N a) (. b)) (VP (V c))))")
    other = Tree.fromstring("(TOP (S (NP (. a) (N b)) (VP (V c))))")
    builder = ForestBuilder(("N", "NP", "S", "TOP", "V", "VP", "."), HeadTable.left())
    builder.add(other, 0.0)
    counts = bracket_counts(builder.forest(), gold, ("N", "NP", "S", "TOP", "V", "VP", "."))
    assert (counts.matched.tolist(), counts.test.tolist(), counts.gold) == ([3], [3], 3)


def test_two_trees_without_brackets_agree() -> None:
    gold = Tree.fromstring("(TOP (N a))")
    builder = ForestBuilder(("N", "TOP"), HeadTable.left())
    builder.add(gold, 0.0)
    counts = bracket_counts(builder.forest(), gold, ("N", "TOP"))
    assert counts.f1().tolist() == [1.0]


@given(st.data(), st.integers(1, 8))
def test_a_candidate_that_is_added_again_is_found(data: st.DataObject, size: int) -> None:
    """The kernel's binarization and the builder's are one, so equal trees have equal nodes."""
    grammar = small_grammar()
    vocabulary = list(grammar.lexicon.words)
    tokens = [data.draw(st.sampled_from(vocabulary)) for _ in range(size)]
    forest = Decoder(grammar).parse(tokens, 8).forest
    categories = grammar.pcfg.categories
    builder = ForestBuilder(categories, grammar.heads, forest)
    for k in range(len(forest.root)):
        assert builder.add(candidate_tree(forest, k, tokens, categories), 0.0) == k
    again = builder.forest()
    for before, after in zip(vars(forest).values(), vars(again).values(), strict=True):
        np.testing.assert_array_equal(before, after)
        assert before.dtype == after.dtype


@given(st.data(), st.lists(st.sampled_from(TAGS), min_size=1, max_size=10))
def test_trees_come_back_from_a_forest(data: st.DataObject, given_tags: list[str]) -> None:
    given_trees = [
        Tree("TOP", [data.draw(trees_over(given_tags, LABELS))])
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    head_table = data.draw(st.sampled_from([HeadTable.left(), HeadTable.right()]))
    builder = ForestBuilder(CATEGORIES, head_table)
    places = [builder.add(tree, -1.0) for tree in given_trees]
    forest = builder.forest()
    tokens = ["w"] * len(given_tags)
    for place, tree in zip(places, given_trees, strict=True):
        assert candidate_tree(forest, place, tokens, CATEGORIES) == tree
    assert len(set(forest.root.tolist())) == len(forest.root)
    assert len(forest.root) == len({str(tree) for tree in given_trees})
    inner = forest.left >= 0
    assert np.all(forest.left[inner] < np.flatnonzero(inner))
    assert np.all(forest.right < np.arange(len(forest.cat)))


def test_labels_that_the_grammar_lacks_are_one_category_of_their_own() -> None:
    builder = ForestBuilder(("NN", "NP", "TOP"), HeadTable.left())
    known = Tree.fromstring("(TOP (NP (NN a) (NN b)))")
    other = Tree.fromstring("(TOP (ODD (NN a) (STRANGE b)))")
    assert [builder.add(tree, 0.0) for tree in (known, other)] == [0, 1]
    forest = builder.forest()
    assert int(forest.cat.max()) == 2 * 3
