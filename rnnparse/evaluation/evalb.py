"""EVALB's scoring of constituency trees, in files (as the C program does) or as `nltk.Tree`.

A bracket is a constituent: a label and the words that it covers. Words with certain tags
(punctuation) are first deleted from both trees, so that the placement of punctuation does not
count. Recall and precision are the shares of gold and test brackets that match; a test
bracket *crosses* if it overlaps some gold bracket without either containing the other.

Reference: S. Sekine and M. J. Collins, EVALB, 1997-2013; E. Black et al., "A procedure for
quantitatively comparing the syntactic coverage of English grammars", 1991.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from rnnparse.errors import ConfigError, TreebankError
from rnnparse.evaluation.bracketing import (
    LENGTH,
    Bracketing,
    Span,
    deciding_tags,
    find_mismatch,
    read_line,
    read_pair,
    read_tree,
)
from rnnparse.evaluation.evalb_output import HEAD, format_dump, format_row, format_totals
from rnnparse.evaluation.params import EvalbParams
from rnnparse.evaluation.totals import (
    ERROR,
    LEFT_OPEN,
    NO_TREE,
    OK,
    OTHER_LENGTH,
    OTHER_WORDS,
    REASONS,
    SKIPPED,
    SentenceScore,
    Totals,
)

if TYPE_CHECKING:
    from nltk.tree import Tree

PathLike = str | os.PathLike[str]

_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


@dataclass(repr=False)
class Evaluation:
    """The result of comparing test trees with gold trees.

    Attributes:
        params: EVALB parameters of the comparison.
        sentences: one row per sentence.
        messages: EVALB's messages about error sentences, as "12 : Words unmatch (is|was)".
        stopped: True if there were more than `max_error` errors; the rows end there.
        dumps: words and brackets of each sentence as text, only with `params.debug`.
    """

    params: EvalbParams
    sentences: list[SentenceScore] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    stopped: bool = False
    dumps: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        f1 = self.summary()["f1"]
        shown = "None" if f1 is None else f"{f1:.2f}"
        return f"Evaluation(f1={shown}, {len(self.sentences)} sentences)"

    def totals(self, max_length: int | None = None) -> Totals:
        """Sums over all sentences, or over those of at most `max_length` words."""
        return Totals.of(
            row for row in self.sentences if max_length is None or row.length <= max_length
        )

    def summary(self) -> dict[str, Any]:
        """The summary as a dict that JSON can hold.

        Percentages are floats from 0 to 100, or None if nothing was counted. The key "len<=40" (or
        whatever `params.cutoff_len` is) holds the same for the sentences of at most that length.
        """
        cutoff = self.params.cutoff_len
        return {**self.totals().summary(), f"len<={cutoff}": self.totals(cutoff).summary()}

    def missing(self) -> dict[str, int]:
        """How many sentences are missing from the totals for each of `totals.REASONS`."""
        return {reason: sum(row.reason == reason for row in self.sentences) for reason in REASONS}

    def format_table(self) -> str:
        """What EVALB prints on standard output; after a stop, only the rows up to there."""
        parts = [HEAD]
        for index, row in enumerate(self.sentences):
            parts.append(format_row(row))
            if self.dumps:
                parts.append(self.dumps[index])
        if not self.stopped:
            cutoff = self.params.cutoff_len
            parts.append(format_totals(self.totals(), self.totals(cutoff), cutoff))
        return "".join(parts)

    def _report(self, number: int, text: str, max_error: int | None) -> bool:
        """Add a message; True if there are now too many errors."""
        self.messages.append(f"{number} : {text}")
        # EVALB compares the count before it adds the new error: with 10 it stops at the 12th.
        self.stopped = max_error is not None and len(self.messages) - 1 > max_error
        return self.stopped

    def _add(
        self, number: int, gold: Bracketing, test: Bracketing, max_error: int | None = None
    ) -> bool:
        """Score a pair as sentence `number`; False if its errors stop the run."""
        row, problems, dump = _compare(number, gold, test, self.params)
        if any(self._report(number, problem, max_error) for problem in problems):
            return False
        self.sentences.append(row)
        if self.params.debug:
            self.dumps.append(dump)
        return True


def evaluate(
    gold: Sequence[Tree], test: Sequence[Tree], params: EvalbParams | None = None
) -> Evaluation:
    """Score trees in memory by EVALB's rules, with COLLINS parameters by default.

    Errors, however many, do not stop it.

    Args:
        gold, test: trees in the same order, preterminals as `Tree(tag, [word])`. A test tree
            without words stands for a sentence that was not parsed, and is skipped.
        params: `EvalbParams.collins()` by default.

    Raises:
        TreebankError: the numbers of trees differ, or a word has siblings in its tree.

    Example:
        >>> from nltk.tree import Tree
        >>> gold = Tree.fromstring("(TOP (S (NP (NN rain)) (VP (VBZ falls))))")
        >>> evaluate([gold], [gold]).summary()["f1"]
        100.0
    """
    if len(gold) != len(test):
        raise TreebankError(
            f"{len(gold)} gold trees cannot be compared with {len(test)} test trees"
        )
    evaluation = Evaluation(EvalbParams.collins() if params is None else params)
    for number, (ours, theirs) in enumerate(zip(gold, test, strict=True), start=1):
        evaluation._add(number, *read_pair(ours, theirs, evaluation.params, number))
    return evaluation


def evaluate_files(
    gold_path: PathLike,
    test_path: PathLike,
    params: EvalbParams,
    *,
    max_error: int | None = None,
    encoding: str | None = None,
) -> Evaluation:
    """Score a file of trees against a file of gold trees by EVALB's rules, one tree per line.

    Args:
        max_error: overrides `params.max_error`. The run stops, with `stopped` set, at error
            `max_error` + 2. Errors are different words, different numbers of words, unclosed
            brackets and different numbers of lines.
        encoding: encoding of both files; None for UTF-8 with arbitrary other bytes, as in EVALB.

    Raises:
        TreebankError: a file cannot be read or is empty, or a line is malformed (file:line:column).
    """
    limit = params.max_error if max_error is None else max_error
    evaluation = Evaluation(params)
    gold_lines, test_lines = (_lines(path, encoding) for path in (gold_path, test_path))
    number = 0
    for number, line in enumerate(gold_lines, start=1):
        gold = read_line(line, params, str(gold_path), number)
        test_line = next(test_lines, None)
        if test_line is None:
            if not (gold.problem and evaluation._report(number, gold.problem, limit)):
                evaluation._report(number, _UNEQUAL.format("gold"), limit)
            return evaluation
        deciding = deciding_tags(gold, params)
        test = read_line(test_line, params, str(test_path), number, deciding)
        if not evaluation._add(number, gold, test, limit):
            return evaluation
    if next(test_lines, None) is not None:
        evaluation._report(number + 1, _UNEQUAL.format("test"), limit)
    return evaluation


def evalb_files(
    gold_path: PathLike,
    test_path: PathLike,
    params: EvalbParams,
    *,
    max_error: int | None = None,
    encoding: str | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Print EVALB's table and messages for two files of trees, and return its exit status.

    Args:
        max_error: overrides `params.max_error`, like EVALB's option -e.
        encoding: as for `evaluate_files`; the output is in UTF-8.
        out, err: streams for the table and the messages; default standard output and error.

    Returns:
        0, or 1 if too many errors stopped the run (the table then has no summary).

    Raises:
        TreebankError: as `evaluate_files`, before anything is printed.
    """
    evaluation = evaluate_files(
        gold_path, test_path, params, max_error=max_error, encoding=encoding
    )
    _write(err or sys.stderr, "".join(f"{message}\n" for message in evaluation.messages))
    _write(out or sys.stdout, evaluation.format_table())
    return 1 if evaluation.stopped else 0


