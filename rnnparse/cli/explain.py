"""`rnnparse explain`: why the parser prefers one tree of a sentence to another."""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnparse.cli.console_text import print_json, setting
from rnnparse.cli.draw import checked_suffix
from rnnparse.cli.parse_formats import tree_values
from rnnparse.cli.search_options import add_search, given_search
from rnnparse.errors import ConfigError

if TYPE_CHECKING:
    from rnnparse.parse_results import Constituent, ParseResult, ScoredTree
    from rnnparse.parser import Parser

NAME = "explain"
HELP = "compare the best trees of a sentence node by node"
DESCRIPTION = """\
Show the best trees of a sentence side by side, with the score of each node. Nodes that are not in
all of the trees are marked."""
EPILOG = """\
The score of a tree is the sum of its nodes' scores. Each has two parts: that of the network, and
that of the grammar, which is the log probability of the node's rules times the weight beta.

examples:
  rnnparse explain model "They ate udon with chicken."
  rnnparse explain model "They ate udon with chicken." --n-best 3 --html why.html
  rnnparse explain model "They/PRP ate/VBD udon/NN" --tagged --json
"""

_GAP = 4  # columns between trees
_LONGEST = 48  # most characters of a phrase in a list


@dataclass(frozen=True)
class Explained:
    """A tree among others.

    Attributes:
        scored: the tree.
        differs: of each node in pre-order, whether another of the trees lacks it.
    """

    scored: ScoredTree
    differs: list[bool]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL", help="a model folder from rnnparse train")
    parser.add_argument("sentence", metavar="SENTENCE", help="the sentence, as one argument")
    parser.add_argument(
        "--n-best",
        type=setting("candidates"),
        default=2,
        metavar="N",
        help="number of trees (default: 2)",
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--tokenized", action="store_true", help="white space separates the tokens of the sentence"
    )
    kinds.add_argument(
        "--tagged", action="store_true", help="white space separates tokens with tags, word/TAG"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON: the keys of rnnparse parse --json and, for each tree, margin (how far "
        "the best leads) and, for each node, differs",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write a page with drawings; needs the packages of pip install 'rnnparse[draw]'",
    )
    add_search(parser)


def run(args: argparse.Namespace) -> int:
    """Parse the sentence and show its trees."""
    from rnnparse.input_sentences import Line
    from rnnparse.parser import load, parse_nodes

    if args.html:
        checked_suffix(Path(args.html), (".html",))
    model = load(args.model, search=given_search(args))
    text = args.sentence.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    sentence = Line(text, args.tagged) if args.tokenized or args.tagged else text
    (result,) = parse_nodes(model, [sentence], n_best=args.n_best, constituents=True)
    if result.error is not None:
        raise ConfigError(result.error)
    trees = _explained(result)
    if args.html:
        _write_page(args.html, model, result, trees)
    if args.json:
        print_json(_values(model, result, trees))
    elif not args.html:
        print(_text(model, result, trees, shutil.get_terminal_size().columns))
    return 0


def _explained(result: ParseResult) -> list[Explained]:
    """The trees, with their differences."""
    nodes = [[(n.label, n.span) for n in scored.constituents] for scored in result.trees]
    found = Counter(node for tree in nodes for node in tree)
    return [
        Explained(scored, [found[node] < len(nodes) for node in tree])
        for scored, tree in zip(result.trees, nodes, strict=True)
    ]


def _values(model: Parser, result: ParseResult, trees: list[Explained]) -> dict[str, Any]:
    best = result.trees[0].score
    shown = []
    for tree in trees:
        values = tree_values(tree.scored) | {"margin": best - tree.scored.score}
        for node, differs in zip(values["constituents"], tree.differs, strict=True):
            node["differs"] = differs
        shown.append(values)
    return {
        "tokens": list(result.tokens),
        "offsets": list(result.offsets or ()),
        "glued": result.glued,
        "divided": result.divided,
        "beta": model.beta,
        "trees": shown,
    }


def _text(model: Parser, result: ParseResult, trees: list[Explained], width: int) -> str:
    blocks = [_block(rank, tree, model.beta) for rank, tree in enumerate(trees, start=1)]
    parts = [_beside(blocks, width)]
    if result.divided:
        parts.append("The sentence exceeded the budget and was parsed in parts.")
    elif result.glued:
        parts.append("The grammar cannot span the sentence: the root joins partial trees.")
    if len(trees) == 1:
        parts.append("The parser found no other tree.")
    best = trees[0].scored
    parts += [
        _margin(best, t.scored, rank, model.beta) for rank, t in enumerate(trees[1:], start=2)
    ]
    parts += [
        _differences(f"only in tree {rank}" if len(trees) == 2 else f"tree {rank}", tree, result)
        for rank, tree in enumerate(trees, start=1)
        if any(tree.differs)
    ]
    return "\n\n".join(parts)


def _block(rank: int, tree: Explained, beta: float) -> list[str]:
    """The lines of a tree, all equally long."""
    from rnnparse.trees.draw import indented

    scored = tree.scored
    rows = [
        (f"{'*' if differs else ' '} {line}", node.rnn_score, _weighted(node, beta))
        for line, node, differs in zip(
            indented(scored.tree), scored.constituents, tree.differs, strict=True
        )
    ]
    head = f"tree {rank}, score {scored.score:.3f}"
    width = max(len(head), *(len(text) for text, _, _ in rows))
    lines = [f"{head:<{width}}  network  grammar"]
    lines += [f"{text:<{width}} {_shown(rnn)} {_shown(grammar)}" for text, rnn, grammar in rows]
    total = beta * (scored.log_probability or 0.0)
    return [*lines, f"{'  sum':<{width}} {_shown(scored.rnn_score)} {_shown(total)}"]


def _shown(score: float) -> str:
    return f"{round(score, 3) + 0.0:8.3f}"  # without -0.000


def _weighted(node: Constituent, beta: float) -> float:
    """The grammar's part of a node's score."""
    return beta * (node.log_probability or 0.0)


def _beside(blocks: list[list[str]], width: int) -> str:
    """Blocks side by side, as many as fit into the width."""
    rows: list[list[list[str]]] = []
    room = -1
    for block in blocks:
        needed = len(block[0]) + _GAP
        if needed > room + _GAP:
            rows.append([])
            room = width
        rows[-1].append(block)
        room -= needed
    return "\n\n".join(map(_row, rows))


def _row(blocks: list[list[str]]) -> str:
    height = max(map(len, blocks))
    filled = [block + [" " * len(block[0])] * (height - len(block)) for block in blocks]
    lines = ((" " * _GAP).join(parts).rstrip() for parts in zip(*filled, strict=True))
    return "\n".join(lines)


def _margin(best: ScoredTree, other: ScoredTree, rank: int, beta: float) -> str:
    grammar = beta * ((best.log_probability or 0.0) - (other.log_probability or 0.0))
    lead, spans = best.score - other.score, best.span_score - other.span_score
    parts = {"network": lead - spans - grammar, "grammar": grammar, "spans": spans}
    shown = ", ".join(
        f"{name} {round(part, 3) + 0.0:+.3f}"  # no -0.000
        for name, part in parts.items()
        if part or name != "spans"
    )
    return f"Tree 1 leads tree {rank} by {lead:.3f}: {shown}."


def _differences(title: str, tree: Explained, result: ParseResult) -> str:
    lines = [f"{title}:"]
    for node, differs in zip(tree.scored.constituents, tree.differs, strict=True):
        if differs:
            phrase = " ".join(result.tokens[node.span[0] : node.span[1]])
            phrase = phrase if len(phrase) <= _LONGEST else f"{phrase[: _LONGEST - 1]}…"
            lines.append(f"  {node.label} {node.span[0] + 1}-{node.span[1]}  {phrase}")
    return "\n".join(lines)


def _write_page(path: str, model: Parser, result: ParseResult, trees: list[Explained]) -> None:
    from rnnparse.files import write_atomically
    from rnnparse.pages.explanation import ExplainedTree, explanation_page

    best = result.trees[0]
    shown = [
        ExplainedTree(tree.scored, tree.differs, rank, best.score - tree.scored.score)
        for rank, tree in enumerate(trees, start=1)
    ]
    pieces = explanation_page(result, shown, model.beta)
    write_atomically(Path(path), lambda file: file.writelines(p.encode("utf-8") for p in pieces))
