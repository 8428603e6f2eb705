"""A grammar estimated from a few trees of the embedded treebank."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice

import numpy as np
from nltk.tree import Tree

from rnnparse.grammar.grammar import Grammar, estimate
from rnnparse.grammar.unknown import WordVectors
from rnnparse.trees.brackets import read_trees
from rnnparse.trees.cleaning import clean
from rnnparse.trees.embedded import embedded_treebank
from rnnparse.trees.heads import HeadTable


def trees(count: int, part: str = "train") -> list[Tree]:
    """The first trees of a part of the embedded treebank, cleaned."""
    cleaned = (clean(tree) for tree in islice(read_trees(embedded_treebank(part)), count))
    return [tree for tree in cleaned if tree is not None]


def vectors() -> WordVectors:
    """Random vectors; one word holds a thin space, another a plain one."""
    words = ("the", "1\u20092", "New York", "gladly", "Ærøskøbing")
    return WordVectors(words, np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))


@lru_cache(maxsize=1)
def small_grammar() -> Grammar:
    """A grammar of 60 trees and the vectors above."""
    return estimate(trees(60), HeadTable.english(), vectors=vectors())
