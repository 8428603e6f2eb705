"""Cleaning against hand-made cases, its invariants, and real treebanks."""

from __future__ import annotations

import pytest
from hypothesis import given
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees.brackets import format_tree, read_trees
from rnnparse.trees.cleaning import clean, tags, words
from rnnparse.trees.style import AS_GIVEN
from tests.trees.strategies import treebank_trees, trees


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP-SBJ-1=2", "NP"), ("NP-SBJ=1-3", "NP"), ("NP=2", "NP"), ("NP-1", "NP"), ("NP", "NP"),
        ("-LRB-", "-LRB-"), ("-RRB-", "-RRB-"), ("-NONE-", "-NONE-"), ("PRP$", "PRP$"),
        ("``", "``"), ("''", "''"), (":", ":"), ("--", "--"), ("=", "="), ("|", "|"), ("", ""),
        ("PRT|ADVP", "PRT"), ("ADVP|PRT-CLR", "ADVP"), ("JJ|NN", "JJ"), ("#", "#"), ("WP$", "WP$"),
    ],
)  # fmt: skip
def test_category(label, expected):
    assert AS_GIVEN.category(label) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("( (S (NP-SBJ-1 (N a)) (VP (V b))) )", "(TOP (S (NP (N a)) (VP (V b))))"),
        ("(S (N a))", "(TOP (S (N a)))"),
        ("(N a)", "(TOP (N a))"),
        ("(ROOT (S (N a)))", "(TOP (S (N a)))"),
        ("(S1 (S (N a)) (. .))", "(TOP (S (N a)) (. .))"),
        ("( (VROOT (ROOT (S (N a)) (. .))))", "(TOP (S (N a)) (. .))"),
        ("(TOP (TOP (N a)))", "(TOP (N a))"),
        ("(TOP a)", "(TOP (TOP a))"),
        ("(S (NP (-NONE- *)) (VP (V b)))", "(TOP (S (VP (V b))))"),
        ("(S (X (NP (-NONE- *)) (Y (-NONE- *-1))) (V b))", "(TOP (S (V b)))"),
        ("(S (NP (NP-1 (NP=2 (N a) (N b)))))", "(TOP (S (NP (N a) (N b))))"),
        ("(S (NP (NP (N a)) (SBAR (-NONE- 0))))", "(TOP (S (NP (N a))))"),
        ("(NP (NP (QP (NP (N a)))))", "(TOP (NP (QP (NP (N a)))))"),
        ("(CD (CD 5))", "(TOP (CD 5))"),
        ("(P (-LRB- -LRB-) (PRP$ her) (`` ``))", "(TOP (P (-LRB- -LRB-) (PRP$ her) (`` ``)))"),
    ],
)
def test_clean(text, expected):
    tree = Tree.fromstring(text)
    before = tree.copy(deep=True)
    cleaned = clean(tree)
    assert cleaned is not None
    assert format_tree(cleaned) == expected
    assert tree == before


def test_nothing_left():
    assert clean(Tree.fromstring("( (S (NP (-NONE- *)) (VP (-NONE- *?*))))")) is None
    assert clean(Tree("S", [])) is None


@pytest.mark.parametrize("children", [["the", Tree("N", ["dog"])], ["New", "York"], [("dog", "N")]])
def test_words_without_a_tag_of_their_own(children):
    with pytest.raises(TreebankError, match="expected each word to be the only child of its tag"):
        clean(Tree("S", [Tree("NP", children)]))


@given(treebank_trees())
def test_invariants(tree):
    cleaned = clean(tree, AS_GIVEN)
    kept = [(w, AS_GIVEN.category(t)) for w, t in tree.pos() if t != "-NONE-"]
    if cleaned is None:
        assert not kept
        return
    assert cleaned.pos() == kept
    assert cleaned.label() == "TOP"
    for node in cleaned.subtrees():
        assert len(node) > 0
        assert node.label() == AS_GIVEN.category(node.label())
        if node is not cleaned and len(node) == 1 and isinstance(node[0], Tree):
            assert node[0].label() != node.label()
    assert clean(cleaned, AS_GIVEN) == cleaned


@given(treebank_trees())
def test_cleaning_twice_changes_nothing(tree):
    cleaned = clean(tree)
    assert cleaned is None or clean(cleaned) == cleaned


@given(trees())
def test_words_and_tags(tree):
    assert list(zip(words(tree), tags(tree), strict=True)) == tree.pos()


def test_deep_trees():
    depth = 20_000
    tree = Tree("N", ["a"])
    for i in range(depth):
        tree = Tree(f"X{i % 2}-SBJ", [tree, Tree("-NONE-", ["*"])])
    cleaned = clean(tree)
    assert cleaned is not None
    assert format_tree(cleaned).count("(") == depth + 2
    assert words(cleaned) == ["a"] and tags(cleaned) == ["N"]


@pytest.mark.parametrize("name", ["wsj-sample/dev", "craft/dev"])
def test_real_treebanks(shared, name):
    labels = set()
    for tree in read_trees(shared / "treebanks" / f"{name}.mrg"):
        cleaned = clean(tree)
        assert cleaned is not None
        assert words(cleaned) == [word for word, tag in tree.pos() if tag != "-NONE-"]
        labels.update(node.label() for node in cleaned.subtrees())
    assert {"TOP", "NP", "PRP$", "-LRB-"} <= labels
    assert not {
        label for label in labels if label.strip("-") and set(label.strip("-")) & set("-=|")
    }
