"""Drawings show every node and word, and fit the width."""

from __future__ import annotations

from hypothesis import given
from nltk.tree import Tree

from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.draw import pretty
from tests.trees.strategies import trees

TREE = Tree.fromstring(
    "(TOP (S (NP (PRP They)) (VP (VBD ate) (PRN (-LRB- -LRB-) (NN udon) (-RRB- -RRB-))) (. .)))"
)


def test_top_down():
    assert pretty(TREE).splitlines() == [
        "          TOP",
        "           │",
        "           S",
        " ┌─────────┴────┬──────────────┐",
        " │              VP             │",
        " │    ┌─────────┴───┐          │",
        " NP   │            PRN         │",
        " │    │    ┌────────┼─────┐    │",
        "PRP  VBD -LRB-      NN  -RRB-  .",
        " │    │    │        │     │    │",
        "They ate   (       udon   )    .",
    ]


def test_indented_where_it_is_too_wide():
    assert pretty(TREE, width=20).splitlines() == [
        "TOP",
        "└─ S",
        "   ├─ NP",
        "   │  └─ PRP They",
        "   ├─ VP",
        "   │  ├─ VBD ate",
        "   │  └─ PRN",
        "   │     ├─ -LRB- (",
        "   │     ├─ NN udon",
        "   │     └─ -RRB- )",
        "   └─ . .",
    ]


def test_a_tree_without_a_root_label():
    tree = Tree("", [Tree("A", ["a"])])
    assert pretty(tree, width=0) == "()\n└─ A a"
    assert pretty(tree).split() == ["()", "│", "A", "│", "a"]


@given(trees())
def test_indented_lines_hold_every_node_once(tree):
    lines = [line.strip("│├└─ ") for line in pretty(tree, width=0).splitlines()]
    expected = [
        f"{node.label()} {unescape_token(node[0])}" if isinstance(node[0], str) else node.label()
        for node in tree.subtrees()
    ]
    assert lines == [line.strip(" ") for line in expected]


def test_deep_and_wide_trees():
    tree = Tree("N", ["a"])
    for _ in range(2_000):
        tree = Tree("X", [tree])
    assert pretty(tree).count("\n") == 2_000
    wide = Tree("X", [Tree("N", ["a"])] * 5_000)
    assert pretty(wide).count("├") == 4_999
