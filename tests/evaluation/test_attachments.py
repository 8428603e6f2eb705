"""Attachments: the definition on small trees, and against a count by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.evaluation.attachments import Attachment, attachment_sites, score_attachments
from tests.evaluation.strategies import tree_pairs

VERB = Tree.fromstring(
    "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN udon)) (PP (IN with) (NP (NNS forks)))) (. .)))"
)
NOUN = Tree.fromstring(
    "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NP (NN udon))"
    " (PP (IN with) (NP (NNS forks))))) (. .)))"
)


def sites(text: str) -> list[tuple[str, int, str, int, bool]]:
    return [
        (place.label, place.start, place.parent, place.parent_start, choice)
        for place, choice in attachment_sites(Tree.fromstring(text))
    ]


def test_verb_and_noun_attachment() -> None:
    assert attachment_sites(VERB) == [(Attachment("PP", 3, "VP", 1), True)]
    assert attachment_sites(NOUN) == [(Attachment("PP", 3, "NP", 2), True)]
    wrong, right = score_attachments([VERB], [NOUN]), score_attachments([VERB], [VERB])
    assert (wrong.correct, wrong.total, wrong.accuracy) == (0, 1, 0.0)
    assert (right.correct, right.total, right.accuracy) == (1, 1, 100.0)
    assert right.by_label == {"PP": (1, 1), "SBAR": (0, 0), "PRT": (0, 0)}


def test_errors_elsewhere_do_not_count() -> None:
    """The inside of the modifier, the end of the site and tags are not part of an attachment."""
    other = Tree.fromstring(
        "(TOP (S (NP (PRP They)) (VP (VB ate) (NX (NN udon)) (PP (IN with) (NNS forks)) (. .))))"
    )
    assert score_attachments([VERB], [other]).correct == 1


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        # An NP ends where the particle begins: (NP it up) would be the other site.
        ("(S (NP (N I)) (VP (V pick) (NP (N it)) (PRT (R up))))", True),
        # No phrase to the left, and the object follows.
        ("(S (NP (N I)) (VP (V pick) (PRT (R up)) (NP (N it))))", False),
        # The particle ends the VP: S could take it.
        ("(S (NP (N I)) (VP (V give) (PRT (R up))))", True),
        # First in its parent.
        ("(S (PP (P in) (N may)) (NP (N I)) (VP (V go)))", False),
        # Everything to the left is in the same NP, and nothing above begins further left.
        ("(S (NP (D the) (N man) (PP (P with) (N hats))) (VP (V left)))", False),
        # A unary chain above is not another place ...
        ("(TOP (S (VP (V go) (PP (P to) (N bed)))))", False),
        # ... but what is above the chain is.
        ("(S (N I) (VP (VP (V go) (PP (P to) (N bed)))))", True),
        # An ancestor that goes on after the modifier can take it, one further up cannot.
        ("(S (N I) (VP (V see) (NP (D a) (PP (P in) (N b))) (X x)))", True),
        ("(S (N I) (X x) (NP (NP (D a) (PP (P in) (N b))) (N c)))", False),
    ],
)
def test_when_attachment_is_a_choice(text: str, choice: bool) -> None:
    assert [all_sites[-1] for all_sites in sites(text)] == [choice]


def test_function_tags_are_ignored_and_other_labels_can_be_asked_for() -> None:
    tree = Tree.fromstring("(S (NP-SBJ (N I)) (VP (V see) (NP (N it)) (PP-CLR=1 (P in) (N b))))")
    assert [place for place, _ in attachment_sites(tree)] == [Attachment("PP", 3, "VP", 1)]
    assert score_attachments([tree], [tree], labels=("NP",)).by_label == {"NP": (0, 0)}


def test_several_sentences_and_labels() -> None:
    clause = Tree.fromstring(
        "(S (NP (N I)) (VP (V knew) (NP (D a) (N man) (SBAR (W who) (S (V left))))))"
    )
    moved = Tree.fromstring(
        "(S (NP (N I)) (VP (V knew) (NP (D a) (N man)) (SBAR (W who) (S (V left)))))"
    )
    score = score_attachments([VERB, clause, clause], [VERB, moved, Tree("TOP", [])])
    assert (score.correct, score.total) == (1, 3)
    assert score.by_label == {"PP": (1, 1), "SBAR": (0, 2), "PRT": (0, 0)}


def test_bad_arguments_and_nothing_to_count() -> None:
    assert score_attachments([], []).accuracy is None
    with pytest.raises(TreebankError, match="1 gold trees and 0 test trees"):
        score_attachments([VERB], [])
    with pytest.raises(TreebankError, match="sentence 1: 6 gold words, 1 test words"):
        score_attachments([VERB], [Tree("NN", ["udon"])])


def brute_force(tree: Tree) -> list[tuple[str, int, str, int, bool]]:
    """By moving: is there another node that the modifier could hang from?"""
    leaves = tree.treepositions("leaves")

    def extent(position: tuple[int, ...]) -> tuple[int, int]:
        below = [i for i, leaf in enumerate(leaves) if leaf[: len(position)] == position]
        return below[0], below[-1] + 1

    phrases = [
        p for p in tree.treepositions() if isinstance(tree[p], Tree) and tree[p].height() > 2
    ]
    all_sites = []
    for position in phrases:
        label = tree[position].label().replace("=", "-").split("-")[0]
        if label not in ("PP", "PRT") or not position:
            continue
        start, end = extent(position)
        parent_start = extent(position[:-1])[0]
        lower = any(
            extent(other)[1] == start and extent(other)[0] >= parent_start for other in phrases
        )
        higher = any(
            extent(position[:length])[0] < parent_start
            and all(extent(position[:m])[1] == end for m in range(length + 1, len(position)))
            for length in range(len(position) - 1)
        )
        parent = tree[position[:-1]].label().replace("=", "-").split("-")[0]
        choice = start > parent_start and (lower or higher)
        all_sites.append((label, start, parent, parent_start, choice))
    return all_sites


@settings(max_examples=60, deadline=None)
@given(tree_pairs())
def test_sites_equal_brute_force(pair: tuple[Tree, Tree]) -> None:
    for tree in pair:
        all_sites = attachment_sites(tree, ("PP", "PRT"))
        flat = [(a.label, a.start, a.parent, a.parent_start, choice) for a, choice in all_sites]
        assert flat == brute_force(tree)
    same = score_attachments([pair[0]], [pair[0]])
    assert same.correct == same.total
