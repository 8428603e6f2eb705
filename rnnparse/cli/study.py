"""`rnnparse study`: which learning rate, for which optimiser, and why does mine not converge?"""

from __future__ import annotations

import argparse

from rnnparse.cli import study_range, study_report, study_run, study_show
from rnnparse.cli.commands import add_commands

NAME = "study"
HELP = "find out which learning rates converge, and why others do not"
DESCRIPTION = """\
Train with every setting of a grid, briefly and in parallel, and tell of each why it converges or
does not: from its curve, by stated rules. A study is a folder; it can be stopped and goes on."""
EPILOG = """\
examples:
  rnnparse study range train.mrg --optimizer adam         one run: which rates help at all?
  rnnparse study run train.mrg --preset quick --out quick
  rnnparse study show quick

rnnparse study COMMAND --help explains a command and its options.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands of a study."""
    add_commands(parser, (study_run, study_show, study_report, study_range), "study_command")
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Without a command, tell which there are."""
    args.parser.error("a COMMAND is missing: run, show, report or range")
    return 2
