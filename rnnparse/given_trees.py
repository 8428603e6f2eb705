"""Trees that callers give to a parser, as forests of its categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.forest import Forest, ForestBuilder
from rnnparse.input_sentences import require_tree
from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.cleaning import clean, words
from rnnparse.trees.style import AS_GIVEN

if TYPE_CHECKING:
    from nltk.tree import Tree


def cleaned_tree(tree: Tree) -> Tree:
    """A given tree, cleaned.

    Raises:
        TypeError: it is not an `nltk.Tree`.
        ValueError: it has no words.
        TreebankError: a preterminal has more than one child, or a phrase mixes words and phrases.
    """
    cleaned = clean(require_tree(tree), AS_GIVEN)
    if cleaned is None:
        raise ValueError("the tree has no words")
    return cleaned


def forest_of_trees(
    trees: Sequence[Tree], grammar: Grammar
) -> tuple[Forest, list[str], list[int]]:
    """A forest of cleaned trees, its tokens, and the candidate number of each tree.

    Raises:
        ValueError: there is no tree, or the trees have different words.
    """
    if not trees:
        raise ValueError("expected at least one tree")
    tokens = words(trees[0])
    written = [unescape_token(token) for token in tokens]
    if any([unescape_token(word) for word in words(tree)] != written for tree in trees):
        raise ValueError("trees of one sentence must have the same words")
    builder = ForestBuilder(grammar.pcfg.categories, grammar.heads)
    places = [builder.add(tree, 0.0) for tree in trees]
    return builder.forest(), tokens, places
