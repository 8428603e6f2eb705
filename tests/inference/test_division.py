"""Sentences over the budget: where they are divided, and the tree that joins the parts."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.grammar.grammar import Grammar
from rnnparse.inference import decoder, space
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.division import ENDS, join, place_to_divide
from rnnparse.inference.forest import ForestBuilder, candidate_tree
from rnnparse.inference.glue import PENALTY
from rnnparse.inference.hypergraph import EDGES
from rnnparse.inference.search import Search
from rnnparse.threads import Abandoned
from rnnparse.trees.brackets import escape_token
from tests.grammar.small import trees

CLAUSE = ["they", "ate", "udon", "with", "the", "man", "that", "met", "Anna", "in", "the"]
CLAUSE += ["park", ","]
LONG = CLAUSE * 130
"""An exact search of so many tokens takes seconds."""
UNLIMITED: dict[str, Any] = {"max_length": 2000, "max_memory": None}


# -- where to divide ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a b", "a"),
        ("a b c", "a"),  # the middle is between two places: the left one
        ("a b c d e f", "a b c"),
        ("a b , d e f g h", "a b ,"),
        (", b c d e f g h", ", b c d"),  # the first quarter has no place
        ("a b c d e f g .", "a b c d"),  # nor is the end one
        ("a b . d , f g h", "a b ."),  # a full stop is better than a comma in the middle
        ("a b , d ; f g h", "a b , d ;"),
        ("a b ; d e . g h", "a b ; d e ."),
        ("a b , d , f g h", "a b ,"),  # equally near: the left one
        ("a b . ?! e f g h", "a b . ?!"),  # the nearer one
        ("。 b 。 d e f g h", "。 b 。"),
    ],
)
def test_the_place_by_rule(text: str, first: str) -> None:
    tokens = text.split()
    assert tokens[: place_to_divide(tokens)] == first.split()


TOKENS = st.lists(st.sampled_from(["a", "b", ".", "!", ";", ":", ",", "?!", "!a", "-LRB-"]))


@given(TOKENS.filter(lambda tokens: len(tokens) > 1))
def test_no_place_is_better(tokens: list[str]) -> None:
    n, place = len(tokens), place_to_divide(tokens)

    def merit(p: int) -> tuple[int, int]:
        mark = [set(tokens[p - 1]) <= set(marks) for marks in ENDS]
        return -[*mark, True].index(True), -abs(2 * p - n)

    allowed = [p for p in range(1, n) if min(p, n - p) >= n // 4]
    assert place in allowed
    assert all(merit(p) <= merit(place) for p in allowed)


# -- joining -----------------------------------------------------------------------------------


def tree_of(parse: Parse, tokens: Sequence[str], grammar: Grammar) -> Tree:
    return candidate_tree(parse.forest, 0, tokens, grammar.pcfg.categories)


def test_the_joint_tree_has_the_constituents_of_the_parts(grammar: Grammar) -> None:
    usual = Decoder(grammar)
    parts = [tree.leaves() for tree in trees(4, "dev")]
    parses = [usual.parse(tokens, 5) for tokens in parts]
    forest = join([parse.forest for parse in parses], [*map(len, parts)], grammar)
    tokens = [token for part in parts for token in part]
    children = [
        child
        for parse, part in zip(parses, parts, strict=True)
        for child in tree_of(parse, part, grammar)
    ]
    tree = candidate_tree(forest, 0, tokens, grammar.pcfg.categories)
    assert tree == Tree("TOP", children) and tree.leaves() == tokens
    assert forest.logp.tolist() == [
        pytest.approx(sum(float(parse.forest.logp[0]) + PENALTY for parse in parses))
    ]


def test_the_joint_tree_is_binarized_as_others_are(grammar: Grammar) -> None:
    """The forest of the same tree, added as training does it, is the same."""
    tokens = CLAUSE * 4
    parse = Decoder(grammar, Search(max_length=20)).parse(tokens, 3)
    builder = ForestBuilder(grammar.pcfg.categories, grammar.heads)
    builder.add(tree_of(parse, tokens, grammar), float(parse.forest.logp[0]))
    assert same(parse, Parse(builder.forest(), True, True))


def same(one: Parse, other: Parse) -> bool:
    return (one.glued, one.divided) == (other.glued, other.divided) and all(
        np.array_equal(getattr(one.forest, name), getattr(other.forest, name))
        for name in vars(one.forest)
    )


# -- sentences of all lengths ------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 399, 400, 401, 800, 2000])
def test_a_sentence_of_any_length_has_a_tree(grammar: Grammar, n: int) -> None:
    tokens = (CLAUSE * n)[:n]
    parse = Decoder(grammar).parse(tokens, 3)
    tree = tree_of(parse, tokens, grammar)
    assert (tree.label(), tree.leaves()) == ("TOP", tokens)
    assert parse.divided == (n > 400) and parse.glued >= parse.divided
    assert not parse.divided or len(parse.forest.root) == 1


@pytest.mark.parametrize(
    "tokens",
    [
        [str(number) for number in range(720)],
        ["Xyzzy", "with", "ate"] * 300,
        [escape_token(token) for token in ["(", "[", "{", "}", "]", ")"]] * 80,
        ["."] * 500,
    ],
    ids=["a table", "nonsense", "brackets", "full stops"],
)
def test_what_is_no_sentence_has_a_tree(grammar: Grammar, tokens: list[str]) -> None:
    parse = Decoder(grammar).parse(tokens, 3)
    assert tree_of(parse, tokens, grammar).leaves() == tokens and parse.divided


def test_a_sentence_whose_trees_are_all_as_good_is_within_the_budget(
    grammar: Grammar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pruned chart of a table of numbers grows with the cube of its length."""
    sizes = []
    prune = space.prune

    def watched(*arguments: Any) -> Any:
        graph, pruned = prune(*arguments)
        sizes.append(int(graph.size[EDGES]))
        return graph, pruned

    monkeypatch.setattr(space, "prune", watched)
    tokens = [str(number) for number in range(60)]
    small = Search(max_memory=5)
    for search, divided in ((Search(), False), (small, True)):
        parse = Decoder(grammar, search).parse(tokens, 3)
        assert parse.divided == divided
        assert tree_of(parse, tokens, grammar).leaves() == tokens
    assert sizes[0] > 4 * small.most_edges
    assert max(sizes[1:]) < 1.1 * small.most_edges
    parts = Decoder(grammar, small).hypergraphs(tokens)
    assert len(parts) > 1 and sorted(first for first, _ in parts)[0] == 0


