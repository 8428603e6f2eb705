"""Clean treebank trees for training: no traces, no function tags, root TOP."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rnnparse.errors import TreebankError
from rnnparse.trees.node import is_tree, type_like
from rnnparse.trees.scanner import ROOT_LABELS
from rnnparse.trees.style import DEFAULT_STYLE, SEPARATORS, TreebankStyle

if TYPE_CHECKING:
    from nltk.tree import Tree

ROOT = "TOP"
"""Root label of cleaned trees."""

_NONE = "-NONE-"
_SUSPECT = re.compile(r"0|\*(-\d+)?|\*\S*[^\W\d_]\S*\*(-\d+)?")


@dataclass
class Removals:
    """Counts of what cleaning removed from a treebank, and of kept words that look like traces.

    Attributes:
        nodes: removed nodes, by category.
        traces: removed traces as (category, word), except those tagged -NONE-.
        suspects: kept words that look like traces, as (category, word).
        phrases: categories of nodes above other nodes.
    """

    nodes: Counter[str] = field(default_factory=Counter)
    traces: Counter[tuple[str, str]] = field(default_factory=Counter)
    suspects: Counter[tuple[str, str]] = field(default_factory=Counter)
    phrases: set[str] = field(default_factory=set)

    def likely_traces(self) -> Counter[tuple[str, str]]:
        """The most likely traces among the suspects: names between asterisks, `*-1`, and `0` or
        `*` in place of a phrase."""
        return Counter(
            {
                (category, word): count
                for (category, word), count in self.suspects.items()
                if len(word) > 1 or category in self.phrases
            }
        )


def clean(
    tree: Tree, style: TreebankStyle = DEFAULT_STYLE, removals: Removals | None = None
) -> Tree | None:
    """A new tree in the form that grammars are estimated from and parsers return.

    Labels become categories. Traces and nodes that the style drops are removed, with every node
    that becomes empty. A node whose only child has the same label is merged with it. The outer
    bracket (no label, TOP, ROOT, S1, VROOT) becomes TOP; a tree without one gets TOP as its root.
    `clean(clean(t)) == clean(t)`.

    Args:
        tree: as a treebank has it.
        style: the treebank's conventions.
        removals: if given, counts what is removed.

    Returns:
        The cleaned tree, or None if no words remain.

    Raises:
        TreebankError: a word has siblings in the tree.
    """
    body = _strip(tree, style, removals)
    while body is not None and body.label() in ROOT_LABELS and not _is_preterminal(body):
        if len(body) > 1:
            body.set_label(ROOT)
            return body
        body = body[0]
    return None if body is None else type_like(body)(ROOT, [body])


def prune(tree: Tree, style: TreebankStyle = DEFAULT_STYLE) -> Tree | None:
    """The tree without traces and dropped nodes, otherwise unchanged.

    Labels keep their function tags, which EVALB cuts by its own rules; they are cut only at
    separators of the style that are not in `SEPARATORS`.

    Returns:
        A new tree, or None if no words remain.

    Raises:
        TreebankError: a word has siblings in the tree.
    """
    further = tuple(sign for sign in style.separators if sign not in SEPARATORS)
    labels = TreebankStyle(separators=further)
    return _strip(tree, style, None, labels)


def _strip(
    tree: Tree,
    style: TreebankStyle,
    removals: Removals | None,
    labels: TreebankStyle | None = None,
) -> Tree | None:
    """Clean all but the root; iterative, because trees may be deeper than Python's stack.

    Args:
        labels: style that cuts the labels of the new tree, whose nodes are not merged; None to
            cut and merge as `clean` does.
    """
    new_tree = type_like(tree)
    top = new_tree("", [])
    # Each entry: the new node, its parent, and the remaining children of the old node.
    opened: list[tuple[Tree, Tree, Iterator[Tree]]] = []

    def enter(node: Tree, parent: Tree) -> None:
        category = style.category(node.label())
        if category in style.drop:
            if removals is not None:
                removals.nodes[category] += 1
            return
        label = category if labels is None else labels.category(node.label())
        if len(node) == 1 and isinstance(node[0], str):
            if style.is_trace(category, node[0]):
                if removals is not None and category != _NONE:
                    removals.traces[category, node[0]] += 1
                return
            if removals is not None and node[0][:1] in ("*", "0") and _SUSPECT.fullmatch(node[0]):
                removals.suspects[category, node[0]] += 1
            parent.append(new_tree(label, [node[0]]))
            return
        if not all(map(is_tree, node)):
            raise TreebankError(
                "expected each word to be the only child of its tag, but the node "
                f"{node.label()!r} has several children, among them the words "
                f"{[child for child in node if not is_tree(child)]}"
            )
        if removals is not None:
            removals.phrases.add(category)
        opened.append((new_tree(label, []), parent, iter(node)))

    enter(tree, top)
    while opened:
        node, parent, children = opened[-1]
        child = next(children, None)
        if child is not None:
            enter(child, node)
            continue
        opened.pop()
        if labels is None and len(node) == 1 and node[0].label() == node.label():
            node = node[0]
        if node:
            parent.append(node)
    return top[0] if top else None


def _is_preterminal(tree: Tree) -> bool:
    return len(tree) == 1 and isinstance(tree[0], str)


def words(tree: Tree) -> list[str]:
    """The escaped words in order; works at any depth (`Tree.leaves` recurses)."""
    leaves = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if is_tree(node):
            pending.extend(reversed(node))
        else:
            leaves.append(node)
    return leaves


def tags(tree: Tree) -> list[str]:
    """The part-of-speech tags in order."""
    return [node.label() for node in _preterminals(tree)]


def set_words(tree: Tree, words: Iterable[str]) -> None:
    """Replace the words of a tree, in order. Each word must be the only child of its tag.

    Raises:
        ValueError: there are fewer words than the tree has.
    """
    following = iter(words)
    for node in _preterminals(tree):
        word = next(following, None)
        if word is None:
            raise ValueError("there are fewer words than the tree has")
        node[0] = word


def _preterminals(tree: Tree) -> Iterator[Tree]:
    """The nodes above the words, in order."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if _is_preterminal(node):
            yield node
        else:
            pending.extend(child for child in reversed(node) if is_tree(child))
