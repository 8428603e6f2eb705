"""Trees by log probability plus scores of vertices, against brute force."""

from __future__ import annotations

import math
import pickle
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import Forest, ScoredForest, candidate_tree
from rnnparse.inference.posteriors import Hypergraph
from rnnparse.inference.rules import rule_arrays
from rnnparse.inference.search import Search
from rnnparse.inference.space import ExactSpace, Sentence
from tests.grammar.small import trees
from tests.inference.brute import Content, Item, TooManyTrees, Twin, as_tree
from tests.inference.random_grammar import CATEGORIES, World, random_tests, world_of, worlds

GO_ON = np.zeros(1, np.uint8)
Scored = dict[Content, tuple[float, float]]  # score and log probability of the best derivation


class ScoredTwin(Twin):
    """All derivations with a score for each node, a symbol over a span."""

    def __init__(self, world: World, scores: dict[Item, float], weight: float) -> None:
        super().__init__(world.pcfg, world.emissions, most=1000)
        self.scores, self.weight = scores, weight
        self.scored = lru_cache(None)(self._scored)

    def _scored(
        self, item: Item, categories: frozenset[int], symbols: frozenset[int], linked: bool
    ) -> Scored:
        """Contents of an item, without its own score if a link leads to it from above."""
        symbol, i, j = item
        own = 0.0 if linked else self.scores.get(item, -math.inf)
        best: Scored = {}

        def add(content: Content, score: float, logp: float) -> None:
            total = score + own + self.weight * logp
            if total > -math.inf and total > best.get(content, (-math.inf, 0.0))[0] - 1e-12:
                best[content] = total, logp
            if len(best) > self.most:
                raise TooManyTrees

        def lower(below: Item, *above: frozenset[int], linked: bool = False) -> Scored:
            return {
                content: (total - self.weight * logp, logp)
                for content, (total, logp) in self.scored(below, *above, linked).items()
            }

        def wrapped(parts: Content) -> Content:
            return parts if self.partial[symbol] else (self.category[symbol], parts)

        none: frozenset[int] = frozenset()
        if item in self.tags:
            add((self.category[symbol], i), 0.0, self.tags[item])
        for a, b, x in self.binary[symbol]:
            for k in range(i + 1, j):
                rights = lower((b, k, j), none, none) if lower((a, i, k), none, none) else {}
                for one, (s, p) in lower((a, i, k), none, none).items():
                    for other, (t, q) in rights.items():
                        parts = self.parts(a, one) + self.parts(b, other)
                        add(wrapped(parts), s + t, x + p + q)
        for a, x, link in self.unary[symbol]:
            if link and a not in symbols and a != symbol:
                below = lower((a, i, j), categories, symbols | {symbol}, linked=True)
                for content, (s, p) in below.items():
                    add(content, s, x + p)
            elif not link and self.category[a] not in categories | {self.category[symbol]}:
                above = categories | {self.category[symbol]}
                for content, (s, p) in lower((a, i, j), above, none).items():
                    add(wrapped(self.parts(a, content)), s, x + p)
        return best

    def ranked(self) -> list[tuple[float, float, Content]]:
        """Score, log probability and content of all trees, best first."""
        top = self.scored((self.root, 0, self.n), frozenset(), frozenset(), False)
        return sorted(((s, p, tree) for tree, (s, p) in top.items()), key=lambda x: -x[0])


def exact_graph(world: World) -> Hypergraph:
    space = ExactSpace(Sentence.of(world.emissions), rule_arrays(world.pcfg), GO_ON)
    if space.glued:
        assume(False)
    heads = world.grammar().heads.compile(CATEGORIES).arrays
    return Hypergraph.of(space, CATEGORIES, heads, GO_ON, window=1e9)