@pytest.mark.parametrize("longest", [1, 2, 7, 20, 52])
def test_no_part_is_longer_than_allowed(
    grammar: Grammar, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = []
    usual = Decoder._space

    def watched(self: Decoder, tokens: Sequence[str], stop: np.ndarray) -> Any:
        lengths.append(len(tokens))
        return usual(self, tokens, stop)

    monkeypatch.setattr(Decoder, "_space", watched)
    tokens = CLAUSE * 4
    parse = Decoder(grammar, Search(max_length=longest)).parse(tokens, 2)
    assert tree_of(parse, tokens, grammar).leaves() == tokens
    assert max(lengths) <= longest and sum(lengths) >= len(tokens)
    assert parse.divided == (longest < len(tokens))


def test_a_sentence_that_the_grammar_cannot_span_is_glued_but_within_the_budget(
    grammar: Grammar,
) -> None:
    tokens = ["Xyzzy", "with", "ate"] * 50
    parse = Decoder(grammar).parse(tokens, 3)
    assert parse.glued and not parse.divided
    assert tree_of(parse, tokens, grammar).leaves() == tokens


def test_threads_and_repeated_runs_agree(grammar: Grammar) -> None:
    shared = Decoder(grammar, Search(max_length=30))
    sentences = [(CLAUSE * 9)[i : i + 40 + i] for i in range(12)]
    alone = [shared.parse(tokens, 5) for tokens in sentences]
    assert all(parse.divided for parse in alone)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            together = list(pool.map(lambda tokens: shared.parse(tokens, 5), sentences))
            assert all(same(a, b) for a, b in zip(alone, together, strict=True))


# -- the time limit ----------------------------------------------------------------------------


def test_a_sentence_that_takes_too_long_is_divided_soon(grammar: Grammar) -> None:
    hasty = Decoder(grammar, Search(exact=True, max_seconds=0.05, **UNLIMITED))
    hasty.parse(LONG[:25], 1)  # kernels load
    began = time.process_time()
    parse = hasty.parse(LONG, 10)
    assert time.process_time() - began < 1
    assert parse.divided and parse.glued and len(parse.forest.root) == 1
    assert tree_of(parse, LONG, grammar).leaves() == LONG


def test_a_short_sentence_is_parsed_whole_even_if_its_time_is_over(
    grammar: Grammar, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = []
    usual = Decoder._parse

    def late(self: Decoder, tokens: Sequence[str], *arguments: object) -> Parse | None:
        if not given_up:
            given_up.append(tokens)
            return None
        return usual(self, tokens, *arguments)  # type: ignore[arg-type]

    expected = Decoder(grammar).parse(CLAUSE, 5)
    monkeypatch.setattr(Decoder, "_parse", late)
    assert same(Decoder(grammar, Search(max_seconds=5)).parse(CLAUSE, 5), expected)
    assert given_up == [CLAUSE]


def test_enough_time_changes_nothing(grammar: Grammar) -> None:
    usual, timed = Decoder(grammar), Decoder(grammar, Search(max_seconds=600))
    for tree in trees(8, "dev"):
        assert same(usual.parse(tree.leaves(), 20), timed.parse(tree.leaves(), 20))


@pytest.mark.parametrize("seconds", [None, 600.0])
def test_a_stopped_thread_gives_up(
    grammar: Grammar, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = np.zeros(1, np.uint8)
    monkeypatch.setattr(decoder, "stop_flag", lambda: flag)
    slow = Decoder(grammar, Search(exact=True, max_seconds=seconds, **UNLIMITED))
    slow.parse(CLAUSE, 1)
    timer = threading.Timer(0.05, lambda: flag.fill(1))
    began = time.process_time()
    timer.start()
    with pytest.raises(Abandoned):
        slow.parse(LONG, 1)
    assert time.process_time() - began < 1
    timer.join()
