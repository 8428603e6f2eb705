"""Subjects, clauses and whole sentences of the embedded treebank."""

from __future__ import annotations

from collections.abc import Callable

from nltk.tree import Tree

from .lexicon import Number, VerbTag
from .phrases import flat, leaf
from .predicates import Content, Predicates

# How a clause in the past, or not, is expressed: name -> weight.
PAST_STYLES = (("VBD", 84), ("perfect", 8), ("negated", 8))
OTHER_STYLES = (("present", 35), ("modal", 65))
SUBORDINATORS = ("IN because", "IN while", "IN although", "WRB when")


class Sentences(Predicates):
    """Generates sentences; `sentence()` returns a tree rooted in TOP."""

    # ---- subjects -------------------------------------------------------------------------------
    def subject(self, human: bool = False) -> tuple[Tree, bool, str]:
        """A subject, whether it takes a plural verb, and its noun group (as in [suits])."""
        if self.pick.chance(0.11):
            return self.relative(human)
        if self.pick.chance(0.06):
            return self.simple_relative(human)
        kinds: list[tuple[Callable[[], tuple[Tree, bool]], float]] = [
            (self.pronoun, 34),
            (self.named, 26),
            (self.person, 28),
            (self.modified, 12),
        ]
        return *self.pick.weighted(kinds)(), "human"

    def pronoun(self) -> tuple[Tree, bool]:
        plural = self.pick.chance(0.5)
        word = self.word("pronoun", "plural" if plural else "singular")
        return flat("NP", f"PRP {word}"), plural

    def named(self) -> tuple[Tree, bool]:
        if self.pick.chance(0.15):
            first, second = (self.word("name", "person") for _ in range(2))
            return flat("NP", f"NNP {first} CC and NNP {second}"), True
        return self.name(), False

    def person(self) -> tuple[Tree, bool]:
        if self.pick.chance(0.2):
            return self.possessed("company"), False
        plural = self.pick.chance(0.3)
        return self.noun_phrase("person", "plural" if plural else "singular"), plural

    def modified(self) -> tuple[Tree, bool]:
        noun = self.noun_phrase("person", "singular")
        if self.pick.chance(0.4):
            place = flat("NP", f"NNP {self.word('name', 'place')}")
            return Tree("NP", [noun, self.prepositional("from", place)]), False
        feature = self.noun_phrase(self.pick.choose(("trait", "clothing")), "singular")
        return Tree("NP", [noun, self.prepositional("with", feature)]), False

    def relative_clause(self, group: str) -> Tree:
        """That barked, that bit the postman, that Anna fed: something only the group does."""
        alone, does, whom, done = self.groups[group]
        shape = self.pick.weighted([("alone", 5), ("object", 3), ("adverb", 2), ("patient", 4)])
        if shape == "patient":
            clause = [self.short_subject(), Tree("VP", [self.verb(done, "VBD")])]
        elif shape == "object":
            verb = self.verb(does, "VBD")
            clause = [Tree("VP", [verb, self.noun_phrase(whom, "singular")])]
        else:
            children = [self.verb(alone, "VBD")]
            if shape == "adverb":
                children.append(flat("ADVP", f"RB {self.word('adverb', 'noise')}"))
            clause = [Tree("VP", children)]
        return Tree("SBAR", [flat("WHNP", "WDT that"), Tree("S", clause)])

    def relative(self, human: bool = False) -> tuple[Tree, bool, str]:
        """The owner of the dog that barked (low) or that apologized (high)."""
        frames = self.frames["relative"]
        if human:
            frames = [f for f in frames if self.lexicon.group(f.columns[0]) == "human"]
        first, preposition, second = self.frame(frames)
        group = self.lexicon.group(first)
        determiner = "DT the" if preposition == "of" else None
        nouns = [
            self.noun_phrase(first, "singular", determiner),
            self.noun_phrase(second, "singular"),
        ]
        if self.pick.chance(0.5):
            modifier = self.prepositional(preposition, nouns[1])
            tree = Tree("NP", [nouns[0], modifier, self.relative_clause(group)])
        else:
            clause = self.relative_clause(self.lexicon.group(second))
            modifier = self.prepositional(preposition, Tree("NP", [nouns[1], clause]))
            tree = Tree("NP", [nouns[0], modifier])
        return tree, False, group

    def simple_relative(self, human: bool) -> tuple[Tree, bool, str]:
        noun = "person" if human else self.pick.choose(("person", "animal", "machine"))
        group = self.lexicon.group(noun)
        phrase = self.noun_phrase(noun, "singular")
        return Tree("NP", [phrase, self.relative_clause(group)]), False, group

    def natural(self, group: str) -> Content:
        """What a subject that is no person does."""

        def content(tag: VerbTag, past: bool) -> Tree:
            alone, does, whom, _ = self.groups[group]
            if self.pick.chance(0.5):
                children = [self.verb(does, tag), self.noun_phrase(whom, "singular")]
            else:
                children = [self.verb(alone, tag), self.beside()]
            return Tree("VP", [*children, *self.tail(past)])

        return content

    # ---- verb groups ----------------------------------------------------------------------------
    def finite(self, plural: bool, past: bool, content: Content, plainly: bool = False) -> Tree:
        """The content as a finite verb phrase; `plainly` leaves auxiliaries out."""
        style = self.pick.weighted(PAST_STYLES if past else OTHER_STYLES)
        if plainly:
            style = "VBD" if past else "present"
        if style == "VBD":
            return content("VBD", past)
        if style == "present":
            return content("VBP" if plural else "VBZ", past)
        if style == "modal":
            return Tree("VP", [leaf("MD", self.word("modal")), content("VB", past)])
        if style == "perfect":
            return Tree("VP", [leaf("VBD", "had"), content("VBN", past)])
        return Tree("VP", [leaf("VBD", "did"), leaf("RB", "not"), content("VB", past)])

    def met_relative(self, tag: VerbTag, past: bool) -> Tree:
        """Knew the owner of the dog that barked."""
        verb = self.verb("know", tag)
        return Tree("VP", [verb, self.relative()[0]])

    def wanting(self, tag: VerbTag, past: bool) -> Tree:
        inner = self.to_infinitive(self.predicate("VB", past))
        return Tree("VP", [self.verb("want", tag), inner])

    def saying(self, tag: VerbTag, past: bool) -> Tree:
        clause = self.clause(past)
        that = [leaf("IN", "that")] if self.pick.chance(0.7) else []
        return Tree("VP", [self.verb("say", tag), Tree("SBAR", [*that, clause])])

    def copula(self, plural: bool) -> Tree:
        verb = leaf("VBD", "were" if plural else "was")
        degree = [leaf("RB", self.word("adverb", "degree"))] if self.pick.chance(0.5) else []
        if self.pick.chance(0.4):
            return Tree("VP", [verb, Tree("ADJP", [*degree, self.adjective("mood")])])
        noun = self.noun_phrase(self.pick.choose(("animal", "gift", "topic")))
        children = [*degree, self.adjective("toward"), self.prepositional("of", noun)]
        return Tree("VP", [verb, Tree("ADJP", children)])

    def adjective(self, name: str) -> Tree:
        return leaf("JJ", self.word("adjective", name))

    # ---- clauses --------------------------------------------------------------------------------
    def clause(self, past: bool) -> Tree:
        """(S NP VP) without punctuation."""
        subject, plural, group = self.subject()
        if group == "human" and past and self.pick.chance(0.05):
            return Tree("S", [subject, self.copula(plural)])
        content = self.predicate if group == "human" else self.natural(group)
        verb_phrase = self.finite(plural, past, content)
        adverb = [self.manner()] if len(subject) == 1 and self.pick.chance(0.1) else []
        return Tree("S", [subject, *adverb, verb_phrase])

    def clause_with(self, past: bool, content: Content) -> Tree:
        """A person's wish, report or encounter, in a simple tense."""
        subject, plural, _ = self.subject(human=True)
        return Tree("S", [subject, self.finite(plural, past, content, plainly=True)])

    def subordinate(self, past: bool) -> Tree:
        tag, word = self.pick.choose(SUBORDINATORS).split()
        link = flat("WHADVP", f"WRB {word}") if tag == "WRB" else leaf(tag, word)
        subject, plural = self.person()
        verb_phrase = self.finite(plural, past, self.plain, plainly=True)
        return Tree("SBAR", [link, Tree("S", [subject, verb_phrase])])

    def opening(self, past: bool) -> Tree:
        roll = self.pick.choose(range(10))
        if roll < 4:
            return self.subordinate(past)
        if roll < 6:
            return flat("ADVP", f"RB {self.word('adverb', 'sentence')}")
        if roll < 8:
            return self.time(past)
        day = flat("NP", f"NNP {self.word('name', 'day')}")
        return self.prepositional("on", day)

    def passive(self) -> Tree:
        """The cake was cut with a knife."""
        reading = self.pick.choose(("VP", "NP"))
        (verb, noun, preposition, last, _), first, second = self.attachment_frame(reading)
        phrase = self.prepositional(preposition, self.noun_phrase(last, second))
        subject = self.noun_phrase(noun, first)
        inner = [self.verb(verb, "VBN")]
        if reading == "VP":
            inner.append(phrase)
        else:
            subject = Tree("NP", [subject, phrase])
            inner.append(self.prepositional("by", self.noun_phrase("person", "singular")))
        auxiliary = leaf("VBD", "were" if first == "plural" else "was")
        return Tree("S", [subject, Tree("VP", [auxiliary, Tree("VP", inner)])])

    def existential(self) -> Tree:
        number: Number = "plural" if self.pick.chance(0.5) else "singular"
        noun = self.noun_phrase(self.pick.choose(("animal", "machine", "person")), number)
        verb = leaf("VBD", "were" if number == "plural" else "was")
        return Tree("S", [flat("NP", "EX there"), Tree("VP", [verb, noun, self.beside()])])

    # ---- sentences ------------------------------------------------------------------------------
    def sentence(self) -> Tree:
        """A whole sentence, (TOP (S ... (. .)))."""
        past = self.pick.chance(0.88)
        kinds: list[tuple[Callable[[bool], Tree], float]] = [
            (self.clause, 66),
            (self.opened, 7),
            (self.trailed, 3),
            (self.compound, 3),
            (self.compound_verb, 4),
            (lambda past: self.clause_with(past, self.saying), 4),
            (lambda past: self.clause_with(past, self.wanting), 4),
            (lambda past: self.clause_with(past, self.met_relative), 4),
            (lambda past: self.passive(), 3),
            (lambda past: self.existential(), 1),
            (self.question, 3),
        ]
        tree = self.pick.weighted(kinds)(past)
        tree.append(leaf(".", "?" if tree.label() == "SQ" else "."))
        capitalise(tree)
        return Tree("TOP", [tree])

    def opened(self, past: bool) -> Tree:
        """In the morning, they ate udon."""
        opening = self.opening(past)
        return Tree("S", [opening, leaf(",", ","), *self.clause(past)])

    def trailed(self, past: bool) -> Tree:
        """They ate udon because they were hungry."""
        subject, plural, _ = self.subject(human=True)
        verb_phrase = self.finite(plural, past, self.plain)
        innermost = verb_phrase
        while innermost[-1].label() == "VP":
            innermost = innermost[-1]
        innermost.append(self.subordinate(past))
        return Tree("S", [subject, verb_phrase])

    def compound(self, past: bool) -> Tree:
        link = leaf("CC", self.pick.choose(("and", "but")))
        return Tree("S", [self.clause(past), leaf(",", ","), link, self.clause(past)])

    def compound_verb(self, past: bool) -> Tree:
        subject, plural, _ = self.subject(human=True)
        first = self.finite(plural, past, self.closed, plainly=True)
        second = self.finite(plural, past, self.predicate, plainly=True)
        return Tree("S", [subject, self.both(first, second, "VP")])

    def question(self, past: bool) -> Tree:
        subject, plural, _ = self.subject(human=True)
        if past:
            verb, tag = "Did", "VBD"
        else:
            verb, tag = ("Do", "VBP") if plural else ("Does", "VBZ")
        return Tree("SQ", [leaf(tag, verb), subject, self.predicate("VB", past)])


def capitalise(tree: Tree) -> None:
    position = tree.leaf_treeposition(0)
    word = str(tree[position])
    tree[position] = word[0].upper() + word[1:]
