"""Arrays that grow: a root cell with very many edges."""

from __future__ import annotations

import numpy as np
from nltk.tree import Tree

from rnnparse.grammar.grammar import estimate
from rnnparse.inference.chart import cell_index, find_item
from rnnparse.inference.cky import inside_chart, no_beam
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.hypergraph import EDGES, VERTICES, root_graph
from rnnparse.inference.pruning import prune
from rnnparse.inference.rules import rule_arrays
from rnnparse.inference.search import Search
from rnnparse.trees.heads import HeadTable

LABELS = 2200  # at first there is room for 2048 vertices, and for 4096 edges, two of each label


def test_a_cell_of_very_many_edges_grows_the_array_that_lacks_room_and_no_other() -> None:
    grammar = estimate(
        [Tree.fromstring(f"(TOP (L{i} (T w)) (T w))") for i in range(LABELS)], HeadTable.left()
    )
    tokens, stop, rules = ["w", "w"], np.zeros(1, np.uint8), rule_arrays(grammar.pcfg)
    e = grammar.lexicon.emissions(tokens)
    chart = inside_chart(2, e.ptr, e.symbol, e.logp, rules, no_beam(), stop)
    root = find_item(chart.cell_ptr, chart.symbol, cell_index(0, 2), rules.root)
    graph = root_graph(2, len(chart.symbol), root, rules)
    graph, _ = prune(2, chart, rules, graph, -1e9, stop)
    assert graph.size[EDGES] > 4096 and len(graph.edges) < 4 * LABELS
    assert len(graph.vertices) < 2 * max(graph.size[VERTICES], 2048)
    assert len(Decoder(grammar, Search(exact=True)).parse(tokens, 10**4).forest.root) == LABELS
