"""The lexicon: P(word | tag state) for known, rare and unknown words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rnnparse.array_invariants import LEXICON, LOG_LEAST, LOG_ONE, check
from rnnparse.grammar.annotate import TaggedWord
from rnnparse.grammar.forms import WordForms
from rnnparse.grammar.unknown import UnknownWordTagger, WordVectors, train_tagger
from rnnparse.trees.brackets import unescape_token

RARE = 5  # words with at most this count are tagged partly by their form
FORM_WEIGHT = 2.0  # pseudo-counts of the form's tags for a rare word
STATE_WEIGHT = 1.0  # pseudo-counts of a tag's usual states for a word
REMEMBERED = 2048  # unknown words whose states are cached, a kilobyte each
BEAM = 7.0  # keep the tags of a form within so many nats of its best


@dataclass(frozen=True)
class Emissions:
    """The possible states of n tokens; those of token i are at ptr[i]:ptr[i+1].

    ptr [n+1] int64; symbol int32: grammar symbols; logp float64: log P(word | symbol).
    """

    ptr: np.ndarray
    symbol: np.ndarray
    logp: np.ndarray


class Lexicon:
    """Scores the tag states of tokens.

    A frequent word has the tags that it was seen with; a rare one (n ≤ `RARE` times) also those
    that its form suggests, P(t | w) = (c(t, w) + m P(t | form)) / (n + m) with m = `FORM_WEIGHT`;
    an unknown one only those. Within a tag every state is allowed: P(s | t, w) is smoothed towards
    the tag's usual states. A rare word that was always given one punctuation tag keeps it, as
    frequent ones do. By Bayes' rule P(w | s) = P(s | w) P(w) / P(s), where the P(s | w) of a
    word's states sum to 1.

    Args:
        words: the known words, W of them, as the treebank writes them (`-LRB-`, `3\\/4`).
        ptr [W+1] int64: word w has the states symbol[ptr[w]:ptr[w+1]] (int32) with
            log P(w | state) in `logp` (float64).
        tag_ptr [T+1] int64: tag t of the tagger has the states state_symbol[tag_ptr[t]:
            tag_ptr[t+1]] (int32) with log( P(state | tag) / P(state) ) as seen with rare words
            in `state_logp` (float64).
        log_unknown: log P(w) of an unknown word.
        tagger: the tagger of unknown words.

    Raises:
        ValueError: an array violates `rnnparse.array_invariants.LEXICON`; a word twice.
    """

    def __init__(
        self,
        words: Sequence[str],
        ptr: np.ndarray,
        symbol: np.ndarray,
        logp: np.ndarray,
        tag_ptr: np.ndarray,
        state_symbol: np.ndarray,
        state_logp: np.ndarray,
        log_unknown: float,
        tagger: UnknownWordTagger,
    ) -> None:
        self.words = tuple(words)
        self.ptr, self.symbol, self.logp = ptr, symbol, logp
        self.tag_ptr, self.state_symbol, self.state_logp = tag_ptr, state_symbol, state_logp
        self.log_unknown = log_unknown
        self.tagger = tagger
        self.forms = WordForms(self.words)
        self._number = {unescape_token(word): w for w, word in enumerate(self.words)}
        self._guessed: dict[tuple[str, bool], tuple[np.ndarray, np.ndarray]] = {}
        sizes = {"W": len(self.words), "T": tagger.weights.shape[1]}
        check("lexicon", LEXICON, vars(self), **sizes)
        if len(set(self.words)) < len(self.words):
            raise ValueError("lexicon.words must be distinct")
        if not LOG_LEAST <= log_unknown <= LOG_ONE:
            raise ValueError(f"lexicon.log_unknown is {log_unknown}, not the log of a probability")

    def knows(self, token: str) -> bool:
        """Whether the token is in the training treebank, escaped or not."""
        return unescape_token(token) in self._number

    def states(self) -> np.ndarray:
        """All symbols of tokens, int32, with repetitions."""
        return np.concatenate([self.symbol, self.state_symbol])

    def emissions(self, tokens: Sequence[str]) -> Emissions:
        """The states of each token of a sentence, escaped or not; see `WordForms.lookup`."""
        entries = [self._entry(word, i == 0) for i, word in enumerate(self.forms.lookup(tokens))]
        return Emissions(
            np.cumsum([0] + [len(symbols) for symbols, _ in entries]).astype(np.int64),
            np.concatenate([symbols for symbols, _ in entries]),
            np.concatenate([logp for _, logp in entries]),
        )

    def _entry(self, word: str, first: bool) -> tuple[np.ndarray, np.ndarray]:
        w = self._number.get(word)
        if w is None and first:
            w = self._number.get(word[:1].lower() + word[1:])
        if w is not None:
            states = slice(self.ptr[w], self.ptr[w + 1])
            return self.symbol[states], self.logp[states]
        guess = self._guessed.get((word, first))
        if guess is None:
            if len(self._guessed) >= REMEMBERED:
                self._guessed.clear()
            guess = self._guessed[word, first] = self._unknown(word, first)
        return guess

    def _unknown(self, word: str, first: bool) -> tuple[np.ndarray, np.ndarray]:
        tags, chance = _likely_tags(self.tagger, word, first)
        places = np.concatenate([np.arange(self.tag_ptr[t], self.tag_ptr[t + 1]) for t in tags])
        of_tag = np.repeat(np.log(chance), self.tag_ptr[tags + 1] - self.tag_ptr[tags])
        return (
            self.state_symbol[places],
            of_tag + self.state_logp[places] + self.log_unknown,
        )


def _likely_tags(
    tagger: UnknownWordTagger, word: str, first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The possible tags of a form (their numbers), and their probabilities, which sum to 1."""
    logp = tagger.log_probabilities(word, first)
    tags = np.flatnonzero(logp >= logp.max() - BEAM)
    chance = np.exp(logp[tags])
    return tags, chance / chance.sum()


