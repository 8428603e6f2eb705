"""`Hypergraph`: the rule applications in the likely trees of a sentence, and what to ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rnnparse.inference.hypergraph import CELLS, EDGES, VERTICES, Graph
from rnnparse.inference.inside_outside import inside_outside
from rnnparse.inference.space import Sentence, Space

WINDOW = 15.0  # nats; trees further below the best have a share of e⁻¹⁵ each


@dataclass(frozen=True)
class Bracket:
    """A labelled span and its probability.

    Attributes:
        label: the category of a phrase or tag.
        start, end: its first token, counted from 0, and the token after its last.
        probability: of the span to be in the tree, under the grammar.
    """

    label: str
    start: int
    end: int
    probability: float


class Hypergraph:
    """V vertices (symbols over spans) and E edges (rules applied to them), from the root down.

    It holds all trees within a window below the best one, and some others. Scores may be added to
    its vertices.

    Attributes:
        symbol, category [V] int32: category C + c is the intermediate category of category c;
            symbol -1 is glue.
        start, end [V] int32: the span in tokens, end exclusive.
        parent, left, right [E] int32: vertices; right is -1 in a unary edge.
        logp [E] float64: natural log of the probability of the rule.
        link [E] bool: whether the edge leaves no node in the tree.

    Args:
        space: the trees of a sentence; it has one.
        categories: names of the C basic categories.
        stop [1]: uint8 that another thread may set.
        window: in nats.
    """

    def __init__(
        self, space: Space, categories: Sequence[str], stop: np.ndarray, window: float = WINDOW
    ) -> None:
        graph, _ = space.within(space.best - window, stop)
        self._graph, self._sentence = graph, space.sentence
        self._names = tuple(categories)
        self._lexical = _lexical_vertices(graph, space)
        self._epsilon = len(space.sentence.ptr) - 1 if space.glued else -1
        vertices = graph.vertices[: graph.size[VERTICES]]
        edges = graph.edges[: graph.size[EDGES]]
        self.symbol, self.category = vertices["symbol"].copy(), vertices["category"].copy()
        self.parent, self.left, self.right, self.logp, self.link = (
            edges[name].copy() for name in ("parent", "left", "right", "logp", "link")
        )
        self.start, self.end = _spans(graph, self._sentence, self._lexical)

    def __repr__(self) -> str:
        return f"Hypergraph({len(self.symbol)} vertices, {len(self.parent)} edges)"

    def inside(self, scores: np.ndarray | None = None, *, best: bool = False) -> np.ndarray:
        """[V] float64: log of the summed probability of all derivations of each vertex.

        Args:
            scores [V] float64: added for each node of a tree, default 0.
            best: take the best derivation instead of the sum (Viterbi).
        """
        return self._passes(scores, best)[1]

    def posteriors(self, scores: np.ndarray | None = None) -> np.ndarray:
        """[V] float64: the probability that a vertex is a node of the tree.

        Args:
            scores: as for `inside`; trees then have probabilities proportional to the exponential
                of their log probability plus scores.
        """
        _, inside, mass = self._passes(scores, False)
        posteriors: np.ndarray = np.exp(mass - inside[0])
        return posteriors

    def brackets(self, scores: np.ndarray | None = None) -> list[Bracket]:
        """The probability of every labelled span, the most probable first; tags too."""
        size = len(self._names)
        basic = (self.category < size) & (self.symbol >= 0)
        keys = np.stack([self.category, self.start, self.end], axis=1)[basic]
        distinct, place = np.unique(keys, axis=0, return_inverse=True)
        chance = np.bincount(place.ravel(), self.posteriors(scores)[basic], len(distinct))
        order = np.argsort(-chance, kind="stable")
        return [
            Bracket(self._names[c], i, j, min(float(p), 1.0))
            for (c, i, j), p in zip(distinct[order].tolist(), chance[order], strict=True)
        ]

    def _passes(
        self, scores: np.ndarray | None, best: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        added = np.zeros(len(self.symbol)) if scores is None else np.asarray(scores, np.float64)
        if added.shape != self.symbol.shape:
            raise ValueError(f"expected {len(self.symbol)} scores, one a vertex")
        results: tuple[np.ndarray, np.ndarray, np.ndarray] = inside_outside(
            self._graph, self._sentence.ptr, self._lexical, self._sentence.logp,
            np.ascontiguousarray(added), self._epsilon, best,
        )
        return results


def _lexical_vertices(graph: Graph, space: Space) -> np.ndarray:
    """[states] int32: the vertex of each tag state, or -1."""
    return np.where(space.lexical >= 0, graph.vertex_of[space.lexical], -1).astype(np.int32)


def _spans(
    graph: Graph, sentence: Sentence, lexical: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The spans of the vertices, from the cells of their edges and tag states."""
    start, end = np.zeros((2, int(graph.size[VERTICES])), np.int32)
    cells = graph.cells[: graph.size[CELLS]]
    cell = np.repeat(np.arange(len(cells)), np.diff(cells["last"], prepend=0))
    edges = graph.edges[: graph.size[EDGES]]
    one_cell = np.concatenate([edges["parent"], edges["left"][edges["right"] < 0]])
    of_cell = np.concatenate([cell, cell[edges["right"] < 0]])
    start[one_cell], end[one_cell] = cells["start"][of_cell], cells["end"][of_cell]
    token = np.repeat(np.arange(len(sentence.ptr) - 1), np.diff(sentence.ptr))
    tagged = lexical >= 0
    start[lexical[tagged]], end[lexical[tagged]] = token[tagged], token[tagged] + 1
    return start, end