def spans(tree: Tree, params: EvalbParams | None = None) -> list[Span]:
    """The counted brackets of a tree as (label, start, end), in the order in which they open.

    Labels are trimmed (NP-SBJ -> NP); words are counted without the deleted ones, ends are
    exclusive. `params` is `EvalbParams.collins()` by default.

    Raises:
        TreebankError: a word has siblings.
    """
    params = EvalbParams.collins() if params is None else params
    return read_tree(tree, params).spans(params)


def match_spans(
    gold: Sequence[Span], test: Sequence[Span], params: EvalbParams
) -> list[tuple[int, int]]:
    """Pairs of indices of matching brackets; each gold bracket takes the first free test bracket.

    The order matters only if `eq_labels` makes one label equal to several others.
    """
    free: dict[tuple[int, int], list[int]] = {}
    for j, (_, start, end) in enumerate(test):
        free.setdefault((start, end), []).append(j)
    pairs = []
    for i, (label, start, end) in enumerate(gold):
        candidates = free.get((start, end), [])
        for j in candidates:
            if not params.labeled or params.labels_equal(label, test[j][0]):
                pairs.append((i, j))
                candidates.remove(j)
                break
    return pairs


def count_crossing(gold: Sequence[Span], test: Sequence[Span]) -> int:
    """Number of test brackets that cross at least one gold bracket."""
    edges = {(start, end) for _, start, end in gold}
    crossing = 0
    for _, start, end in test:
        for gold_start, gold_end in edges:
            if gold_start < start < gold_end < end or start < gold_start < end < gold_end:
                crossing += 1
                break
    return crossing


