"""A hypergraph as flat arrays that can be kept in a file, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.inference.hypergraph import CELL, CELLS, EDGE, EDGES, VERTEX, VERTICES, Graph
from rnnparse.inference.space import Sentence, Space


class HypergraphArrays(NamedTuple):
    """V vertices, E edges and T tag states of a sentence; see `Hypergraph`.

    Edges go from the root down, those of one span side by side, unary ones first.
    """

    symbol: np.ndarray  # [V] int
    category: np.ndarray  # [V] int
    start: np.ndarray  # [V] int
    end: np.ndarray  # [V] int
    parent: np.ndarray  # [E] int
    left: np.ndarray  # [E] int
    right: np.ndarray  # [E] int
    logp: np.ndarray  # [E] float
    link: np.ndarray  # [E] bool
    tag: np.ndarray  # [T] int: vertices that are tags, by their tokens
    tag_logp: np.ndarray  # [T] float: log P(word | tag)

    def narrow(self) -> HypergraphArrays:
        """The same arrays with integers of 16 bits if these suffice, and float32."""
        return HypergraphArrays(*map(_narrow, self))

    def wide(self) -> HypergraphArrays:
        """The same arrays with int32 and float64."""
        return HypergraphArrays(*map(_wide, self))


def _narrow(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    small = array.dtype.kind == "i" and array.max(initial=0) < 1 << 15
    return array.astype(np.int16) if small else array


def _wide(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "b":
        return array
    kind = np.float64 if array.dtype.kind == "f" else np.int32
    return np.ascontiguousarray(array, kind)


def pack(graph: Graph, space: Space) -> HypergraphArrays:
    """The arrays of a graph that `space` has given."""
    vertices, edges = graph.vertices[: graph.size[VERTICES]], graph.edges[: graph.size[EDGES]]
    sentence = space.sentence
    state = np.flatnonzero(space.lexical >= 0)
    state = state[graph.vertex_of[space.lexical[state]] >= 0]
    tag = graph.vertex_of[space.lexical[state]]
    token = np.searchsorted(sentence.ptr, state, side="right") - 1
    start, end = np.full((2, len(vertices)), len(sentence.ptr) - 1, np.int32)
    cells = graph.cells[: graph.size[CELLS]]
    cell = np.repeat(np.arange(len(cells)), np.diff(cells["last"], prepend=0))
    unary = edges["right"] < 0
    of_edges = np.concatenate([edges["parent"], edges["left"][unary]])
    of_cells = np.concatenate([cell, cell[unary]])
    start[of_edges], end[of_edges] = cells["start"][of_cells], cells["end"][of_cells]
    start[tag], end[tag] = token, token + 1
    return HypergraphArrays(
        symbol=vertices["symbol"].copy(),
        category=vertices["category"].copy(),
        start=start,
        end=end,
        **{name: edges[name].copy() for name in ("parent", "left", "right", "logp", "link")},
        tag=tag,
        tag_logp=sentence.logp[state],
    )


def unpack(arrays: HypergraphArrays, categories: int) -> tuple[Graph, Sentence]:
    """The graph, without outside scores, and the tags of each token; `tag` has their vertices.

    Args:
        arrays: wide ones.
        categories: number C of basic categories.
    """
    vertices = np.zeros(len(arrays.symbol), VERTEX)
    vertices["symbol"], vertices["category"] = arrays.symbol, arrays.category
    vertices["partial"] = (arrays.category >= categories) | (arrays.symbol < 0)
    vertices["first"] = vertices["up"] = -1
    if len(vertices):
        vertices["partial"][0] = False
    edges = np.zeros(len(arrays.parent), EDGE)
    for name in ("parent", "left", "right", "logp", "link"):
        edges[name] = getattr(arrays, name)
    n = int(arrays.end.max(initial=0))
    ptr = np.searchsorted(arrays.start[arrays.tag], np.arange(n + 1)).astype(np.int64)
    sentence = Sentence(ptr, arrays.symbol[arrays.tag], arrays.tag_logp)
    cells = _cells(arrays, n)
    size = np.array([len(cells), len(edges), len(vertices)])
    return Graph(cells, edges, vertices, np.arange(len(vertices), dtype=np.int32), size), sentence


def _cells(arrays: HypergraphArrays, n: int) -> np.ndarray:
    """The spans of edges, and after them the tokens that have none."""
    start, end = arrays.start[arrays.parent], arrays.end[arrays.parent]
    glue = arrays.symbol[arrays.parent] < 0
    key = (start.astype(np.int64) * (n + 1) + end) * 2 + glue
    last = np.flatnonzero(np.append(key[1:] != key[:-1], len(key) > 0)[: len(key)])
    bare = np.ones(n, np.bool_)
    bare[start[last][(end - start == 1)[last] & ~glue[last]]] = False
    tokens = np.flatnonzero(bare)
    cells = np.zeros(len(last) + len(tokens), CELL)
    cells["start"] = np.append(start[last], tokens)
    cells["end"] = np.append(end[last], tokens + 1)
    cells["last"] = np.append(last + 1, np.full(len(tokens), len(key)))
    cells["glue"][: len(last)] = glue[last]
    return cells
