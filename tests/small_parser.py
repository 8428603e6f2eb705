"""A small parser with strong random weights, made without training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from nltk.tree import Tree

from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.pcfg import category_names
from rnnparse.inference.decoder import Decoder
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.parameters import initial_parameters
from rnnparse.models.vocabulary import Vocabulary
from rnnparse.parser import Parser
from rnnparse.trees.cleaning import words
from tests.grammar.small import small_grammar, trees


@lru_cache(maxsize=1)
def small_parser() -> Parser:
    """60 trees' grammar; weights so strong that the network often disagrees with it."""
    return make_parser(small_grammar(), trees(60))


def make_parser(grammar: Grammar, treebank: Sequence[Tree]) -> Parser:
    """A parser with the grammar of a treebank and such weights."""
    sentences = [words(tree) for tree in treebank]
    decoder = Decoder(grammar)
    forests = [decoder.parse(tokens, 20).forest for tokens in sentences[:20]]
    keys = CategoryPairs.from_forests(category_names(grammar.pcfg.categories), forests, 3)
    vocabulary = Vocabulary.build(sentences)
    start = initial_parameters(keys, len(vocabulary), 6, noise=0.5, seed=1)
    parameters = start._replace(vectors=5 * start.vectors, v=start.v / np.float32(2))
    return Parser(grammar, vocabulary, keys, parameters, 0.25, 20, {"config": {"dim": 6}})
