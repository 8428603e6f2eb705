"""A small parser with strong random weights, made without training."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rnnparse.grammar.pcfg import category_names
from rnnparse.inference.decode import Decoder
from rnnparse.models.keys import KeyTable
from rnnparse.models.parameters import initial_parameters
from rnnparse.models.vocabulary import Vocabulary
from rnnparse.parser import Parser
from rnnparse.trees.cleaning import words
from tests.grammar.small import small_grammar, trees


@lru_cache(maxsize=1)
def small_parser() -> Parser:
    """60 trees' grammar; weights so strong that the network often disagrees with it."""
    grammar = small_grammar()
    sentences = [words(tree) for tree in trees(60)]
    decoder = Decoder(grammar)
    forests = [decoder.parse(tokens, 20).forest for tokens in sentences[:20]]
    keys = KeyTable.from_forests(category_names(grammar.pcfg.categories), forests, 3)
    vocabulary = Vocabulary.build(sentences)
    start = initial_parameters(keys, len(vocabulary), 6, noise=0.5, seed=1)
    parameters = start._replace(vectors=5 * start.vectors, v=start.v / np.float32(2))
    return Parser(grammar, vocabulary, keys, parameters, 0.25, 20, {"config": {"dim": 6}})
