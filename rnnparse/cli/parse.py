"""`rnnparse parse`: print the tree of each line of text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from rnnparse.cli.console_text import (
    Numbers,
    read_lines,
    setting,
    warn_of_failed,
    warn_of_partial,
)
from rnnparse.cli.parse_formats import FORMATS, Answer
from rnnparse.cli.search_options import add_search, given_search
from rnnparse.config import BACKENDS
from rnnparse.errors import ConfigError

if TYPE_CHECKING:
    from rnnparse.input_sentences import Line
    from rnnparse.parser import Parser

NAME = "parse"
HELP = "parse sentences, one per line"
DESCRIPTION = """\
Parse a file of sentences, one per line, and print their trees in the same order. English text is
tokenized as in the Penn Treebank. For other languages, or for text that is already tokenized,
separate the tokens by spaces and add --tokenized."""
EPILOG = """\
formats:
  penn    one bracketed tree per line; with --n-best the trees of a sentence on successive lines,
          best first, and an empty line after each sentence
  json    one object per line: sentence (its number, from 1), tokens, offsets (first character of
          each token, and the one after its last), glued, divided, and trees, best first, each with
          tree, score, log_probability (natural log, of the PCFG), rnn_score and constituents: all
          nodes in pre-order with label, span (in tokens), characters, is_tag, and their parts of
          rnn_score and log_probability
  conll   columns: number, word, tag, and brackets as in CoNLL-2005, (S(NP*; an empty line after
          each tree
  pretty  drawings for the terminal
  svg     one <svg> element per line: a file for one sentence
  html    a page with drawings. svg and html need the packages of pip install 'rnnparse[draw]'

Every line of input gets an answer, in order:
  - an empty line gets (());
  - a sentence that the grammar cannot span gets a tree glued from partial trees; a message counts
    such sentences, and JSON marks them as glued;
  - a sentence that exceeds the budget (--max-length, --max-seconds, --max-memory) is parsed in
    parts; it gets one tree, which joins those of the parts. A message counts such sentences, and
    JSON marks them as glued and divided;
  - a line that cannot be parsed, such as one of more than 1,048,576 characters, or one with a tag
    that the model does not have, gets (()). JSON gives the reason as "error". A warning counts such
    lines. The exit status stays 0.

examples:
  echo "They ate udon with forks." | rnnparse parse model --format pretty
  rnnparse parse model sentences.txt --out trees.mrg
  rnnparse parse model tokens.txt --tokenized --n-best 10 --json
  echo "They/PRP ate/VBD udon/NN" | rnnparse parse model --tagged --format conll
"""


@dataclass
class _Counts:
    """The sentences whose answers are not whole trees of the grammar, by their numbers."""

    glued: Numbers = field(default_factory=Numbers)
    divided: Numbers = field(default_factory=Numbers)
    failed: Numbers = field(default_factory=Numbers)
    reason: str = ""

    def watch(self, answers: Iterator[Answer]) -> Iterator[Answer]:
        """The answers, which are counted as they pass."""
        for answer in answers:
            if answer.result.divided:
                self.divided.add(answer.number)
            elif answer.result.glued:
                self.glued.add(answer.number)
            if answer.result.error is not None:
                self.reason = self.reason or answer.result.error
                self.failed.add(answer.number)
            yield answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL", help="a model folder from rnnparse train")
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="sentences; standard input if omitted"
    )
    parser.add_argument(
        "--n-best",
        type=setting("candidates"),
        metavar="N",
        help="print the N best trees of each sentence (default: only the best)",
    )
    parser.add_argument("--kbest", type=_former_name, help=argparse.SUPPRESS)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--tokenized",
        action="store_true",
        help="the input is already tokenized: white space separates the tokens",
    )
    kinds.add_argument(
        "--tagged",
        action="store_true",
        help="white space separates tokens with the tags that they keep: word/TAG, divided at the "
        "last slash",
    )
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--format", choices=sorted(FORMATS), default="penn", help="see below (default: penn)"
    )
    formats.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )
    parser.add_argument(
        "--posteriors",
        action="store_true",
        help="with --json, add the probability of each constituent under the grammar; takes about "
        "as long as parsing",
    )
    parser.add_argument(
        "--scorer",
        choices=("cvg", "pcfg"),
        default="cvg",
        help="rank the candidates by the network, or by the PCFG alone (default: cvg)",
    )
    parser.add_argument(
        "--jobs",
        type=setting("n_jobs"),
        metavar="N",
        help="threads or other workers; 0 or -1 for one per core (default: one per core for a "
        "file; 1 for standard input, so that each line is answered at once)",
    )
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="threads",
        help="where to parse: threads; loky, which are processes; or a ray or dask cluster; the "
        "trees are the same (default: threads)",
    )
    parser.add_argument(
        "--address", metavar="ADDRESS", help="address of the cluster (default: start one here)"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        default="-",
        help="write the trees here; the file appears when it is complete",
    )
    add_search(parser)


def _former_name(value: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"the former name; use --n-best {value}")


def run(args: argparse.Namespace) -> int:
    """Parse line by line. Only a few sentences are in memory at a time, however many there are."""
    from rnnparse.parser import load
    from rnnparse.trees.brackets import open_output

    if args.posteriors and args.format != "json":
        raise ConfigError("--posteriors needs --json: no other format has room for them")
    model = load(args.model, search=given_search(args))
    counts = _Counts()
    # Closed at once, as workers would outlive an interrupted command.
    with closing(_answers(model, args)) as answers, open_output(args.out) as stream:
        watched = counts.watch(_progress(answers, args))
        for text in FORMATS[args.format](watched, args.n_best is not None):
            stream.write(text)
            stream.flush()
    warn_of_partial(counts.glued, counts.divided)
    warn_of_failed(counts.failed, counts.reason, f"line(s) of {args.file}")
    return 0


def _answers(model: Parser, args: argparse.Namespace) -> Generator[Answer, None, None]:
    """The results in the order of the lines; an empty line does not count as an error."""
    from rnnparse.input_sentences import NO_TOKEN
    from rnnparse.parser import parse_nodes

    threads = args.jobs if args.jobs is not None else int(args.file == "-")
    results = parse_nodes(
        model,
        _sentences(args),
        n_best=args.n_best or 1,
        scorer=args.scorer,
        n_jobs=threads,
        backend=args.backend,
        address=args.address,
        constituents=args.format == "json",
        posteriors=args.posteriors,
    )
    for number, result in enumerate(results, start=1):
        if result.error == NO_TOKEN:
            result = replace(result, error=None)
        yield Answer(number, result)


def _sentences(args: argparse.Namespace) -> Iterator[str | Line]:
    from rnnparse.input_sentences import LONGEST_TEXT, Line

    for line in read_lines(args.file, LONGEST_TEXT):
        yield Line(line, args.tagged) if args.tokenized or args.tagged else line


def _progress(answers: Iterator[Answer], args: argparse.Namespace) -> Iterator[Answer]:
    """Count sentences on the terminal, unless it shows the input or the output."""
    from tqdm import tqdm

    visible = args.file == "-" or (args.out == "-" and sys.stdout.isatty())
    return iter(tqdm(answers, unit=" sentences", disable=True if visible else None))
