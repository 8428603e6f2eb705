"""Binarization: its shape, and that it is undone exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.trees.binarization import binarize, debinarize, outward_order
from rnnparse.trees.brackets import format_tree, read_trees
from rnnparse.trees.cleaning import clean
from rnnparse.trees.heads import HeadRule, HeadTable
from tests.trees.strategies import trees

TABLES = [HeadTable.left(), HeadTable.right(), HeadTable.english()]
HEAD_IS_H = HeadTable({"P": (HeadRule("left", ("H",)),)})


@pytest.mark.parametrize(
    ("n", "head", "order"),
    [
        (1, 0, ""), (2, 0, ""), (2, 1, ""), (3, 0, "r"), (3, 1, "r"), (3, 2, "l"),
        (5, 0, "rrr"), (5, 1, "rrr"), (5, 2, "rrl"), (5, 3, "rll"), (5, 4, "lll"),
    ],
)  # fmt: skip
def test_outward_order(n, head, order):
    assert "".join(side[0] for side in outward_order(n, head)) == order


@pytest.mark.parametrize(("n", "head"), [(0, 0), (3, 3), (3, -1)])
def test_outward_order_without_a_head(n, head):
    with pytest.raises(ValueError):
        outward_order(n, head)


@pytest.mark.parametrize(
    ("flat", "binary"),
    [
        ("(P (H h) (B b))", "(P (H h) (B b))"),
        ("(P (P (H h)))", "(P (P (H h)))"),
        ("(P (A a) (B b) (H h))", "(P (A a) (@P (B b) (H h)))"),
        ("(P (H h) (A a) (B b))", "(P (@P (H h) (A a)) (B b))"),
        ("(P (A a) (H h) (B b))", "(P (@P (A a) (H h)) (B b))"),
        (
            "(P (A a) (B b) (H h) (D d) (E e))",
            "(P (@P (@P (A a) (@P (B b) (H h))) (D d)) (E e))",
        ),
        ("(@P (A a) (@ b) (\\C c))", "(\\@P (@\\@P (A a) (\\@ b)) (\\\\C c))"),
    ],
)
def test_shapes(flat, binary):
    tree = Tree.fromstring(flat)
    assert format_tree(binarize(tree, HEAD_IS_H)) == binary
    assert format_tree(tree) == flat


@given(trees(max_leaves=20), st.sampled_from(TABLES))
def test_inverse(tree, heads):
    binary = binarize(tree, heads)
    assert all(len(node) <= 2 for node in binary.subtrees())
    for node in binary.subtrees(lambda node: node.label().startswith("@")):
        assert len(node) == 2
    assert binary.leaves() == tree.leaves()
    assert debinarize(binary) == tree
    # A binarized tree is a tree like any other, so this holds for it, too.
    assert debinarize(binarize(binary, heads)) == binary


@given(trees(), st.sampled_from(TABLES))
def test_the_head_child_is_innermost(tree, heads):
    """The head of each node is under every intermediate node that stands for it."""
    root = Tree("P", [tree[:] and Tree("H", ["h"]), tree, tree, tree])
    binary = binarize(root, HEAD_IS_H)
    node = binary
    while node[0].label() == "@P":
        node = node[0]
    assert node[0] == Tree("H", ["h"])


def test_an_intermediate_root_cannot_be_undone():
    with pytest.raises(ValueError):
        debinarize(Tree("@NP", [Tree("N", ["a"]), Tree("N", ["b"])]))


def test_wide_and_deep_trees():
    wide = Tree("P", [Tree("N", [str(i)]) for i in range(5_000)])
    for heads in (HeadTable.left(), HeadTable.right()):
        assert debinarize(binarize(wide, heads)) == wide
    deep = Tree("N", ["a"])
    for _ in range(5_000):
        deep = Tree("P", [Tree("N", ["a"]), deep, Tree("N", ["b"])])
    text = format_tree(deep)
    assert format_tree(debinarize(binarize(deep, HeadTable.left()))) == text


@pytest.mark.parametrize(
    "name", ["wsj-sample/dev", pytest.param("craft/dev", marks=pytest.mark.slow)]
)
def test_real_treebanks(shared, name):
    heads = HeadTable.english()
    for raw in read_trees(shared / "treebanks" / f"{name}.mrg"):
        tree = clean(raw)
        assert tree is not None
        assert debinarize(binarize(tree, heads)) == tree
        assert debinarize(binarize(raw, heads)) == raw
