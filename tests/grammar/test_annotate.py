"""State splits on trees by hand, and trees got back from their annotated rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nltk.tree import Tree

from rnnparse.errors import ConfigError
from rnnparse.grammar.annotate import SPLITS, Annotator, Rule, TaggedWord
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import trees


def annotator(treebank: list[Tree], splits: tuple[str, ...] = SPLITS, rare: int = 1) -> Annotator:
    return Annotator(HeadTable.english(), splits, rare, treebank)


def described(text: str, splits: tuple[str, ...] = SPLITS) -> list[str]:
    """Rules and words of one tree, one string each."""
    tree = Tree.fromstring(text)
    lines = []
    for event in annotator([tree], splits).occurrences(tree):
        if isinstance(event, Rule):
            lines.append(f"{event.parent} -> {event.left} {event.right}".strip())
        else:
            lines.append(f"{event.state}: {event.word}")
    return lines


def test_splits_of_a_sentence() -> None:
    text = (
        "(TOP (S (NP (NP (DT the) (NN dog) (POS 's)) (NN bone)) (VP (VBZ is) (PP (IN on) "
        "(NP (DT that)))) (. .)))"
    )
    assert described(text) == [
        "TOP -> S^TOP-v",
        "S^TOP-v -> @S^TOP-v|NP< .^S",
        "@S^TOP-v|NP< -> NP^S VP^S-VBF-v",
        "NP^S -> NP^NP-P-B NN^NP",
        "NP^NP-P-B -> DT^NP @NP^NP-P-B|NN<",
        "@NP^NP-P-B|NN< -> NN^NP POS^NP",
        "DT^NP: the",
        "NN^NP: dog",
        "POS^NP: 's",
        "NN^NP: bone",
        "VP^S-VBF-v -> VBZ^BE-VP PP^VP",
        "VBZ^BE-VP: is",
        "PP^VP -> IN^PP-VP NP^PP-U-B",
        "IN^PP-VP: on",
        "NP^PP-U-B -> DT^NP-U",
        "DT^NP-U: that",
        ".^S: .",
    ]


def test_no_splits_leave_the_plain_grammar_but_for_the_sisters() -> None:
    text = "(TOP (S (A a) (A b) (VP c) (D d) (E e)))"
    assert described(text, ()) == [
        "TOP -> S",
        "S -> @S|A<D> E",
        "@S|A<D> -> @S|A< D",
        "@S|A< -> A @S|A<",
        "@S|A< -> A VP",
        "A: a",
        "A: b",
        "VP: c",
        "D: d",
        "E: e",
    ]


def test_word_annotations() -> None:
    text = "(TOP (X (CC but) (CC &) (CC and) (NN %) (VB have) (VBD Had) (VBP 're) (VBN seen)))"
    words = [line for line in described(text) if ": " in line]
    assert [line.split(":")[0] for line in words] == [
        "CC^BUT-X", "CC^&-X", "CC^X", "NN^PCT-X", "VB^HAVE-X", "VBD^HAVE-X", "VBP^BE-X", "VBN^X",
    ]


def test_rare_symbols_lose_their_last_marks_but_no_mark_of_the_word() -> None:
    frequent = Tree.fromstring("(TOP (S (NP (NN a)) (VP (VBZ is))))")
    rare = Tree.fromstring("(TOP (S (NP (NP (NN b))) (VP (VBZ is))))")
    reader = annotator([frequent, frequent, rare], rare=2)
    states = {event.parent for event in reader.occurrences(rare) if isinstance(event, Rule)}
    # The outer NP would be NP^S-U-R; NP^S-U is frequent. The inner one's NP^NP-U-B is not.
    assert states == {"TOP", "S^TOP-v", "NP^S-U", "NP", "VP^S-U-VBF-v"}
    tags = {event.state for event in reader.occurrences(rare) if isinstance(event, TaggedWord)}
    assert tags == {"NN^NP", "VBZ^BE-VP"}
    lonely = annotator([rare], rare=5)
    tags = {event.state for event in lonely.occurrences(rare) if isinstance(event, TaggedWord)}
    assert tags == {"NN", "VBZ^BE"}
    assert lonely.word_tag == {"NN": "NN", "VBZ^BE": "VBZ-BE"}


def test_unknown_splits_are_refused() -> None:
    with pytest.raises(ConfigError, match="gapped"):
        annotator([], ("parent", "gapped"))


def rebuilt(events: Iterator[Rule | TaggedWord], reader: Annotator) -> Tree:
    """The tree that annotated events in pre-order stand for."""

    def node(state: str | None) -> Tree:
        event = next(events)
        if isinstance(event, TaggedWord):
            assert state == event.state
            return Tree(reader.category[event.state][0], [event.word])
        assert state in (None, event.parent)
        kids = [event.left, event.right] if event.right else [event.left]
        while partial := [k for k in kids if reader.category[k][1]]:
            assert len(partial) == 1
            inner = next(events)
            assert isinstance(inner, Rule)
            assert inner.parent == partial[0]
            assert reader.category[inner.parent][0] == reader.category[event.parent][0]
            place = kids.index(partial[0])
            kids[place : place + 1] = [inner.left, inner.right]
        return Tree(reader.category[event.parent][0], [node(kid) for kid in kids])

    tree = node(None)
    assert next(events, None) is None
    return tree


STRANGE = (
    "(TOP (NP^S (@NP (A~ a) (A|B< b) (-LRB- -LRB-) (@NP c)) (X (A^B-C d) (A^B e) (A f) (' g))))",
    "(TOP (A (B (A (B b)))) (TOP (A (TOP t))) (A x))",
    "(TOP (NN word))",
)


def test_trees_come_back_from_their_rules() -> None:
    treebank = [*trees(50), *map(Tree.fromstring, STRANGE)]
    for rare in (1, 3, 1000):
        reader = annotator(treebank, rare=rare)
        for tree in treebank:
            assert rebuilt(reader.occurrences(tree), reader) == tree


def test_symbols_whose_names_collide_are_told_apart() -> None:
    # Without the apostrophe, (NP under S~) would be named like the back-off of NP under S.
    text = "(TOP (S (NP (NN a)) (S~ (NP (NN b)))))"
    tree = Tree.fromstring(text)
    reader = annotator([tree], ("parent", "unary", "tag-parent"))
    events = list(reader.occurrences(tree))
    parents = [event.parent for event in events if isinstance(event, Rule)]
    assert len(set(parents)) == len(parents)
    plain = {event.parent for event in events if isinstance(event, Rule)}
    assert not plain & set(reader.backoff.values())
