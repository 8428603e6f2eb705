"""`rnnparse evaluate`: parse the words of gold trees and score the result."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnparse.cli.console_text import columns, number, print_json, setting
from rnnparse.cli.draw import checked_suffix
from rnnparse.cli.gold_trees import Gold, parse_gold, read_gold, style_of
from rnnparse.cli.search_options import add_search, given_search
from rnnparse.cli.treebank_style import add_style

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.error_sources import ErrorSources
    from rnnparse.evaluation import EvalbParams, Evaluation
    from rnnparse.parser import Parser

NAME = "evaluate"
HELP = "parse the words of gold trees and score the result"
DESCRIPTION = """\
Parse the words of gold trees (without their tags), and score the trees by EVALB's rules with
COLLINS parameters, over all lengths. Gold trees without words are not scored. Malformed gold trees
are skipped; a warning counts them."""
EPILOG = """\
examples:
  rnnparse evaluate model test.mrg
  rnnparse evaluate model test.mrg --by-label --attachments
  rnnparse evaluate model test.mrg --json --out trees.mrg
  rnnparse evaluate model test.mrg --html errors.html
Is the network better than the PCFG, or is the difference noise?
  rnnparse evaluate model test.mrg --scorer pcfg --out pcfg.mrg
  rnnparse evaluate model test.mrg --against pcfg.mrg
