"""Escaped and unescaped forms of words.

Inside the program words are unescaped (`3/4`, `(`). Escapes of treebanks (`3\\/4`, `-LRB-`) are
removed before words are counted or looked up, and added again to the words of output trees, in the
style of the training treebank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rnnparse.grammar.punctuation import IN_WORDS, is_punctuation, opening_quotes, substitutes
from rnnparse.trees.brackets import ESCAPES, escape_token, unescape_token

_CONVENTIONS = ("[]", "{}", "/*")  # a treebank escapes both characters of a pair, or neither


class WordForms:
    """The escapes of a treebank, inferred from its words.

    Args:
        words: all distinct words of the training trees, escaped as in the trees.
    """

    def __init__(self, words: Iterable[str]) -> None:
        written = tuple(words)
        unescaped = [unescape_token(word) for word in written]
        self._known = frozenset(unescaped)
        seen = set().union(*unescaped)
        self._in_words = {code: to for code, to in IN_WORDS.items() if chr(code) not in seen}
        self._escaped = "".join(pair for pair in _CONVENTIONS if _escapes(pair, written))

    def lookup(self, tokens: Sequence[str]) -> list[str]:
        """The form under which each token of a sentence is looked up, unescaped.

        A token of the training treebank is looked up as it is. A punctuation mark that is not in
        the treebank becomes the most similar one that is. In other unknown words, typographic
        apostrophes, hyphens and full-width characters become ASCII ones, unless the treebank has
        them.

        Args:
            tokens: escaped or unescaped.
        """
        unescaped = [unescape_token(token) for token in tokens]
        if self._known.issuperset(unescaped):
            return unescaped
        return [
            word if word in self._known else self._nearest(word, opens)
            for word, opens in zip(unescaped, opening_quotes(unescaped), strict=True)
        ]

    def write(self, tokens: Iterable[str]) -> list[str]:
        """Words as the training treebank escapes them; existing escapes are kept.

        Raises:
            ValueError: as `escape_token`.
        """
        return [escape_token(token, self._escaped) for token in tokens]

    def _nearest(self, word: str, opens: bool | None) -> str:
        """The form under which an unknown word is looked up."""
        if not is_punctuation(word):
            word, opens = word.translate(self._in_words), None
            # A letter may become a mark: Unicode has an apostrophe among the letters.
            if word in self._known or not is_punctuation(word):
                return word
        return next((mark for mark in substitutes(word, opens) if mark in self._known), word)


def _escapes(pair: str, words: Iterable[str]) -> bool:
    """Whether a treebank escapes these characters in more words than it leaves them."""
    escapes = [ESCAPES[character] for character in pair]
    balance = 0
    for word in words:
        if any(escape in word for escape in escapes):
            balance += 1
        elif any(character in word for character in pair):
            balance -= 1
    return balance > 0
