"""`rnnparse study`: compare configurations, and explain why training does not converge."""

from __future__ import annotations

import argparse

from rnnparse.cli import study_range, study_report, study_run, study_show
from rnnparse.cli.commands import add_commands

NAME = "study"
HELP = "compare settings, and find out why training does not converge"
DESCRIPTION = """\
Train briefly with every configuration of a grid, in parallel. A study explains why each trial did
or did not converge, based on its curve and on documented rules. Its folder holds all results; run
the same command again to resume a study that was stopped.

A configuration is a choice of one value for each setting in the grid; a trial is one training run
of a configuration, with one seed."""
EPILOG = """\
examples:
  rnnparse study range train.mrg --optimizer adam         which learning rates work?
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
