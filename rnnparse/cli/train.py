"""`rnnparse train`: train a parser on a treebank."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from typing import Any

from rnnparse.cli.console_text import print_json, setting, warn
from rnnparse.cli.search_options import EXACT_HELP
from rnnparse.cli.treebank_style import add_style, given_style
from rnnparse.config import (
    BACKENDS,
    ENGINES,
    LIMITS,
    OBJECTIVES,
    SCORERS,
    TARGETS,
    TIES,
    TrainingConfig,
)

NAME = "train"
HELP = "train a parser on a treebank"
DESCRIPTION = """\
Train a parser on a treebank and write the model to a folder. A PCFG, estimated from the trees,
lists candidate trees for every sentence; a recursive network learns to rank the correct ones
first. Training stops when F1 on the development set no longer rises; the command then prints a
table of scores."""
EPILOG = """\
A treebank is a file of bracketed trees (also gzip), a folder of such files, a quoted pattern
("wsj/0[2-9]/*.mrg"), or nltk:NAME for a corpus of NLTK. Traces and function tags are removed.
Malformed trees are skipped; a warning counts them.

An interrupted run leaves MODEL.partial. The same command with --resume continues it and gives the
same model as an uninterrupted run. --overwrite replaces an existing model.

examples:
  rnnparse train --out model
  rnnparse train train.mrg --dev dev.mrg --vectors glove.6B.50d.txt --dim 50 --out model
  rnnparse train small.mrg --folds 5 --head-rules right
  rnnparse train train.mrg --dev dev.mrg --seed 1 --json > report.json
"""

OBJECTIVE_HELP = (
    "loss to minimize: hinge (the structured hinge), squared-hinge, perceptron (the hinge without "
    "margin), mmi (−log P(target)) or risk (the expected cost)"
)
TIE_HELP = (
    "subgradient if candidates tie: that of the first, the mean of all (uniform), or 0 if the "
    "target is among them (gold)"
)
_DEFAULTS = {field.name: field.default for field in fields(TrainingConfig)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; settings of `TrainingConfig` are absent unless given."""
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
        "--out", metavar="MODEL", default="model", help="folder of the new model (default: model)"
    )
    option(group, "--dev", "development set (default: a contiguous tenth of TREEBANK)", "TREEBANK")
    option(
        group,
        "--folds",
        "for small treebanks: choose the number of epochs and β by N-fold cross-validation, then "
        "train on all trees; 0: choose them on the development set",
        "N",
    )
    option(group, "--vectors", "pre-trained word vectors in GloVe's text format", "FILE")
    group.add_argument(
        "--prune-vectors",
        action="store_true",
        default=argparse.SUPPRESS,
        help="keep only the vectors of words in the treebank; the model is smaller, and other "
        "words are unknown to it",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    option(
        group,
        "--scorer",
        "what ranks candidate trees: su-rnn, the network of the paper; span, a scorer of labelled "
        "spans together with that network, which is more accurate and takes longer to train",
        choices=SCORERS,
    )
    option(
        group,
        "--latent-grammars",
        "train N grammars with latent substates, whose scores are multiplied with those of the "
        "base PCFG",
        "N",
    )
    option(group, "--cycles", "split and merge the substates of these grammars N times", "N")
    option(
        group,
        "--encoder",
        "folder or package of a pre-trained encoder, for the span scorer",
        "ENCODER",
    )
    option(group, "--span-epochs", "epochs of the span scorer", "N")
    option(group, "--dim", "dimension n of word and phrase vectors", "N")
    add_candidates(group)
    option(
        group,
        "--head-rules",
        "how to find head children: english, left (the first child), right (the last child), or a "
        "file of rules",
        "RULES",
        dest="heads",
    )
    option(
        group,
        "--jackknife",
        "divide the training set into N parts and parse each with a grammar estimated from the "
        "others, so that candidate lists in training are like those of new text; 0: use one "
        "grammar for all",
        "N",
    )
    group.add_argument(
        "--exact",
        action="store_true",
        default=argparse.SUPPRESS,
        help=f"for the candidate lists, {EXACT_HELP}",
    )


def _add_learning(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("learning")
    option(group, "--epochs", "maximum number of epochs", "N")
    option(group, "--patience", "stop after N epochs without a better development F1", "N")
    option(group, "--batch-size", "sentences per update", "N")
    option(group, "--learning-rate", "learning rate α", "RATE")
    option(group, "--l2", "strength λ of the L2 penalty λ/2 ‖θ‖²", "WEIGHT")
    option(group, "--kappa", "structured margin κ per wrong bracket of a candidate", "MARGIN")
    option(
        group,
        "--objective",
        OBJECTIVE_HELP,
        choices=OBJECTIVES,
    )
    option(
        group,
        "--optimizer",
        "adagrad, or the name of a Keras optimizer",
        "NAME",
    )
    option(
        group,
        "--target",
        "train towards the gold tree, or the best candidate (oracle)",
        choices=TARGETS,
    )
    option(
        group,
        "--tie",
        TIE_HELP,
        choices=TIES,
    )
    group.add_argument(
        "--no-averaging",
        dest="averaging",
        action="store_false",
        default=argparse.SUPPRESS,
        help="use the weights of the best epoch, not the mean of the weights after all epochs up "
        "to it",
    )
    group.add_argument(
        "--freeze",
        metavar="PATTERN",
        action="append",
        default=argparse.SUPPRESS,
        help="do not train these weights: vectors, W, v, or some of their rows, as in 'W:NP,*' "
        "(may be repeated)",
    )
    option(
        group,
        "--freeze-epochs",
        "freeze these weights for the first N epochs only; 0: throughout",
        "N",
    )
    option(group, "--engine", "library that computes scores and gradients", choices=ENGINES)
    option(group, "--seed", "random seed", "N")


def _add_running(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("running")
    option(group, "--jobs", "processor cores to use; 0 or -1 for all", "N", dest="n_jobs")
    option(
        group,
        "--backend",
        "what makes candidate lists: threads; loky, which are processes; or a ray or dask cluster",
        choices=BACKENDS,
    )
    option(group, "--address", "address of the cluster (default: start one here)", "ADDRESS")
    group.add_argument("--resume", action="store_true", help="continue an interrupted run")
    group.add_argument(
        "--overwrite", action="store_true", help="replace an existing model when training ends"
    )
    group.add_argument("--json", action="store_true", help="print the report as JSON")
    group.add_argument(
        "--telemetry",
        action="store_true",
        default=argparse.SUPPRESS,
        help="record gradients, updates and activations in MODEL/telemetry.jsonl",
    )
    option(group, "--tensorboard", "write TensorBoard logs here", "DIR")
    option(group, "--cache", "folder for candidate lists (default: the user's cache folder)", "DIR")


def add_treebank(parser: argparse.ArgumentParser) -> None:
    """Declare the treebank, absent unless given; also for studies."""
    parser.add_argument(
        "treebank",
        metavar="TREEBANK",
        nargs="?",
        default=argparse.SUPPRESS,
        help="training trees (default: the embedded treebank, 1,600 generated sentences)",
    )


def add_candidates(group: Any) -> None:
    """Declare --candidates, also under its former name, which commands in old studies have."""
    option(group, "--candidates", "length of the candidate list of a sentence", "K")
    group.add_argument(
        "--kbest",
        dest="candidates",
        type=setting("candidates"),
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


def option(group: Any, flag: str, help: str, metavar: str | None = None, **more: Any) -> None:
    """Add an option for a field of `TrainingConfig`, with its limits and its default."""
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
