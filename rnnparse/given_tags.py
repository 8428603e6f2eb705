"""Sentences whose tags are given: their tokens carry the tags to the lexicon.

A token that is a `TaggedWord` has the states of its tag alone, so that every tree of the chart has
that tag. The decoder may divide a sentence; each token keeps its tag.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnnparse.grammar.lexicon import Emissions, Lexicon
from rnnparse.grammar.pcfg import Pcfg
from rnnparse.trees.brackets import escape_token

SHOWN = 60  # most tags in a message


class TaggedWord(str):
    """An escaped word with its tag.

    Args:
        word: the word.
        tag: the number of the tag's category.
    """

    tag: int

    def __new__(cls, word: str, tag: int = -1) -> TaggedWord:
        tagged = super().__new__(cls, word)
        tagged.tag = tag
        return tagged


class TagLexicon(Lexicon):
    """A lexicon that gives a `TaggedWord` the states of its tag alone.

    A word that was seen with the tag, or whose form suggests it, has the same probabilities as
    without the tag. For another word the tag's usual states with rare words are used, and its
    probability is that of an unknown word.

    Args:
        lexicon: the lexicon, which is not copied.
        pcfg: the grammar to which its symbols belong.
    """

    def __init__(self, lexicon: Lexicon, pcfg: Pcfg) -> None:
        vars(self).update(vars(lexicon))
        self._category = pcfg.category
        known = np.unique(pcfg.category[lexicon.state_symbol]).tolist()
        self.tags = {pcfg.categories[c]: c for c in known}

    def mark(self, words: Sequence[str], tags: Sequence[str]) -> list[str]:
        """Escaped words with their tags.

        Raises:
            ValueError: the treebank that the grammar was estimated from has no such tag.
        """
        marked: list[str] = []
        for number, (word, tag) in enumerate(zip(words, tags, strict=True), start=1):
            category = self.tags.get(tag, self.tags.get(escape_token(tag)))
            if category is None:
                known = sorted(self.tags)
                more = " …" if len(known) > SHOWN else ""
                raise ValueError(
                    f"the model has no tag {tag!r} (token {number}, {word!r}); its tags: "
                    f"{' '.join(known[:SHOWN])}{more}"
                )
            marked.append(TaggedWord(word, category))
        return marked

    def emissions(self, tokens: Sequence[str]) -> Emissions:
        """Those of the lexicon; of a `TaggedWord` only those of its tag."""
        usual = super().emissions(tokens)
        if not any(isinstance(token, TaggedWord) for token in tokens):
            return usual
        forms = self.forms.lookup(tokens)
        entries = []
        for i, token in enumerate(tokens):
            states = slice(usual.ptr[i], usual.ptr[i + 1])
            symbol, logp = usual.symbol[states], usual.logp[states]
            if isinstance(token, TaggedWord):
                kept = self._category[symbol] == token.tag
                symbol, logp = symbol[kept], logp[kept]
                if not kept.any():
                    symbol, logp = self._unusual(forms[i], i == 0, token.tag)
            entries.append((symbol, logp))
        return Emissions(
            np.cumsum([0] + [len(symbols) for symbols, _ in entries]).astype(np.int64),
            np.concatenate([symbols for symbols, _ in entries]),
            np.concatenate([logp for _, logp in entries]),
        )

    def _unusual(self, word: str, first: bool, tag: int) -> tuple[np.ndarray, np.ndarray]:
        """The states of a tag for a word that has other tags, with log P(word | state)."""
        places = np.flatnonzero(self._category[self.state_symbol] == tag)
        number = np.searchsorted(self.tag_ptr, places, side="right") - 1
        likely = self.tagger.log_probabilities(word, first)
        distinct = np.unique(number)
        share = likely - np.logaddexp.reduce(likely[distinct])
        logp = share[number] + self.state_logp[places] + self.log_unknown
        return self.state_symbol[places], logp
