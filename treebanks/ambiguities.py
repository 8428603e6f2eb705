"""Finds the attachments of a tree that its tags leave open, from the tree alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nltk.tree import Tree

PREPOSITIONS = frozenset({"with", "in", "on", "from", "for", "to"})
PARTICLES = frozenset({"up", "down", "on", "off", "over", "in", "out"})


@dataclass(frozen=True)
class Site:
    """One ambiguous attachment.

    Attributes:
        kind: `with`, `in`, ... for prepositional phrases; `particle`, `relative`, `complement`,
            `infinitive`, `coordination`, `scope`.
        reading: the gold one; `VP` and `NP` name the parent of the modifier.
        tags: what a model of tags sees, with tags that the reading itself decides made equal.
        words: the words that decide: role -> lower-cased form.
    """

    kind: str
    reading: str
    tags: tuple[str, ...]
    words: tuple[tuple[str, str], ...]

    def word(self, role: str) -> str:
        return dict(self.words)[role]


def labels(tree: Tree) -> list[str]:
    return [child.label() if isinstance(child, Tree) else "" for child in tree]


def tags(*trees: Tree) -> tuple[str, ...]:
    return tuple(tag for tree in trees for _, tag in tree.pos())


def head_noun(phrase: Tree) -> str:
    """The last noun of the first base NP inside."""
    while labels(phrase)[0] == "NP":
        phrase = phrase[0]
    nouns = [child[0] for child in phrase if child.label().startswith("NN")]
    return str(nouns[-1]).lower() if nouns else str(phrase.leaves()[-1]).lower()


def is_base(phrase: Tree) -> bool:
    return bool(phrase.label() == "NP" and all(child.height() == 2 for child in phrase))


def has_common_noun(phrase: Tree) -> bool:
    return is_base(phrase) and labels(phrase)[-1] in ("NN", "NNS")


def _site(kind: str, reading: str, seen: tuple[str, ...], **words: str) -> Site:
    return Site(kind, reading, seen, tuple(sorted(words.items())))


def find_sites(tree: Tree) -> list[Site]:
    """The ambiguous attachments of a tree, outer nodes first."""
    sites: list[Site] = []
    passive: list[Tree] = []
    for node in tree.subtrees():
        if node.label() == "VP" and len(node) > 1 and labels(node)[0].startswith("VB"):
            if labels(node)[1] == "VP" and labels(node[1])[0] == "VBN" and node[0][0] != "had":
                passive.append(node[1])
            if not any(node is other for other in passive):
                sites.extend(_verb_sites(node))
        elif node.label() == "NP":
            sites.extend(_noun_sites(node))
    return sites


def _verb_sites(node: Tree) -> Iterator[Site]:
    verb, first = node[0], node[1]
    if first.label() in ("PRT", "PP"):
        yield from _particle(node)
        return
    if first.label() != "NP":
        return
    if is_base(first) and len(node) > 2:
        yield from _modifier(verb, first, node[2], "VP")
    elif labels(first) in (["NP", "PP"], ["NP", "SBAR"]) and is_base(first[0]):
        yield from _modifier(verb, first[0], first[1], "NP")
    elif labels(first)[-1] == "S" and len(first) > 1:
        yield from _modifier(verb, Tree("NP", first[:-1]), first[-1], "NP")
    elif labels(first) == ["NP", "CC", "NP"] and labels(first[0]) == ["NP", "PP"]:
        yield _coordination(verb, first[0][0], first[0][1], first[2], "high")


def _modifier(verb: Tree, noun: Tree, modifier: Tree, reading: str) -> Iterator[Site]:
    """What follows verb and object: a PP, a that-clause or an infinitive."""
    if not has_common_noun(noun):
        return
    fixed = {"verb": str(verb[0]).lower(), "object": head_noun(noun)}
    label = modifier.label()
    if label == "PP" and modifier[0][0] in PREPOSITIONS:
        inner = modifier[1]
        if labels(inner) == ["NP", "CC", "NP"]:
            kind = "VP" if reading == "VP" else "low"
            phrase = Tree("PP", [modifier[0], inner[0]])
            yield _coordination(verb, noun, phrase, inner[2], kind)
        elif has_common_noun(inner):
            seen = tags(verb, noun, modifier)
            yield _site(modifier[0][0], reading, seen, noun=head_noun(inner), **fixed)
    elif label == "SBAR" and modifier.leaves()[0] == "that":
        seen = (*tags(verb, noun), "that", *tags(modifier)[1:])
        yield _site("complement", reading, seen, inner=modifier.leaves()[-1], **fixed)
    elif label == "S":
        yield _site("infinitive", reading, tags(verb, noun, modifier), **fixed)


def _coordination(verb: Tree, noun: Tree, phrase: Tree, last: Tree, reading: str) -> Site:
    seen = (*tags(verb, noun, phrase), "CC", *tags(last))
    words = {"verb": str(verb[0]).lower(), "object": head_noun(noun)}
    words |= {"noun": head_noun(phrase[1]), "last": head_noun(last)}
    return _site("coordination", reading, seen, **words)


def _particle(node: Tree) -> Iterator[Site]:
    verb, first = node[0], node[1]
    word = first.leaves()[0]
    if first.label() == "PP" and word in PARTICLES:
        phrase = first[1]
    elif first.label() == "PRT" and len(node) > 2 and node[2].label() == "NP":
        phrase = node[2]
    else:
        return
    seen = (*tags(verb), word, *tags(phrase))
    words = {"verb": str(verb[0]).lower(), "particle": word, "noun": head_noun(phrase)}
    yield _site("particle", first.label(), seen, **words)


def _noun_sites(node: Tree) -> Iterator[Site]:
    if labels(node) == ["NP", "PP", "SBAR"]:
        yield _relative(node[0], node[1][0], node[1][1], node[2], "high")
    elif labels(node) == ["NP", "PP"] and labels(node[1][1]) == ["NP", "SBAR"]:
        yield _relative(node[0], node[1][0], node[1][1][0], node[1][1][1], "low")
    elif labels(node) == ["JJ", "NNS", "CC", "NNS"]:
        yield _scope(node.leaves(), "wide")
    elif labels(node) == ["NP", "CC", "NP"] and list(tags(node)) == ["JJ", "NNS", "CC", "NNS"]:
        yield _scope(node.leaves(), "narrow")


def _relative(first: Tree, word: Tree, second: Tree, clause: Tree, reading: str) -> Site:
    verb = next(sub[0] for sub in clause.subtrees() if sub.label().startswith("VB"))
    seen = tags(first, word, second, clause)
    words = {"first": head_noun(first), "second": head_noun(second), "verb": str(verb).lower()}
    return _site("relative", reading, seen, **words)


def _scope(words: list[str], reading: str) -> Site:
    adjective, first, _, second = (word.lower() for word in words)
    seen = ("JJ", "NNS", "CC", "NNS")
    return _site("scope", reading, seen, adjective=adjective, first=first, second=second)
