"""Attachment accuracy: are modifiers attached as in the gold tree?

An *attachment* is a constituent with its place: (label, first word, label of the parent, first
word of the parent). In

    (S (NP They) (VP ate (NP udon) (PP with forks)))         PP at 3 attached to the VP at 1
    (S (NP They) (VP ate (NP (NP udon) (PP with chicken))))  PP at 3 attached to the NP at 2

An attachment ignores the end of the parent and everything inside the modifier, so that an error
there does not also count as a wrong attachment.

An attachment is *ambiguous* if words of the parent precede the modifier and the gold tree offers a
second site: a phrase in the parent that ends where the modifier begins (the NP of the first tree),
or a constituent above the parent that begins further left, where the modifier ends all constituents
in between (the VP and S of the second tree). A sentence-initial PP is not ambiguous, nor is the
particle in (VP (VB pick) (PRT up) (NP it)).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rnnparse.errors import TreebankError
from rnnparse.evaluation.bracketing import trim_label
from rnnparse.evaluation.totals import percentage

if TYPE_CHECKING:
    from nltk.tree import Tree

MODIFIERS = ("PP", "SBAR", "PRT")


@dataclass(frozen=True)
class Attachment:
    """A modifier and its site; word positions count from 0 and include punctuation."""

    label: str
    start: int
    parent: str
    parent_start: int


@dataclass
class AttachmentScore:
    """How many of the gold trees' ambiguous attachments the test trees share.

    Attributes:
        correct, total: counts over all labels.
        by_label: (correct, total) for each requested label.
    """

    correct: int = 0
    total: int = 0
    by_label: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def accuracy(self) -> float | None:
        """Percentage of correct attachments; None if none is ambiguous."""
        return percentage(self.correct, self.total)


@dataclass
class _Phrase:
    """A constituent above the preterminals; `end` is set when its last word is known."""

    label: str
    start: int
    parent: _Phrase | None
    end: int = -1


def score_attachments(
    gold: Sequence[Tree], test: Sequence[Tree], labels: Collection[str] = MODIFIERS
) -> AttachmentScore:
    """Count the ambiguous attachments of the gold trees, and those that the test trees share.

    Trees should be clean (without traces) and not binarized; function tags are ignored. A test tree
    without words shares none.

    Raises:
        TreebankError: the numbers of trees differ, or the numbers of words in a sentence.
    """
    if len(gold) != len(test):
        raise TreebankError(f"{len(gold)} gold trees and {len(test)} test trees do not pair up")
    score = AttachmentScore(by_label={label: (0, 0) for label in labels})
    for number, (ours, theirs) in enumerate(zip(gold, test, strict=True), start=1):
        sizes = _word_count(ours), _word_count(theirs)
        if sizes[1] and sizes[0] != sizes[1]:
            raise TreebankError(f"sentence {number}: {sizes[0]} gold words, {sizes[1]} test words")
        theirs_left = Counter(attachment for attachment, _ in attachment_sites(theirs, labels))
        for attachment, ambiguous in attachment_sites(ours, labels):
            if not ambiguous:
                continue
            shared = theirs_left[attachment] > 0
            theirs_left[attachment] -= shared
            correct, total = score.by_label[attachment.label]
            score.by_label[attachment.label] = (correct + shared, total + 1)
            score.correct += shared
            score.total += 1
    return score


def attachment_sites(
    tree: Tree, labels: Collection[str] = MODIFIERS
) -> list[tuple[Attachment, bool]]:
    """All attachments of constituents with these labels, and whether each is ambiguous."""
    phrases = _phrases(tree)
    starts_by_end: dict[int, list[int]] = {}
    for phrase in phrases:
        starts_by_end.setdefault(phrase.end, []).append(phrase.start)
    result = []
    for phrase in phrases:
        parent = phrase.parent
        if parent is None or phrase.label not in labels:
            continue
        place = Attachment(phrase.label, phrase.start, parent.label, parent.start)
        inside = any(
            parent.start <= start < phrase.start for start in starts_by_end.get(phrase.start, [])
        )
        ambiguous = phrase.start > parent.start and (inside or _could_be_higher(phrase, parent))
        result.append((place, ambiguous))
    return result


def _could_be_higher(phrase: _Phrase, parent: _Phrase) -> bool:
    """Whether a constituent above the parent that begins further left could take the phrase."""
    site = parent
    while site.end == phrase.end and site.parent is not None:
        site = site.parent
        if site.start < parent.start:
            return True
    return False


def _phrases(tree: Tree) -> list[_Phrase]:
    """The constituents that are not preterminals, in the order in which they begin."""
    phrases: list[_Phrase] = []
    position = 0
    # Iterative, because trees may be deeper than Python's stack. Entries are nodes with their
    # parents, and phrases that end.
    pending: list[tuple[Tree | str, _Phrase | None] | _Phrase] = [(tree, None)]
    while pending:
        entry = pending.pop()
        if isinstance(entry, _Phrase):
            entry.end = position
            continue
        node, parent = entry
        if isinstance(node, str) or (len(node) == 1 and isinstance(node[0], str)):
            position += 1
            continue
        phrase = _Phrase(trim_label(str(node.label())), position, parent)
        phrases.append(phrase)
        pending.append(phrase)
        pending.extend((child, phrase) for child in reversed(node))
    return phrases


def _word_count(tree: Tree) -> int:
    count, pending = 0, [tree]
    while pending:
        for child in pending.pop():
            if isinstance(child, str):
                count += 1
            else:
                pending.append(child)
    return count
