"""The vertices of hypergraphs to score, and the tokens of their sentences, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rnnparse.inference.packed_graph import HypergraphArrays, unpack
from rnnparse.inference.posteriors import Scored
from rnnparse.models.span_features import SpanFeatures


class SpanInputs(NamedTuple):
    """B sentences whose rows are end to end: N rows, S distinct spans, M vertices with scores.

    A sentence of n tokens has n + 2 rows, those of its ends included. Between two sentences there
    is an empty row, so that convolutions do not cross it.

    Attributes:
        word [N] int32, affix [N, 8] int32, given [N] int32: as in `TokenArrays`.
        inside [N] bool: False in empty rows.
        tag [P, 2] int32: row and tag of the probabilities of tags that are not 0.
        tag_chance [P] float32: these probabilities.
        encoded [N, L, e] float: the layers of an encoder; L = e = 0 without one.
        span [S, 2] int32: rows of the token before a span, and of its last token.
        vertex_span, vertex_category [M] int32: of each vertex with a score.
        vertex [M] int32: the number of the vertex in its hypergraph.
        vertices [B] int64: how many of them each sentence has.
    """

    word: np.ndarray
    affix: np.ndarray
    given: np.ndarray
    inside: np.ndarray
    tag: np.ndarray
    tag_chance: np.ndarray
    encoded: np.ndarray
    span: np.ndarray
    vertex_span: np.ndarray
    vertex_category: np.ndarray
    vertex: np.ndarray
    vertices: np.ndarray

    def with_encoded(self, encoded: np.ndarray) -> SpanInputs:
        """The inputs of a sentence of n tokens with vectors [n+2, L, e] or [n+2, e] of an encoder.

        Raises:
            ValueError: the vectors do not fit the tokens.
        """
        rows = len(self.word)
        if encoded.ndim not in (2, 3) or len(encoded) != rows:
            raise ValueError(
                f"vectors of the shape {encoded.shape} for {rows - 2} tokens, not [{rows}, …]"
            )
        return self._replace(encoded=encoded[:, None] if encoded.ndim == 2 else encoded)

    def part(self, chosen: np.ndarray) -> tuple[SpanInputs, np.ndarray]:
        """The same sentences with some of the vertices, and the spans of these alone.

        Args:
            chosen [R] int: places of vertices.

        Returns:
            The inputs, and int [S'], the numbers of their spans in these inputs.
        """
        spans, place = np.unique(self.vertex_span[chosen], return_inverse=True)
        part = self._replace(
            span=self.span[spans],
            vertex_span=place.astype(np.int32),
            vertex_category=self.vertex_category[chosen],
            vertex=self.vertex[chosen],
        )
        return part, spans


def span_inputs(
    graph: HypergraphArrays,
    tokens: Sequence[str],
    features: SpanFeatures,
    categories: int,
    encoded: np.ndarray | None = None,
    tagged: HypergraphArrays | None = None,
) -> SpanInputs:
    """The inputs of one sentence. Call it from a thread other than the main one.

    Vertices have scores if their category is basic, except TOP.

    Args:
        graph: the hypergraph of the sentence.
        tokens: n tokens, escaped as in trees.
        features: the tables of words and tags.
        categories: number C of basic categories.
        encoded: vectors [n+2, L, e] of an encoder; [n+2, e] is one layer.
        tagged: a hypergraph that has the probabilities of tags; None for `graph` itself.

    Raises:
        ValueError: the vectors or the hypergraph do not fit the tokens.
    """
    n = len(tokens)
    if int(graph.end.max(initial=0)) != n:
        raise ValueError(f"a hypergraph of {graph.end.max(initial=0)} tokens for {n} tokens")
    arrays = features.token_arrays(tokens)
    vertex = np.flatnonzero((graph.category < categories) & (graph.category != graph.category[0]))
    start, end = graph.start[vertex].astype(np.int64), graph.end[vertex].astype(np.int64)
    key, span = np.unique(start * (n + 1) + end, return_inverse=True)
    tag, chance = _tag_chances(graph if tagged is None else tagged, features.tags, categories)
    inputs = SpanInputs(
        *arrays,
        inside=np.ones(n + 2, np.bool_),
        tag=tag,
        tag_chance=chance,
        encoded=np.zeros((n + 2, 0, 0), np.float32),
        span=np.stack([key // (n + 1), key % (n + 1)], axis=1).astype(np.int32),
        vertex_span=span.astype(np.int32),
        vertex_category=graph.category[vertex].astype(np.int32),
        vertex=vertex.astype(np.int32),
        vertices=np.array([len(vertex)]),
    )
    return inputs if encoded is None else inputs.with_encoded(encoded)


def _tag_chances(
    graph: HypergraphArrays, tags: np.ndarray, categories: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row and tag of each vertex that is a tag, and the probability of the vertex."""
    wide = graph.wide()
    packed, sentence = unpack(wide, categories)
    epsilon = len(sentence.ptr) - 1 if graph.symbol[0] < 0 else -1
    inside, _, mass = Scored(packed, sentence, wide.tag, epsilon).passes(False)
    vertex = np.unique(wide.tag)
    column = np.searchsorted(tags, wide.category[vertex])
    known = column < len(tags)
    known[known] = tags[column[known]] == wide.category[vertex[known]]
    vertex, column = vertex[known], column[known]
    place = np.stack([wide.start[vertex] + 1, column], axis=1).astype(np.int32)
    return place, np.exp(mass[vertex] - inside[0]).astype(np.float32)


def join_inputs(parts: Sequence[SpanInputs]) -> SpanInputs:
    """The inputs of several sentences, at least one, as one.

    Raises:
        ValueError: their encoders have different layers or components.
    """
    rows = np.cumsum([0] + [len(p.word) + 1 for p in parts])
    spans = np.cumsum([0] + [len(p.span) for p in parts])

    def padded(name: str, empty: int) -> np.ndarray:
        arrays = []
        for part in parts:
            array = getattr(part, name)
            arrays += [array, np.full((1, *array.shape[1:]), empty, array.dtype)]
        return np.concatenate(arrays)

    def joined(name: str, shifts: np.ndarray | None = None) -> np.ndarray:
        arrays = [getattr(part, name) for part in parts]
        kind = arrays[0].dtype
        if shifts is not None:
            arrays = [array + shift for array, shift in zip(arrays, shifts, strict=False)]
        return np.concatenate(arrays).astype(kind, copy=False)

    only_row = np.stack([rows, np.zeros_like(rows)], axis=1)
    return SpanInputs(
        word=padded("word", 0),
        affix=padded("affix", 0),
        given=padded("given", -1),
        inside=padded("inside", False),
        tag=joined("tag", only_row),
        tag_chance=joined("tag_chance"),
        encoded=padded("encoded", 0),
        span=joined("span", rows),
        vertex_span=joined("vertex_span", spans),
        vertex_category=joined("vertex_category"),
        vertex=joined("vertex"),
        vertices=joined("vertices"),
    )
