"""Inside and outside scores of every item, and the edges kept, against the brute-force twin."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rnnparse.inference.chart import Chart, cell_index, find_item
from rnnparse.inference.cky import inside_chart, no_beam
from rnnparse.inference.hypergraph import CELLS, EDGES, Graph, root_graph
from rnnparse.inference.pruning import prune
from rnnparse.inference.rules import rule_arrays
from tests.inference.brute import Item, TooManyTrees, Twin
from tests.inference.random_grammar import World, random_tests, world_of, worlds

GO_ON = np.zeros(1, np.uint8)


def filled(world: World) -> Chart:
    e = world.emissions
    rules = rule_arrays(world.pcfg)
    return inside_chart(len(e.ptr) - 1, e.ptr, e.symbol, e.logp, rules, no_beam(), GO_ON)


def spans(n: int) -> list[tuple[int, int]]:
    return list(combinations(range(n + 1), 2))


def items_of(chart: Chart, n: int) -> dict[Item, int]:
    """Number of every item."""
    actual = {}
    for i, j in spans(n):
        cell = cell_index(i, j)
        symbols = chart.symbol[chart.cell_ptr[cell] : chart.cell_ptr[cell + 1]]
        assert (np.diff(symbols) > 0).all()
        for offset, symbol in enumerate(symbols.tolist()):
            actual[symbol, i, j] = int(chart.cell_ptr[cell]) + offset
    return actual


def twin_of(world: World) -> Twin:
    twin = Twin(world.pcfg, world.emissions)
    try:
        for symbol in twin.symbols:
            twin.inside((symbol, 0, twin.n))
    except TooManyTrees:
        assume(False)
    return twin


@random_tests
@given(worlds())
def test_inside_scores_of_all_items(world: World) -> None:
    twin, chart = twin_of(world), filled(world)
    items = items_of(chart, twin.n)
    for i, j in spans(twin.n):
        for symbol in twin.symbols:
            expected = twin.inside((symbol, i, j))
            number = items.get((symbol, i, j), -1)
            assert number == find_item(chart.cell_ptr, chart.symbol, cell_index(i, j), symbol)
            got = chart.inside[number] if number >= 0 else -math.inf
            assert got == pytest.approx(expected, abs=1e-9)


def test_a_chain_starts_from_a_tag_and_not_from_another_chain() -> None:
    # B is better over A1 than as a tag, but A2 may stand over the tag only.
    world = world_of([0, 1, 2, 1], [], [(2, 1), (3, 2), (0, 3)], [[1, 2]])
    world.emissions.logp[1] = -10.0
    chart = filled(world)
    assert chart.symbol.tolist() == [0, 1, 2, 3]
    assert chart.inside.tolist() == [-12.0, -1.0, -2.0, -11.0]


def pruned(world: World, chart: Chart, root: int, threshold: float) -> tuple[Graph, bool]:
    rules = rule_arrays(world.pcfg)
    n = len(world.tokens)
    graph = root_graph(n, len(chart.symbol), root, rules)
    return prune(n, chart, rules, graph, threshold, GO_ON)


@random_tests
@given(worlds())
def test_outside_scores_of_all_items(world: World) -> None:
    twin, chart = twin_of(world), filled(world)
    items = items_of(chart, twin.n)
    assume((twin.root, 0, twin.n) in items)
    graph, cut = pruned(world, chart, items[twin.root, 0, twin.n], -1e9)
    assert not cut
    for item, number in items.items():
        vertex = graph.vertex_of[number]
        got = graph.vertices[vertex]["outside"] if vertex >= 0 else -math.inf
        assert got == pytest.approx(twin.outside(item), abs=1e-9)


def edges_of(graph: Graph, chart: Chart, n: int) -> set[tuple[Item, ...]]:
    """All edges of a graph as items, parent first."""
    item_of = {
        int(graph.vertex_of[number]): item for item, number in items_of(chart, n).items()
    }
    edges = graph.edges[: graph.size[EDGES]]
    ends = graph.cells["last"][: graph.size[CELLS]].tolist()
    assert ends == sorted(ends)
    assert ends[-1] == len(edges)
    actual = set()
    for cell, first, last in zip(graph.cells, [0, *ends], ends, strict=False):
        for edge in edges[first:last]:
            parent = item_of[int(edge["parent"])]
            assert parent[1:] == (cell["start"], cell["end"])
            below = [edge["left"], edge["right"]] if edge["right"] >= 0 else [edge["left"]]
            actual.add((parent, *(item_of[int(v)] for v in below)))
    assert len(actual) <= len(edges)
    return actual


@random_tests
@given(worlds(), st.sampled_from([1e-6, 0.3, 1.0, 3.0, 10.0]))
def test_the_edges_kept_are_those_within_the_threshold(world: World, window: float) -> None:
    twin, chart = twin_of(world), filled(world)
    items = items_of(chart, twin.n)
    assume((twin.root, 0, twin.n) in items)
    root = items[twin.root, 0, twin.n]
    threshold = float(chart.inside[root]) - window
    graph, cut = pruned(world, chart, root, threshold)
    kept = edges_of(graph, chart, twin.n)
    possible = possible_edges(twin, items)
    # Where some unary chain repeats a category, the bounds on what may be kept are not tight.
    tight = all(best <= twin.inside(edge[0]) + 1e-12 for edge, best in possible.items())
    lost = False
    for edge, score in possible.items():
        best = twin.outside(edge[0]) + score
        if best > threshold + 1e-9:
            assert not tight or edge in kept
        if best < threshold - 1e-9:
            assert edge not in kept
            lost |= best > -math.inf
    assert cut or not lost


def possible_edges(twin: Twin, items: dict[Item, int]) -> dict[tuple[Item, ...], float]:
    """All edges between items: parent, then children; with the score of what is below."""
    edges: dict[tuple[Item, ...], float] = {}
    for symbol, i, j in items:
        rules: list[tuple[tuple[Item, ...], float]] = []
        for a, x, _ in twin.unary[symbol]:
            rules.append((((a, i, j),), x))
        for a, b, x in twin.binary[symbol]:
            rules += [(((a, i, k), (b, k, j)), x) for k in range(i + 1, j)]
        for below, x in rules:
            if all(item in items for item in below):
                edge = ((symbol, i, j), *below)
                edges[edge] = x + sum(twin.inside(item) for item in below)
    return edges
