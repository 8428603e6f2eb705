"""The pruned search: without limits it is exact; with limits its trees are trees of the grammar."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rnnparse.grammar.coarse import coarse_grammar
from rnnparse.grammar.coarse_tags import coarse_emissions
from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.best_trees import best_trees
from rnnparse.inference.chart import cell_index, find_item
from rnnparse.inference.cky import inside_chart, no_beam
from rnnparse.inference.forest import candidate_tree
from rnnparse.inference.hypergraph import EDGES
from rnnparse.inference.rules import rule_arrays
from rnnparse.inference.space import (
    CoarseSearch,
    ExactSpace,
    Limits,
    PrunedSpace,
    Sentence,
    coarse_search,
)
from tests.grammar.small import trees
from tests.inference.brute import TooManyTrees, Twin, as_tree
from tests.inference.random_grammar import World, random_tests, worlds

GO_ON = np.zeros(1, np.uint8)
NO_LIMITS = Limits(math.inf, math.inf, math.inf, -math.inf)


def sentence_of(world: World) -> Sentence:
    return Sentence.of(world.emissions)


def scores_of(space: ExactSpace | PrunedSpace, grammar: Grammar, k: int) -> list[float]:
    if space.best == -math.inf:
        return []
    categories = grammar.pcfg.categories
    heads = grammar.heads.compile(categories).arrays
    forest = best_trees(space, k, len(categories), heads, GO_ON)
    assert forest is not None
    return list(forest.logp.tolist())


def lists(world: World, limits: Limits, k: int) -> tuple[list[float], list[float], bool]:
    """The scores of the trees by pruned and by exact search, and whether the latter are glued."""
    grammar, rules, sentence = world.grammar(), rule_arrays(world.pcfg), sentence_of(world)
    pruned = PrunedSpace(sentence, rules, coarse_search(grammar, rules), limits, GO_ON)
    exact = ExactSpace(sentence, rules, GO_ON)
    return scores_of(pruned, grammar, k), scores_of(exact, grammar, k), exact.glued


def assert_exact_without_limits(world: World, k: int) -> None:
    pruned, exact, glued = lists(world, NO_LIMITS, k)
    assert pruned == pytest.approx([] if glued else exact, abs=1e-9)
    try:
        best, _ = Twin(world.pcfg, world.emissions).best_trees()
    except TooManyTrees:
        return
    if not glued:
        assert pruned == pytest.approx([score for score, _ in best[:k]], abs=1e-9)


@random_tests
@given(worlds(), st.sampled_from([1, 3, 50]))
def test_the_search_without_limits_is_exact(world: World, k: int) -> None:
    assert_exact_without_limits(world, k)


@pytest.mark.slow
@settings(random_tests, max_examples=2000, deadline=None)
@given(worlds(), st.sampled_from([1, 3, 50]))
def test_the_search_without_limits_is_exact_for_2000_sentences(world: World, k: int) -> None:
    assert_exact_without_limits(world, k)


@random_tests
@given(worlds())
def test_refined_inside_scores_are_at_most_those_of_the_exact_chart(world: World) -> None:
    rules, sentence = rule_arrays(world.pcfg), sentence_of(world)
    n = len(sentence.ptr) - 1
    chart = inside_chart(
        n, sentence.ptr, sentence.symbol, sentence.logp, rules, no_beam(), GO_ON
    )
    assume(find_item(chart.cell_ptr, chart.symbol, cell_index(0, n), rules.root) >= 0)
    coarse = coarse_search(world.grammar(), rules)
    space = PrunedSpace(sentence, rules, coarse, NO_LIMITS, GO_ON)
    graph, refined = space.coarse, space.refined
    for c, cell in enumerate(graph.cells[: graph.size[0]]):
        place = cell_index(int(cell["start"]), int(cell["end"]))
        possible = refined.possible[refined.possible_ptr[c + 1] : refined.possible_ptr[c]]
        assert len(set(possible.tolist())) == len(possible)
        for item in possible.tolist():
            exact = find_item(chart.cell_ptr, chart.symbol, place, refined.symbol[item])
            # They are equal, unless the best chain of an item repeats a category of all above it.
            assert refined.inside[item] <= chart.inside[exact] + 1e-9
    root = find_item(chart.cell_ptr, chart.symbol, cell_index(0, n), rules.root)
    assert refined.symbol[refined.root] == rules.root
    assert refined.inside[refined.root] == pytest.approx(chart.inside[root], abs=1e-9)


@random_tests
@given(worlds(), st.sampled_from([0.5, 2.0, 5.0]), st.sampled_from([1.0, 4.0, math.inf]))
def test_limits_leave_trees_of_the_grammar(world: World, margin: float, width: float) -> None:
    grammar, rules, names = world.grammar(), rule_arrays(world.pcfg), world.pcfg.categories
    try:
        best, glued = Twin(world.pcfg, world.emissions).best_trees()
    except TooManyTrees:
        assume(False)
    limits = Limits(margin, width, width, -math.inf)
    coarse = coarse_search(grammar, rules)
    space = PrunedSpace(sentence_of(world), rules, coarse, limits, GO_ON)
    if space.best == -math.inf:
        return
    assert not glued
    forest = best_trees(space, 20, len(names), grammar.heads.compile(names).arrays, GO_ON)
    assert forest is not None
    scores = {str(as_tree(content, names, world.tokens)): score for score, content in best}
    for c, score in enumerate(forest.logp):
        # A tree's best derivation may be outside the limits.
        assert score <= scores[str(candidate_tree(forest, c, world.tokens, names))] + 1e-9
    assert forest.logp.tolist() == sorted(forest.logp.tolist(), reverse=True)


def small_coarse(grammar: Grammar) -> CoarseSearch:
    return coarse_search(grammar, rule_arrays(grammar.pcfg))


def test_wider_limits_find_trees_at_least_as_good(grammar: Grammar) -> None:
    rules, coarse = rule_arrays(grammar.pcfg), small_coarse(grammar)
    sums, sizes = [], []
    for width in (1.0, 3.0, 9.0, math.inf):
        limits = Limits(width, width, math.inf, -math.inf)
        spaces = [
            PrunedSpace(
                Sentence.of(grammar.lexicon.emissions(tree.leaves())), rules, coarse, limits, GO_ON
            )
            for tree in trees(20, "dev")
        ]
        sums.append(sum(max(space.best, -1000.0) for space in spaces))
        sizes.append(sum(int(space.coarse.size[EDGES]) for space in spaces))
    assert sums == sorted(sums)
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1] / 5


def test_the_coarse_grammar_is_a_grammar(grammar: Grammar) -> None:
    coarse = coarse_grammar(grammar.pcfg, grammar.lexicon.states())
    pcfg = coarse.pcfg
    total = np.bincount(pcfg.binary[:, 0], np.exp(pcfg.binary_logp), len(pcfg.symbols))
    total += np.bincount(pcfg.unary[:, 0], np.exp(pcfg.unary_logp), len(pcfg.symbols))
    inner = np.unique(pcfg.binary[:, 0])
    assert total[inner] == pytest.approx(1.0, abs=1e-9)
    assert np.array_equal(pcfg.category[coarse.coarse], grammar.pcfg.category)
    # A tag is followed by some tag or by the end.
    chance = np.exp(coarse.transitions).sum(axis=1)
    assert chance == pytest.approx(1.0, abs=0.02)


def test_coarse_emissions_are_weighted_means(grammar: Grammar) -> None:
    coarse = coarse_grammar(grammar.pcfg, grammar.lexicon.states())
    e = grammar.lexicon.emissions(["the", "cook", "ate", "Xyzzyness", "."])
    ptr, tag, logp = coarse_emissions(
        e.ptr, e.symbol, e.logp, coarse.coarse, coarse.state_weight
    )
    for i in range(5):
        expected: dict[int, float] = {}
        for t in range(e.ptr[i], e.ptr[i + 1]):
            own = int(coarse.coarse[e.symbol[t]])
            share = math.exp(coarse.state_weight[e.symbol[t]] + e.logp[t])
            expected[own] = expected.get(own, 0.0) + share
        actual = dict(zip(tag[ptr[i] : ptr[i + 1]], np.exp(logp[ptr[i] : ptr[i + 1]]), strict=True))
        assert actual == pytest.approx(expected)


