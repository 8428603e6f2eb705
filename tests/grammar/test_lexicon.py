"""Tag states of known, rare and unknown tokens."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.grammar.annotate import SPLITS, Annotator, TaggedWord
from rnnparse.grammar.grammar import Grammar, estimate
from rnnparse.grammar.lexicon import RARE, REMEMBERED, Lexicon
from rnnparse.grammar.unknown import WordVectors, form_features
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import trees


class Twin:
    """Counts of one's own, for the lexicon of a treebank."""

    def __init__(self, treebank: list[Tree]) -> None:
        self.annotator = Annotator(HeadTable.english(), SPLITS, 3, treebank)
        events = [e for tree in treebank for e in self.annotator.occurrences(tree)]
        words = [(e.word, e.state) for e in events if isinstance(e, TaggedWord)]
        self.pairs = Counter(words)
        self.words = Counter(word for word, _ in words)
        self.states = Counter(state for _, state in words)
        self.total = len(words)

    def tags_of(self, grammar: Grammar, lexicon: Lexicon, token: str) -> dict[str, float]:
        """P(tag | token) by Bayes' rule from P(token | state)."""
        states = lexicon.emissions(["the", token])
        masses: defaultdict[str, float] = defaultdict(float)
        known = lexicon.knows(token)
        chance = self.words[token] / self.total if known else np.exp(lexicon.log_unknown)
        for t in range(states.ptr[1], states.ptr[2]):
            state = grammar.pcfg.symbols[states.symbol[t]]
            share = self.states[state] / self.total
            masses[self.annotator.word_tag[state]] += float(np.exp(states.logp[t]) * share / chance)
        return masses


@pytest.fixture(scope="module")
def twin() -> Twin:
    return Twin(trees(60))


def test_states_of_every_token_sum_to_one(grammar: Grammar, twin: Twin) -> None:
    for token in [*grammar.lexicon.words, "Xyzzy", "gladly", "1\u20092", "42", "+", "un-ate", "Q"]:
        tags = twin.tags_of(grammar, grammar.lexicon, token)
        assert sum(tags.values()) == pytest.approx(1, abs=1e-9), token
        assert min(tags.values()) > 0


def test_frequent_words_have_the_tags_of_training(grammar: Grammar, twin: Twin) -> None:
    frequent = [word for word, n in twin.words.items() if n > RARE]
    assert len(frequent) > 10
    for word in frequent:
        seen: Counter[str] = Counter()
        for (other, state), n in twin.pairs.items():
            if other == word:
                seen[twin.annotator.word_tag[state]] += n
        expected = {tag: n / twin.words[word] for tag, n in seen.items()}
        assert twin.tags_of(grammar, grammar.lexicon, word) == pytest.approx(expected)


def test_rare_words_have_other_tags_too(grammar: Grammar, twin: Twin) -> None:
    widened = 0
    for word, n in twin.words.items():
        if n > RARE:
            continue
        seen = {twin.annotator.word_tag[s] for (w, s) in twin.pairs if w == word}
        tags = twin.tags_of(grammar, grammar.lexicon, word)
        assert seen <= set(tags)
        widened += len(tags) > len(seen)
    assert widened > 50



def preterminals(*tagged: str) -> Tree:
    return Tree("TOP", [Tree("S", [Tree(t, [w]) for t, w in (p.split("/", 1) for p in tagged)])])


def test_a_token_that_was_always_one_punctuation_mark_stays_it() -> None:
    treebank = [preterminals("NN/dog", "VBZ/barks", "./.", ":/--") for _ in range(9)]
    treebank.append(preterminals("NN/cat", "./?", "-LRB-/-LRB-", "SYM/*", "NN/+"))
    grammar = estimate(treebank, HeadTable.english())

    def tags(token: str) -> set[str]:
        states = grammar.lexicon.emissions(["dog", token])
        names = [grammar.pcfg.symbols[s] for s in states.symbol[states.ptr[1] :]]
        return {name.split("^")[0] for name in names}

    assert tags("?") == {"."}
    assert tags("-LRB-") == {"-LRB-"}
    assert tags("*") == {"SYM"}
    assert tags("--") == {":"}
    assert "NN" in tags("+")  # NN is no punctuation tag: words have it
    assert len(tags("+")) > 1
    assert tags("never")  # an unknown word has some tag


