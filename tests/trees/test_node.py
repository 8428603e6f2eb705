"""The package's own tree."""

from __future__ import annotations

import copy
import pickle

import pytest
from nltk.tree import ParentedTree, Tree

from rnnparse.trees.brackets import format_tree, read_as
from rnnparse.trees.cleaning import clean
from rnnparse.trees.node import Node, is_nltk_tree, is_tree, type_like
from rnnparse.trees.style import DEFAULT_STYLE

NP = Node("NP", [Node("DT", ["the"]), Node("NN", ["udon"])])


def test_label_and_children() -> None:
    node = copy.deepcopy(NP)
    node.set_label("X")
    node[1] = Node("NN", ["fork"])
    assert (node.label(), node[0], len(node)) == ("X", Node("DT", ["the"]), 2)
    assert NP[1] == Node("NN", ["udon"])
    assert repr(node[0]) == "Node('DT', ['the'])"


def test_nodes_are_equal_if_labels_and_children_are() -> None:
    same = copy.deepcopy(NP)
    assert same == NP and [same] == [NP] and (same != NP) is False
    for other in (Node("X", list(NP)), Node("NP", NP[:1]), list(NP)):
        assert other != NP and (other == NP) is False
    with pytest.raises(TypeError):
        hash(NP)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickled(protocol: int) -> None:
    again = pickle.loads(pickle.dumps(NP, protocol))
    assert type(again) is Node and again == NP


def test_what_is_a_tree() -> None:
    nltk_tree = ParentedTree("NN", ["udon"])
    assert is_tree(NP) and is_tree(nltk_tree) and not is_tree("udon") and not is_tree(["udon"])
    assert is_nltk_tree(nltk_tree) and not is_nltk_tree(NP) and not is_nltk_tree([])
    assert type_like(NP) is Node and type_like(nltk_tree) is Tree


def test_both_kinds_are_read_cleaned_and_written_alike(tmp_path) -> None:
    line = "( (S (NP-SBJ (PRP They)) (VP (VBD ate) (NP (-NONE- *T*)))) )"
    (tmp_path / "bank").write_text(line)
    for kind in (Node, Tree):
        (tree,) = read_as(kind, tmp_path / "bank", DEFAULT_STYLE)
        cleaned = clean(tree)
        assert type(tree) is type(tree[0]) is type(cleaned) is type(cleaned[0][0][0]) is kind
        assert format_tree(tree) == line
        assert format_tree(cleaned) == "(TOP (S (NP (PRP They)) (VP (VBD ate))))"
