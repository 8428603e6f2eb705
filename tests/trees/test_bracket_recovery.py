"""A malformed tree loses itself alone."""

from __future__ import annotations

import io
import logging
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees.brackets import format_tree, load_trees, read_trees
from rnnparse.trees.style import TreebankStyle
from tests.grammar.small import trees as grammar_trees


def good_words(text: str) -> list[str]:
    return [" ".join(tree.leaves()) for tree in read_trees(io.StringIO(text))]


def pretty(tree: Tree) -> str:
    return "( " + tree.pformat(margin=30, indent=2) + ")"


@pytest.mark.parametrize(
    "broken",
    [
        "(S (B b)", "(S (B b)))", "(S (B b c))", "(S (B b) c)", "(S (NP (D the)) (N dog)) (V x))",
        "wsj_0001", "<s>", ")", "(S ((B b)))", "(S (NP (B x(y))))", "(TOP (S (B b))",
    ],
)  # fmt: skip
@pytest.mark.parametrize("layout", [format_tree, pretty])
def test_one_broken_tree_between_others(broken, layout, caplog):
    first, last = (Tree("S", [Tree("NP", [Tree("N", [w])]), Tree("V", ["is"])]) for w in "ac")
    text = "\n".join([layout(first), broken, layout(last), layout(first), ""])
    assert good_words(text) == ["a is", "c is", "a is"]
    assert caplog.records[-1].getMessage() == (
        "skipped 1 malformed tree(s); --strict stops at the first"
    )
    with pytest.raises(TreebankError):
        load_trees(io.StringIO(text), style=TreebankStyle(strict=True))


def test_the_first_places_are_named_and_all_are_counted(tmp_path, caplog):
    (tmp_path / "a.mrg").write_text("(S (N a))\n(S (N b c))\n(S (N d)\n")
    (tmp_path / "b.mrg").write_text("(S (N e)))\n\n(S (N f))\n  (S (N g))\noops\n")
    with caplog.at_level(logging.WARNING, "rnnparse"):
        assert [t.leaves() for t in read_trees(tmp_path)] == [["a"], ["f"], ["g"]]
    messages = [record.getMessage() for record in caplog.records]
    places = [message.removeprefix(f"{tmp_path}/").split(": ")[0] for message in messages]
    assert places[:3] == ["a.mrg:2:9", "a.mrg:3:1", "b.mrg:1:10"]
    assert messages[3:] == [
        "skipped 4 malformed tree(s), the first 3 as above; --strict stops at the first"
    ]


def test_no_part_of_a_tree_with_a_bracket_too_many_comes_out():
    assert good_words("(S (D the)) (N dog)) (V barks))\n(S (N a))\n") == ["a"]
    text = "(S\n  (NP (D the)))\n    (N dog))\n  (V barks))\n(S (N a))\n"
    assert good_words(text) == ["a"]


def test_trees_with_unindented_lines_are_lost_alone():
    tree = "(S\n(NP\n(D the)\n(N {}))\n(V is))\n"
    text = tree.format("a") + tree.format("b c") + tree.format("d") + tree.format("e")
    assert good_words(text) == ["the a is", "the d is", "the e is"]


def test_indented_trees():
    text = "  (S (N a))\n  (S (N b)\n  (S (N c))\n   (S (N d))\n\n     (S (N e))\n"
    assert good_words(text) == ["a", "c", "d", "e"]


def test_a_tree_that_never_ends_does_not_take_the_rest():
    text = "(S (N a)\n" + "(S (N b))\n" * 1200 + "(S (N c c))\n" + "(S (N d))\n" * 10
    assert good_words(text) == ["b"] * 1200 + ["d"] * 10


def test_many_broken_trees_take_time_in_proportion():
    text = "(S (N a)\n" * 3000 + "(S (N b))\n"
    assert good_words(text)[-1] == "b"


def test_malformed_text_alone_is_an_error():
    with pytest.raises(TreebankError, match=r"<text>:1:1: expected '.' to begin a tree"):
        list(read_trees(io.StringIO("import re\nfrom x import (a, b)\n")))


def test_comments_are_counted(caplog):
    text = "# one\n(S (N a)\n  (# #))\n#two\n\n# " + "long " * 40_000 + "(S (N no))\n(# #)\n"
    assert good_words(text) == ["a #", "#"]
    assert [record.getMessage() for record in caplog.records] == [
        "skipped 3 comment line(s), the first at <text>:1:1"
    ]


@pytest.mark.parametrize("layout", [format_tree, pretty])
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_one_bracket_lost_or_added_costs_at_most_that_tree(layout, seed):
    """Only trees of one layout, as files have; pieces of the damaged one never come out."""
    chance = random.Random(seed)
    forest = [Tree("", [tree]) for tree in chance.sample(grammar_trees(40), 7)]
    texts = [layout(tree) + "\n" for tree in forest]
    places = [i for i, sign in enumerate(texts[3]) if sign in "()"]
    at = chance.choice(places)
    damaged = texts[3][:at] + chance.choice(["", texts[3][at] * 2]) + texts[3][at + 1 :]
    trees_read = list(
        map(format_tree, read_trees(io.StringIO("".join([*texts[:3], damaged, *texts[4:]]))))
    )
    others = list(map(format_tree, load_trees(io.StringIO("".join(texts[:3] + texts[4:])))))
    assert trees_read == others
