"""Trees as text drawings for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.node import is_tree

if TYPE_CHECKING:
    from nltk.tree import Tree

_NO_LABEL = "()"
_LARGE = 150  # nodes; larger trees do not fit a terminal


def pretty(tree: Tree, width: int = 100) -> str:
    """A drawing of a tree with Unicode lines: top-down if it fits, else one node per line.

    Args:
        tree: a tree with escaped words; the drawing shows them unescaped.
        width: most columns of a top-down drawing.

    Returns:
        The lines, without a final newline.
    """
    # NLTK's drawing recurses, and larger trees do not fit.
    if sum(1 for _ in _nodes(tree)) <= _LARGE:
        drawing = _top_down(tree)
        if all(len(line) <= width for line in drawing):
            return "\n".join(drawing)
    return "\n".join(indented(tree))


def _nodes(tree: Tree) -> Iterator[Tree]:
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(child for child in node if is_tree(child))


def _top_down(tree: Tree) -> list[str]:
    from nltk.tree.prettyprinter import TreePrettyPrinter

    shown = _unescaped(tree)
    shown.set_label(tree.label() or _NO_LABEL)
    return [line.rstrip() for line in TreePrettyPrinter(shown).text(unicodelines=True).splitlines()]


def _unescaped(tree: Tree) -> Tree:
    """A copy for NLTK with unescaped words."""
    from nltk.tree import Tree

    children = (_unescaped(child) if is_tree(child) else unescape_token(child) for child in tree)
    return Tree(tree.label(), children)


def indented(tree: Tree) -> list[str]:
    """A line for each node in pre-order; a word follows its tag on the same line."""
    lines = []
    pending: list[tuple[Tree | str, str, str]] = [(tree, "", "")]
    while pending:
        node, before, below = pending.pop()
        if isinstance(node, str):
            lines.append(before + unescape_token(node))
        elif len(node) == 1 and isinstance(node[0], str):
            lines.append(f"{before}{node.label()} {unescape_token(node[0])}")
        else:
            lines.append(before + (node.label() or _NO_LABEL))
            branches = [(child, below + "├─ ", below + "│  ") for child in node[:-1]]
            branches += [(child, below + "└─ ", below + "   ") for child in node[-1:]]
            pending += reversed(branches)
    return lines