_UNEQUAL = "Number of lines unmatch (too many lines in {} file)"


def _compare(
    number: int, gold: Bracketing, test: Bracketing, params: EvalbParams
) -> tuple[SentenceScore, list[str], str]:
    """Score one sentence: its row, EVALB's messages about it, and (when debugging) a dump."""
    problems = [side.problem for side in (gold, test) if side.problem]
    if not test.words:
        row = SentenceScore(number, gold.length, SKIPPED, reason=NO_TREE)
        return row, problems, format_dump(gold, test, [], [], []) if params.debug else ""
    mismatch = find_mismatch(gold, test, params)
    if mismatch:
        reason = OTHER_LENGTH if mismatch.startswith(LENGTH) else OTHER_WORDS
        row = SentenceScore(number, gold.length, ERROR, reason=reason)
        dump = format_dump(gold, test, [], [], []) if params.debug else ""
        return row, [*problems, mismatch], dump
    gold_spans, test_spans = gold.spans(params), test.spans(params)
    pairs = match_spans(gold_spans, test_spans, params)
    tags = [int(params.labels_equal(a, b)) for a, b in zip(gold.tags, test.tags, strict=True)]
    row = SentenceScore(
        id=number,
        length=gold.length,
        status=ERROR if problems else OK,
        matched=len(pairs),
        gold=len(gold_spans),
        test=len(test_spans),
        crossing=count_crossing(gold_spans, test_spans),
        words=len(gold.words),
        correct_tags=sum(tags),
        reason=LEFT_OPEN if problems else "",
    )
    dump = ""
    if params.debug:
        matched = _results(gold, params, {i for i, _ in pairs})
        dump = format_dump(gold, test, tags, matched, _results(test, params, {j for _, j in pairs}))
    return row, problems, dump


def _results(side: Bracketing, params: EvalbParams, matched: set[int]) -> list[int]:
    """EVALB's code of each bracket: 1 matched, 0 unmatched, 5 deleted."""
    codes, position = [], 0
    for counts in side.prepare(params):
        codes.append(int(position in matched) if counts else 5)
        position += counts
    return codes


def _lines(path: PathLike, encoding: str | None) -> Iterator[str]:
    """Lines as C reads them: they end at line feeds and may contain any byte.

    With an encoding, bytes that it cannot decode are an error.
    """
    codec = encoding or "utf-8"
    number = 0
    try:
        with open(path, encoding=codec, errors="surrogateescape", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                bad = _ESCAPED_BYTE.search(line) if encoding else None
                if bad:
                    raise TreebankError(
                        f"the byte 0x{ord(bad[0]) & 0xFF:02X} is invalid in {encoding}",
                        str(path),
                        number,
                        bad.start() + 1,
                    )
                yield line.removeprefix("\ufeff") if number == 1 else line
    except LookupError as error:
        raise ConfigError(f"unknown encoding {encoding!r}") from error
    except UnicodeError as error:
        raise TreebankError(f"wrong encoding: {error}", str(path)) from error
    except OSError as error:
        raise TreebankError(f"cannot read the file: {error.strerror}", str(path)) from error
    if not number:
        raise TreebankError("the file is empty: there are no trees to compare", str(path))


def _write(stream: TextIO, text: str) -> None:
    """Write the bytes of words unchanged, whatever the terminal's encoding."""
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        stream.write(text)
    else:
        stream.flush()
        buffer.write(text.encode("utf-8", "surrogateescape"))
        buffer.flush()
