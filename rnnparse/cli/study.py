"""`rnnparse study`: compare learning rates and optimizers, and explain why runs do not converge."""

from __future__ import annotations

import argparse

from rnnparse.cli import study_range, study_report, study_run, study_show
from rnnparse.cli.commands import add_commands

NAME = "study"
HELP = "find out which learning rates converge, and why others do not"
DESCRIPTION = """\
Train briefly with every setting of a grid, in parallel. A study explains why each run did or did
not converge, based on its curve and on documented rules. It is stored in a folder, and resumes if
it was stopped."""
EPILOG = """\
examples:
  rnnparse study range train.mrg --optimizer adam         which learning rates help?
  rnnparse study run train.mrg --preset quick --out quick
  rnnparse study show quick

rnnparse study COMMAND --help explains a command and its options.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands of a study."""
    add_commands(parser, (study_run, study_show, study_report, study_range), "study_command")
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Report that the command is missing."""
    args.parser.error("a COMMAND is missing: run, show, report or range")
    return 2
