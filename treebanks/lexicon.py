"""Reads the word classes (`lexicon.txt`) and the frames (`frames.txt`) of the embedded treebank."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).resolve().parent
VOWELS = "aeiou"

Number = Literal["singular", "plural", "mass"]
NUMBERS: tuple[Number, ...] = ("singular", "plural", "mass")
VerbTag = Literal["VB", "VBD", "VBZ", "VBP", "VBN"]


@dataclass(frozen=True)
class Noun:
    """A noun's forms, None where it has none; a mass noun has neither singular nor plural."""

    singular: str | None
    plural: str | None
    mass: str | None
    group: str
    held_back: bool

    def form(self, number: Number) -> str | None:
        return {"singular": self.singular, "plural": self.plural, "mass": self.mass}[number]


@dataclass(frozen=True)
class Verb:
    """A verb's forms, keyed by Penn tag."""

    forms: dict[VerbTag, str]


@dataclass(frozen=True)
class Frame:
    """One line of a section of `frames.txt`."""

    columns: tuple[str, ...]
    weight: int


@dataclass
class Lexicon:
    """Word classes by name.

    Attributes:
        nouns, verbs: the words of each class.
        words: (kind, class) -> words, for every other kind; a `*` marks the held-back ones.
    """

    nouns: dict[str, list[Noun]] = field(default_factory=dict)
    verbs: dict[str, list[Verb]] = field(default_factory=dict)
    words: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def group(self, name: str) -> str:
        """The adjective group of a noun class (of its first line in the file)."""
        return self.nouns[name][0].group

    def noun_classes(self, form: str) -> tuple[str, ...]:
        """Names of the classes that contain the noun form."""
        return tuple(
            name
            for name, members in self.nouns.items()
            if any(form == noun.form(number) for noun in members for number in NUMBERS)
        )

    def verb_classes(self, form: str) -> tuple[str, ...]:
        """Names of the classes that contain the verb form."""
        return tuple(
            name
            for name, members in self.verbs.items()
            if any(form in verb.forms.values() for verb in members)
        )


def pluralise(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def parse_noun(entry: str, group: str) -> Noun:
    """`desk`, `fork+`, `knife:knives`, `:binoculars`, `udon~`; a star in front: held back."""
    held_back, entry = entry.startswith("*"), entry.lstrip("*")
    if entry.endswith("~"):
        return Noun(None, None, entry[:-1], group, held_back)
    if entry.endswith("+"):
        return Noun(entry[:-1], pluralise(entry[:-1]), None, group, held_back)
    singular, _, plural = entry.partition(":")
    return Noun(singular or None, plural or None, None, group, held_back)


def parse_verb(entry: str) -> Verb:
    """`repair` (regular) or `eat:ate:eaten` (base, past, participle)."""
    base, *irregular = entry.split(":")
    if base.endswith("e"):
        regular = base + "d"
    elif base.endswith("y") and base[-2] not in VOWELS:
        regular = base[:-1] + "ied"
    else:
        regular = base + "ed"
    past = irregular[0] if irregular else regular
    participle = irregular[1] if len(irregular) > 1 else past
    return Verb({"VB": base, "VBD": past, "VBZ": pluralise(base), "VBP": base, "VBN": participle})


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def load_lexicon(path: Path = FOLDER / "lexicon.txt") -> Lexicon:
    """Reads the word classes; the format is described at the top of the file."""
    lexicon = Lexicon()
    for line in _lines(path):
        head, _, entries = line.partition(" : ")
        head, _, group = head.partition(" / ")
        kind, name = head.split() if " " in head else (head, head)
        words = entries.split()
        if kind == "noun":
            nouns = [parse_noun(word, group) for word in words]
            lexicon.nouns.setdefault(name, []).extend(nouns)
        elif kind == "verb":
            lexicon.verbs.setdefault(name, []).extend(map(parse_verb, words))
        else:
            lexicon.words.setdefault((kind, name), []).extend(words)
    return lexicon


def load_frames(path: Path = FOLDER / "frames.txt") -> dict[str, list[Frame]]:
    """Reads the frames: section name -> lines in file order."""
    sections: dict[str, list[Frame]] = {}
    current: list[Frame] = []
    for line in _lines(path):
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
            continue
        columns = line.split()
        weight = int(columns.pop()) if columns[-1].isdigit() else 1
        current.append(Frame(tuple(columns), weight))
    return sections