"""

_SUMMARY = {
    "F1": "f1",
    "precision": "precision",
    "recall": "recall",
    "complete match": "complete_match",
    "tagging accuracy": "tagging_accuracy",
    "no crossing": "no_crossing",
    "average crossing": "average_crossing",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL", help="a model folder from rnnparse train")
    parser.add_argument("gold", metavar="GOLD", help="a treebank: a file, a folder, nltk:NAME, …")
    parser.add_argument(
        "--scorer",
        choices=("cvg", "pcfg"),
        default="cvg",
        help="rank the candidates by the network, or by the PCFG alone (default: cvg)",
    )
    parser.add_argument(
        "--prm",
        metavar="FILE",
        help="EVALB parameter file (default: the parameters of COLLINS.prm)",
    )
    parser.add_argument(
        "--delete-by",
        choices=("own", "gold"),
        default="own",
        help="whose tags decide which words are punctuation and are deleted. own: the tags of each "
        "tree, as in EVALB, which skips a sentence if the trees then differ in length. gold: the "
        "gold tags for both trees, so that no sentence is skipped. (default: own)",
    )
    parser.add_argument("--by-label", action="store_true", help="add scores for each label")
    parser.add_argument("--by-length", action="store_true", help="add scores by sentence length")
    parser.add_argument(
        "--attachments",
        action="store_true",
        help="add the accuracy of ambiguous attachments: phrases (PP, SBAR, PRT) that could be "
        "attached elsewhere",
    )
    parser.add_argument(
        "--against",
        metavar="TREES",
        help="add the difference in F1 to the trees in this file, with a 95 %% confidence interval "
        "and a p-value (paired bootstrap). The file has one tree per line, in UTF-8, for the same "
        "sentences; (()) for a missing tree",
    )
    parser.add_argument(
        "--error-sources",
        action="store_true",
        help="add how much F1 the candidate lists lose, the choice from them, and unknown words; "
        "parses three times",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write a page about the errors: all of the above, confusions, and the worst sentences "
        "drawn; needs the packages of pip install 'rnnparse[draw]'",
    )
    parser.add_argument("--out", metavar="FILE", help="write the parser's trees here")
    parser.add_argument(
        "--jobs",
        type=setting("n_jobs"),
        default=0,
        metavar="N",
        help="threads (default: one per core)",
    )
    parser.add_argument(
        "--seed",
        type=setting("seed"),
        default=0,
        metavar="N",
        help="random seed of the bootstrap (default: 0)",
    )
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    add_search(parser)
    add_style(parser)


def run(args: argparse.Namespace) -> int:
    """Parse, score, print."""
    from rnnparse.evaluation import EvalbParams, evaluate
    from rnnparse.parser import load
    from rnnparse.trees.brackets import format_tree, open_output

    params = EvalbParams.load(args.prm) if args.prm else EvalbParams.collins()
    params = replace(params, delete_by=args.delete_by)
    gold = read_gold(args.gold, style_of(args))
    model = load(args.model, search=given_search(args))
    if args.html:
        require_packages(args.html)
    with ExitStack() as stack:
        # Whether the files can be written shows before the work.
        out, page = (
            stack.enter_context(open_output(path)) if path else None
            for path in (args.out, args.html)
        )
        test, about = parse_gold(model, gold, args.scorer, args.jobs)
        about["delete_by"] = args.delete_by
        if out is not None:
            out.writelines(f"{format_tree(tree)}\n" for tree in test)
        evaluation = evaluate(gold.trees, test, params)
        sources = None
        if args.error_sources or page is not None:
            sources = error_sources_of(model, gold, args.jobs)
        if page is not None and sources is not None:
            page.writelines(_page(args, gold, test, evaluation, sources))
    parts = _extra_parts(args, gold, test, evaluation, sources)
    if args.json:
        extra = {name: value for name, value, _ in parts}
        whole = {**evaluation.summary(), "mean_sentence_f1": _mean_f1(evaluation)}
        print_json({**whole, "missing": evaluation.missing(), **about, **extra})
        return 0
    print(_summary_table(evaluation, about))
    print(_missing(evaluation), end="")
    for _, _, table in parts:
        print(f"\n{table}")
    return 0


def require_packages(path: str) -> None:
    """Check the name of a page, and that there are the packages to make it.

    Raises:
        ConfigError: the name does not end in .html.
        MissingExtraError: a package is not installed.
    """
    from rnnparse.pages.rendering import inline_tree
    from rnnparse.trees.node import Node

    checked_suffix(Path(path), (".html",))
    inline_tree(Node("", []))


def error_sources_of(model: Parser, gold: Gold, n_jobs: int) -> ErrorSources:
    """Where a parser loses F1 on gold trees."""
    from rnnparse.error_sources import error_sources

    return error_sources(model, [tree for tree in gold.cleaned if tree is not None], n_jobs)


def _page(
    args: argparse.Namespace,
    gold: Gold,
    test: list[Tree],
    evaluation: Evaluation,
    sources: ErrorSources,
) -> Iterator[str]:
    from rnnparse.pages.error_report import Parsed, error_page

    return error_page(
        Parsed(args.model, args.gold, evaluation, gold.trees, gold.cleaned, test, sources)
    )


def _summary_table(evaluation: Evaluation, about: dict[str, Any]) -> str:
    cutoff = evaluation.params.cutoff_len
    everything, short = evaluation.totals(), evaluation.totals(cutoff)
    summaries = everything.summary(), short.summary()
    rows = [
        (title, *(number(summary[key]) for summary in summaries)) for title, key in _SUMMARY.items()
    ]
    rows.append(
        ("mean F1 of sentences", *(number(_mean_f1(evaluation, n)) for n in (None, cutoff)))
    )
    rows += [
        (title, *(str(summary[key]) for summary in summaries))
        for title, key in (("sentences", "sentences"), ("words", "words"))
    ]
    if everything.errors or everything.skipped:
        rows.append(("errors (not in F1)", str(everything.errors), str(short.errors)))
        rows.append(("skipped (not in F1)", str(everything.skipped), str(short.skipped)))
    if evaluation.params.delete_by == "gold":
        rows.append(("deleted by", "gold tags", ""))
    rows += [(name, str(len(about[name])), "") for name in ("glued", "divided")]
    rows.append(("seconds", number(about["seconds"], 1), ""))
    return columns((f"scorer: {about['scorer']}", "all", f"<= {cutoff} words"), rows)


def _mean_f1(evaluation: Evaluation, longest: int | None = None) -> float | None:
    """The mean F1 of the sentences that count, or of those of at most so many words."""
    rows = (row for row in evaluation.sentences if longest is None or row.length <= longest)
    scores = [row.f1 for row in rows if row.f1 is not None]
    return sum(scores) / len(scores) if scores else None


def _missing(evaluation: Evaluation) -> str:
    """A line that says how many sentences are missing from F1 and why; empty if all count."""
    reasons = {reason: count for reason, count in evaluation.missing().items() if count}
    if not reasons:
        return ""
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    missing, everything = sum(reasons.values()), len(evaluation.sentences)
    line = f"{missing} of {everything} sentences are missing from F1: {why}"
    if evaluation.params.delete_by == "own" and missing > reasons.get("no tree", 0):
        line += "; --delete-by gold scores those with a mismatch (punctuation with a wrong tag)"
    return f"{line}\n"


Part = tuple[str, Any, str]
"""Scores that an option adds: their name and value in JSON, and their table."""


def _extra_parts(
    args: argparse.Namespace,
    gold: Gold,
    test: list[Tree],
    evaluation: Evaluation,
    sources: ErrorSources | None,
) -> list[Part]:
    makers: list[tuple[bool, Callable[[], Part]]] = [
        (args.by_label, lambda: _by_label(gold.trees, test, evaluation.params)),
        (args.by_length, lambda: _by_length(evaluation)),
        (args.attachments, lambda: _attachments(gold.cleaned, test)),
        (args.error_sources and sources is not None, lambda: _error_sources(sources)),
        (bool(args.against), lambda: _against(args, gold.trees, evaluation)),
    ]
    return [make() for wanted, make in makers if wanted]


def _by_label(gold: list[Tree], test: list[Tree], params: EvalbParams) -> Part:
    from rnnparse.evaluation.report import by_label

    scores = by_label(gold, test, params)
    rows = [
        (s.label, s.gold, s.test, s.matched, number(s.precision), number(s.recall), number(s.f1))
        for s in scores
    ]
    header = ("label", "gold", "test", "matched", "precision", "recall", "F1")
    return "by_label", [asdict(score) for score in scores], columns(header, rows)


def _by_length(evaluation: Evaluation) -> Part:
    from rnnparse.evaluation.report import by_length

    scores = by_length(evaluation)
    rows = [
        (
            f"{s.low}-{s.high}" if s.high is not None else f"{s.low} or more",
            s.sentences,
            number(s.f1),
            number(s.complete_match),
            number(s.tagging_accuracy),
        )
        for s in scores
    ]
    header = ("words", "sentences", "F1", "complete match", "tagging accuracy")
    return "by_length", [asdict(score) for score in scores], columns(header, rows)


def _attachments(gold: list[Tree | None], test: list[Tree]) -> Part:
    from rnnparse.evaluation.attachments import score_attachments
    from rnnparse.evaluation.totals import percentage

    pairs = [(ours, theirs) for ours, theirs in zip(gold, test, strict=True) if ours is not None]
    score = score_attachments([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
    counts = {**score.by_label, "all": (score.correct, score.total)}
    rows = [
        (label, correct, total, number(percentage(correct, total)))
        for label, (correct, total) in counts.items()
    ]
    value = {
        label: {"correct": correct, "total": total, "accuracy": percentage(correct, total)}
        for label, (correct, total) in counts.items()
    }
    return "attachments", value, columns(("attachment of", "correct", "total", "%"), rows)


def _error_sources(sources: ErrorSources | None) -> Part:
    from rnnparse.error_sources import SHORT

    assert sources is not None
    rows = [
        (name, number(now), number(tagged), f"{tagged - now:+.2f}")
        for name, now, tagged in sources.rows()
    ]
    table = columns(("", "now", "unknown words tagged", "difference"), rows)
    table += f"\nunknown words: {sources.unknown} of {sources.words}"
    table += (
        f"\nlists that pruning changes: {sources.pruned} of {sources.short} sentences of at most "
        f"{SHORT} words"
    )
    value = {
        "now": asdict(sources.now),
        "unknown_words_tagged": asdict(sources.tagged),
        **{key: getattr(sources, key) for key in ("candidates", "unknown", "words")},
        **{key: getattr(sources, key) for key in ("short", "pruned")},
    }
    return "error_sources", value, table


def _against(args: argparse.Namespace, gold: list[Tree], evaluation: Evaluation) -> Part:
    from rnnparse.evaluation import evaluate
    from rnnparse.evaluation.report import paired_bootstrap
    from rnnparse.trees.brackets import load_as
    from rnnparse.trees.node import Node
    from rnnparse.trees.style import TreebankStyle

    # Strict and with empty trees: skipping one would pair the others with wrong gold trees.
    trees = load_as(Node, args.against, TreebankStyle(strict=True), keep_empty=True)
    other = evaluate(gold, trees, evaluation.params)
    result = paired_bootstrap(evaluation, other, seed=args.seed)
    rows = [
        ("difference in F1", f"{result.difference:+.2f}"),
        ("95 % interval", f"{result.low:+.2f} to {result.high:+.2f}"),
        ("p", number(result.p_value, 4)),
        ("sentences", str(result.sentences)),
    ]
    value = {"f1": other.summary()["f1"], **asdict(result)}
    table = columns(("F1 of the other trees", number(value["f1"])), rows)
    return "against", value, f"against {args.against}\n{table}"