def test_the_first_token_is_looked_up_in_lower_case_too(grammar: Grammar) -> None:
    lexicon = grammar.lexicon
    word = next(w for w in lexicon.words if w.islower() and not lexicon.knows(w.capitalize()))
    first = lexicon.emissions([word.capitalize(), "."])
    lower = lexicon.emissions([word])
    np.testing.assert_array_equal(first.symbol[: first.ptr[1]], lower.symbol)
    np.testing.assert_array_equal(first.logp[: first.ptr[1]], lower.logp)
    second = lexicon.emissions([".", word.capitalize()])
    assert not np.array_equal(second.logp[second.ptr[1] :], lower.logp)


def test_tokens_with_brackets_are_seen_as_people_write_them() -> None:
    treebank = [preterminals("NN/dog", "CD/4-RRB-", "JJ/big"), *trees(10)]
    vectors = WordVectors(("a)",), np.ones((1, 2), np.float32))
    lexicon = estimate(treebank, HeadTable.english(), vectors=vectors).lexicon
    assert "shape=0)" in lexicon.tagger.features
    assert not any("RRB" in name for name in lexicon.tagger.features)
    escaped = lexicon.emissions(["dog", "a-RRB-"]).logp
    blind = lexicon.emissions(["dog", "b-RRB-"]).logp
    assert escaped.shape != blind.shape or not np.allclose(escaped, blind)


def test_unknown_words_are_remembered_but_not_for_ever(grammar: Grammar) -> None:
    lexicon = Grammar.from_arrays(grammar.to_arrays()).lexicon
    before = lexicon.emissions(["unheard"])
    for i in range(REMEMBERED + 10):
        lexicon._guessed[f"word{i}", False] = lexicon._guessed["unheard", True]
    after = lexicon.emissions(["unheard", "unheard-of"])
    assert len(lexicon._guessed) <= 2
    np.testing.assert_array_equal(after.logp[: after.ptr[1]], before.logp)


def test_the_tagger_learns_suffixes_and_vectors() -> None:
    ends = {"RB": "ly", "VBG": "ing", "NNS": "es"}
    stems = ["gal", "bor", "kum", "tep", "sid", "woz"]
    plain = [preterminals(*(f"{tag}/{stem}{end}" for tag, end in ends.items())) for stem in stems]
    grammar = estimate(plain, HeadTable.english())

    def best(grammar: Grammar, word: str) -> str:
        states = grammar.lexicon.emissions(["gally", word])
        best = states.ptr[1] + int(np.argmax(states.logp[states.ptr[1] :]))
        return grammar.pcfg.symbols[states.symbol[best]].split("^")[0]

    for tag, end in ends.items():
        assert best(grammar, "nax" + end) == tag
    words = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
    tree = [preterminals(f"X/{w}", f"Y/{w.upper()[::-1]}") for w in words]
    matrix = np.array([[1.0], [-1.0]] * len(words), np.float32)
    names = [n for w in words for n in (w, w.upper()[::-1])]
    vectors = WordVectors((*names, "7", "8"), np.vstack([matrix, [[1.0]], [[-1.0]]]).astype("f4"))
    seeing = estimate(tree, HeadTable.left(), vectors=vectors)
    seeing_tag = [seeing.lexicon.tagger.log_probabilities(w, False).argmax() for w in ("7", "8")]
    assert seeing_tag == [0, 1]


def test_form_features_of_a_word() -> None:
    assert set(form_features("Re-used", True)) == {
        "bias", "class=UNK-FIRST-DASH-ed", "length=7", "suffix=d", "suffix=ed", "suffix=sed",
        "suffix=used", "prefix=r", "prefix=re", "prefix=re-", "prefix=re-u", "shape=Aa-a^",
        "part=used",
    }
    assert set(form_features("", False)) == {"bias", "class=UNK", "length=0", "shape="}
