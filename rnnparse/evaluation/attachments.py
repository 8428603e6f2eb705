"""Are modifiers attached where the gold tree attaches them?

An *attachment* is a constituent with its place: (label, first word, label of the parent, first
word of the parent). In

    (S (NP They) (VP ate (NP udon) (PP with forks)))         PP at 3 attached to the VP at 1
    (S (NP They) (VP ate (NP (NP udon) (PP with chicken))))  PP at 3 attached to the NP at 2

the end of the parent and everything inside the modifier are left out, so that an error there does
not count as a wrong attachment as well.

Attachment is a *choice* if the modifier has words of its parent to the left and the gold tree
offers a second site: a phrase in the parent that ends where the modifier begins (the first tree's
NP), or a constituent above the parent that begins further left and that the modifier can reach
because it ends all constituents below it (the second tree's VP and S). A sentence-initial PP is no
choice, nor is the particle in (VP (VB pick) (PRT up) (NP it)).
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
    """A modifier and its site; words are counted from 0, punctuation included."""

    label: str
    start: int
    parent: str
    parent_start: int


@dataclass
class AttachmentScore:
    """How many of the gold trees' attachments the test trees share.

    Attributes:
        correct, total: over all labels. by_label: (correct, total) of each label asked for.
    """

    correct: int = 0
    total: int = 0
    by_label: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def accuracy(self) -> float | None:
        """Percentage of correct attachments, None if there was no choice anywhere."""
        return percentage(self.correct, self.total)


@dataclass
class _Phrase:
    """A constituent above the preterminals; `end` is set when it is complete."""

    label: str
    start: int
    parent: _Phrase | None
    end: int = -1


def score_attachments(
    gold: Sequence[Tree], test: Sequence[Tree], labels: Collection[str] = MODIFIERS
) -> AttachmentScore:
    """Count the attachments of the gold trees that are a choice, and those shared by test trees.

    Trees should be clean (no traces) and not binarized; function tags are ignored. A test tree
    without words shares nothing.

    Raises:
        TreebankError: different numbers of trees, or of words in a sentence.
    """
    if len(gold) != len(test):
        raise TreebankError(f"{len(gold)} gold trees and {len(test)} test trees do not pair up")
    score = AttachmentScore(by_label={label: (0, 0) for label in labels})
    for number, (ours, theirs) in enumerate(zip(gold, test, strict=True), start=1):
        sizes = _word_count(ours), _word_count(theirs)
        if sizes[1] and sizes[0] != sizes[1]:
            raise TreebankError(f"sentence {number}: {sizes[0]} gold words, {sizes[1]} test words")
        found = Counter(attachment for attachment, _ in attachment_sites(theirs, labels))
        for attachment, choice in attachment_sites(ours, labels):
            if not choice:
                continue
            shared = found[attachment] > 0
            found[attachment] -= shared
            correct, total = score.by_label[attachment.label]
            score.by_label[attachment.label] = (correct + shared, total + 1)
            score.correct += shared
            score.total += 1
    return score


def attachment_sites(
    tree: Tree, labels: Collection[str] = MODIFIERS
) -> list[tuple[Attachment, bool]]:
    """All attachments of constituents with these labels, each with whether it is a choice."""
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
        choice = phrase.start > parent.start and (inside or _could_be_higher(phrase, parent))
        result.append((place, choice))
    return result


def _could_be_higher(phrase: _Phrase, parent: _Phrase) -> bool:
    """Whether a constituent above the parent, with words further left, could take the phrase."""
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
    # Iterative, as trees may be deeper than Python's stack: nodes with their parents, and phrases
    # that end.
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
