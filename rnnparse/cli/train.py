"""`rnnparse train`: from a treebank to a model."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from typing import Any

from rnnparse.cli.text import print_json, setting, warn
from rnnparse.cli.treebank_style import add_style, given_style
from rnnparse.config import ENGINES, LIMITS, OBJECTIVES, TARGETS, TIES, TrainingConfig

NAME = "train"
HELP = "train a parser on a treebank"
DESCRIPTION = """\
Train a parser on a treebank and write it to a folder. A PCFG is read off the trees, it lists the
best candidate trees of every sentence, and a recursive network learns to prefer the correct ones.
The run stops when the development set shows no more gain; it ends with a table of scores."""
EPILOG = """\
A treebank is a file of bracketed trees, plain or gzip, a folder of such files, a pattern in quotes
("wsj/0[2-9]/*.mrg"), or nltk:NAME for a corpus of NLTK. Traces and function tags are taken out;
malformed trees are skipped and counted.

A run that was interrupted leaves MODEL.partial and goes on with the same command and --resume; it
ends with the same model as if nothing had happened. A model that is there is replaced only with
--overwrite.

examples:
  rnnparse train --out model
  rnnparse train train.mrg --dev dev.mrg --vectors glove.6B.50d.txt --dim 50 --out model
  rnnparse train small.mrg --folds 5 --head-rules right
  rnnparse train train.mrg --dev dev.mrg --seed 1 --json > report.json
"""

_DEFAULTS = {field.name: field.default for field in fields(TrainingConfig)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; those of `TrainingConfig` are absent unless they are given."""
    _add_data(parser)
    add_style(parser)
    _add_model(parser)
    _add_learning(parser)
    _add_running(parser)


def run(args: argparse.Namespace) -> int:
    """Train and print the report."""
    given = {name: value for name, value in vars(args).items() if name in _DEFAULTS}
    config = TrainingConfig.from_dict({**given, **given_style(args)})
    from rnnparse.training.pipeline import train

    report = train(
        config,
        args.out,
        resume=args.resume,
        overwrite=args.overwrite,
        progress=sys.stderr.isatty(),
    )
    if args.json:
        print_json(report.to_dict())
    else:
        print(report.format_table())
        warn(f"the model is ready: rnnparse parse {args.out}")
    return 0


def _add_data(parser: argparse.ArgumentParser) -> None:
    add_treebank(parser)
    group = parser.add_argument_group("data")
    group.add_argument(
        "--out", metavar="MODEL", default="model", help="folder for the model (default: model)"
    )
    option(group, "--dev", "trees to tune on (default: a tenth, drawn by --seed)", "TREEBANK")
    option(
        group,
        "--folds",
        "for small treebanks: tune by cross-validation in N parts and learn from all trees; 0: "
        "tune on the development set",
        "N",
    )
    option(group, "--vectors", "word vectors to begin with: text in GloVe's format", "FILE")
    group.add_argument(
        "--prune-vectors",
        action="store_true",
        default=argparse.SUPPRESS,
        help="keep only the vectors of words in the treebank (a smaller model; other words are "
        "then unknown)",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    option(group, "--dim", "size n of word and phrase vectors", "N")
    option(group, "--kbest", "candidate trees a sentence", "K")
    option(
        group,
        "--head-rules",
        "head children: english, left (the first), right (the last), or a file of rules",
        "RULES",
        dest="heads",
    )
    option(
        group,
        "--jackknife",
        "list the candidates of each Nth of the sentences with a grammar that has not seen them; "
        "0: with the grammar itself",
        "N",
    )


def _add_learning(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("learning")
    option(group, "--epochs", "passes over the sentences at most", "N")
    option(group, "--patience", "stop after N passes without gain", "N")
    option(group, "--batch-size", "sentences a step", "N")
    option(group, "--learning-rate", "size α of a step", "RATE")
    option(group, "--l2", "weight λ of λ/2 times the squared weights", "WEIGHT")
    option(group, "--kappa", "margin κ for each wrong bracket of a candidate", "MARGIN")
    option(
        group,
        "--objective",
        "what is minimised: the structured hinge, its square, the hinge without margin, −log of "
        "the target's probability, or the expected margin",
        choices=OBJECTIVES,
    )
    option(
        group,
        "--optimizer",
        "adagrad, or another Keras optimizer by name",
        "NAME",
    )
    option(group, "--target", "learn towards the gold tree or the best candidate", choices=TARGETS)
    option(
        group,
        "--tie",
        "which of several worst candidates a subgradient follows: the first, all in equal parts, "
        "or none if the target is among them",
        choices=TIES,
    )
    group.add_argument(
        "--no-averaging",
        dest="averaging",
        action="store_false",
        default=argparse.SUPPRESS,
        help="take the weights of one epoch, not their mean over the epochs",
    )
    group.add_argument(
        "--freeze",
        metavar="PATTERN",
        action="append",
        default=argparse.SUPPRESS,
        help="do not train these weights: vectors, W, v, or rows of them, as in 'W:NP,*' (may be "
        "given several times)",
    )
    option(group, "--freeze-epochs", "freeze them in the first N epochs; 0: throughout", "N")
    option(group, "--engine", "what computes scores and gradients", choices=ENGINES)
    option(group, "--seed", "of all that is random", "N")


def _add_running(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("running")
    option(group, "--jobs", "processor cores, 0 for all", "N")
    group.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    group.add_argument(
        "--overwrite", action="store_true", help="replace the model that MODEL holds, at the end"
    )
    group.add_argument("--json", action="store_true", help="print the report as JSON")
    group.add_argument(
        "--telemetry",
        action="store_true",
        default=argparse.SUPPRESS,
        help="log gradients, updates and activations of every epoch: MODEL/telemetry.jsonl",
    )
    option(group, "--tensorboard", "write logs for TensorBoard here", "DIR")
    option(group, "--cache", "keep candidate lists here (default: your cache folder)", "DIR")


def add_treebank(parser: argparse.ArgumentParser) -> None:
    """Declare the treebank, which is absent unless it is given; also for studies."""
    parser.add_argument(
        "treebank",
        metavar="TREEBANK",
        nargs="?",
        default=argparse.SUPPRESS,
        help="trees to learn from; without it, the small generated treebank of this package",
    )


def option(group: Any, flag: str, help: str, metavar: str | None = None, **more: Any) -> None:
    """Add an option for a field of `TrainingConfig`, which has its limits; the help names its
    default."""
    name = more.get("dest") or flag.removeprefix("--").replace("-", "_")
    default = _DEFAULTS[name]
    if default is not None:
        help += f" (default: {default})"
    group.add_argument(
        flag,
        metavar=metavar,
        type=setting(name) if name in LIMITS else str,
        default=argparse.SUPPRESS,
        help=help,
        **more,
    )
