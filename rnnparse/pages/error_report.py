"""A page about the errors of a parser on a test set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from rnnparse.error_sources import SHORT, ErrorSources
from rnnparse.evaluation.confusions import (
    Confusions,
    attachment_types,
    label_confusions,
    modifier_labels,
    tag_confusions,
    wrong_nodes,
)
from rnnparse.evaluation.report import by_label, by_length
from rnnparse.evaluation.totals import SentenceScore
from rnnparse.pages.rendering import inline_tree, rendered
from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.cleaning import words

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.evaluation.evalb import Evaluation

WORST = 20  # drawn sentences
BESIDE = 12  # most words of a sentence whose trees stand side by side
LONGEST = 15  # rows of a table of confusions
CLASSES = (
    (100.0, "100"),
    (90.0, "90 to 100"),
    (80.0, "80 to 90"),
    (60.0, "60 to 80"),
    (0.0, "below 60"),
)
"""Lowest F1 of the classes of sentences, and their names."""


@dataclass(frozen=True)
class Parsed:
    """A test set and the trees of a parser.

    Attributes:
        model, treebank: their names.
        evaluation: the scores; sentence i is `gold[i]`.
        gold: the gold trees as EVALB sees them.
        cleaned: the same, cleaned; None for trees without words.
        test: the trees of the parser.
        sources: where it loses F1.
    """

    model: str
    treebank: str
    evaluation: Evaluation
    gold: Sequence[Tree]
    cleaned: Sequence[Tree | None]
    test: Sequence[Tree]
    sources: ErrorSources


class _Worst(NamedTuple):
    """A sentence to draw."""

    number: int
    text: str
    f1: float
    wrong: tuple[int, int]
    is_wide: bool
    gold: Any
    test: Any


def error_page(parsed: Parsed) -> Iterator[str]:
    """The pieces of the page.

    Raises:
        MissingExtraError: svgling or Jinja2 is not installed.
    """
    evaluation, params = parsed.evaluation, parsed.evaluation.params
    cutoff = params.cutoff_len
    scores = {row.id: row.f1 for row in evaluation.sentences if row.f1 is not None}
    confusions = label_confusions(parsed.gold, parsed.test, params)
    context = {
        "title": f"Errors of {parsed.model} on {parsed.treebank}",
        "all": evaluation.totals().summary(),
        "short": evaluation.totals(cutoff).summary(),
        "cutoff": cutoff,
        "missing": {why: count for why, count in evaluation.missing().items() if count},
        "sources": parsed.sources,
        "short_words": SHORT,
        "labels": by_label(parsed.gold, parsed.test, params),
        "lengths": [row for row in by_length(evaluation) if row.sentences],
        "classes": _classes(list(scores.values())),
        "median": median(scores.values()) if scores else None,
        "mean": mean(scores.values()) if scores else None,
        "attachments": _attachments(parsed),
        "confusions": _most(confusions),
        "alone": [sum(n for kind, n in confusions.items() if not kind[side]) for side in (1, 0)],
        "tags": _most(tag_confusions(parsed.gold, parsed.test, params)),
        "worst": _worst(parsed, scores),
    }
    return rendered("errors.html.j2", context)


def _classes(scores: Sequence[float]) -> list[tuple[str, int, float]]:
    """Name, number and share in per cent of the sentences of each class of F1."""
    counts = [0] * len(CLASSES)
    for score in scores:
        counts[next(i for i, (low, _) in enumerate(CLASSES) if score >= low)] += 1
    total = max(len(scores), 1)
    return [(name, n, 100.0 * n / total) for (_, name), n in zip(CLASSES, counts, strict=True)]


def _attachments(parsed: Parsed) -> dict[str, Any]:
    """The table of attachments, by the parser and by the base PCFG."""
    triples = [
        (gold, test, pcfg)
        for (gold, test), pcfg in zip(
            (
                (gold, test)
                for gold, test in zip(parsed.cleaned, parsed.test, strict=True)
                if gold is not None
            ),
            parsed.sources.pcfg_trees,
            strict=True,
        )
        if test
    ]
    gold, test, pcfg = map(list, zip(*triples, strict=True)) if triples else ([], [], [])
    labels = modifier_labels(gold)
    types = attachment_types(gold, test, labels)
    base = {(t.label, t.parent): t.correct for t in attachment_types(gold, pcfg, labels)}
    return {
        "labels": labels,
        "types": types[:LONGEST],
        "base": base,
        "total": sum(t.total for t in types),
        "correct": sum(t.correct for t in types),
        "base_correct": sum(base.values()),
    }


def _most(confusions: Confusions) -> list[tuple[str, str, int]]:
    """The most frequent confusions of two labels."""
    both = Counter({kind: count for kind, count in confusions.items() if all(kind)})
    return [(gold, test, count) for (gold, test), count in both.most_common(LONGEST)]


def _worst(parsed: Parsed, scores: dict[int, float]) -> Iterator[_Worst]:
    """The sentences of lowest F1; among equals those with most wrong brackets."""

    def wrong(row: SentenceScore) -> int:
        return row.gold + row.test - 2 * row.matched

    rows = [row for row in parsed.evaluation.sentences if row.id in scores and wrong(row)]
    for row in sorted(rows, key=lambda row: (scores[row.id], -wrong(row)))[:WORST]:
        gold, test = parsed.gold[row.id - 1], parsed.test[row.id - 1]
        marked = wrong_nodes(gold, test, parsed.evaluation.params)
        assert marked is not None  # the sentence has a score
        yield _Worst(
            row.id,
            " ".join(map(unescape_token, words(gold))),
            scores[row.id],
            (row.gold - row.matched, row.test - row.matched),
            len(words(gold)) > BESIDE,
            inline_tree(gold, marked.gold),
            inline_tree(test, marked.test),
        )
