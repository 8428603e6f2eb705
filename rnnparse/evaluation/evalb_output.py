"""The text that EVALB prints, character for character."""

from __future__ import annotations

from collections.abc import Sequence

from rnnparse.evaluation.bracketing import Bracketing
from rnnparse.evaluation.totals import SentenceScore, Totals

RULE = "=" * 76 + "\n"
HEAD = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag\n"
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy\n" + RULE
)
# 0/0 as glibc prints it on x86-64; Python's nan has no sign.
NOT_A_NUMBER = "  -nan"


def _ratio(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole > 0 else 0.0


def format_row(row: SentenceScore) -> str:
    """The row of a sentence; a number wider than its column shifts the rest, as in C."""
    return (
        f"{row.id:4d}  {row.length:3d}    {row.status:d}  "
        f"{_ratio(row.matched, row.gold):6.2f} {_ratio(row.matched, row.test):6.2f}   "
        f"{row.matched:3d}    {row.gold:3d}  {row.test:3d}    {row.crossing:3d}"
        f"   {row.words:4d}  {row.correct_tags:4d}   {_ratio(row.correct_tags, row.words):6.2f}\n"
    )


def format_totals(everything: Totals, short: Totals, cutoff_len: int) -> str:
    """The line of sums and the two summaries below the rows."""
    sums = ""
    if everything.gold > 0 and everything.test > 0:
        sums = (
            f"                {_ratio(everything.matched, everything.gold):6.2f} "
            f"{_ratio(everything.matched, everything.test):6.2f} {everything.matched:6d} "
            f"{everything.gold:5d} {everything.test:5d}  {everything.crossing:5d}"
        )
    sums += (
        f"  {everything.words:5d} {everything.correct_tags:5d}   "
        f"{_ratio(everything.correct_tags, everything.words):6.2f}\n"
    )
    return (
        f"{RULE}{sums}=== Summary ===\n"
        f"\n-- All --\n{_format_summary(everything)}"
        f"\n-- len<={cutoff_len} --\n{_format_summary(short)}"
    )


def _format_summary(totals: Totals) -> str:
    recall = _ratio(totals.matched, totals.gold)
    precision = _ratio(totals.matched, totals.test)
    f_measure = NOT_A_NUMBER
    if precision + recall > 0:
        # EVALB's order of operations, so that the last digit rounds alike.
        f_measure = f"{2 * precision * recall / (precision + recall):6.2f}"
    crossing = totals.crossing / totals.valid if totals.valid > 0 else 0.0
    return (
        f"Number of sentence        = {totals.sentences:6d}\n"
        f"Number of Error sentence  = {totals.errors:6d}\n"
        f"Number of Skip  sentence  = {totals.skipped:6d}\n"
        f"Number of Valid sentence  = {totals.valid:6d}\n"
        f"Bracketing Recall         = {recall:6.2f}\n"
        f"Bracketing Precision      = {precision:6.2f}\n"
        f"Bracketing FMeasure       = {f_measure}\n"
        f"Complete match            = {_ratio(totals.complete, totals.valid):6.2f}\n"
        f"Average crossing          = {crossing:6.2f}\n"
        f"No crossing               = {_ratio(totals.no_crossing, totals.valid):6.2f}\n"
        f"2 or less crossing        = {_ratio(totals.two_or_less_crossing, totals.valid):6.2f}\n"
        f"Tagging accuracy          = {_ratio(totals.correct_tags, totals.words):6.2f}\n"
    )


def format_dump(
    gold: Bracketing,
    test: Bracketing,
    tag_results: Sequence[int],
    gold_results: Sequence[int],
    test_results: Sequence[int],
) -> str:
    """The words and brackets of both trees, as DEBUG 1 prints them below a row.

    Args:
        tag_results: per word 1 right, 0 wrong, 9 not compared.
        gold_results, test_results: per bracket 1 matched, 0 not, 5 deleted, 9 not compared.
    """
    lines = [
        f"-<1>---(wn1={len(gold.words):3d}, bn1={len(gold.labels):3d})-           "
        f"-<2>---(wn2={len(test.words):3d}, bn2={len(test.labels):3d})-\n"
    ]
    for number in range(max(len(gold.words), len(test.words))):
        left = _dump_word(gold, number, tag_results)
        right = _dump_word(test, number, tag_results)
        lines.append(f"{left + '      ' if left else ' ' * 40}{right}\n")
    lines.append("\n")
    for number in range(max(len(gold.labels), len(test.labels))):
        left = _dump_bracket(gold, number, gold_results)
        right = _dump_bracket(test, number, test_results)
        lines.append(f"{left + '      ' if left else ' ' * 32}{right}\n")
    lines.append("\n========\n")
    return "".join(lines)


def _dump_word(side: Bracketing, number: int, results: Sequence[int]) -> str:
    if number >= len(side.words) or not side.words[number]:
        return ""
    result = results[number] if results else 9
    return f"{number:3d} : {result} : {side.tags[number]:<6s}  {side.words[number]:<16s}"


def _dump_bracket(side: Bracketing, number: int, results: Sequence[int]) -> str:
    if number >= len(side.labels):
        return ""
    result = results[number] if results else 9
    start, end = side.starts[number], side.ends[number]
    return f"{number:3d} : {result} : {start:3d}  {end:3d}  {side.labels[number]:<6s}"
