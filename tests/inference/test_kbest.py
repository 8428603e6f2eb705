"""Lists of the k best trees against the brute-force twin: complete, in order, and distinct."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rnnparse.inference.decode import Decoder, Parse
from rnnparse.inference.forest import candidate_tree
from tests.inference.brute import TooManyTrees, Twin, as_tree
from tests.inference.random_grammar import CATEGORIES, World, worlds

TOLERANCE = 1e-9
random_tests = settings(
    deadline=None, max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


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
        found, glued = Twin(world.pcfg, world.emissions).best_trees()
    except TooManyTrees:
        assume(False)
    return [
        (score, as_tree(tree, CATEGORIES, world.tokens).pformat(1 << 30)) for score, tree in found
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
    decoder = Decoder(world.grammar())
    for k in (*range(1, 11), 13, 20, 33, 50, 4000):
        parse = decoder.parse(world.tokens, k)
        assert parse.glued == glued
        check(named(parse, world), best, k)
