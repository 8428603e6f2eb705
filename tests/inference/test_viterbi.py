"""The best tree of a hypergraph with scores, against brute force and `Hypergraph.best_tree`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.posteriors import Hypergraph
from rnnparse.inference.rules import rule_arrays
from rnnparse.inference.space import ExactSpace, Sentence
from rnnparse.inference.viterbi import best_tree
from tests.grammar.small import trees
from tests.inference.random_grammar import World, random_tests, world_of, worlds
from tests.inference.test_posteriors import GO_ON, exact_graph

MOST = 3000

Derivation = tuple[tuple[int, ...], float]  # nodes in preorder, log probability


def derivations(graph: HypergraphArrays, epsilon: int) -> list[Derivation]:
    """All derivations of the root, by plain recursion over edges."""

    def below(v: int, above: frozenset[int], path: frozenset[int]) -> Iterator[Derivation]:
        """Those of a vertex without its own node.

        Args:
            v: the vertex.
            above: categories of the nodes of the unary chain down to it.
            path: the vertices of the chain.
        """
        for t in np.flatnonzero(graph.tag == v):
            yield (), float(graph.tag_logp[t])
        for e in np.flatnonzero(graph.parent == v):
            left, right, logp = int(graph.left[e]), int(graph.right[e]), float(graph.logp[e])
            if right >= 0:
                pairs = itertools.product(list(whole(left)), list(whole(right)))
                yield from ((a + b, logp + p + q) for (a, p), (b, q) in pairs)
            elif left not in path and graph.link[e]:
                yield from ((a, logp + p) for a, p in below(left, above, path | {left}))
            elif left not in path and graph.category[left] not in above:
                inner = below(left, above | {int(graph.category[left])}, path | {left})
                yield from (((left, *a), logp + p) for a, p in inner)

    def whole(v: int) -> Iterator[Derivation]:
        if v == epsilon:
            yield (), 0.0
            return
        start = below(v, frozenset({int(graph.category[v])}), frozenset({v}))
        yield from (((v, *a), p) for a, p in start)

    found = list(itertools.islice(whole(0), MOST + 1))
    assume(len(found) <= MOST)
    return found


@random_tests
@given(worlds(longest=4), st.sampled_from([0.0, 0.3, 1.0, 2.5]))
def test_the_best_of_all_derivations(world: World, weight: float) -> None:
    graph = exact_graph(world).arrays().wide()
    scores = np.random.default_rng(len(graph.symbol)).normal(0, 3, len(graph.symbol))
    values = [
        (weight * logp + scores[list(nodes)].sum(), nodes, logp)
        for nodes, logp in derivations(graph, -1)
    ]
    found = best_tree(graph, scores, weight)
    assert found.score == pytest.approx(max(values)[0], abs=1e-9)
    same = [logp for _, nodes, logp in values if nodes == tuple(found.vertices.tolist())]
    assert any(logp == pytest.approx(found.logp, abs=1e-9) for logp in same)
    whole = weight * found.logp + scores[found.vertices].sum()
    assert whole == pytest.approx(found.score, abs=1e-9)


@random_tests
@given(worlds(longest=5))
def test_the_score_is_that_of_the_glued_tree_too(world: World) -> None:
    space = ExactSpace(Sentence.of(world.emissions), rule_arrays(world.pcfg), GO_ON)
    heads = world.grammar().heads.compile(world.pcfg.categories).arrays
    graph = Hypergraph.of(space, world.pcfg.categories, heads, GO_ON, window=1e9)
    scores = np.random.default_rng(len(graph.symbol)).normal(0, 3, len(graph.symbol))
    found = best_tree(graph.arrays().wide(), scores, 0.5)
    assert found.score == pytest.approx(graph.inside(scores, best=True, weight=0.5)[0], abs=1e-6)
    if space.glued:
        epsilon = len(world.tokens)
        assert epsilon not in found.vertices
        values = (0.5 * p + scores[list(v)].sum() for v, p in derivations(graph.arrays(), epsilon))
        assert found.score == pytest.approx(max(values), abs=1e-3)  # arrays() is in float32


def test_the_same_tree_as_that_of_the_hypergraph(grammar: Grammar) -> None:
    decoder, size = Decoder(grammar), len(grammar.pcfg.categories)
    for number, tree in enumerate(trees(8, "dev")):
        [(_, graph)] = decoder.hypergraphs(tree.leaves(), window=6.0)
        scores = np.random.default_rng(number).normal(0, 1, len(graph.symbol))
        found, forest = best_tree(graph.arrays(), scores, 0.4), graph.best_tree(scores, weight=0.4)
        assert found.score == pytest.approx(float(forest.score[0]), abs=1e-4)
        basic = (graph.category < size) & (graph.symbol >= 0)
        basic[0] = True  # also if it is glue
        vertices = found.vertices[basic[found.vertices]]
        spans = {(graph.category[v], graph.start[v], graph.end[v]) for v in vertices}
        whole = forest.cat < size
        assert spans == set(
            zip(forest.cat[whole], forest.start[whole], forest.end[whole], strict=True)
        )


def test_of_equal_trees_the_first_is_taken() -> None:
    # TOP over A and B, each over the same tag, all with the same log probability.
    graph = exact_graph(world_of([0, 1, 2, 3], [], [(0, 1), (0, 2), (1, 3), (2, 3)], [[3]]))
    found = best_tree(graph.arrays(), np.zeros(len(graph.symbol)))
    first = next(e for e in range(len(graph.parent)) if graph.parent[e] == 0)
    assert found.vertices[1] == graph.left[first]
    assert found.logp == found.score == pytest.approx(-3.0)


def test_wrong_arguments_are_errors() -> None:
    arrays = exact_graph(world_of([0, 3], [], [(0, 1)], [[1]])).arrays()
    with pytest.raises(ValueError, match="expected 2 finite scores"):
        best_tree(arrays, np.zeros(3))
    with pytest.raises(ValueError, match="expected 2 finite scores"):
        best_tree(arrays, np.array([0.0, np.nan]))
    with pytest.raises(ValueError, match="weight of at least 0, not -1"):
        best_tree(arrays, np.zeros(2), -1)
    with pytest.raises(ValueError, match="has no tree"):
        best_tree(arrays._replace(tag=arrays.tag[:0], tag_logp=arrays.tag_logp[:0]), np.zeros(2))
