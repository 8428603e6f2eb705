"""From the hypergraph of the grammar to one of categories: symbols lose their annotations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.hashing import intern, new_table
from rnnparse.inference.packed_graph import HypergraphArrays


class Projection(NamedTuple):
    """A hypergraph whose symbols are categories, and what became of the original one.

    Vertices of the same category and span are one vertex, edges between the same vertices one edge.
    Links vanish, and so do other steps within a category, which no tree has.
    """

    arrays: HypergraphArrays  # int32 and float64; all log probabilities are 0
    vertex: np.ndarray  # [V] int64: what each original vertex became
    edge: np.ndarray  # [E] int64: what each original edge became, -1 if it vanished
    tag: np.ndarray  # [T] int64: what each original tag became


def project(arrays: HypergraphArrays) -> Projection:
    """The projection of a hypergraph that is not glued.

    The root stays vertex 0, the edges of a span stay side by side, unary ones first, and tags stay
    in the order of their tokens.

    Args:
        arrays: wide ones.
    """
    width, size = int(arrays.end.max()) + 1, int(arrays.category.max()) + 1
    spans = arrays.start.astype(np.int64) * width + arrays.end
    vertex, first = distinct(spans * size + arrays.category)
    parent, left = vertex[arrays.parent], vertex[arrays.left]
    right = np.where(arrays.right < 0, -1, vertex[arrays.right])
    key = (parent * len(first) + left) * (len(first) + 1) + right + 1
    key[(right < 0) & (parent == left)] = -1
    edge, edges = distinct(key)
    tag, tags = distinct(vertex[arrays.tag])
    category = arrays.category[first]
    projected = HypergraphArrays(
        symbol=category,
        category=category,
        start=arrays.start[first],
        end=arrays.end[first],
        parent=parent[edges].astype(np.int32),
        left=left[edges].astype(np.int32),
        right=right[edges].astype(np.int32),
        logp=np.zeros(len(edges)),
        link=np.zeros(len(edges), np.bool_),
        tag=vertex[arrays.tag[tags]].astype(np.int32),
        tag_logp=np.zeros(len(tags)),
    )
    return Projection(projected, vertex, edge, tag)


@njit(nogil=True)
def distinct(keys):
    """The number of each key, and the place of the first key of each number.

    Args:
        keys: int64; negative ones get the number -1, the others numbers from 0 in the order in
            which they first occur.
    """
    number, first, count = np.empty_like(keys), np.empty_like(keys), 0
    table = new_table(keys.shape[0])
    for i in range(keys.shape[0]):
        number[i] = intern(table, keys[i], count) if keys[i] >= 0 else -1
        if number[i] == count:
            first[count] = i
            count += 1
    return number, first[:count]
