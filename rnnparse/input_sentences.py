"""Check the sentences and trees that callers pass in."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import TYPE_CHECKING, Any

from rnnparse.trees.node import is_nltk_tree
from rnnparse.trees.tokenizer import tokenize

if TYPE_CHECKING:
    from nltk.tree import Tree

LONGEST_TEXT = 1 << 20
"""Most characters in a sentence."""

NO_TOKEN = "a sentence needs at least one token"


def sentence_tokens(sentence: Any) -> list[str]:
    """The tokens of a sentence: raw text is tokenized, tokens are checked.

    Args:
        sentence: a str, or an iterable of str in order.

    Raises:
        TypeError: it is something else.
        ValueError: it has no tokens, or more than `LONGEST_TEXT` characters.
    """
    if isinstance(sentence, str):
        if len(sentence) > LONGEST_TEXT:
            raise _too_long()
        tokens = tokenize(sentence)
    else:
        tokens = _given_tokens(sentence)
    if not tokens:
        raise ValueError(NO_TOKEN)
    return tokens


def _too_long() -> ValueError:
    return ValueError(
        f"the sentence has more than {LONGEST_TEXT:,} characters; split it into sentences"
    )


def _given_tokens(sentence: Any) -> list[str]:
    if isinstance(sentence, (bytes, bytearray)):
        raise TypeError("a sentence must be a string, not bytes: use text.decode('utf-8')")
    if not isinstance(sentence, Iterable) or isinstance(sentence, (Mapping, Set)):
        raise TypeError(
            f"a sentence must be a string or a sequence of tokens, not {_type(sentence)}"
        )
    tokens: list[str] = []
    size = 0
    for number, token in enumerate(sentence, start=1):
        if not isinstance(token, str):
            hint = ""
            if is_nltk_tree(sentence):
                hint = "; to parse the words of a tree, pass tree.leaves()"
            raise TypeError(f"tokens must be strings, but token {number} is {_type(token)}{hint}")
        size += len(token) + 1
        if size > LONGEST_TEXT + 1:  # perhaps the iterable never ends
            raise _too_long()
        tokens.append(token)
    return tokens


def sentence_iterator(sentences: Any) -> Iterator[Any]:
    """An iterator over many sentences.

    Raises:
        TypeError: it is a single string or bytes, or not iterable.
    """
    if isinstance(sentences, (str, bytes, bytearray)):
        raise TypeError(
            f"expected several sentences, not one {_type(sentences)}: put it in a list, [sentence]"
        )
    try:
        return iter(sentences)
    except TypeError:
        raise TypeError(f"expected an iterable of sentences, not {_type(sentences)}") from None


def windows(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """The items in lists of `size`; an error of the iterator comes after the items before it."""
    while True:
        window: list[Any] = []
        try:
            for item in islice(items, size):  # list(…) would lose these items on an error
                window.append(item)
        except Exception:
            if window:
                yield window
            raise
        if not window:
            return
        yield window


def whole_number(value: Any, name: str, minimum: int = 1) -> int:
    """A whole number from a caller, as an int.

    Raises:
        TypeError: it is not a whole number.
        ValueError: it is below `minimum`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {number}")
    return number


def require_tree(tree: Any, what: str = "the argument") -> Tree:
    """The tree; TypeError if it is not an `nltk.Tree`."""
    if is_nltk_tree(tree):
        return tree
    hint = ": use Tree.fromstring(…)" if isinstance(tree, str) else ""
    raise TypeError(f"{what} must be an nltk.Tree, not {_type(tree)}{hint}")


def require_trees(trees: Any) -> list[Tree]:
    """The trees in a list; TypeError if they are not a sequence of `nltk.Tree`."""
    if isinstance(trees, (str, bytes)) or is_nltk_tree(trees) or not isinstance(trees, Iterable):
        hint = ": put it in a list" if is_nltk_tree(trees) else ""
        raise TypeError(f"rerank expects a sequence of nltk.Tree, not {_type(trees)}{hint}")
    return [require_tree(tree, f"tree {number}") for number, tree in enumerate(trees, start=1)]


def _type(value: object) -> str:
    return type(value).__name__
