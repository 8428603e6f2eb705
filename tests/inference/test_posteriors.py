"""Sums over all derivations and posteriors, against brute force and finite differences."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given

from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.posteriors import Hypergraph
from rnnparse.inference.rules import rule_arrays
from rnnparse.inference.search import Search
from rnnparse.inference.space import ExactSpace, PrunedSpace, Sentence, coarse_search
from tests.grammar.small import trees
from tests.inference.brute import TooManyTrees, Twin
from tests.inference.random_grammar import World, random_tests, world_of, worlds
from tests.inference.test_refinement import NO_LIMITS

GO_ON = np.zeros(1, np.uint8)


class Sums(Twin):
    """The summed probability of all derivations of each item."""

    def __init__(self, world: World) -> None:
        super().__init__(world.pcfg, world.emissions)
        self.sum = lru_cache(None)(self._sum)

    def _sum(
        self,
        item: tuple[int, int, int],
        categories: frozenset[int] = frozenset(),
        symbols: frozenset[int] = frozenset(),
    ) -> float:
        symbol, i, j = item
        total = math.exp(self.tags[item]) if item in self.tags else 0.0
        for a, b, x in self.binary[symbol]:
            for k in range(i + 1, j):
                total += math.exp(x) * self.sum((a, i, k)) * self.sum((b, k, j))
        for a, x, link in self.unary[symbol]:
            if link and a not in symbols and a != symbol:
                total += math.exp(x) * self.sum((a, i, j), categories, symbols | {symbol})
            elif not link and self.category[a] not in categories | {self.category[symbol]}:
                above = categories | {self.category[symbol]}
                total += math.exp(x) * self.sum((a, i, j), above, frozenset())
        return total


def exact_graph(world: World) -> Hypergraph:
    space = ExactSpace(Sentence.of(world.emissions), rule_arrays(world.pcfg), GO_ON)
    if space.glued:
        assume(False)
    heads = world.grammar().heads.compile(world.pcfg.categories).arrays
    return Hypergraph.of(space, world.pcfg.categories, heads, GO_ON, window=1e9)


@random_tests
@given(worlds(longest=4))
def test_the_sum_over_all_derivations(world: World) -> None:
    graph, sums = exact_graph(world), Sums(world)
    try:
        sums.inside((sums.root, 0, sums.n))
    except TooManyTrees:
        assume(False)
    assert math.exp(graph.inside()[0]) == pytest.approx(sums.sum((sums.root, 0, sums.n)))
    best = graph.inside(best=True)[0]
    assert best == pytest.approx(sums.inside((sums.root, 0, sums.n)), abs=1e-9)


@random_tests
@given(worlds(longest=4))
def test_posteriors_are_derivatives_of_the_log_of_the_sum(world: World) -> None:
    graph = exact_graph(world)
    rng = np.random.default_rng(len(graph.symbol))
    scores = rng.normal(size=len(graph.symbol))
    posteriors = graph.posteriors(scores)
    for v in rng.choice(len(scores), min(len(scores), 8), replace=False):
        step = np.zeros_like(scores)
        step[v] = 1e-5
        up, down = graph.inside(scores + step)[0], graph.inside(scores - step)[0]
        assert posteriors[v] == pytest.approx((up - down) / 2e-5, abs=1e-7)


@random_tests
@given(worlds(longest=4))
def test_brackets_are_probabilities(world: World) -> None:
    graph = exact_graph(world)
    brackets = graph.brackets()
    assert all(0 <= b.probability <= 1 for b in brackets)
    assert [b.probability for b in brackets] == sorted(
        (b.probability for b in brackets), reverse=True
    )
    keys = [(b.label, b.start, b.end) for b in brackets]
    assert len(set(keys)) == len(keys)
    n = len(world.tokens)
    root = next(b for b in brackets if (b.label, b.start, b.end) == ("TOP", 0, n))
    assert root.probability == pytest.approx(1.0)
    for v, (start, end) in enumerate(zip(graph.start, graph.end, strict=True)):
        assert 0 <= start < end <= n, v


def test_a_pruned_space_without_limits_gives_the_same_posteriors(grammar: Grammar) -> None:
    rules = rule_arrays(grammar.pcfg)
    coarse, categories = coarse_search(grammar, rules), grammar.pcfg.categories
    heads = grammar.heads.compile(categories).arrays
    for tree in trees(6, "dev"):
        sentence = Sentence.of(grammar.lexicon.emissions(tree.leaves()[:9]))
        exact = ExactSpace(sentence, rules, GO_ON)
        if exact.glued:
            continue
        pruned = PrunedSpace(sentence, rules, coarse, NO_LIMITS, GO_ON)
        one, other = (
            Hypergraph.of(space, categories, heads, GO_ON, window=1e6)
            for space in (exact, pruned)
        )
        assert one.inside()[0] == pytest.approx(other.inside()[0], abs=1e-9)
        likely = [b for b in one.brackets() if b.probability > 1e-6]
        same = {(b.label, b.start, b.end): b.probability for b in other.brackets()}
        for b in likely:
            assert same[b.label, b.start, b.end] == pytest.approx(b.probability, abs=1e-9)


def test_scores_change_the_best_tree() -> None:
    # TOP over A and B, each over the same tag: scores choose between them.
    world = world_of([0, 1, 2, 3], [], [(0, 1), (0, 2), (1, 3), (2, 3)], [[3]])
    graph = exact_graph(world)
    assert graph.posteriors()[np.flatnonzero(graph.symbol == 1)] == pytest.approx(0.5)
    scores = np.where(graph.symbol == 2, 3.0, 0.0)
    assert graph.inside(scores, best=True)[0] == pytest.approx(-3.0 + 3.0)
    share = math.exp(3) / (1 + math.exp(3))
    assert graph.posteriors(scores)[np.flatnonzero(graph.symbol == 2)] == pytest.approx(share)
    with pytest.raises(ValueError, match=r"expected \d+ scores"):
        graph.inside(np.zeros(1))


def test_a_sentence_in_parts_has_a_hypergraph_for_each(grammar: Grammar) -> None:
    tokens = [token for tree in trees(4, "dev") for token in tree.leaves()]
    parts = Decoder(grammar, Search(max_length=12)).hypergraphs(tokens)
    assert parts[0][0] == 0 and len(parts) > 1
    ends = [first + int(graph.end.max()) for first, graph in parts]
    assert [first for first, _ in parts] == [0, *ends[:-1]]
    assert ends[-1] == len(tokens)
