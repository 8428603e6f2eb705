"""`rnnparse draw`: draw the trees of a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnparse.cli.console_text import positive
from rnnparse.cli.treebank_style import add_encoding
from rnnparse.errors import ConfigError, TreebankError

if TYPE_CHECKING:
    from rnnparse.pages.tree_pages import Section

NAME = "draw"
HELP = "draw the trees of a file as SVG, PNG or HTML"
DESCRIPTION = """\
Draw trees in brackets, such as the output of rnnparse parse, one below the other. Words are shown
without escapes: ( for -LRB-. This needs the packages of pip install 'rnnparse[draw]'."""
EPILOG = """\
examples:
  rnnparse draw trees.mrg --out trees.html
  rnnparse draw treebanks/dev.mrg --sentence 3 --out third.svg
  echo "They ate udon." | rnnparse parse model | rnnparse draw - --out tree.png
"""

FORMATS = (".svg", ".png", ".html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file", metavar="FILE", help="trees: a file, a folder, - for standard input"
    )
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="the drawing: a .svg, .png or .html file"
    )
    parser.add_argument(
        "--sentence", type=positive, metavar="N", help="draw only the Nth tree (default: all)"
    )
    add_encoding(parser, "encoding of the trees, such as latin-1 (default: utf-8)")


def run(args: argparse.Namespace) -> int:
    """Read, draw, write."""
    from rnnparse.files import write_atomically
    from rnnparse.trees.drawing import draw_tree, stacked, to_png

    out = Path(args.out)
    kind = checked_suffix(out, FORMATS)
    trees = _read(args)
    if kind == ".html":
        from rnnparse.pages.tree_pages import tree_page
        from rnnparse.trees.brackets import source_name

        pieces = tree_page(source_name(args.file), _sections(trees))
        write_atomically(out, lambda file: file.writelines(p.encode("utf-8") for p in pieces))
        return 0
    drawings = []
    for number, tree in trees:
        try:
            drawings.append(draw_tree(tree))
        except ValueError as error:
            message = f"tree {number}: {error}; a .html file has it as text"
            raise TreebankError(message, args.file) from error
    drawing = stacked(drawings)
    try:
        content = to_png(drawing) if kind == ".png" else drawing.svg.encode("utf-8")
    except ValueError as error:
        raise ConfigError(f"{args.out}: {error}") from error
    write_atomically(out, lambda file: file.write(content))
    return 0


def checked_suffix(path: Path, known: tuple[str, ...]) -> str:
    """The suffix of an output file in lower case.

    Raises:
        ConfigError: it is not among the known ones.
    """
    suffix = path.suffix.lower()
    if suffix not in known:
        raise ConfigError(f"{path}: expected a file name that ends in {' or '.join(known)}")
    return suffix


def _read(args: argparse.Namespace) -> list[tuple[int, Any]]:
    """The trees to draw, with their numbers."""
    from rnnparse.trees.brackets import load_as
    from rnnparse.trees.node import Node
    from rnnparse.trees.style import TreebankStyle

    style = TreebankStyle(encoding=getattr(args, "encoding", None))
    trees = list(enumerate(load_as(Node, args.file, style, keep_empty=True), start=1))
    if args.sentence is None:
        return trees
    if args.sentence > len(trees):
        raise TreebankError(
            f"has {len(trees)} trees, so there is no tree {args.sentence}", args.file
        )
    return [trees[args.sentence - 1]]


def _sections(trees: list[tuple[int, Any]]) -> Iterator[Section]:
    from rnnparse.pages.rendering import inline_tree
    from rnnparse.pages.tree_pages import Figure, Section
    from rnnparse.trees.brackets import unescape_token
    from rnnparse.trees.cleaning import words

    for number, tree in trees:
        text = " ".join(map(unescape_token, words(tree)))
        yield Section(f"Tree {number}", text, [], [Figure(inline_tree(tree), "")])