class LexiconCounts:
    """Counts of word occurrences for the estimates.

    A *word tag* is a tag with the annotations that the word alone decides (`VBZ-BE`); the states of
    a word tag differ in its context. Words are unescaped.
    """

    def __init__(self, words: Iterable[TaggedWord], word_tag_of: Mapping[str, str]) -> None:
        self.occurrences: Counter[tuple[str, str, bool]] = Counter()
        self._written: dict[str, Counter[str]] = defaultdict(Counter)
        for state, written, first in words:
            word = unescape_token(written)
            self.occurrences[state, word, first] += 1
            self._written[word][written] += 1
        self.states_of: dict[str, Counter[str]] = defaultdict(Counter)
        for (state, word, _), c in self.occurrences.items():
            self.states_of[word][state] += c
        self.state: Counter[str] = Counter()
        self.rare_state: Counter[str] = Counter()
        for states in self.states_of.values():
            self.state.update(states)
            if sum(states.values()) <= RARE:
                self.rare_state.update(states)
        self.total = sum(self.state.values())
        self.word_tag_of = word_tag_of
        self.tags = sorted({word_tag_of[s] for s in self.state})
        self.tag_states: dict[str, list[str]] = defaultdict(list)
        for state in sorted(self.state):
            self.tag_states[word_tag_of[state]].append(state)
        self.usual = {tag: self._given_tag(self.state, tag) for tag in self.tags}
        self.usual_rare = {
            tag: self._given_tag(self.rare_state, tag, self.usual[tag]) for tag in self.tags
        }

    def _given_tag(
        self, counts: Counter[str], tag: str, prior: np.ndarray | None = None
    ) -> np.ndarray:
        """P(state | word tag) in the order of `tag_states`."""
        c = np.array([counts[s] for s in self.tag_states[tag]], np.float64)
        if prior is not None:
            c += prior
        return c / c.sum()

    def written(self, word: str) -> str:
        """The most frequent form of a word in the treebank."""
        return self._written[word].most_common(1)[0][0]

    def samples(self) -> Counter[tuple[str, bool, int]]:
        """The rare words' occurrences, for the tagger of unknown words."""
        number = {tag: i for i, tag in enumerate(self.tags)}
        counts: Counter[tuple[str, bool, int]] = Counter()
        for (state, word, first), c in self.occurrences.items():
            if sum(self.states_of[word].values()) <= RARE:
                counts[word, first, number[self.word_tag_of[state]]] += c
        return counts

    def punctuation_tags(self) -> set[str]:
        """Tags that only words without a letter or digit have."""
        return set(self.tags) - {
            self.word_tag_of[s]
            for word, states in self.states_of.items()
            if any(c.isalnum() for c in word)
            for s in states
        }


