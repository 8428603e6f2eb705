"""`rnnparse compare`: what one model gains over another on a test set."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rnnparse.cli.console_text import columns, number, print_json, setting
from rnnparse.cli.gold_trees import parse_gold, read_gold, style_of
from rnnparse.cli.search_options import add_search, given_search
from rnnparse.cli.treebank_style import add_style

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.evaluation import EvalbParams, LabelScore, LengthScore

NAME = "compare"
HELP = "compare two models on gold trees"
DESCRIPTION = """\
Parse the words of gold trees with two models, and show what B gains over A: in F1 with a confidence
interval and a p-value (paired bootstrap), for each label, and for each sentence length. Scores
follow EVALB with COLLINS parameters, over the sentences that are valid for both models."""
EPILOG = """\
examples:
  rnnparse compare old new test.mrg
  rnnparse compare old new 'wsj/23' --json
"""

_SCORES = {
    "F1": "f1",
    "precision": "precision",
    "recall": "recall",
    "complete match": "complete_match",
    "tagging accuracy": "tagging_accuracy",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("a", metavar="MODEL_A", help="a model folder from rnnparse train")
    parser.add_argument("b", metavar="MODEL_B", help="another")
    parser.add_argument("gold", metavar="GOLD", help="a treebank: a file, a folder, nltk:NAME, …")
    parser.add_argument(
        "--delete-by",
        choices=("own", "gold"),
        default="own",
        help="whose tags decide which words are punctuation, as for rnnparse evaluate (default: "
        "own)",
    )
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
    """Parse twice, score, print."""
    from rnnparse.evaluation import EvalbParams
    from rnnparse.parser import load

    params = replace(EvalbParams.collins(), delete_by=args.delete_by)
    gold = read_gold(args.gold, style_of(args))
    models = [load(path, search=given_search(args)) for path in (args.a, args.b)]
    tests = [parse_gold(model, gold, "cvg", args.jobs)[0] for model in models]
    values = _compared(gold.trees, tests, params, args.seed)
    for name in ("a", "b"):
        values[name] = {"model": getattr(args, name), **values[name]}
    if args.json:
        print_json(values)
    else:
        print(_tables(values, len(gold.trees)))
    return 0


def _compared(
    gold: list[Tree], tests: list[list[Tree]], params: EvalbParams, seed: int
) -> dict[str, Any]:
    """The scores of both models over the sentences that are valid for both."""
    from rnnparse.evaluation import Evaluation, by_label, by_length, evaluate, paired_bootstrap

    evaluations = [evaluate(gold, test, params) for test in tests]
    bootstrap = paired_bootstrap(evaluations[1], evaluations[0], seed=seed)
    rows = zip(*(evaluation.sentences for evaluation in evaluations), strict=True)
    both = [place for place, pair in enumerate(rows) if not any(row.status for row in pair)]
    valid = [Evaluation(params, [one.sentences[i] for i in both]) for one in evaluations]
    trees = [gold[i] for i in both]
    a, b = ({s.label: s for s in by_label(trees, [t[i] for i in both], params)} for t in tests)
    return {
        "a": valid[0].totals().summary(),
        "b": valid[1].totals().summary(),
        **asdict(bootstrap),
        "by_label": [
            _gain({"label": name, "gold": (a.get(name) or b[name]).gold}, a.get(name), b.get(name))
            for name in dict.fromkeys([*a, *b])
        ],
        "by_length": [
            _gain({"low": one.low, "high": one.high, "sentences": one.sentences}, one, other)
            for one, other in zip(*map(by_length, valid), strict=True)
        ],
    }


def _gain(
    about: dict[str, Any], a: LabelScore | LengthScore | None, b: LabelScore | LengthScore | None
) -> dict[str, Any]:
    """F1 of both models in a part of the test set, and their difference."""
    scores = [None if one is None else one.f1 for one in (a, b)]
    return {**about, "a": scores[0], "b": scores[1], "difference": _minus(*scores)}


def _tables(values: dict[str, Any], everything: int) -> str:
    scores = [
        (
            title,
            *map(number, (values["a"][key], values["b"][key])),
            _signed(_minus(values["a"][key], values["b"][key])),
        )
        for title, key in _SCORES.items()
    ]
    scores += [
        ("95 % interval", "", "", f"{values['low']:+.2f} to {values['high']:+.2f}"),
        ("p", "", "", number(values["p_value"], 4)),
        ("sentences", "", "", f"{values['sentences']} of {everything}"),
    ]
    labels = [
        (row["label"], row["gold"], number(row["a"]), number(row["b"]), _signed(row["difference"]))
        for row in values["by_label"]
    ]
    lengths = [
        (
            f"{row['low']}-{row['high']}" if row["high"] is not None else f"{row['low']} or more",
            row["sentences"],
            number(row["a"]),
            number(row["b"]),
            _signed(row["difference"]),
        )
        for row in values["by_length"]
        if row["sentences"]
    ]
    head = f"A: {values['a']['model']}\nB: {values['b']['model']}\n"
    tables = (
        columns(("", "A", "B", "B - A"), scores),
        columns(("F1 of label", "gold", "A", "B", "B - A"), labels),
        columns(("F1 by words", "sentences", "A", "B", "B - A"), lengths),
    )
    return "\n\n".join((head + "\n" + tables[0], *tables[1:]))


def _minus(a: float | None, b: float | None) -> float | None:
    """What b gains over a; None if one of them is not known."""
    return None if a is None or b is None else b - a


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
