"""Lists of the k best trees against the brute-force twin: complete, in order, and distinct."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rnnparse.inference import best_trees as best_trees_module
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.forest import candidate_tree
from rnnparse.inference.search import Search
from tests.inference.brute import TooManyTrees, Twin, as_tree
from tests.inference.random_grammar import CATEGORIES, World, random_tests, world_of, worlds

TOLERANCE = 1e-9


def named(parse: Parse, world: World) -> list[tuple[float, str]]:
    """The trees of a parse in one line each, with their scores."""
    trees = [
        candidate_tree(parse.forest, c, world.tokens, CATEGORIES).pformat(1 << 30)
        for c in range(len(parse.forest.root))
    ]
    return list(zip(parse.forest.logp.tolist(), trees, strict=True))


def expected(world: World) -> tuple[list[tuple[float, str]], bool]:
    """The same from the twin, for all trees that there are."""
    try:
        scored_trees, glued = Twin(world.pcfg, world.emissions).best_trees()
    except TooManyTrees:
        assume(False)
    return [
        (score, as_tree(tree, CATEGORIES, world.tokens).pformat(1 << 30))
        for score, tree in scored_trees
    ], glued


def check(got: list[tuple[float, str]], best: list[tuple[float, str]], k: int) -> None:
    """Fail unless `got` is a list of the k best; equally good trees may stand for each other."""
    assert len(got) == min(k, len(best))
    scores = dict((tree, score) for score, tree in best)
    assert len({tree for _, tree in got}) == len(got)
    for (score, tree), (wanted, _) in zip(got, best, strict=False):
        assert score == pytest.approx(wanted, abs=TOLERANCE * max(1, abs(wanted) / 1000))
        assert scores[tree] == pytest.approx(score, abs=TOLERANCE * max(1, abs(wanted) / 1000))
    worst = got[-1][0]
    assert {tree for s, tree in best if s > worst + 1e-8} <= {tree for _, tree in got}


@random_tests
@given(worlds(), st.sampled_from(["left", "right"]))
def test_lists_are_complete_for_every_k(world: World, side: str) -> None:
    best, glued = expected(world)
    decoder = Decoder(world.grammar(), Search(exact=True))
    for k in (*range(1, 11), 13, 20, 33, 50, 4000):
        parse = decoder.parse(world.tokens, k)
        assert parse.glued == glued
        check(named(parse, world), best, k)


def parsed(world: World, k: int, window: float, factor: float) -> list[tuple[float, str]]:
    """The k best trees, with windows of one's own."""
    with (
        patch.object(best_trees_module, "likely_window", lambda n, k: window),
        patch.object(best_trees_module, "FACTOR", factor),
    ):
        decoder = Decoder(world.grammar(), Search(exact=True))
        return named(decoder.parse(world.tokens, k), world)


@random_tests
@given(worlds(), st.integers(1, 30))
def test_growing_windows_give_the_list_of_one_huge_window(world: World, k: int) -> None:
    best, _ = expected(world)
    whole = parsed(world, k, 1e8, 2.0)
    check(whole, best, k)
    for window, factor in ((1e-6, 3.0), (0.01, 1.3), (1.0, 1.1)):
        steps = parsed(world, k, window, factor)
        check(steps, best, k)
        assert [s for s, _ in steps] == pytest.approx([s for s, _ in whole], abs=1e-9)


@random_tests
@given(worlds(), st.integers(1, 30))
def test_windows_that_hold_too_much_are_narrowed_to_the_same_list(world: World, k: int) -> None:
    best, _ = expected(world)
    for effort in (0, 3):
        with patch.object(best_trees_module, "EFFORT", effort):
            check(parsed(world, k, 20.0, 1.7), best, k)


def test_a_chain_that_must_repeat_a_category_is_glued() -> None:
    # TOP -> A1 -> B -> A2, where only A2 is a tag: the chain A B A is no tree.
    world = world_of([0, 1, 2, 1], [], [(0, 1), (1, 2), (2, 3)], [[3]])
    parse = Decoder(world.grammar(), Search(exact=True)).parse(world.tokens, 5)
    assert parse.glued
    assert named(parse, world) == [(-1001.0, "(TOP (A w0))"), (-1002.0, "(TOP (B (A w0)))")]


def test_a_better_chain_that_repeats_a_category_does_not_hide_a_worse_one() -> None:
    # A1 over B over A2 would be the best way to A1, but only A1 over C is allowed above it.
    world = world_of([0, 1, 2, 1, 3], [], [(0, 1), (1, 2), (2, 3), (1, 4)], [[3, 4]])
    parse = Decoder(world.grammar(), Search(exact=True)).parse(world.tokens, 5)
    assert named(parse, world) == [(-3.0, "(TOP (A (C w0)))")]
    assert not parse.glued


def test_a_worse_chain_goes_on_where_a_better_one_must_stop() -> None:
    # The best way from A to C is over B, but what may stand above is another B.
    world = world_of([0, 1, 2, 3, 2], [], [(2, 1), (3, 2), (3, 1), (4, 3), (0, 4)], [[1]])
    worse = (world.pcfg.unary == (3, 1)).all(axis=1)
    world.pcfg.unary_logp[worse] = -5.0
    parse = Decoder(world.grammar(), Search(exact=True)).parse(world.tokens, 5)
    assert named(parse, world) == [(-8.0, "(TOP (B (C (A w0))))")]


def test_links_leave_no_node_and_do_not_count_as_a_repetition() -> None:
    # A1 is linked to A2, which is a tag, and rewrites as B as well.
    world = world_of([0, 1, 1, 2], [], [(0, 1), (2, 3)], [[2, 3]], [(1, 2)])
    parse = Decoder(world.grammar(), Search(exact=True)).parse(world.tokens, 5)
    assert named(parse, world) == [(-3.0, "(TOP (A w0))"), (-4.0, "(TOP (A (B w0)))")]


def test_different_annotations_of_one_tree_count_once() -> None:
    # Two symbols of category A and two intermediate ones of category B give one tree.
    world = world_of(
        [0, 1, 1, 6, 6, 3],
        [(0, 1, 3), (0, 1, 4), (0, 2, 3), (3, 1, 5), (4, 2, 5), (4, 1, 5)],
        [],
        [[1, 2], [1, 2], [5]],
    )
    parse = Decoder(world.grammar(), Search(exact=True)).parse(world.tokens, 100)
    assert named(parse, world) == [(-5.0, "(TOP (A w0) (A w1) (C w2))")]


def test_no_tokens_or_no_trees_wanted_are_refused() -> None:
    decoder = Decoder(world_of([0, 1], [], [(0, 1)], [[1]]).grammar())
    with pytest.raises(ValueError, match="0 tokens"):
        decoder.parse([], 1)
    with pytest.raises(ValueError, match="0 best"):
        decoder.parse(["w0"], 0)
