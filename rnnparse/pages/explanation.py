"""A page that compares the best trees of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rnnparse.pages.rendering import inline_tree, rendered
from rnnparse.parse_results import Constituent, ParseResult, ScoredTree
from rnnparse.trees.node import is_tree


class ExplainedTree(NamedTuple):
    """A tree among others.

    Attributes:
        scored: the tree.
        differs: of each node in pre-order, whether another of the trees lacks it.
        rank: its place, from 1.
        margin: how far the best tree leads.
    """

    scored: ScoredTree
    differs: Sequence[bool]
    rank: int
    margin: float


class _Row(NamedTuple):
    """A node in a table."""

    node: Constituent
    depth: int
    phrase: str
    grammar: float
    differs: bool


def explanation_page(
    result: ParseResult, trees: Sequence[ExplainedTree], beta: float
) -> Iterator[str]:
    """The pieces of the page.

    Args:
        result: of the sentence.
        trees: its best trees.
        beta: weight of the log probability in their scores.

    Raises:
        MissingExtraError: svgling or Jinja2 is not installed.
    """
    shown = [
        {
            "tree": tree,
            "markup": inline_tree(tree.scored.tree, _marked(tree)),
            "grammar": beta * (tree.scored.log_probability or 0.0),
            "rows": _rows(result, tree, beta),
        }
        for tree in trees
    ]
    context: dict[str, Any] = {"title": " ".join(result.tokens), "result": result, "trees": shown}
    return rendered("explanation.html.j2", {**context, "beta": beta})


def _depths(tree: Any) -> list[int]:
    """The depth of each node in pre-order, words excluded."""
    depths, pending = [], [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        depths.append(depth)
        pending.extend((child, depth + 1) for child in reversed(node) if is_tree(child))
    return depths


def _marked(tree: ExplainedTree) -> set[int]:
    """Numbers of the differing nodes, where words count."""
    marked, number = set(), 0
    for node, differs in zip(tree.scored.constituents, tree.differs, strict=True):
        if differs:
            marked.add(number)
        number += 1 + node.is_tag
    return marked


def _rows(result: ParseResult, tree: ExplainedTree, beta: float) -> list[_Row]:
    nodes, depths = tree.scored.constituents, _depths(tree.scored.tree)
    return [
        _Row(
            node,
            depth,
            " ".join(result.tokens[node.span[0] : node.span[1]]),
            beta * (node.log_probability or 0.0),
            differs,
        )
        for node, depth, differs in zip(nodes, depths, tree.differs, strict=True)
    ]
