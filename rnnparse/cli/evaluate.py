"""`rnnparse evaluate`: parse the words of gold trees and score the result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rnnparse.cli.text import columns, number, numbers, print_json, setting, warn
from rnnparse.errors import TreebankError

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.evaluation import EvalbParams, Evaluation

NAME = "evaluate"
HELP = "parse the words of gold trees and score the result"
DESCRIPTION = """\
Take the words of gold trees (not their tags), parse them, and score the trees by EVALB's rules
with COLLINS parameters, over all lengths."""
EPILOG = """\
examples:
  rnnparse evaluate model test.mrg
  rnnparse evaluate model test.mrg --by-label --attachments
  rnnparse evaluate model test.mrg --json --out trees.mrg
is the network better than the PCFG, or is that chance?
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
    parser.add_argument("model", metavar="MODEL", help="a folder that rnnparse train wrote")
    parser.add_argument("gold", metavar="GOLD", help="a treebank: a file, a folder, nltk:NAME, …")
    parser.add_argument(
        "--scorer",
        choices=("cvg", "pcfg"),
        default="cvg",
        help="choose among the candidates with the network, or take the PCFG's best (default: cvg)",
    )
    parser.add_argument("--prm", metavar="FILE", help="EVALB parameters in place of COLLINS")
    parser.add_argument(
        "--delete-by",
        choices=("own", "gold"),
        default="own",
        help="which tags decide what words are deleted as punctuation: those of each tree, as in "
        "EVALB, which leaves a sentence out of F1 where the two differ; or the gold tags in both "
        "trees, so that all sentences count (default: own)",
    )
    parser.add_argument("--by-label", action="store_true", help="add scores for each label")
    parser.add_argument("--by-length", action="store_true", help="add scores by sentence length")
    parser.add_argument(
        "--attachments",
        action="store_true",
        help="add how many phrases (PP, SBAR, PRT) that could be attached elsewhere are attached "
        "as in the gold tree",
    )
    parser.add_argument(
        "--against",
        metavar="TREES",
        help="trees of another parser for the same sentences, one each: add the difference in F1, "
        "its 95 %% interval and p-value (paired bootstrap)",
    )
    parser.add_argument("--out", metavar="FILE", help="write the trees here")
    parser.add_argument(
        "--jobs", type=setting("jobs"), default=0, metavar="N", help="cores (default: all)"
    )
    parser.add_argument(
        "--seed", type=setting("seed"), default=0, metavar="N", help="of the bootstrap (default: 0)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Parse, score, print."""
    from rnnparse.evaluation import EvalbParams, evaluate
    from rnnparse.trees.brackets import write_trees

    params = EvalbParams.load(args.prm) if args.prm else EvalbParams.collins()
    params = replace(params, delete_by=args.delete_by)
    gold, sentences = _read_gold(args.gold)
    test, about = _parse(args, sentences)
    if args.out:
        write_trees(test, args.out)
    evaluation = evaluate(gold, test, params)
    parts = _extra_parts(args, gold, test, evaluation)
    if args.json:
        extra = {name: value for name, value, _ in parts}
        print_json({**evaluation.summary(), "missing": evaluation.missing(), **about, **extra})
        return 0
    print(_summary_table(evaluation, about))
    print(_missing(evaluation), end="")
    for _, _, table in parts:
        print(f"\n{table}")
    return 0


def _read_gold(path: str) -> tuple[list[Tree], list[list[str]]]:
    """Gold trees as EVALB is to see them, and their words, traces left out.

    Nothing but the root changes: our trees have the root TOP, which COLLINS deletes.
    """
    from rnnparse.trees.brackets import escape_token, load_trees
    from rnnparse.trees.cleaning import clean, set_words, words
    from rnnparse.trees.scanner import ROOT_LABELS

    gold, sentences = [], []
    for tree in load_trees(path):
        cleaned = clean(tree)
        if cleaned is None:
            continue
        if tree.label() in ROOT_LABELS:
            tree.set_label(cleaned.label())
        set_words(tree, map(escape_token, words(tree)))
        gold.append(tree)
        sentences.append([escape_token(word) for word in words(cleaned)])
    if not gold:
        raise TreebankError("no tree with words in here", path)
    return gold, sentences


def _parse(
    args: argparse.Namespace, sentences: list[list[str]]
) -> tuple[list[Tree], dict[str, Any]]:
    """The best tree of each sentence, and how the parsing went."""
    from tqdm import tqdm

    from rnnparse.parser import load
    from rnnparse.trees.cleaning import set_words

    model = load(args.model)
    started = time.perf_counter()
    results = model.parse_many(sentences, scorer=args.scorer, jobs=args.jobs)
    test, glued = [], []
    for index, result in enumerate(
        tqdm(results, total=len(sentences), unit=" sentences", disable=None), start=1
    ):
        tree = result.trees[0].tree
        set_words(tree, sentences[index - 1])  # EVALB compares words byte by byte
        test.append(tree)
        if result.glued:
            glued.append(index)
    if glued:
        warn(
            f"{len(glued)} sentence(s) that the grammar does not span, with trees glued from "
            f"parts: {numbers(glued)}"
        )
    seconds = time.perf_counter() - started
    about = {"scorer": args.scorer, "delete_by": args.delete_by, "glued": glued}
    return test, {**about, "seconds": seconds}


def _summary_table(evaluation: Evaluation, about: dict[str, Any]) -> str:
    cutoff = evaluation.params.cutoff_len
    everything, short = evaluation.totals(), evaluation.totals(cutoff)
    summaries = everything.summary(), short.summary()
    rows = [
        (title, *(number(summary[key]) for summary in summaries)) for title, key in _SUMMARY.items()
    ]
    rows += [
        (title, *(str(summary[key]) for summary in summaries))
        for title, key in (("sentences", "sentences"), ("words", "words"))
    ]
    if everything.errors or everything.skipped:
        rows.append(("errors (not in F1)", str(everything.errors), str(short.errors)))
        rows.append(("skipped (not in F1)", str(everything.skipped), str(short.skipped)))
    if evaluation.params.delete_by == "gold":
        rows.append(("deleted by", "gold tags", ""))
    rows.append(("glued", str(len(about["glued"])), ""))
    rows.append(("seconds", number(about["seconds"], 1), ""))
    return columns((f"scorer: {about['scorer']}", "all", f"<= {cutoff} words"), rows)


def _missing(evaluation: Evaluation) -> str:
    """A line that says how many sentences are missing from F1 and why; empty if none is."""
    reasons = {reason: count for reason, count in evaluation.missing().items() if count}
    if not reasons:
        return ""
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    missing, everything = sum(reasons.values()), len(evaluation.sentences)
    line = f"{missing} of {everything} sentences are missing from F1: {why}"
    if evaluation.params.delete_by == "own" and missing > reasons.get("no tree", 0):
        line += "; a mismatch is punctuation with a wrong tag: --delete-by gold scores it"
    return f"{line}\n"


Part = tuple[str, Any, str]
"""What an option adds: its name and value in JSON, and its table."""


def _extra_parts(
    args: argparse.Namespace, gold: list[Tree], test: list[Tree], evaluation: Evaluation
) -> list[Part]:
    makers: list[tuple[bool, Callable[[], Part]]] = [
        (args.by_label, lambda: _by_label(gold, test, evaluation.params)),
        (args.by_length, lambda: _by_length(evaluation)),
        (args.attachments, lambda: _attachments(gold, test)),
        (bool(args.against), lambda: _against(args, gold, evaluation)),
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


def _attachments(gold: list[Tree], test: list[Tree]) -> Part:
    from rnnparse.evaluation.attachments import attachments
    from rnnparse.evaluation.totals import percentage
    from rnnparse.trees.cleaning import clean

    cleaned = [tree for tree in map(clean, gold) if tree is not None]
    score = attachments(cleaned, test)
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


def _against(args: argparse.Namespace, gold: list[Tree], evaluation: Evaluation) -> Part:
    from rnnparse.evaluation import evaluate
    from rnnparse.evaluation.report import paired_bootstrap
    from rnnparse.trees.brackets import load_trees

    other = evaluate(gold, load_trees(args.against), evaluation.params)
    result = paired_bootstrap(evaluation, other, seed=args.seed)
    rows = [
        ("difference in F1", f"{result.difference:+.2f}"),
        ("95 % interval", f"{result.low:+.2f} to {result.high:+.2f}"),
        ("p", number(result.p_value, 4)),
        ("sentences", str(result.sentences)),
    ]
    value = {"f1": other.summary()["f1"], **asdict(result)}
    table = columns(("F1 of the other", number(value["f1"])), rows)
    return "against", value, f"against {args.against}\n{table}"
