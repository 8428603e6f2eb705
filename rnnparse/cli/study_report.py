"""`rnnparse study report`: write the report of a study."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rnnparse.cli.console_text import warn
from rnnparse.errors import MissingExtraError

if TYPE_CHECKING:
    from rnnparse.study.report.results import Results

NAME = "report"
HELP = "write the report of a study, even while it runs"
DESCRIPTION = """\
Write the report of a study from its records, as rnnparse study run does at the end: report.html
(one file that works offline; its button "Save SVG" exports the map and the curves), report.csv, and
logs for TensorBoard's HParams dashboard in hparams."""
EPILOG = """\
examples:
  rnnparse study report question
  tensorboard --logdir question/hparams
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="STUDY", help="a folder that rnnparse study run wrote")


def run(args: argparse.Namespace) -> int:
    """Write all parts and print their paths."""
    print(*write_all(load(args.folder), remind=True), sep="\n")
    return 0


def load(folder: str) -> Results:
    """The results of a study, with the commands of the parser's trials."""
    from rnnparse.parser_study.train_command import with_commands
    from rnnparse.study.report.results import load_results

    results = load_results(folder)
    return replace(results, about=with_commands(results.about, results.records))


def write_all(results: Results, *, remind: bool) -> list[Path]:
    """Write all parts of the report. A message names each part whose package is not installed.

    Args:
        remind: mention TensorBoard too, which few people need.
    """
    from rnnparse.study.report.csv_table import write_csv
    from rnnparse.study.report.hparams import write_hparams
    from rnnparse.study.report.page import write_report

    written: list[Path] = []
    for write in (write_report, write_csv, write_hparams):
        try:
            written.append(write(results))
        except MissingExtraError as error:
            if remind or write is not write_hparams:
                warn(f"note: {write.__name__.removeprefix('write_')}: {error}")
    return written
