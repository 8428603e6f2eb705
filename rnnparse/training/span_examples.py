"""Examples for training the span scorer: hypergraphs with their targets, and the objective.

The structured hinge over the whole hypergraph Y of a sentence is

    r = max over y in Y of (w log P(y) + s(y) + κ Δ(y)) - (w log P(y*) + s(y*))

where s(y) is the sum of the scores of the vertices of y, and Δ(y) counts labelled phrase spans of y
that the gold tree does not have. Both are sums over vertices, so the maximum is found exactly
(Viterbi). y* is the best tree within reach.

Reference:
    Socher et al. (2013), equations 7 to 9, for the hinge; Taskar et al. (2004), Max-Margin
    Parsing, for the maximum over a packed chart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.viterbi import best_tree
from rnnparse.losses.cost import labelled_spans
from rnnparse.models.span_features import SpanFeatures
from rnnparse.models.span_inputs import SpanInputs, span_inputs
from rnnparse.trees.cleaning import tags as tags_of
from rnnparse.trees.cleaning import words as words_of

if TYPE_CHECKING:
    from nltk.tree import Tree

_PRICE = 0.48  # of a proposed span; a right one is worth 1, so that F1 is nearly maximized
_TAGS = 0.02  # all tags together; less than the least difference of the former, 0.04
_NATS = 1e-7  # of log probability


Vectors = np.ndarray | Callable[[], np.ndarray] | None


@dataclass(frozen=True, eq=False)
class SpanExample:
    """A sentence for training.

    Attributes:
        graph: its hypergraph, of any precision.
        tokens: its n tokens, escaped as in trees.
        spans [G, 3] int32: category, start and end of the gold tree's phrases, TOP excluded; -1 for
            unknown categories.
        tags [n] int32: the category of each token's gold tag, or -1.
        vectors: float [n+2, L, e], the layers of an encoder; or a function that reads them, which
            is called in every epoch, so that they need not all be in memory; or None.
    """

    graph: HypergraphArrays
    tokens: Sequence[str]
    spans: np.ndarray
    tags: np.ndarray
    vectors: Vectors = None

    @classmethod
    def of(
        cls,
        graph: HypergraphArrays,
        tree: Tree,
        number: Mapping[str, int],
        vectors: Vectors = None,
    ) -> SpanExample:
        """The example of a sentence with its gold tree.

        Args:
            graph: the hypergraph of the whole sentence.
            tree: cleaned.
            number: the number of each basic category.
            vectors: as for the class.
        """
        spans = [(number.get(label, -1), i, j) for label, i, j in labelled_spans(tree)]
        tags = [number.get(tag, -1) for tag in tags_of(tree)]
        return cls(
            graph,
            words_of(tree),
            np.array(spans, np.int32).reshape(-1, 3),
            np.array(tags, np.int32),
            vectors,
        )


class Prepared(NamedTuple):
    """An example with all that stays the same in training.

    Attributes:
        graph: its hypergraph, narrow.
        inputs: what the network needs; without an encoder's vectors.
        vectors: as in `SpanExample`.
        cost [V] float64: 1 for vertices that Δ counts, otherwise 0.
        target [K] int32: the vertices of y*.
        target_logp: log P(y*).
    """

    graph: HypergraphArrays
    inputs: SpanInputs
    vectors: Vectors
    cost: np.ndarray
    target: np.ndarray
    target_logp: float

    def with_vectors(self) -> SpanInputs:
        """The inputs with the encoder's vectors, which are read now.

        Raises:
            ValueError: the vectors do not fit the tokens.
        """
        if self.vectors is None:
            return self.inputs
        read = self.vectors() if callable(self.vectors) else self.vectors
        return self.inputs.with_encoded(np.asarray(read))


def prepare_example(example: SpanExample, features: SpanFeatures, categories: int) -> Prepared:
    """Find the target, which maximizes matched spans - 0.48 · proposed spans.

    Of several such trees it is the one with the most right tags, and of these the most probable.
    A vertex that is a tag is not a phrase, even if another derivation makes it one.

    Args:
        example: the example.
        features: the tables of words and tags.
        categories: number C of basic categories.

    Raises:
        ValueError: the hypergraph or the tags do not fit the tokens.
    """
    graph = example.graph.narrow()
    inputs = span_inputs(graph, example.tokens, features, categories)
    if len(example.tags) != len(example.tokens):
        raise ValueError(f"{len(example.tags)} tags for {len(example.tokens)} tokens")
    is_tag = np.zeros(len(graph.category), np.bool_)
    is_tag[graph.tag] = True
    counted = np.zeros_like(is_tag)
    counted[inputs.vertex] = True
    gold = set(map(tuple, example.spans.tolist()))
    keys = zip(graph.category.tolist(), graph.start.tolist(), graph.end.tolist(), strict=True)
    right = np.fromiter((key in gold for key in keys), np.bool_, len(is_tag))
    phrase = counted & ~is_tag
    tag = counted & is_tag
    good = example.tags[graph.start[tag]] == graph.category[tag]
    value = np.where(phrase, right - _PRICE, 0.0)
    value[tag] = good * _TAGS / max(len(example.tokens), 1)
    target = best_tree(graph, value, _NATS)
    return Prepared(
        graph,
        inputs,
        example.vectors,
        (phrase & ~right).astype(np.float64),
        target.vertices,
        target.logp,
    )


def hinge(
    example: Prepared, scores: np.ndarray, weight: float, kappa: float
) -> tuple[float, np.ndarray]:
    """The structured hinge r of an example, and a subgradient by the scores of its vertices.

    By Danskin's theorem the derivative of the maximizing tree's score is a subgradient of the
    maximum: 1 for the vertices of the maximizer and -1 for those of y*. Of equally good trees it is
    the first that `best_tree` finds (the tie rule `first`).

    Args:
        example: the example.
        scores [V] float64: of all vertices.
        weight: w, of log probabilities.
        kappa: κ, the margin for each wrong labelled span.

    Returns:
        r ≥ 0, up to rounding, and float64 [V].
    """
    best = best_tree(example.graph, scores + kappa * example.cost, weight)
    wanted = weight * example.target_logp + float(scores[example.target].sum())
    slope = np.zeros(len(scores))
    slope[best.vertices] += 1
    slope[example.target] -= 1
    return best.score - wanted, slope
