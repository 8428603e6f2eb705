"""`ProductDecoder`: trees by the product of the posteriors of several grammars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnnparse.grammar.coarse import expected_frequencies
from rnnparse.grammar.coarse_tags import coarse_emissions
from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.latent import LatentGrammar
from rnnparse.inference.decoder import Decoder, Parse, Part, memory_for
from rnnparse.inference.division import join
from rnnparse.inference.edge_posteriors import frame_of
from rnnparse.inference.max_rule import (
    LatentScorer,
    Posteriors,
    own_posteriors,
    product,
    projected_posteriors,
)
from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.posteriors import Hypergraph
from rnnparse.inference.projection import Projection, project
from rnnparse.inference.search import Search
from rnnparse.threads import apart

NEAR = 9.0  # nats; rule applications further below the best tree are left out


class ProductDecoder:
    """K-best parsing with a grammar and latent ones. Threads may share a decoder.

    The grammar finds the likely trees. Among these the best one has the greatest product of the
    posteriors of its rule applications, over all grammars; see `rnnparse.inference.max_rule`.

    Args:
        grammar: rules, lexicon and heads.
        latent: further grammars over the same categories.
        search: how far to search, and the budget of a sentence.

    Raises:
        ValueError: a latent grammar has another number of categories.
    """

    def __init__(
        self, grammar: Grammar, latent: Sequence[LatentGrammar], search: Search | None = None
    ) -> None:
        size = 2 * len(grammar.pcfg.categories)
        for other in latent:
            if len(other.substates) != size:
                raise ValueError(
                    f"a latent grammar has {len(other.substates)} categories, not {size}"
                )
        self.grammar = grammar
        self.search = search or Search()
        self._decoder = Decoder(grammar, self.search)
        self._scorers = [LatentScorer(other) for other in latent]
        self._share = state_shares(grammar)

    @apart
    def parse(self, tokens: Sequence[str], k: int) -> Parse:
        """The k best distinct trees of a sentence; fewer if the hypergraph has fewer.

        Their log probabilities are the sums of log posteriors. If no tree spans the sentence, the
        trees and log probabilities are those of `Decoder`.

        Args:
            tokens: at least one token, escaped as in trees.
            k: at least 1.

        Raises:
            OutOfMemoryError: there is too little memory for the sentence.
            ValueError: there are no tokens, or k < 1.
        """
        if not tokens or k < 1:
            raise ValueError(f"cannot list the {k} best trees of {len(tokens)} tokens")
        parts, divided = self.parts(tokens)
        with memory_for(tokens):
            graphs = [graph for _, graph in parts]
            if len(graphs) == 1:
                return Parse(graphs[0].k_best(None, k), graphs[0].glued)
            forests = [graph.k_best(None, 1) for graph in graphs]
            forest = join(forests, [len(part.tokens) for part, _ in parts], self.grammar)
            return Parse(forest, True, divided)

    @apart
    def hypergraphs(
        self, tokens: Sequence[str], window: float = NEAR
    ) -> list[tuple[int, Hypergraph]]:
        """The likely trees of a sentence as a hypergraph, or several if it has to be divided.

        Their symbols are categories, and their log probabilities sums of log posteriors. If no tree
        spans the tokens, the hypergraph is that of `Decoder`.

        Args:
            tokens: at least one token, escaped as in trees.
            window: how far below the best tree, in nats.

        Returns:
            Each part's first token, and its hypergraph.

        Raises:
            OutOfMemoryError: there is too little memory for the sentence.
        """
        return [(part.first, graph) for part, graph in self.parts(tokens, window)[0]]

    @apart
    def parts(
        self, tokens: Sequence[str], window: float = NEAR
    ) -> tuple[list[tuple[Part, Hypergraph]], bool]:
        """The parts of a sentence with the arrays of the grammar, and the `hypergraphs`.

        Args:
            tokens, window: as for `hypergraphs`.

        Returns:
            The parts, and whether the sentence was divided because it exceeded the budget.

        Raises:
            OutOfMemoryError: there is too little memory for the sentence.
        """
        parts, divided = self._decoder.parts(tokens, window)
        with memory_for(tokens):
            return [(part, self._hypergraph(part)) for part in parts], divided

    def hypergraph(self, arrays: HypergraphArrays) -> Hypergraph:
        """A hypergraph from its arrays."""
        return self._decoder.hypergraph(arrays)

    def _hypergraph(self, part: Part) -> Hypergraph:
        if part.arrays.symbol[0] < 0:  # glued
            return self.hypergraph(part.arrays)
        projection = project(part.arrays)
        return self.hypergraph(product(projection.arrays, self._posteriors(part, projection)))

    def _posteriors(self, part: Part, projection: Projection) -> list[Posteriors]:
        """Those of all grammars that have a tree; those of the grammar itself come first."""
        posteriors = [projected_posteriors(own_posteriors(part.arrays), projection)]
        if self._scorers:
            words, emissions = self._words(part.tokens), self._tag_logp(part, projection)
            frame = frame_of(projection.arrays)
            for scorer in self._scorers:
                other = scorer.posteriors(frame, words, emissions)
                posteriors += [] if other is None else [other]
        return posteriors

    def _words(self, tokens: Sequence[str]) -> list[str]:
        """The words as the lexicon looks them up."""
        lexicon = self.grammar.lexicon
        first, *others = lexicon.forms.lookup(tokens)
        if not lexicon.knows(first):
            first = first[:1].lower() + first[1:]
        return [first, *others]

    def _tag_logp(self, part: Part, projection: Projection) -> np.ndarray:
        """[T] float64: log P(word | tag) of the tags of a projection, over all their states."""
        pcfg, arrays = self.grammar.pcfg, projection.arrays
        ptr, tag, logp = coarse_emissions(*part.sentence, pcfg.category, self._share)
        table = np.full((len(part.tokens), len(pcfg.categories)), -np.inf)
        table[np.repeat(np.arange(len(part.tokens)), np.diff(ptr)), tag] = logp
        emissions: np.ndarray = table[arrays.start[arrays.tag], arrays.category[arrays.tag]]
        return emissions


def state_shares(grammar: Grammar) -> np.ndarray:
    """[S] float64: log P(symbol | tag) of the symbols of tokens, meaningless for others."""
    pcfg = grammar.pcfg
    frequency = np.full(len(pcfg.symbols), np.finfo(float).tiny)
    states = np.unique(grammar.lexicon.states())
    frequency[states] = expected_frequencies(pcfg)[states]
    total = np.bincount(pcfg.category, frequency)
    shares: np.ndarray = np.log(frequency) - np.log(total[pcfg.category])
    return shares
