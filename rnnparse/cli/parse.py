"""`rnnparse parse`: print the tree of each line of text."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from rnnparse.cli.console_text import (
    Numbers,
    read_lines,
    setting,
    warn_of_failed,
    warn_of_partial,
)
from rnnparse.cli.search_options import add_search, given_search
from rnnparse.config import BACKENDS
from rnnparse.json_text import to_json

if TYPE_CHECKING:
    from rnnparse.parser import Parser, ParseResult

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
  json    one object per line: sentence (its number, from 1), tokens, glued, divided, and trees,
          best first, each with tree, score, log_probability (natural log, of the PCFG) and
          rnn_score
  pretty  drawings for the terminal

Every line of input gets an answer, in order:
  - an empty line gets (());
  - a sentence that the grammar cannot span gets a tree glued from partial trees; a message counts
    such sentences, and JSON marks them as glued;
  - a sentence that exceeds the budget (--max-length, --max-seconds, --max-memory) is parsed in
    parts; it gets one tree, which joins those of the parts. A message counts such sentences, and
    JSON marks them as glued and divided;
  - a line that cannot be parsed, such as one of more than 1,048,576 characters, gets (()). JSON
    gives the reason as "error". A warning counts such lines. The exit status stays 0.

examples:
  echo "They ate udon with forks." | rnnparse parse model --format pretty
  rnnparse parse model sentences.txt --out trees.mrg
  rnnparse parse model tokens.txt --tokenized --n-best 10 --format json
"""

_EMPTY = "(())"
_TOKEN = re.compile("[^ \t\n\r\f\v]+")


@dataclass(frozen=True)
class _Answer:
    """The result for one line of input."""

    number: int
    result: ParseResult


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
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="the input is already tokenized: white space separates the tokens",
    )
    parser.add_argument(
        "--format", choices=sorted(_FORMATS), default="penn", help="see below (default: penn)"
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

    model = load(args.model, search=given_search(args))
    show = _FORMATS[args.format]
    glued, divided, failed, reason = Numbers(), Numbers(), Numbers(), ""
    # Closed at once, as workers would outlive an interrupted command.
    with closing(_answers(model, args)) as answers, open_output(args.out) as stream:
        for answer in _progress(answers, args):
            if answer.result.divided:
                divided.add(answer.number)
            elif answer.result.glued:
                glued.add(answer.number)
            if answer.result.error is not None:
                reason = reason or answer.result.error
                failed.add(answer.number)
            stream.write(show(answer, args.n_best is not None) + "\n")
            stream.flush()
    warn_of_partial(glued, divided)
    warn_of_failed(failed, reason, f"line(s) of {args.file}")
    return 0


def _answers(model: Parser, args: argparse.Namespace) -> Generator[_Answer, None, None]:
    """The results in the order of the lines; an empty line does not count as an error."""
    from rnnparse.input_sentences import NO_TOKEN
    from rnnparse.parser import parse_nodes

    threads = args.jobs if args.jobs is not None else int(args.file == "-")
    results = parse_nodes(
        model,
        _sentences(args.file, args.tokenized),
        n_best=args.n_best or 1,
        scorer=args.scorer,
        n_jobs=threads,
        backend=args.backend,
        address=args.address,
    )
    for number, result in enumerate(results, start=1):
        if result.error == NO_TOKEN:
            result = replace(result, error=None)
        yield _Answer(number, result)


def _sentences(path: str, tokenized: bool) -> Iterator[str | list[str]]:
    from rnnparse.input_sentences import LONGEST_TEXT

    for line in read_lines(path, LONGEST_TEXT):
        # A line that is too long is cut off; as a string, its length shows that.
        yield _TOKEN.findall(line) if tokenized and len(line) <= LONGEST_TEXT else line


def _progress(answers: Iterator[_Answer], args: argparse.Namespace) -> Iterator[_Answer]:
    """Count sentences on the terminal, unless it shows the input or the output."""
    from tqdm import tqdm

    visible = args.file == "-" or (args.out == "-" and sys.stdout.isatty())
    return iter(tqdm(answers, unit=" sentences", disable=True if visible else None))


def _penn(answer: _Answer, several: bool) -> str:
    from rnnparse.trees.brackets import format_tree

    trees = [format_tree(scored.tree) for scored in answer.result.trees] or [_EMPTY]
    return "\n".join([*trees, ""] if several else trees)


def _json(answer: _Answer, several: bool) -> str:
    from rnnparse.trees.brackets import format_tree

    result = answer.result
    shown: dict[str, Any] = {
        "sentence": answer.number,
        "tokens": list(result.tokens),
        "glued": result.glued,
        "divided": result.divided,
        "trees": [
            {
                "tree": format_tree(scored.tree),
                "score": scored.score,
                "log_probability": scored.log_probability,
                "rnn_score": scored.rnn_score,
            }
            for scored in result.trees
        ],
    }
    if result.error is not None:
        shown["error"] = result.error
    return to_json(shown)


def _pretty(answer: _Answer, several: bool) -> str:
    from rnnparse.trees.draw import pretty

    if not answer.result.trees:
        return _EMPTY + "\n"
    width = shutil.get_terminal_size().columns
    drawings = []
    if answer.result.divided:
        drawings.append(f"{answer.number}: exceeded the budget and was parsed in parts")
    for rank, scored in enumerate(answer.result.trees, start=1):
        if several:
            drawings.append(f"{answer.number}, tree {rank}: score {scored.score:.3f}")
        drawings.append(pretty(scored.tree, width) + "\n")
    return "\n".join(drawings)


_FORMATS: dict[str, Callable[[_Answer, bool], str]] = {
    "penn": _penn,
    "json": _json,
    "pretty": _pretty,
}
