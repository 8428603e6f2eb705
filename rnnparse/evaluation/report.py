"""Where two sets of trees differ: by label, by length, and by chance or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.errors import ConfigError, TreebankError
from rnnparse.evaluation.bracketing import Span, find_mismatch, read_pair
from rnnparse.evaluation.evalb import Evaluation, match_spans
from rnnparse.evaluation.params import EvalbParams
from rnnparse.evaluation.totals import OK, Totals, f_measure, percentage
from rnnparse.paired_bootstrap import F1Difference, compare, f1_scores, resampled_f1

if TYPE_CHECKING:
    from nltk.tree import Tree


@dataclass(frozen=True)
class LabelScore:
    """Counts and percentages of one label; None if nothing was counted."""

    label: str
    gold: int
    test: int
    matched: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class LengthScore:
    """Scores of the valid sentences of `low` to `high` words (no upper limit if None)."""

    low: int
    high: int | None
    sentences: int
    precision: float | None
    recall: float | None
    f1: float | None
    complete_match: float | None
    tagging_accuracy: float | None


@dataclass(frozen=True)
class BootstrapResult(F1Difference):
    """F1 of the first system minus F1 of the second, in points.

    Attributes:
        sentences: number of sentences for which both systems have valid trees.
        samples: number of resampled test sets.
    """

    sentences: int
    samples: int


def by_label(
    gold: Sequence[Tree], test: Sequence[Tree], params: EvalbParams | None = None
) -> list[LabelScore]:
    """Precision, recall and F1 of each label, the most frequent in gold first.

    Labels are compared even if `params.labeled` is False. Labels that `eq_labels` makes equal
    share a row, named for those that occur ("ADVP|PRT"), so that the rows add up to the totals
    of `evaluate`. Sentences in error or skipped do not count.

    Raises:
        TreebankError: the numbers of trees differ, or a tree is malformed.
    """
    params = replace(params or EvalbParams.collins(), labeled=True)
    group = _label_groups(params)
    counts: dict[str, Counter[str]] = {"gold": Counter(), "test": Counter(), "matched": Counter()}
    members: dict[str, set[str]] = {}
    for ours, theirs in _valid_pairs(gold, test, params):
        for side, spans in (("gold", ours), ("test", theirs)):
            for label, _, _ in spans:
                name = group.get(label, label)
                counts[side][name] += 1
                members.setdefault(name, set()).add(label)
        for i, _ in match_spans(ours, theirs, params):
            counts["matched"][group.get(ours[i][0], ours[i][0])] += 1
    rows = []
    for name in sorted(members, key=lambda name: (-counts["gold"][name], name)):
        of_gold, of_test, both = (counts[side][name] for side in ("gold", "test", "matched"))
        rows.append(
            LabelScore(
                label="|".join(sorted(members[name])),
                gold=of_gold,
                test=of_test,
                matched=both,
                precision=percentage(both, of_test),
                recall=percentage(both, of_gold),
                f1=f_measure(both, of_gold, of_test),
            )
        )
    return rows


def by_length(evaluation: Evaluation, bins: Sequence[int] = (10, 20, 30, 40)) -> list[LengthScore]:
    """Scores by sentence length.

    Args:
        bins: the longest length of each class but the last, increasing; (10, 20) makes the classes
            of 0-10 words, 11-20, and 21 or more.

    Raises:
        ConfigError: `bins` is empty or not increasing.
    """
    if not bins or any(b <= a for a, b in pairwise(bins)):
        raise ConfigError(f"length bins must be increasing numbers, not {list(bins)}")
    rows = []
    low = 0
    for high in [*bins, None]:
        totals = Totals.of(
            row
            for row in evaluation.sentences
            if low <= row.length and (high is None or row.length <= high)
        )
        rows.append(
            LengthScore(
                low=low,
                high=high,
                sentences=totals.valid,
                precision=percentage(totals.matched, totals.test),
                recall=percentage(totals.matched, totals.gold),
                f1=f_measure(totals.matched, totals.gold, totals.test),
                complete_match=percentage(totals.complete, totals.valid),
                tagging_accuracy=percentage(totals.correct_tags, totals.words),
            )
        )
        low = high + 1 if high is not None else low
    return rows


def paired_bootstrap(
    a: Evaluation, b: Evaluation, *, samples: int = 10_000, seed: int = 0
) -> BootstrapResult:
    """Compare the F1 of two systems on one test set; see `rnnparse.paired_bootstrap.compare`.

    Args:
        a, b: evaluations against the same gold trees, in the same order. Sentences that are valid
            in both count.
        samples: number of resampled test sets. seed: of NumPy's default generator.

    Raises:
        ConfigError: the evaluations differ in their sentences or share no valid one, or
            `samples` is below 1.
    """
    if [(row.id, row.length) for row in a.sentences] != [(r.id, r.length) for r in b.sentences]:
        raise ConfigError("the two evaluations are not of the same sentences")
    pairs = [
        [(2 * row.matched, row.gold + row.test) for row in pair]
        for pair in zip(a.sentences, b.sentences, strict=True)
        if all(row.status == OK for row in pair)
    ]
    if not pairs:
        raise ConfigError("no sentence is valid in both evaluations")
    if samples < 1:
        raise ConfigError(f"the number of samples must be at least 1, not {samples}")
    counts = np.asarray(pairs, np.float64).transpose(1, 2, 0)  # [systems, 2, sentences]
    one, other = f1_scores(counts)
    resampled = resampled_f1(counts, samples, np.random.default_rng(seed))
    result = compare(one - other, resampled[:, 0] - resampled[:, 1])
    return BootstrapResult(**vars(result), sentences=len(pairs), samples=samples)


def _valid_pairs(
    gold: Sequence[Tree], test: Sequence[Tree], params: EvalbParams
) -> Iterator[tuple[list[Span], list[Span]]]:
    """The gold and test brackets of each sentence that EVALB scores."""
    if len(gold) != len(test):
        raise TreebankError(f"{len(gold)} gold trees and {len(test)} test trees do not pair up")
    for number, (ours, theirs) in enumerate(zip(gold, test, strict=True), start=1):
        left, right = read_pair(ours, theirs, params, number)
        if right.words and not find_mismatch(left, right, params):
            yield left.spans(params), right.spans(params)


def _label_groups(params: EvalbParams) -> dict[str, str]:
    """The name of the group of each label in `eq_labels`; chains of pairs are one group."""
    group: dict[str, str] = {}
    for one, other in params.eq_labels:
        keep, drop = group.setdefault(one, one), group.setdefault(other, other)
        for label, name in group.items():
            if name == drop:
                group[label] = keep
    return group
