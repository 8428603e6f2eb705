"""`rnnparse study range`: sweep the learning rate in one run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from rnnparse.cli.console_text import positive, print_json, setting, warn
from rnnparse.cli.study_run import add_shared
from rnnparse.cli.train import OBJECTIVE_HELP, TIE_HELP, add_treebank, option
from rnnparse.cli.treebank_style import given_style
from rnnparse.config import OBJECTIVES, TIES, TrainingConfig

NAME = "range"
HELP = "find useful learning rates in one short run"
DESCRIPTION = """\
Train for 200 updates (--updates) from the initial weights, each with a higher learning rate than
the one before (Smith 2017). This takes seconds. The output names the rates at which the loss begins
to fall, falls fastest, is lowest, and starts to rise for good. "suggested" is the range of rates to
compare in a study; "try first" is a rate within it."""
EPILOG = """\
A range test is short: it cannot show that a rate does harm only after a thousand updates.
So compare a few rates within and around the suggested range in a study.

examples:
  rnnparse study range train.mrg --optimizer adam --batch-size 256
  rnnparse study range --optimizer sgd --low 0.01 --high 100 --updates 500 --svg range.svg
"""

_FIELDS = tuple(field.name for field in fields(TrainingConfig))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_treebank(parser)
    group = parser.add_argument_group("range test")
    group.add_argument(
        "--low",
        type=setting("learning_rate"),
        default=1e-5,
        metavar="RATE",
        help="the first rate (default: 1e-05)",
    )
    group.add_argument(
        "--high",
        type=setting("learning_rate"),
        default=10.0,
        metavar="RATE",
        help="the last rate (default: 10)",
    )
    group.add_argument(
        "--updates",
        type=positive,
        default=200,
        metavar="N",
        help="number of updates (default: 200)",
    )
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("--svg", metavar="FILE", help="plot the loss over the rate")
    group = parser.add_argument_group("training")
    option(group, "--optimizer", "adagrad, or a Keras optimizer by name", "NAME")
    option(group, "--batch-size", "sentences per update", "N")
    option(group, "--l2", "strength λ of the L2 penalty λ/2 ‖θ‖²", "WEIGHT")
    option(group, "--kappa", "margin κ for each wrong bracket of a candidate", "MARGIN")
    option(group, "--dim", "size n of word and phrase vectors", "N")
    option(group, "--objective", OBJECTIVE_HELP, choices=OBJECTIVES)
    option(group, "--tie", TIE_HELP, choices=TIES)
    option(group, "--seed", "random seed", "N")
    add_shared(parser, "other settings")
    group = parser.add_argument_group("running")
    option(group, "--jobs", "processor cores; 0 or -1 for all", "N", dest="n_jobs")
    option(group, "--cache", "folder for candidate lists (default: your cache folder)", "DIR")


def run(args: argparse.Namespace) -> int:
    """Run the range test and print the result."""
    from rnnparse.parser_study.lr_range_test import parser_range_test
    from rnnparse.parser_study.train_command import train_command
    from rnnparse.study.range_result import check_svg, format_range, write_range_svg

    given = {name: value for name, value in vars(args).items() if name in _FIELDS}
    given |= given_style(args)
    config = TrainingConfig.from_dict(given)
    rates = {"low": args.low, "high": args.high, "updates": args.updates}
    if args.svg:
        check_svg(Path(args.svg))
    result = parser_range_test(config, **rates, progress=sys.stderr.isatty())
    if args.json:
        print_json(result.to_dict())
    else:
        print(format_range(result))
        if result.suggestion is not None:
            rate = {"learning_rate": result.suggestion}
            print(f"\nto train with the rate to try first:\n  {train_command(rate, fixed=given)}")
    if args.svg:
        title = f"{config.optimizer}, {config.batch_size} sentences per update"
        sys.stdout.flush()
        write_range_svg(result, Path(args.svg), title)
        warn(f"the plot is ready: {args.svg}")
    return 0
