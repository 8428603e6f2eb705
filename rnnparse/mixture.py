"""Candidate lists by several grammars and the span scorer together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.latent import LatentGrammar
from rnnparse.inference.decoder import Parse, Part, memory_for
from rnnparse.inference.division import join
from rnnparse.inference.forest import Forest, ScoredForest
from rnnparse.inference.posteriors import Hypergraph
from rnnparse.inference.product import ProductDecoder
from rnnparse.inference.search import Search
from rnnparse.models.span_parameters import SpanModel
from rnnparse.models.span_scorer import SpanScorer
from rnnparse.threads import apart


@dataclass(frozen=True)
class MixtureParse(Parse):
    """The k best trees of a sentence.

    Attributes:
        span_score [K] float64: the span scorer's score of each candidate; `forest.logp` is the
            grammars' score.
    """

    span_score: np.ndarray = field(default_factory=lambda: np.zeros(0))


class MixtureDecoder:
    """Lists trees by β · grammars' score + span scores, exactly over the pruned hypergraph.

    Args:
        grammar: the base grammar, which prunes the hypergraph.
        latent: further grammars.
        spans: the span scorer, or None.
        beta: β, positive.
        search: the budget of a sentence.
    """

    def __init__(
        self,
        grammar: Grammar,
        latent: Sequence[LatentGrammar],
        spans: SpanModel | None,
        beta: float,
        search: Search,
    ) -> None:
        self._grammar, self._beta = grammar, beta
        self._spans = None if spans is None else SpanScorer(*spans)
        self._product = ProductDecoder(grammar, latent, search)

    @apart
    def parse(
        self, tokens: Sequence[str], k: int, vectors: np.ndarray | None = None
    ) -> MixtureParse:
        """The k best distinct trees of a sentence.

        Args:
            tokens: at least one, escaped as in trees.
            k: at least 1.
            vectors: the encoder's, float32 [n + 2, L, d], if the span scorer needs them.

        Raises:
            OutOfMemoryError: there is too little memory for the sentence.
        """
        parts, divided = self._product.parts(tokens)
        with memory_for(tokens):
            most = k if len(parts) == 1 else 1
            forests = [self._listed(part, graph, vectors, most) for part, graph in parts]
            scores = [forest.score - self._beta * forest.logp for forest in forests]
            if len(parts) == 1:
                glued = parts[0][1].glued
                return MixtureParse(plain(forests[0]), glued, span_score=scores[0])
            sizes = [len(part.tokens) for part, _ in parts]
            forest = join(forests, sizes, self._grammar)
            return MixtureParse(forest, True, divided, np.sum(scores, axis=0))

    def _listed(
        self, part: Part, graph: Hypergraph, vectors: np.ndarray | None, k: int
    ) -> ScoredForest:
        scores = None
        if self._spans is not None:
            forms = self._grammar.lexicon.forms.lookup(part.tokens)
            last = part.first + len(forms)
            near = None if vectors is None else vectors[part.first : last + 2]
            scores = self._spans.scores(graph, forms, near, part.arrays)
        return graph.k_best(scores, k, weight=self._beta)


def plain(forest: ScoredForest) -> Forest:
    """The forest without the scores of its candidates."""
    names = ("cat", "left", "right", "start", "end", "root", "logp")
    return Forest(**{name: getattr(forest, name) for name in names})
