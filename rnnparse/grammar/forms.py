"""The forms of words: as trees and people write them, and under which the model looks them up.

Inside the program a word is what people write (`3/4`, `(`). What treebanks put in its place
(`3\\/4`, `-LRB-`) is undone wherever a word is counted or looked up, and done again wherever a
tree is put out, as the training treebank had it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rnnparse.grammar.marks import IN_WORDS, is_mark, opening_quotes, substitutes
from rnnparse.trees.brackets import ESCAPES, escape_token, unescape_token

_CONVENTIONS = ("[]", "{}", "/*")  # a treebank escapes both characters of a pair or neither


class WordForms:
    """The conventions of a treebank, read off its words.

    Args:
        words: all distinct words of the training trees, as these write them.
    """

    def __init__(self, words: Iterable[str]) -> None:
        written = tuple(words)
        plain = [unescape_token(word) for word in written]
        self._known = frozenset(plain)
        seen = set().union(*plain)
        self._in_words = {code: to for code, to in IN_WORDS.items() if chr(code) not in seen}
        self._escaped = "".join(pair for pair in _CONVENTIONS if _escapes(pair, written))

    def lookup(self, tokens: Sequence[str]) -> list[str]:
        """The plain form under which each token of a sentence is looked up.

        That is the token itself where training saw it. A mark of punctuation that it never saw
        becomes the nearest one that it did see; in other unknown words, typographic apostrophes,
        hyphens and full-width characters become plain ones, unless training saw these too.

        Args:
            tokens: in escaped or plain form.
        """
        plain = [unescape_token(token) for token in tokens]
        if self._known.issuperset(plain):
            return plain
        return [
            word if word in self._known else self._nearest(word, opens)
            for word, opens in zip(plain, opening_quotes(plain), strict=True)
        ]

    def write(self, tokens: Iterable[str]) -> list[str]:
        """Words as the training treebank writes them; those in escaped form stay as they are.

        Raises:
            ValueError: as `escape_token`.
        """
        return [escape_token(token, self._escaped) for token in tokens]

    def _nearest(self, word: str, opens: bool | None) -> str:
        """What an unknown word is looked up as."""
        if not is_mark(word):
            return word.translate(self._in_words)
        return next((mark for mark in substitutes(word, opens) if mark in self._known), word)


def _escapes(pair: str, words: Iterable[str]) -> bool:
    """Whether more words of a treebank have these characters escaped than as they are."""
    escapes = [ESCAPES[character] for character in pair]
    balance = 0
    for word in words:
        if any(escape in word for escape in escapes):
            balance += 1
        elif any(character in word for character in pair):
            balance -= 1
    return balance > 0
