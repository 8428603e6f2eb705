"""Confusions of labels, tags and attachments, and the wrong brackets of a sentence."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.evaluation import EvalbParams, evaluate, score_attachments
from rnnparse.evaluation.confusions import (
    MISSING,
    attachment_types,
    label_confusions,
    modifier_labels,
    tag_confusions,
    wrong_nodes,
)
from rnnparse.evaluation.totals import SentenceScore
from rnnparse.trees.brackets import load_trees
from rnnparse.trees.cleaning import clean
from rnnparse.trees.embedded import embedded_treebank
from tests.evaluation.strategies import tree_pairs

GOLD = Tree.fromstring(
    "(TOP (S (NP-SBJ (PRP They)) (VP (VBD ate) (NP (NN udon)) (PP (IN with) (NP (NNS forks))))"
    " (. .)))"
)
TEST = Tree.fromstring(
    "(TOP (S (NP (PRP They)) (VP (VBD ate) (S (NP (NN udon)) (ADVP (RB with) (NP (NNS forks)))))"
    " (. .)))"
)


def test_labels_over_the_same_words_are_confused_others_are_missing() -> None:
    assert label_confusions([GOLD], [TEST]) == {("PP", "ADVP"): 1, (MISSING, "S"): 1}
    assert label_confusions([TEST], [GOLD]) == {("ADVP", "PP"): 1, ("S", MISSING): 1}
    assert tag_confusions([GOLD], [TEST]) == {("IN", "RB"): 1}
    assert not label_confusions([GOLD], [GOLD]) and not tag_confusions([GOLD], [GOLD])


def test_wrong_brackets_are_numbered_as_the_drawing_numbers_nodes() -> None:
    wrong = wrong_nodes(GOLD, TEST)
    assert wrong is not None
    assert [label(GOLD, n) for n in sorted(wrong.gold)] == ["PP"]
    assert [label(TEST, n) for n in sorted(wrong.test)] == ["S", "ADVP"]
    assert wrong_nodes(GOLD, Tree.fromstring("(TOP (S (NN They)))")) is None
    assert wrong_nodes(GOLD, Tree("", [])) is None


def label(tree: Tree, number: int) -> str:
    """The label of a node in pre-order, where words count."""
    found: list[Tree | str] = []

    def visit(node: Tree | str) -> None:
        found.append(node)
        for child in () if isinstance(node, str) else node:
            visit(child)

    visit(tree)
    node = found[number]
    return node if isinstance(node, str) else node.label()


@given(tree_pairs(), st.sampled_from(["own", "gold"]))
def test_counts_agree_with_evalb(pair: tuple[Tree, Tree], delete_by: str) -> None:
    params = replace(EvalbParams.collins(), delete_by=delete_by)
    (row,) = evaluate([pair[0]], [pair[1]], params).sentences
    wrong = wrong_nodes(*pair, params)
    counts = label_confusions([pair[0]], [pair[1]], params)
    if row.status:
        assert wrong is None and not counts and row.f1 is None
        return
    assert wrong is not None
    assert len(wrong.gold) == row.gold - row.matched
    assert len(wrong.test) == row.test - row.matched
    assert sum(n for (gold, _), n in counts.items() if gold) == row.gold - row.matched
    assert sum(n for (_, test), n in counts.items() if test) == row.test - row.matched
    tags = tag_confusions([pair[0]], [pair[1]], params)
    assert sum(tags.values()) == row.words - row.correct_tags


def test_the_f1_of_a_sentence() -> None:
    assert SentenceScore(1, 3, 0, matched=1, gold=2, test=2).f1 == 50.0
    assert SentenceScore(1, 3, 0, matched=0, gold=2, test=0).f1 == 0.0
    assert SentenceScore(1, 1, 0).f1 == 100.0  # a word without brackets
    assert SentenceScore(1, 3, 1).f1 is None


def test_attachment_types_add_up_to_the_attachment_score() -> None:
    gold = [tree for tree in map(clean, load_trees(embedded_treebank("test"))) if tree is not None]
    test = [Tree.fromstring(str(tree).replace("(PP", "(ADVP", 1)) for tree in gold]
    score = score_attachments(gold, test)
    types = attachment_types(gold, test, ("PP", "SBAR", "PRT"))
    assert sum(t.total for t in types) == score.total
    assert sum(t.correct for t in types) == score.correct < score.total
    for one in types:
        assert sum(count for _, count in one.instead) == one.total - one.correct
    assert any(site == MISSING for one in types for site, _ in one.instead)


def test_another_site_of_the_same_label_is_named() -> None:
    low = Tree.fromstring(
        "(S (VP (V ate) (NP (NP (N a)) (PP (P of) (NP (NP (N b)) (PP (P c) (NP (N d))))))))"
    )
    high = Tree.fromstring(
        "(S (VP (V ate) (NP (NP (N a)) (PP (P of) (NP (N b))) (PP (P c) (NP (N d))))))"
    )
    types = {(t.label, t.parent): t for t in attachment_types([low], [high], ["PP"])}
    assert types["PP", "NP"].total == 2 and types["PP", "NP"].correct == 1
    assert types["PP", "NP"].instead == (("NP", 1),)


def test_treebanks_without_the_usual_modifiers_have_their_own() -> None:
    assert modifier_labels([GOLD]) == ["PP"]
    german = Tree.fromstring("(VROOT (S (NP-SB (PPER Sie)) (VVFIN essen)))")
    assert modifier_labels([german]) == ["NP", "S"]
    assert modifier_labels([]) == [] and attachment_types([], [], []) == []
