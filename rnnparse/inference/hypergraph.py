"""The hypergraph of the rule applications in trees near the best score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.arrays import grow

VERTEX = np.dtype(
    [
        ("outside", np.float64),  # max-outside log probability
        ("symbol", np.int32),  # -1 for glue
        ("category", np.int32),
        ("partial", np.bool_),  # whether it is an intermediate symbol
        ("score", np.float64),  # is added for a node of a tree; see `posteriors`
        # State of the enumeration of trees:
        ("first", np.int64),  # its first derivation
        ("count", np.int64),  # number of derivations
        ("up", np.int64),  # the latest unary edge above it, or -1
    ],
    align=True,
)
EDGE = np.dtype(
    [
        ("logp", np.float64),
        ("parent", np.int32),  # vertices
        ("left", np.int32),
        ("right", np.int32),  # -1 in a unary edge
        ("next", np.int32),  # of a unary edge, another one above the same child, or -1
        # Number in `RuleArrays.unary` or `.binary`, or after refinement in `RuleClasses.rule`:
        ("rule", np.int32),
        ("link", np.bool_),
    ],
    align=True,
)
CELL = np.dtype(
    [
        ("start", np.int32),
        ("end", np.int32),
        ("last", np.int64),  # its edges begin where the cell before ends
        ("glue", np.bool_),
    ],
    align=True,
)
CELLS, EDGES, VERTICES = range(3)


class Graph(NamedTuple):
    """Cells from the root down, so reversed they go bottom-up, with their edges and vertices.

    A vertex is a chart item that is part of a tree above the threshold, or a glue symbol. The unary
    edges of a cell come before its binary ones.
    """

    cells: np.ndarray  # CELL
    edges: np.ndarray  # EDGE
    vertices: np.ndarray  # VERTEX
    vertex_of: np.ndarray  # [items] int32: of each item of the chart, or -1
    size: np.ndarray  # [3] int64: number of cells, edges and vertices


@njit(nogil=True)
def new_graph(n, items):
    """An empty graph for a sentence of n tokens with a chart of so many items."""
    return Graph(
        np.empty(n * (n + 1) // 2 + n, CELL),
        np.empty(4096, EDGE),
        np.empty(2048 + n, VERTEX),
        np.full(items, -1, np.int32),
        np.zeros(3, np.int64),
    )


@njit(nogil=True)
def root_graph(n, items, root, rules):
    """A graph with the root vertex alone; without any vertex if `root` is -1.

    Args:
        n, items: as for `new_graph`.
        root: the root's item.
        rules: the `RuleArrays`.
    """
    graph = new_graph(n, items)
    if root >= 0:
        add_vertex(
            graph.vertices, graph.size, 0.0, rules.root, rules.category[rules.root], False
        )
        graph.vertex_of[root] = 0
    return graph


@njit(nogil=True)
def with_room(graph, edges, vertices):
    """The graph, with room for so many edges and vertices in total."""
    return Graph(
        graph.cells,
        grow(graph.edges, edges),
        grow(graph.vertices, vertices),
        graph.vertex_of,
        graph.size,
    )


@njit(nogil=True)
def add_vertex(vertices, size, outside, symbol, category, partial):
    """Add a vertex if there is room; returns its number."""
    new = size[VERTICES]
    vertex = vertices[new]
    vertex.outside = outside
    vertex.symbol = symbol
    vertex.category = category
    vertex.partial = partial
    vertex.score = 0.0
    vertex.first = -1
    vertex.count = 0
    vertex.up = -1
    size[VERTICES] += 1
    return new


@njit(nogil=True)
def add_edge(edges, size, logp, parent, left, right, rule, link):
    """Add an edge if there is room."""
    edge = edges[size[EDGES]]
    edge.logp = logp
    edge.parent = parent
    edge.left = left
    edge.right = right
    edge.next = -1
    edge.rule = rule
    edge.link = link
    size[EDGES] += 1


@njit(nogil=True)
def end_cell(graph, start, end, glue):
    """Close a cell: its edges are those since the last one."""
    cell = graph.cells[graph.size[CELLS]]
    cell.start = start
    cell.end = end
    cell.last = graph.size[EDGES]
    cell.glue = glue
    graph.size[CELLS] += 1
