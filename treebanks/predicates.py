"""Verb phrases of the embedded treebank: the places where attachment is ambiguous by tags."""

from __future__ import annotations

from collections.abc import Callable

from nltk.tree import Tree

from .lexicon import NUMBERS, Frame, Lexicon, Number, VerbTag
from .phrases import NUMBER_WEIGHTS, Chooser, Phrases, flat, leaf

PREPOSITION_WEIGHTS = (("with", 13), ("in", 3), ("on", 3), ("from", 3), ("for", 2), ("to", 2))
PARTICLE_WORDS = ("up", "down", "on", "off", "over", "in", "out")
# Objects that an unambiguous "of" phrase may modify: container of stuff.
OF_NOUNS = {"container": "stuff", "fixture": "place", "machine": "person", "animal": "person"}

Content = Callable[[VerbTag, bool], Tree]


class Predicates(Phrases):
    """Verb phrases; `tag` is the form of the verb, `past` whether the event lies in the past.

    Each of the ambiguous kinds draws the reading first and then, with the same probabilities for
    either reading, the shape of the phrases (number, determiner, adjective): tags say nothing
    about the reading. The words of `frames.txt` then follow from the reading.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        frames: dict[str, list[Frame]],
        chooser: Chooser,
        held_back: bool,
    ) -> None:
        super().__init__(lexicon, chooser, held_back)
        self.frames = frames
        self.groups = {frame.columns[0]: frame.columns[1:] for frame in frames["suits"]}

    def predicate(self, tag: VerbTag, past: bool) -> Tree:
        kinds: list[tuple[Content, float]] = [(self.complement, 6), (self.infinitive, 6)]
        return self.pick.weighted([*kinds, (self.closed, 88)])(tag, past)

    def closed(self, tag: VerbTag, past: bool) -> Tree:
        """A predicate that does not end in a clause, so that what follows cannot belong to one."""
        kinds: list[tuple[Content, float]] = [
            (self.attachment, 60),
            (self.particle, 12),
            (self.coordination, 8),
            (self.scope, 6),
            (self.plain, 5),
            (self.rest, 3),
        ]
        return self.pick.weighted(kinds)(tag, past)

    # ---- unambiguous ----------------------------------------------------------------------------
    def plain(self, tag: VerbTag, past: bool) -> Tree:
        verb, noun = self.frame(self.frames["plain"])
        roll = self.pick.choose(range(10))
        if verb == "give" and roll < 5:
            objects = [self.noun_phrase("person", "singular"), self.noun_phrase(noun)]
        elif noun == "person" and roll < 4:
            objects = [flat("NP", f"PRP {self.pick.choose(('him', 'her', 'them'))}")]
        elif noun in OF_NOUNS and roll < 7:
            whole = OF_NOUNS[noun]
            number: Number | None = None if whole == "stuff" else "singular"
            inner = self.prepositional("of", self.noun_phrase(whole, number))
            objects = [Tree("NP", [self.noun_phrase(noun, "singular", "DT the"), inner])]
        elif roll < 7 and self.nouns(noun, "singular"):
            objects = [self.possessed(noun)]
        else:
            objects = [self.noun_phrase(noun)]
        return Tree("VP", [self.verb(verb, tag), *objects, *self.tail(past, 0.6)])

    def rest(self, tag: VerbTag, past: bool) -> Tree:
        verb = self.verb(self.pick.choose(("rest", "speak")), tag)
        return Tree("VP", [verb, self.beside(), *self.tail(past)])

    # ---- prepositional phrases ------------------------------------------------------------------
    def shapes(self, frames: list[Frame]) -> set[tuple[Number, Number]]:
        """The numbers that object and noun can take in at least one of the frames."""
        return {
            (first, second)
            for frame in frames
            for first in NUMBERS
            for second in NUMBERS
            if self.fits(frame, first, second)
        }

    def fits(self, frame: Frame, first: Number, second: Number) -> bool:
        _, noun, _, last = frame.columns[:4]
        return bool(self.nouns(noun, first) and self.nouns(last, second))

    def attachment_frame(
        self, reading: str | None = None
    ) -> tuple[tuple[str, ...], Number, Number]:
        """A frame of [attach] with the numbers of its nouns, balanced between the readings."""
        preposition = self.pick.weighted(PREPOSITION_WEIGHTS)
        frames = [f for f in self.frames["attach"] if f.columns[2] == preposition]
        by_reading = {r: [f for f in frames if f.columns[4] == r] for r in ("VP", "NP")}
        common = sorted(self.shapes(by_reading["VP"]) & self.shapes(by_reading["NP"]))
        reading = reading or self.pick.choose(("VP", "NP"))
        first, second = self.pick.weighted(
            [(pair, NUMBER_WEIGHTS[pair[0]] * NUMBER_WEIGHTS[pair[1]]) for pair in common]
        )
        fitting = [f for f in by_reading[reading] if self.fits(f, first, second)]
        return self.frame(fitting), first, second

    def attachment(self, tag: VerbTag, past: bool) -> Tree:
        """Ate udon with forks (VP) or with chicken (NP)."""
        (verb, noun, preposition, last, reading), first, second = self.attachment_frame()
        phrase = self.prepositional(preposition, self.noun_phrase(last, second))
        thing = self.noun_phrase(noun, first)
        return self.attach(self.verb(verb, tag), thing, phrase, reading, past)

    def attach(self, verb: Tree, noun: Tree, modifier: Tree, reading: str, past: bool) -> Tree:
        if reading == "VP":
            return Tree("VP", [verb, noun, modifier, *self.tail(past)])
        return Tree("VP", [verb, Tree("NP", [noun, modifier]), *self.tail(past)])

    def particle(self, tag: VerbTag, past: bool) -> Tree:
        """Picked up the book (PRT) or walked up the hill (PP)."""
        word = self.pick.choose(PARTICLE_WORDS)
        # Slightly more PRT, to make up for those that turn out to be unambiguous below.
        reading = "PRT" if self.pick.chance(0.54) else "PP"
        number: Number = self.pick.weighted([("singular", 7), ("plural", 3)])
        frames = [
            frame
            for frame in self.frames["particle"]
            if frame.columns[1::2] == (word, reading) and self.nouns(frame.columns[2], number)
        ]
        verb, _, noun, _ = self.frame(frames)
        phrase = self.noun_phrase(noun, number)
        if reading == "PP":
            children = [Tree("PP", [leaf("IN", word), phrase])]
        else:
            children = [flat("PRT", f"RP {word}"), phrase]
            if self.pick.chance(0.15):  # picked the book up
                children.reverse()
        return Tree("VP", [self.verb(verb, tag), *children, *self.tail(past)])

    # ---- clauses --------------------------------------------------------------------------------
    def short_subject(self) -> Tree:
        return self.name() if self.pick.chance(0.5) else self.noun_phrase("person", "singular")

    def complement(self, tag: VerbTag, past: bool) -> Tree:
        """Told the man that the dog slept (VP) or met the man that Anna hired (NP)."""
        reading = self.pick.choose(("VP", "NP"))
        frames = [f for f in self.frames["complement"] if f.columns[2] == reading]
        verb, noun, _ = self.frame(frames)
        inner = self.pick.choose(("speak", "rest")) if reading == "VP" else "hire"
        clause = Tree("S", [self.short_subject(), Tree("VP", [self.verb(inner, "VBD")])])
        that = leaf("IN", "that") if reading == "VP" else flat("WHNP", "WDT that")
        number: Number = self.pick.weighted([("singular", 7), ("plural", 3)])
        person = self.noun_phrase(noun, number)
        modifier = Tree("SBAR", [that, clause])
        if reading == "VP":
            return Tree("VP", [self.verb(verb, tag), person, modifier])
        return Tree("VP", [self.verb(verb, tag), Tree("NP", [person, modifier])])

    def infinitive(self, tag: VerbTag, past: bool) -> Tree:
        """Used a knife to cut bread (VP) or rejected a plan to repair the door (NP)."""
        reading = self.pick.choose(("VP", "NP"))
        frames = [f for f in self.frames["infinitive"] if f.columns[2] == reading]
        verb, noun, _ = self.frame(frames)
        number: Number = self.pick.weighted([("singular", 7), ("plural", 3)])
        phrase = self.noun_phrase(noun, number)
        aim, thing = self.frame(self.frames["purpose"])
        inner = Tree("VP", [self.verb(aim, "VB"), self.noun_phrase(thing)])
        purpose = self.to_infinitive(inner)
        if reading == "VP":
            return Tree("VP", [self.verb(verb, tag), phrase, purpose])
        return Tree("VP", [self.verb(verb, tag), Tree("NP", [*phrase, purpose])])

    def to_infinitive(self, inner: Tree) -> Tree:
        return Tree("S", [Tree("VP", [leaf("TO", "to"), inner])])

    # ---- coordination ---------------------------------------------------------------------------
    def coordination(self, tag: VerbTag, past: bool) -> Tree:
        """Rice with forks and spoons (VP), with eggs and beans (low), with eggs and tea (high)."""
        reading = self.pick.choose(("VP", "low", "high"))
        frames = [f for f in self.frames["coordination"] if f.columns[5] == reading]
        verb, noun, preposition, first, second, _ = self.frame(frames)
        phrase = self.noun_phrase(first)
        last = self.unlike(phrase, second)
        if reading == "high":
            modified = Tree("NP", [self.noun_phrase(noun), self.prepositional(preposition, phrase)])
            pair = self.both(modified, last, "NP")
            return Tree("VP", [self.verb(verb, tag), pair, *self.tail(past)])
        modifier = self.prepositional(preposition, self.both(phrase, last, "NP"))
        attachment = "VP" if reading == "VP" else "NP"
        return self.attach(self.verb(verb, tag), self.noun_phrase(noun), modifier, attachment, past)

    def scope(self, tag: VerbTag, past: bool) -> Tree:
        """Hungry dogs and cats (wide) or hungry dogs and lemons (narrow)."""
        reading = self.pick.choose(("wide", "narrow"))
        frames = [f for f in self.frames["scope"] if f.columns[2] == reading]
        first, second, _ = self.frame(frames)
        adjective = leaf("JJ", self.word("adjective", self.lexicon.group(first)))
        nouns = [leaf("NNS", self.noun(name, "plural")) for name in (first, second)]
        while nouns[0] == nouns[1]:
            nouns[1] = leaf("NNS", self.noun(second, "plural"))
        if reading == "wide":
            pair = Tree("NP", [adjective, nouns[0], leaf("CC", "and"), nouns[1]])
        else:
            pair = self.both(Tree("NP", [adjective, nouns[0]]), Tree("NP", [nouns[1]]), "NP")
        return Tree("VP", [self.verb("depict", tag), pair, *self.tail(past)])
