"""Rows of an evaluation and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

OK, ERROR, SKIPPED = 0, 1, 2

REASONS = ("length mismatch", "word mismatch", "unbalanced brackets", "no tree")
"""Reasons why a sentence is missing from the totals. Lengths and words are compared after deletion.
A test tree without remaining words is `no tree`."""

OTHER_LENGTH, OTHER_WORDS, LEFT_OPEN, NO_TREE = REASONS


@dataclass(frozen=True)
class SentenceScore:
    """One row of EVALB's table.

    Attributes:
        id: number of the sentence, from 1.
        length: words of the gold tree (all but those of `delete_labels_for_length`).
        status: 0 scored, 1 error (gold and test differ in their words), 2 skipped (the test tree
            has no words); only scored sentences enter the totals.
        matched, gold, test: number of brackets; crossing: test brackets that cross a gold one.
        words, correct_tags: words that are not deleted, and those with the gold tag.
        reason: why the sentence is not scored, one of `REASONS`; empty if it is.
    """

    id: int
    length: int
    status: int
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    reason: str = ""

    @property
    def f1(self) -> float | None:
        """F1 of the sentence in per cent, 100 without brackets; None if it is not scored."""
        if self.status != OK:
            return None
        return f_measure(self.matched, self.gold, self.test) if self.gold + self.test else 100.0


@dataclass
class Totals:
    """Sums over sentences; all but `sentences`, `errors`, `skipped` over the valid ones only."""

    sentences: int = 0
    errors: int = 0
    skipped: int = 0
    matched: int = 0
    gold: int = 0
    test: int = 0
    complete: int = 0
    crossing: int = 0
    no_crossing: int = 0
    two_or_less_crossing: int = 0
    words: int = 0
    correct_tags: int = 0

    @classmethod
    def of(cls, rows: Iterable[SentenceScore]) -> Totals:
        totals = cls()
        for row in rows:
            totals.add(row)
        return totals

    def add(self, row: SentenceScore) -> None:
        self.sentences += 1
        if row.status != OK:
            self.errors += row.status == ERROR
            self.skipped += row.status == SKIPPED
            return
        self.matched += row.matched
        self.gold += row.gold
        self.test += row.test
        self.complete += row.gold == row.test == row.matched
        self.crossing += row.crossing
        self.no_crossing += row.crossing == 0
        self.two_or_less_crossing += row.crossing <= 2
        self.words += row.words
        self.correct_tags += row.correct_tags

    @property
    def valid(self) -> int:
        return self.sentences - self.errors - self.skipped

    def summary(self) -> dict[str, Any]:
        """The numbers by name; percentages are 0-100, or None if nothing was counted."""
        return {
            "f1": f_measure(self.matched, self.gold, self.test),
            "precision": percentage(self.matched, self.test),
            "recall": percentage(self.matched, self.gold),
            "complete_match": percentage(self.complete, self.valid),
            "average_crossing": self.crossing / self.valid if self.valid else None,
            "no_crossing": percentage(self.no_crossing, self.valid),
            "two_or_less_crossing": percentage(self.two_or_less_crossing, self.valid),
            "tagging_accuracy": percentage(self.correct_tags, self.words),
            "sentences": self.sentences,
            "errors": self.errors,
            "skipped": self.skipped,
            "valid": self.valid,
            "matched_brackets": self.matched,
            "gold_brackets": self.gold,
            "test_brackets": self.test,
            "crossing_brackets": self.crossing,
            "words": self.words,
            "correct_tags": self.correct_tags,
        }


def percentage(part: int, whole: int) -> float | None:
    """100 part / whole, None if whole is 0."""
    return 100.0 * part / whole if whole else None


def f_measure(matched: int, gold: int, test: int) -> float | None:
    """F1 = 2 matched / (gold + test) in percent, None if there are no brackets at all.

    Equal to 2PR/(P+R), and 0 where that is 0/0 although there were brackets to match (EVALB
    prints -nan there).
    """
    return percentage(2 * matched, gold + test)
