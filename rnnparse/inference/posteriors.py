"""`Hypergraph`: the rule applications in the likely trees of a sentence, and what to ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rnnparse.array_invariants import trusted
from rnnparse.inference.best_trees import best_candidates, binarized
from rnnparse.inference.forest import ScoredForest
from rnnparse.inference.hypergraph import Graph
from rnnparse.inference.inside_outside import inside_outside
from rnnparse.inference.packed_graph import HypergraphArrays, pack, unpack
from rnnparse.inference.space import Sentence, Space
from rnnparse.threads import Abandoned, stop_flag

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
    its vertices. A tree's score is then its log probability times a weight, plus the scores of its
    nodes, intermediate ones included.

    Attributes:
        symbol, category [V] int32: category C + c is the intermediate category of category c;
            symbol -1 is glue.
        start, end [V] int32: the span in tokens, end exclusive.
        parent, left, right [E] int32: vertices; right is -1 in a unary edge.
        logp [E] float64: natural log of the probability of the rule.
        link [E] bool: whether the edge leaves no node in the tree.
        glued: whether the root joins partial trees, because no tree spans the sentence.

    Args:
        arrays: of any precision.
        categories: names of the C basic categories.
        heads: arrays of a compiled head table over those categories.
    """

    def __init__(self, arrays: HypergraphArrays, categories: Sequence[str], heads: Any) -> None:
        self._arrays = arrays.wide()
        self._names, self._heads = tuple(categories), heads
        self._graph, self._sentence = unpack(self._arrays, len(self._names))
        self.symbol, self.category, self.start, self.end = self._arrays[:4]
        self.parent, self.left, self.right, self.logp, self.link = self._arrays[4:9]
        self.glued = len(self.symbol) > 0 and bool(self.symbol[0] < 0)
        self._epsilon = len(self._sentence.ptr) - 1 if self.glued else -1

    @classmethod
    def of(
        cls,
        space: Space,
        categories: Sequence[str],
        heads: Any,
        stop: np.ndarray,
        window: float = WINDOW,
    ) -> Hypergraph:
        """The likely trees of a sentence.

        Args:
            space: its trees; it has one.
            categories, heads: as for the class.
            stop [1]: uint8 that another thread may set.
            window: in nats.
        """
        graph, _ = space.within(space.best - window, stop)
        return cls(pack(graph, space), categories, heads)

    def __repr__(self) -> str:
        return f"Hypergraph({len(self.symbol)} vertices, {len(self.parent)} edges)"

    def arrays(self) -> HypergraphArrays:
        """The arrays to keep in a file: integers of 16 bits if these suffice, and float32."""
        return self._arrays.narrow()

    def inside(
        self, scores: np.ndarray | None = None, *, best: bool = False, weight: float = 1.0
    ) -> np.ndarray:
        """[V] float64: log of the summed exponential scores of all derivations of each vertex.

        Without scores and weight, this is the log probability.

        Args:
            scores [V] float64: added for each node of a tree, default 0.
            best: take the best derivation instead of the sum (Viterbi).
            weight: of log probabilities, positive.
        """
        return self._scored(scores, weight).passes(best)[0]

    def posteriors(self, scores: np.ndarray | None = None, *, weight: float = 1.0) -> np.ndarray:
        """[V] float64: the probability that a vertex is a node of the tree.

        Args:
            scores, weight: as for `inside`; trees then have probabilities proportional to the
                exponential of their scores.
        """
        inside, _, mass = self._scored(scores, weight).passes(False)
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

    def best_tree(self, scores: np.ndarray | None = None, *, weight: float = 1.0) -> ScoredForest:
        """The tree with the best score, as the only candidate of a forest; see `k_best`."""
        return self.k_best(scores, 1, weight=weight)

    def k_best(self, scores: np.ndarray | None, k: int, *, weight: float = 1.0) -> ScoredForest:
        """The k best distinct trees, fewer if the hypergraph has fewer.

        A tree's score is that of its best derivation.

        Args:
            scores, weight: as for `inside`.
            k: at least 1.

        Raises:
            Abandoned: the result is no longer needed; see `rnnparse.threads`.
        """
        space, stop = ScoredSpace(self._scored(scores, weight)), stop_flag()
        candidates = best_candidates(space, k, len(self._names), stop)
        if candidates is None:
            raise Abandoned
        return trusted(
            ScoredForest,
            **binarized(candidates, len(self._names), self._heads),
            logp=(candidates.score - candidates.added) / weight,
            score=candidates.score,
        )

    def _scored(self, scores: np.ndarray | None, weight: float) -> Scored:
        """The trees with the given scores and weight.

        Raises:
            ValueError: the scores are not one for each vertex, or the weight is not positive.
        """
        added = np.zeros(len(self.symbol)) if scores is None else np.asarray(scores, np.float64)
        if added.shape != self.symbol.shape:
            raise ValueError(f"expected {len(self.symbol)} scores, one a vertex")
        if not weight > 0:
            raise ValueError(f"expected a positive weight, not {weight}")
        vertices, edges = self._graph.vertices.copy(), self._graph.edges.copy()
        vertices["score"] = added
        edges["logp"] *= weight
        sentence = self._sentence._replace(logp=weight * self._sentence.logp)
        graph = self._graph._replace(vertices=vertices, edges=edges)
        return Scored(graph, sentence, self._arrays.tag, self._epsilon)


class Scored(NamedTuple):
    """A hypergraph whose vertices have scores.

    Attributes:
        graph: with scores.
        sentence: its tags.
        lexical: their vertices.
        epsilon: the vertex of the empty sequence, or -1.
    """

    graph: Graph
    sentence: Sentence
    lexical: np.ndarray
    epsilon: int

    def passes(self, best: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The scores of `inside_outside`."""
        results: tuple[np.ndarray, np.ndarray, np.ndarray] = inside_outside(
            self.graph, self.sentence.ptr, self.lexical, self.sentence.logp,
            self.graph.vertices["score"].copy(), self.epsilon, best,
        )
        return results


class ScoredSpace:
    """The trees of a hypergraph whose vertices have scores, as a `Space`."""

    def __init__(self, scored: Scored) -> None:
        inside, outside, _ = scored.passes(True)
        self._graph, self.sentence, self.lexical, epsilon = scored
        self._graph.vertices["outside"] = outside + self._graph.vertices["score"]
        self.best, self.glued = float(inside[0]), epsilon >= 0

    def within(self, threshold: float, stop: np.ndarray) -> tuple[Graph, bool]:
        """The whole graph, in which the enumeration of trees leaves out those below `threshold`."""
        return self._graph._replace(vertices=self._graph.vertices.copy()), False
