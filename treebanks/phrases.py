"""Noun phrases, verb forms and modifiers of the embedded treebank."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from nltk.tree import Tree

from .lexicon import NUMBERS, Frame, Lexicon, Noun, Number, VerbTag

T = TypeVar("T")

NUMBER_WEIGHTS: dict[Number, int] = {"singular": 5, "plural": 3, "mass": 3}
ADJECTIVE_RATE = 0.15
DETERMINERS: dict[Number, tuple[tuple[str, int], ...]] = {
    "singular": (("DT the", 11), ("DT a", 8), ("DT this", 1)),
    "plural": (("", 10), ("DT the", 6), ("DT some", 2), ("CD number", 2)),
    "mass": (("", 1),),
}
# Time expressions as (tags and words) of a noun phrase.
PAST_TIMES = (
    "NN yesterday",
    "JJ last NN night",
    "JJ last NN week",
    "JJ last NN month",
    "DT this NN morning",
    "DT that NN evening",
)
OTHER_TIMES = ("DT every NN day", "DT every NN week", "DT every NN month")


class Chooser:
    """Seeded choices, built on `Random.random` alone: only that is the same in every Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def choose(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        left = self._random.random() * sum(weight for _, weight in options)
        for option, weight in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][0]


def leaf(tag: str, word: str) -> Tree:
    return Tree(tag, [word])


def flat(label: str, tagged: str) -> Tree:
    """`flat("NP", "JJ last NN week")` -> (NP (JJ last) (NN week))."""
    parts = tagged.split()
    return Tree(label, [leaf(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)])


def indefinite(next_word: str) -> str:
    consonant_sound = next_word.startswith(("uni", "use", "eu", "one"))
    vowel_sound = next_word[0] in "aeiou" or next_word.startswith("honest")
    return "an" if vowel_sound and not consonant_sound else "a"


class Phrases:
    """Builds phrases from word classes.

    Args:
        lexicon: the word classes.
        chooser: the source of all choices.
        held_back: whether words kept out of the training part may be used.
    """

    def __init__(self, lexicon: Lexicon, chooser: Chooser, held_back: bool) -> None:
        self.lexicon, self.pick, self.held_back = lexicon, chooser, held_back

    # ---- words ----------------------------------------------------------------------------------
    def nouns(self, name: str, number: Number) -> list[Noun]:
        members = self.lexicon.nouns[name]
        return [n for n in members if n.form(number) and (self.held_back or not n.held_back)]

    def noun(self, name: str, number: Number) -> str:
        return str(self.pick.choose(self.nouns(name, number)).form(number))

    def word(self, kind: str, name: str | None = None) -> str:
        words = self.lexicon.words[kind, name or kind]
        allowed = [word for word in words if self.held_back or not word.startswith("*")]
        return self.pick.choose(allowed).lstrip("*")

    def verb(self, name: str, tag: VerbTag) -> Tree:
        return leaf(tag, self.pick.choose(self.lexicon.verbs[name]).forms[tag])

    def number(self, name: str) -> Number:
        options = [(n, NUMBER_WEIGHTS[n]) for n in NUMBERS if self.nouns(name, n)]
        return self.pick.weighted(options)

    def frame(self, frames: Sequence[Frame]) -> tuple[str, ...]:
        return self.pick.weighted([(frame.columns, frame.weight) for frame in frames])

    # ---- noun phrases ---------------------------------------------------------------------------
    def noun_phrase(
        self, name: str, number: Number | None = None, determiner: str | None = None
    ) -> Tree:
        """A base NP of the class, e.g. (NP (DT the) (JJ old) (NN door)).

        Its shape depends on the number alone, so that tags do not give the class away.
        """
        number = number or self.number(name)
        noun = self.pick.choose(self.nouns(name, number))
        leaves = [leaf("NNS" if number == "plural" else "NN", str(noun.form(number)))]
        if self.pick.chance(ADJECTIVE_RATE) and noun.group != "none":
            leaves.insert(0, leaf("JJ", self.word("adjective", noun.group)))
        determiner = determiner or self.pick.weighted(DETERMINERS[number])
        if determiner and not (determiner == "CD number" and noun.singular is None):
            tag, word = determiner.split()
            if word == "a":
                word = indefinite(str(leaves[0][0]))
            elif word == "number":
                word = self.word("number")
            leaves.insert(0, leaf(tag, word))
        return Tree("NP", leaves)

    def unlike(self, other: Tree, name: str) -> Tree:
        """A base NP of the class with another noun than the given base NP has."""
        phrase = self.noun_phrase(name)
        while phrase[-1][0][:4] == other[-1][0][:4]:
            phrase = self.noun_phrase(name)
        return phrase

    def name(self) -> Tree:
        if self.pick.chance(0.2):
            title = self.pick.choose(("Mr.", "Ms."))
            return flat("NP", f"NNP {title} NNP {self.word('name', 'family')}")
        return flat("NP", f"NNP {self.word('name', 'person')}")

    def possessed(self, name: str) -> Tree:
        """(NP (PRP$ her) (NN book)) or (NP (NP (NNP Anna) (POS 's)) (NN book))."""
        noun = leaf("NN", self.noun(name, "singular"))
        if self.pick.chance(0.5):
            return Tree("NP", [leaf("PRP$", self.word("possessive")), noun])
        owner = flat("NP", f"NNP {self.word('name', 'person')} POS 's")
        return Tree("NP", [owner, noun])

    def prepositional(self, preposition: str, phrase: Tree) -> Tree:
        tag = "TO" if preposition == "to" else "IN"
        return Tree("PP", [leaf(tag, preposition), phrase])

    def both(self, first: Tree, second: Tree, label: str) -> Tree:
        return Tree(label, [first, leaf("CC", "and"), second])

    # ---- modifiers that attach to the verb only -------------------------------------------------
    def beside(self) -> Tree:
        place = self.noun_phrase(self.pick.choose(("place", "water", "slope")), "singular")
        return self.prepositional(self.word("beside"), place)

    def time(self, past: bool) -> Tree:
        if self.pick.chance(0.4):
            return flat("NP", self.pick.choose(PAST_TIMES if past else OTHER_TIMES))
        preposition = self.pick.choose(("after", "before"))
        if self.pick.chance(0.5):
            return self.prepositional(preposition, self.noun_phrase("meal", "mass"))
        if self.pick.chance(0.5):
            preposition = "during"
        crisis = flat("NP", f"DT the NN {self.noun('crisis', 'singular')}")
        return self.prepositional(preposition, crisis)

    def manner(self) -> Tree:
        return flat("ADVP", f"RB {self.word('adverb', 'manner')}")

    def tail(self, past: bool, rate: float = 0.25) -> list[Tree]:
        """Zero or one modifier at the end of a verb phrase."""
        if not self.pick.chance(rate):
            return []
        return [self.manner() if self.pick.chance(0.3) else self.time(past)]