def random_scores(graph: Hypergraph, seed: int, size: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return size * (rng.normal(size=len(graph.symbol)) + rng.choice([-1.0, 0.0, 1.0]))


def scores_of(graph: Hypergraph, scores: np.ndarray) -> dict[Item, float]:
    items = zip(graph.symbol.tolist(), graph.start.tolist(), graph.end.tolist(), strict=True)
    return dict(zip(items, scores.tolist(), strict=True))


def ranked(
    world: World, scores: dict[Item, float], weight: float
) -> list[tuple[float, float, str]]:
    try:
        found = ScoredTwin(world, scores, weight).ranked()
    except TooManyTrees:
        assume(False)
    return [
        (score, logp, as_tree(tree, CATEGORIES, world.tokens).pformat(1 << 30))
        for score, logp, tree in found
    ]


def lines(forest: Forest, world: World) -> list[str]:
    return [
        candidate_tree(forest, c, world.tokens, CATEGORIES).pformat(1 << 30)
        for c in range(len(forest.root))
    ]


def check(
    forest: ScoredForest, best: list[tuple[float, float, str]], world: World, k: int
) -> None:
    """Fail unless a forest has the k best trees; equally good ones may stand for each other."""
    assert len(forest.root) == min(k, len(best))
    assert forest.score == pytest.approx([score for score, _, _ in best[:k]], abs=1e-9)
    found = lines(forest, world)
    assert len(set(found)) == len(found)
    expected = {tree: (score, logp) for score, logp, tree in best}
    for tree, score, logp in zip(found, forest.score, forest.logp, strict=True):
        assert expected[tree] == pytest.approx((score, logp), abs=1e-9)


@random_tests
@given(
    worlds(),
    st.integers(0, 1000),
    st.sampled_from([0.3, 3.0, 30.0]),
    st.sampled_from([1.0, 0.2, 4.0]),
)
def test_the_best_trees_by_score_for_every_k(
    world: World, seed: int, size: float, weight: float
) -> None:
    graph = exact_graph(world)
    scores = random_scores(graph, seed, size)
    best = ranked(world, scores_of(graph, scores), weight)
    check(graph.best_tree(scores, weight=weight), best, world, 1)
    for k in (1, 2, 3, 7, 20, 4000):
        check(graph.k_best(scores, k, weight=weight), best, world, k)
    assert graph.inside(scores, best=True, weight=weight)[0] == pytest.approx(best[0][0], abs=1e-9)


@random_tests
@given(worlds(), st.integers(1, 30))
def test_without_scores_the_list_is_that_of_the_decoder(world: World, k: int) -> None:
    forest = exact_graph(world).k_best(None, k)
    parsed = Decoder(world.grammar(), Search(exact=True)).parse(world.tokens, k).forest
    assert forest.logp == pytest.approx(parsed.logp, abs=1e-9)
    assert forest.score == pytest.approx(forest.logp, abs=1e-12)


@random_tests
@given(worlds(longest=4), st.integers(0, 1000), st.sampled_from([0.5, 2.0]))
def test_weighted_log_probabilities_are_those_of_weighted_rules(
    world: World, seed: int, weight: float
) -> None:
    graph = exact_graph(world)
    scores = random_scores(graph, seed, 1.0)
    arrays = graph.arrays()
    arrays = arrays._replace(logp=weight * arrays.logp, tag_logp=weight * arrays.tag_logp)
    heavier = Hypergraph(arrays, CATEGORIES, world.grammar().heads.compile(CATEGORIES).arrays)
    for one, other in (
        (graph.posteriors(scores, weight=weight), heavier.posteriors(scores)),
        (graph.inside(scores, weight=weight), heavier.inside(scores)),
    ):
        assert one == pytest.approx(other, abs=1e-4)


def test_positive_scores_prefer_longer_chains() -> None:
    # TOP over A over the tag C, or TOP over A over B over C.
    world = world_of([0, 1, 2, 3], [], [(0, 1), (1, 2), (1, 3), (2, 3)], [[3]])
    graph = exact_graph(world)
    forest = graph.k_best(np.where(graph.symbol == 2, 5.0, 0.0), 5)
    assert lines(forest, world) == ["(TOP (A (B (C w0))))", "(TOP (A (C w0)))"]
    assert forest.score.tolist() == [1.0, -3.0]
    assert forest.logp.tolist() == [-4.0, -3.0]


def test_a_glued_sentence_has_scored_trees() -> None:
    # A over B over A repeats a category, so only parts of the chain are glued under the root.
    world = world_of([0, 1, 2, 1], [], [(0, 1), (1, 2), (2, 3)], [[3], [3]])
    ((_, graph),) = Decoder(world.grammar(), Search(exact=True)).hypergraphs(world.tokens)
    plain = graph.k_best(None, 9)
    assert plain.logp[0] == pytest.approx(-2002.0)
    second = (graph.symbol == 2) & (graph.start == 1)
    forest = graph.k_best(np.where(second, 9.0, 0.0), 1)
    assert lines(forest, world) == ["(TOP (A w0) (B (A w1)))"]
    assert (forest.score[0], forest.logp[0]) == pytest.approx((-1994.0, -2003.0))
    again = Hypergraph(graph.arrays(), CATEGORIES, world.grammar().heads.compile(CATEGORIES).arrays)
    assert again.k_best(None, 9).logp == pytest.approx(plain.logp, rel=1e-6)


def test_bad_scores_are_refused() -> None:
    graph = exact_graph(world_of([0, 1], [], [(0, 1)], [[1]]))
    with pytest.raises(ValueError, match=r"expected 2 scores"):
        graph.k_best(np.zeros(3), 1)
    with pytest.raises(ValueError, match="expected a positive weight, not 0"):
        graph.best_tree(weight=0.0)


def test_a_hypergraph_from_its_arrays_has_the_same_trees(grammar: Grammar) -> None:
    decoder = Decoder(grammar)
    for tree in trees(5, "dev"):
        ((_, graph),) = decoder.hypergraphs(tree.leaves(), window=8.0)
        kept = pickle.loads(pickle.dumps(graph.arrays()))
        assert {array.itemsize for array in kept} <= {1, 2, 4}
        again = decoder.hypergraph(kept)
        for name in ("symbol", "category", "start", "end", "parent", "left", "right", "link"):
            assert np.array_equal(getattr(again, name), getattr(graph, name)), name
        assert again.posteriors() == pytest.approx(graph.posteriors(), abs=1e-4)
        scores = random_scores(graph, 0, 2.0)
        one, other = graph.k_best(scores, 20), again.k_best(scores, 20)
        assert one.score == pytest.approx(other.score, abs=1e-3)
        assert one.score.tolist() == sorted(one.score, reverse=True)
