"""Posteriors of rule applications and their products, against lists of all derivations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.edge_posteriors import FLOOR, frame_of
from rnnparse.inference.max_rule import (
    LatentScorer,
    Posteriors,
    own_posteriors,
    product,
    projected_posteriors,
)
from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.posteriors import Hypergraph
from rnnparse.inference.projection import project
from tests.grammar.small import trees
from tests.inference.latent_world import (
    Derivations,
    TooMany,
    latent_derivations,
    random_latent,
)
from tests.inference.random_grammar import CATEGORIES, World, random_tests, worlds
from tests.inference.test_posteriors import exact_graph

seeds = st.integers(0, 1 << 32)
SIZE = len(CATEGORIES)


def arrays_of(world: World) -> HypergraphArrays:
    """The exact hypergraph of a world, or another example if it is glued."""
    return exact_graph(world).arrays().wide()


def own_derivations(graph: HypergraphArrays) -> Derivations:
    rules: list[np.ndarray | None] = [
        np.ones((1, 1, 1) if right >= 0 else (1, 1)) for right in graph.right
    ]
    return Derivations(graph, rules, [np.ones(1)] * len(graph.tag))


def floored(chances: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        logs: np.ndarray = np.maximum(np.log(chances), FLOOR)
    return logs


def check(posteriors: Posteriors, derivations: Derivations) -> None:
    try:
        edge, tag = derivations.posteriors()
    except TooMany:
        assume(False)
    assert np.exp(posteriors.edge) == pytest.approx(edge, abs=1e-6)
    assert np.exp(posteriors.tag) == pytest.approx(tag, abs=1e-6)
    near = edge > 1e-9  # of probabilities near the floor, the order of sums decides
    assert posteriors.edge[near] == pytest.approx(floored(edge)[near], abs=1e-4)


@random_tests
@given(worlds(longest=4))
def test_posteriors_of_the_grammar_itself(world: World) -> None:
    graph = arrays_of(world)
    check(own_posteriors(graph), own_derivations(graph))


@random_tests
@given(worlds(longest=4))
def test_projections_have_all_trees(world: World) -> None:
    """Without rule probabilities, as derivations without links."""
    graph = arrays_of(world)
    projection = project(graph)
    new = projection.arrays
    keys = list(zip(new.category.tolist(), new.start.tolist(), new.end.tolist(), strict=True))
    assert len(set(keys)) == len(keys)
    edges = list(zip(new.parent.tolist(), new.left.tolist(), new.right.tolist(), strict=True))
    assert len(set(edges)) == len(edges)
    assert len(set(new.tag.tolist())) == len(new.tag)
    assert (np.diff(new.start[new.tag]) >= 0).all()
    try:
        before, after = own_derivations(graph).root(), own_derivations(new).root()
    except TooMany:
        assume(False)
    mapped = {
        (
            frozenset(projection.edge[list(d.edges)].tolist()) - {-1},
            frozenset(projection.tag[list(d.tags)].tolist()),
        )
        for d in before
    }
    assert mapped <= {(d.edges, d.tags) for d in after}


@random_tests
@given(worlds(longest=4))
def test_projected_posteriors_are_sums(world: World) -> None:
    graph = arrays_of(world)
    projection = project(graph)
    own = projected_posteriors(own_posteriors(graph), projection)
    try:
        edge, tag = own_derivations(graph).posteriors()
    except TooMany:
        assume(False)
    kept = projection.edge >= 0
    edge = np.bincount(projection.edge[kept], edge[kept], len(projection.arrays.parent))
    tag = np.bincount(projection.tag, tag)
    assert np.exp(own.edge) == pytest.approx(edge, abs=1e-6)
    assert np.exp(own.tag) == pytest.approx(tag, abs=1e-6)
    token = projection.arrays.start[projection.arrays.tag]
    assert np.bincount(token, np.exp(own.tag)) == pytest.approx(1.0)


@random_tests
@given(worlds(longest=4), seeds)
def test_posteriors_under_a_latent_grammar(world: World, seed: int) -> None:
    graph, rng = project(arrays_of(world)).arrays, np.random.default_rng(seed)
    latent = random_latent(graph, SIZE, rng)
    words = [f"w{rng.integers(5)}" for _ in world.tokens]
    tag_logp = -rng.exponential(3.0, len(graph.tag))
    derivations = latent_derivations(graph, latent, words, tag_logp)
    posteriors = LatentScorer(latent).posteriors(frame_of(graph), words, tag_logp)
    try:
        possible = sum(d.vector.sum() for d in derivations.root()) > 0.0
    except TooMany:
        assume(False)
    assert (posteriors is not None) == possible
    if posteriors is not None:
        check(posteriors, derivations)
        token = graph.start[graph.tag]
        assert np.bincount(token, np.exp(posteriors.tag)) == pytest.approx(1.0)


@random_tests
@given(worlds(longest=4), seeds)
def test_the_best_tree_of_a_product(world: World, seed: int) -> None:
    graph, rng = project(arrays_of(world)).arrays, np.random.default_rng(seed)
    edges, tags = len(graph.parent), len(graph.tag)
    scores = [
        Posteriors(-rng.exponential(2.0, edges), -rng.exponential(2.0, tags)) for _ in range(2)
    ]
    multiplied = product(graph, scores)
    try:
        derivations = own_derivations(multiplied).root()
    except TooMany:
        assume(False)
    best = max(
        sum(float(s.edge[list(d.edges)].sum() + s.tag[list(d.tags)].sum()) for s in scores)
        for d in derivations
    )
    heads = world.grammar().heads.compile(CATEGORIES).arrays
    forest = Hypergraph(multiplied, CATEGORIES, heads).k_best(None, 1)
    assert forest.logp[0] == pytest.approx(best, abs=1e-4)


def test_long_sentences_do_not_underflow() -> None:
    """A chain of 4,000 tokens, each step of probability e⁻¹ for both substates."""
    n = 4000
    category = np.array([0] + [5] * (n - 2) + [1] * n, np.int32)
    start = np.concatenate([np.arange(n - 1), np.arange(n)]).astype(np.int32)
    end = np.concatenate([np.full(n - 1, n), np.arange(1, n + 1)]).astype(np.int32)
    inner = np.arange(n - 1, dtype=np.int32)
    graph = HypergraphArrays(
        symbol=category, category=category, start=start, end=end,
        parent=inner, left=inner + (n - 1), right=np.append(inner[1:], np.int32(2 * n - 2)),
        logp=np.full(n - 1, -1.0), link=np.zeros(n - 1, np.bool_),
        tag=np.arange(n - 1, 2 * n - 1, dtype=np.int32), tag_logp=np.full(n, -1.0),
    )  # fmt: skip
    own = own_posteriors(graph)
    assert own.edge == pytest.approx(0.0, abs=1e-9)
    assert own.tag == pytest.approx(0.0, abs=1e-9)


def test_hypergraphs_of_real_sentences(grammar: Grammar) -> None:
    decoder, names = Decoder(grammar), grammar.pcfg.categories
    for tree in trees(6, "dev"):
        ((_, hypergraph),) = decoder.hypergraphs(tree.leaves(), window=9.0)
        if hypergraph.symbol[0] < 0:
            continue
        graph = hypergraph.arrays().wide()
        projection = project(graph)
        own, new = projected_posteriors(own_posteriors(graph), projection), projection.arrays
        assert len(new.parent) < len(graph.parent)
        chances = {(b.label, b.start, b.end): b.probability for b in hypergraph.brackets()}
        above = np.bincount(new.parent, np.exp(own.edge), len(new.category))
        above[new.tag] += np.exp(own.tag)
        for v in np.flatnonzero(new.category < len(names)).tolist():
            key = names[new.category[v]], int(new.start[v]), int(new.end[v])
            assert above[v] == pytest.approx(chances[key], abs=1e-5)
