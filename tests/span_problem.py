"""A few sentences with hypergraphs, for tests of the span scorer."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rnnparse.inference.decoder import Decoder
from rnnparse.models.span_features import SpanFeatures
from rnnparse.models.span_parameters import SpanParameters, initial_span_parameters
from rnnparse.training.span_examples import SpanExample
from tests.grammar.small import small_grammar, trees, vectors

LAYERS, SIZE = 2, 3  # of the encoder


class SpanProblem(NamedTuple):
    """12 training sentences of 5 to 20 tokens."""

    examples: list[SpanExample]
    features: SpanFeatures
    categories: int

    def parameters(
        self, encoder: bool = True, treebank: bool = True, dtype: str = "float32", seed: int = 0
    ) -> SpanParameters:
        """Small random weights; U is not 0."""
        size = (LAYERS, SIZE) if encoder else None
        start = initial_span_parameters(
            self.features, self.categories, encoder=size, treebank=treebank, dim=6, hidden=5,
            seed=seed, dtype=dtype,
        )  # fmt: skip
        rng = np.random.default_rng(seed)
        return SpanParameters(*(a + rng.normal(0, 0.3, a.shape).astype(dtype) for a in start))


@lru_cache(maxsize=1)
def span_problem() -> SpanProblem:
    grammar = small_grammar()
    decoder, names = Decoder(grammar), grammar.pcfg.categories
    number = {name: i for i, name in enumerate(names)}
    rng = np.random.default_rng(0)
    examples = []
    for tree in trees(40):
        tokens = tree.leaves()
        if not 5 <= len(tokens) <= 20 or len(examples) == 12:
            continue
        [(_, graph)] = decoder.hypergraphs(tokens, window=6.0)
        encoded = rng.normal(size=(len(tokens) + 2, LAYERS, SIZE)).astype(np.float16)
        examples.append(SpanExample.of(graph.arrays(), tree, number, encoded))
    tags = {int(c) for e in examples for c in e.graph.category[e.graph.tag]}
    features = SpanFeatures.build([e.tokens for e in examples], tags, vectors())
    return SpanProblem(examples, features, len(names))
