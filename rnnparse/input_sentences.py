"""Check the sentences and trees that callers pass in."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from rnnparse.trees.node import is_nltk_tree
from rnnparse.trees.tokenizer import tokenize_with_offsets

if TYPE_CHECKING:
    from nltk.tree import Tree

LONGEST_TEXT = 1 << 20
"""Most characters in a sentence."""

NO_TOKEN = "a sentence needs at least one token"


_PIECE = re.compile("[^ \t\n\r\f\v]+")


@dataclass(frozen=True)
class Line:
    """A line of text in which white space separates tokens.

    Attributes:
        text: the line.
        tagged: whether each token is `word/TAG`, divided at its last slash.
    """

    text: str
    tagged: bool = False


@dataclass(frozen=True)
class GivenSentence:
    """The tokens of a sentence, and what is known about them.

    Attributes:
        tokens: at least one.
        offsets: of each token, its first character in the text and the one after its last; None if
            there is no text.
        tags: of each token; None if they are for the parser to find.
    """

    tokens: list[str]
    offsets: Sequence[tuple[int, int]] | None = None
    tags: list[str] | None = None


def read_sentence(sentence: Any) -> GivenSentence:
    """The tokens of a sentence: raw text is tokenized, tokens are checked.

    Args:
        sentence: a str, a `Line`, or an iterable in order, of str or of (word, tag).

    Raises:
        TypeError: it is something else, or has tags for some tokens only.
        ValueError: it has no tokens, more than `LONGEST_TEXT` characters, or a token without tag
            in a tagged line.
    """
    if isinstance(sentence, (str, Line)):
        text = sentence if isinstance(sentence, str) else sentence.text
        if len(text) > LONGEST_TEXT:
            raise _too_long()
        given = _of_line(sentence) if isinstance(sentence, Line) else _of_text(text)
    else:
        given = _given_tokens(sentence)
    if not given.tokens:
        raise ValueError(NO_TOKEN)
    return given


def _of_text(text: str) -> GivenSentence:
    found = tokenize_with_offsets(text)
    return GivenSentence([token for token, _, _ in found], [(i, j) for _, i, j in found])


def _of_line(line: Line) -> GivenSentence:
    pieces = list(_PIECE.finditer(line.text))
    if not line.tagged:
        return GivenSentence([piece[0] for piece in pieces], [piece.span() for piece in pieces])
    divided = [piece[0].rpartition("/") for piece in pieces]
    for number, (word, _, tag) in enumerate(divided, start=1):
        if not (word and tag):
            raise ValueError(f"token {number}, {pieces[number - 1][0]!r}, is not word/TAG")
    words = [word for word, _, _ in divided]
    offsets = [(p.start(), p.start() + len(w)) for p, w in zip(pieces, words, strict=True)]
    return GivenSentence(words, offsets, [tag for _, _, tag in divided])


def _too_long() -> ValueError:
    return ValueError(
        f"the sentence has more than {LONGEST_TEXT:,} characters; split it into sentences"
    )


def _given_tokens(sentence: Any) -> GivenSentence:
    if isinstance(sentence, (bytes, bytearray)):
        raise TypeError("a sentence must be a string, not bytes: use text.decode('utf-8')")
    if not isinstance(sentence, Iterable) or isinstance(sentence, (Mapping, Set)):
        raise TypeError(
            f"a sentence must be a string or a sequence of tokens, not {_type(sentence)}"
        )
    tokens: list[str] = []
    tags: list[str] = []
    size = 0
    for number, token in enumerate(sentence, start=1):
        if _is_tagged(token):
            token, tag = token
            tags.append(tag)
        if not isinstance(token, str):
            hint = ""
            if is_nltk_tree(sentence):
                hint = "; to parse the words of a tree, pass tree.leaves()"
            raise TypeError(f"tokens must be strings, but token {number} is {_type(token)}{hint}")
        size += len(token) + 1
        if size > LONGEST_TEXT + 1:  # perhaps the iterable never ends
            raise _too_long()
        tokens.append(token)
        if 0 < len(tags) < len(tokens):
            raise TypeError(f"tokens must all have tags or none, but token {number} differs")
    return GivenSentence(tokens, None, tags or None)


def _is_tagged(token: Any) -> bool:
    """Whether a token is a pair (word, tag)."""
    return isinstance(token, tuple) and [type(part) for part in token] == [str, str]


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