def estimate_lexicon(
    words: Iterable[TaggedWord],
    word_tag_of: Mapping[str, str],
    number: Mapping[str, int],
    vectors: WordVectors | None,
    seed: int,
) -> Lexicon:
    """Estimate the lexicon from all word occurrences of a treebank.

    Args:
        words: the occurrences.
        word_tag_of: the tag and word-decided annotations of each state.
        number: grammar symbol of each state.
        vectors: pre-trained word vectors, or None.
        seed: random seed of the tagger's training.
    """
    counts = LexiconCounts(words, word_tag_of)
    tagger = train_tagger(counts.samples(), len(counts.tags), vectors, seed)
    punctuation = counts.punctuation_tags()
    known = sorted(counts.states_of)
    entries = [_entry(word, counts, tagger, punctuation, number) for word in known]
    states = [s for tag in counts.tags for s in counts.tag_states[tag]]
    usual = np.concatenate([counts.usual_rare[tag] for tag in counts.tags])
    share = np.array([counts.state[s] for s in states]) / counts.total
    return Lexicon(
        [counts.written(word) for word in known],
        np.cumsum([0] + [len(symbols) for symbols, _ in entries]).astype(np.int64),
        np.concatenate([symbols for symbols, _ in entries]),
        np.concatenate([logp for _, logp in entries]),
        np.cumsum([0] + [len(counts.tag_states[tag]) for tag in counts.tags]).astype(np.int64),
        np.array([number[s] for s in states], np.int32),
        np.log(usual) - np.log(share),
        float(np.log(0.5 / counts.total)),
        tagger,
    )


def _entry(
    word: str,
    counts: LexiconCounts,
    tagger: UnknownWordTagger,
    punctuation: set[str],
    number: Mapping[str, int],
) -> tuple[np.ndarray, np.ndarray]:
    """Symbols and log P(word | symbol) of one known word."""
    states = counts.states_of[word]
    n = sum(states.values())
    seen: Counter[str] = Counter()
    for state, c in states.items():
        seen[counts.word_tag_of[state]] += c
    chance = {tag: c / n for tag, c in seen.items()}
    if n <= RARE and not (len(seen) == 1 and set(seen) <= punctuation):
        guess = dict(zip(*_likely_tags(tagger, word, False), strict=True))
        chance = {
            tag: (seen[tag] + FORM_WEIGHT * guess.get(t, 0.0)) / (n + FORM_WEIGHT)
            for t, tag in enumerate(counts.tags)
            if tag in seen or t in guess
        }
    symbols: list[int] = []
    scores: list[float] = []
    for tag in sorted(chance):
        usual = (counts.usual_rare if n <= RARE else counts.usual)[tag]
        for state, prior in zip(counts.tag_states[tag], usual, strict=True):
            given = (states[state] + STATE_WEIGHT * prior) / (seen[tag] + STATE_WEIGHT)
            symbols.append(number[state])
            share = counts.state[state] / counts.total
            scores.append(np.log(chance[tag] * given * n / counts.total / share))
    return np.array(symbols, np.int32), np.array(scores, np.float64)
