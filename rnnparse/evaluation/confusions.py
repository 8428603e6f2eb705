"""What is wrong in test trees: labels and tags that are confused, brackets, attachments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from rnnparse.evaluation.attachments import MODIFIERS, attachment_sites
from rnnparse.evaluation.bracketing import find_mismatch, read_pair, trim_label
from rnnparse.evaluation.evalb import match_spans
from rnnparse.evaluation.params import EvalbParams

if TYPE_CHECKING:
    from nltk.tree import Tree

MISSING = ""
"""Stands for a bracket or attachment that one of the trees lacks."""

Confusions = Counter[tuple[str, str]]
"""How often a gold label was replaced by another."""


@dataclass(frozen=True)
class AttachmentType:
    """Ambiguous attachments of one label to one kind of site.

    Attributes:
        label: of the modifier.
        parent: label of the gold site.
        total, correct: number of attachments in the gold trees, and of those in the test trees.
        instead: labels of the test trees' sites where they differ, the most frequent first, with
            their numbers; `MISSING` if the test tree has no such modifier.
    """

    label: str
    parent: str
    total: int
    correct: int
    instead: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class WrongNodes:
    """The wrong brackets of a sentence: numbers of nodes in pre-order, words included."""

    gold: frozenset[int]
    test: frozenset[int]


def label_confusions(
    gold: Sequence[Tree], test: Sequence[Tree], params: EvalbParams | None = None
) -> Confusions:
    """Of each wrong gold bracket, its label and that of a wrong test bracket over the same words.

    `MISSING` replaces the label if there is no such bracket, on either side.

    Raises:
        TreebankError: a tree is malformed.
    """
    params = params or EvalbParams.collins()
    counts: Confusions = Counter()
    for ours, theirs in _pairs(gold, test, params):
        left, right = ours.spans(params), theirs.spans(params)
        matched = match_spans(left, right, params)
        free: dict[tuple[int, int], list[str]] = {}
        for place in sorted(set(range(len(right))) - {j for _, j in matched}):
            label, start, end = right[place]
            free.setdefault((start, end), []).append(label)
        for place in sorted(set(range(len(left))) - {i for i, _ in matched}):
            label, start, end = left[place]
            others = free.get((start, end))
            counts[label, others.pop(0) if others else MISSING] += 1
        for labels in free.values():
            counts.update((MISSING, label) for label in labels)
    return counts


def tag_confusions(
    gold: Sequence[Tree], test: Sequence[Tree], params: EvalbParams | None = None
) -> Confusions:
    """Gold and test tags of the words whose tag is wrong.

    Raises:
        TreebankError: a tree is malformed.
    """
    params = params or EvalbParams.collins()
    counts: Confusions = Counter()
    for ours, theirs in _pairs(gold, test, params):
        for one, other in zip(ours.tags, theirs.tags, strict=True):
            if not params.labels_equal(one, other):
                counts[one, other] += 1
    return counts


def wrong_nodes(gold: Tree, test: Tree, params: EvalbParams | None = None) -> WrongNodes | None:
    """The brackets of two trees that do not match; None if EVALB does not score the sentence.

    Raises:
        TreebankError: a tree is malformed.
    """
    params = params or EvalbParams.collins()
    for ours, theirs in _pairs([gold], [test], params):
        matched = match_spans(ours.spans(params), theirs.spans(params), params)
        wrong = []
        for side, (bracketing, tree) in enumerate(((ours, gold), (theirs, test))):
            counted = [
                number
                for number, counts in zip(_phrases(tree), bracketing.prepare(params), strict=True)
                if counts
            ]
            right = {pair[side] for pair in matched}
            wrong.append(frozenset(n for place, n in enumerate(counted) if place not in right))
        return WrongNodes(*wrong)
    return None


def modifier_labels(gold: Sequence[Tree]) -> list[str]:
    """The labels to look at for attachments: `MODIFIERS`, or all of a treebank without these."""
    inner = (node for tree in gold for node in islice(_nodes(tree), 1, None))  # without roots
    labels = {trim_label(str(node.label())) for node in inner}
    usual = [label for label in MODIFIERS if label in labels]
    return usual or sorted(labels)


def attachment_types(
    gold: Sequence[Tree], test: Sequence[Tree], labels: Collection[str]
) -> list[AttachmentType]:
    """The gold trees' ambiguous attachments by label and site, the most frequent first.

    Args:
        gold, test: clean trees, not binarized, with the same words.
        labels: of the modifiers.
    """
    total: Confusions = Counter()
    correct: Confusions = Counter()
    instead: dict[tuple[str, str], Counter[str]] = {}
    for ours, theirs in zip(gold, test, strict=True):
        free = Counter(attachment for attachment, _ in attachment_sites(theirs, labels))
        sites: dict[tuple[str, int], list[str]] = {}
        for attachment in free:
            sites.setdefault((attachment.label, attachment.start), []).append(attachment.parent)
        for attachment, ambiguous in attachment_sites(ours, labels):
            if not ambiguous:
                continue
            kind = attachment.label, attachment.parent
            total[kind] += 1
            if free[attachment] > 0:
                free[attachment] -= 1
                correct[kind] += 1
            else:
                others = sites.get((attachment.label, attachment.start), [MISSING])
                instead.setdefault(kind, Counter())[others[0]] += 1
    return [
        AttachmentType(
            *kind, count, correct[kind], tuple(instead.get(kind, Counter()).most_common())
        )
        for kind, count in total.most_common()
    ]


def _pairs(gold: Sequence[Tree], test: Sequence[Tree], params: EvalbParams) -> Iterator[tuple]:
    """The bracketings of each sentence that EVALB scores."""
    for number, (ours, theirs) in enumerate(zip(gold, test, strict=True), start=1):
        left, right = read_pair(ours, theirs, params, number)
        if right.words and not find_mismatch(left, right, params):
            yield left, right


def _nodes(tree: Tree) -> Iterator[Tree]:
    """The phrases of a tree in pre-order, without tags."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if not (isinstance(node, str) or (len(node) == 1 and isinstance(node[0], str))):
            yield node
            pending.extend(reversed(node))


def _phrases(tree: Tree) -> list[int]:
    """Numbers of the phrases in pre-order, where tags and words count."""
    phrases, number, pending = [], 0, [tree]
    while pending:
        node = pending.pop()
        if not isinstance(node, str):
            if not (len(node) == 1 and isinstance(node[0], str)):
                phrases.append(number)
            pending.extend(reversed(node))
        number += 1
    return phrases
