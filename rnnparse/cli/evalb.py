"""`rnnparse evalb`: score like the program EVALB."""

from __future__ import annotations

import argparse
import sys

from rnnparse.cli.console_text import print_json, whole
from rnnparse.cli.treebank_style import add_encoding

NAME = "evalb"
HELP = "score a file of trees against gold trees, like the program EVALB"
DESCRIPTION = """\
Compare two files of trees, one tree per line, and print the table that EVALB prints: recall,
precision and F1 of the labelled brackets, crossing brackets, tagging accuracy. The default
parameters are those of COLLINS.prm, the standard for the Penn Treebank. If the words of the
two trees differ, that is an error, and the sentence is not scored."""
EPILOG = """\
exit status:
  0  the table is complete
  1  too many errors: the table ends and has no summary (EVALB stops at error N + 2, one later
     than --max-error N suggests, and so does this command)
  2  a file cannot be read, or a line is malformed

examples:
  rnnparse evalb gold.mrg test.mrg
  rnnparse evalb -p COLLINS.prm gold.mrg test.mrg > result.txt
  rnnparse evalb gold.mrg test.mrg --json --max-error 100000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("gold", metavar="GOLD", help="gold trees, one per line")
    parser.add_argument(
        "test", metavar="TEST", help="trees to score, one per line, in the same order"
    )
    parser.add_argument(
        "-p",
        "--prm",
        metavar="FILE",
        help="EVALB parameter file (default: the parameters of COLLINS.prm)",
    )
    parser.add_argument(
        "-e",
        "--max-error",
        type=whole,
        metavar="N",
        help="stop after more errors than this (default: MAX_ERROR of the parameters)",
    )
    add_encoding(
        parser,
        "encoding of both files, such as latin-1 (default: utf-8); the output is in UTF-8",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print only the summary, as JSON: f1, precision, recall, complete_match, …; `stopped` "
        "is true if there were too many errors",
    )


def run(args: argparse.Namespace) -> int:
    """Score the files and return EVALB's exit status."""
    from rnnparse.evaluation import EvalbParams, evalb_files, evaluate_files

    params = EvalbParams.load(args.prm) if args.prm else EvalbParams.collins()
    options = {"max_error": args.max_error, "encoding": getattr(args, "encoding", None)}
    if not args.json:
        return evalb_files(args.gold, args.test, params, **options)
    evaluation = evaluate_files(args.gold, args.test, params, **options)
    for message in evaluation.messages:
        print(message, file=sys.stderr)
    print_json({**evaluation.summary(), "stopped": evaluation.stopped})
    return 1 if evaluation.stopped else 0
