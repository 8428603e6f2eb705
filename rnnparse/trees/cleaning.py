"""From treebank trees to the trees a parser learns: no traces, no functional tags, root TOP."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees.scanner import ROOT_LABELS
from rnnparse.trees.style import DEFAULT_STYLE, SEPARATORS, TreebankStyle

ROOT = "TOP"
"""The label of every cleaned tree's root."""

_NONE = "-NONE-"
_SUSPECT = re.compile(r"0|\*(-\d+)?|\*\S*[^\W\d_]\S*\*(-\d+)?")


@dataclass
class Removals:
    """What cleaning took out of the trees of a treebank, and what it kept that looks alike.

    Attributes:
        nodes: dropped nodes by category.
        traces: traces as (category, word), those tagged -NONE- left out.
        suspects: words that were kept and look like traces, as (category, word).
        phrases: categories that stand above other nodes.
    """

    nodes: Counter[str] = field(default_factory=Counter)
    traces: Counter[tuple[str, str]] = field(default_factory=Counter)
    suspects: Counter[tuple[str, str]] = field(default_factory=Counter)
    phrases: set[str] = field(default_factory=set)

    def likely_traces(self) -> Counter[tuple[str, str]]:
        """The suspects that are most likely traces: names between asterisks, `*-1`, and `0` or `*`
        where a phrase is expected."""
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
    """A new tree in the form that grammars are read off and parsers put out.

    Labels become categories; traces and nodes that the style drops go, and with them every node
    that they leave empty; a node that is the only child of a node of its own label is merged with
    it. The outer bracket (no label, TOP, ROOT, S1, VROOT) becomes TOP, or TOP is put above where
    there is none. `clean(clean(t)) == clean(t)`.

    Args:
        tree: as a treebank has it.
        style: the treebank's conventions.
        removals: counts what is taken out, if it is given.

    Returns:
        The cleaned tree, or None where no word is left.

    Raises:
        TreebankError: a word that does not stand alone under its tag.
    """
    body = _strip(tree, style, removals)
    while body is not None and body.label() in ROOT_LABELS and not _is_preterminal(body):
        if len(body) > 1:
            body.set_label(ROOT)
            return body
        body = body[0]
    return None if body is None else Tree(ROOT, [body])


def prune(tree: Tree, style: TreebankStyle = DEFAULT_STYLE) -> Tree | None:
    """The tree without traces and dropped nodes, otherwise as the treebank has it.

    Labels keep their functional parts, which EVALB cuts by its own rules; they are cut only at
    separators that the style has besides `SEPARATORS`.

    Returns:
        A new tree, or None where no word is left.

    Raises:
        TreebankError: a word that does not stand alone under its tag.
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
    """Cleaning but for the root; iterative, because trees may be deeper than Python's stack.

    Args:
        labels: cuts the labels of the new tree, in which no nodes are merged; None for those of
            `clean`.
    """
    top = Tree("", [])
    # Each entry: the new node, its parent, the children of the old node that are still to come.
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
            parent.append(Tree(label, [node[0]]))
            return
        if not all(isinstance(child, Tree) for child in node):
            raise TreebankError(
                "expected one word alone under its tag, found among the children of the node "
                f"{node.label()!r}: {[child for child in node if not isinstance(child, Tree)]}"
            )
        if removals is not None:
            removals.phrases.add(category)
        opened.append((Tree(label, []), parent, iter(node)))

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
    """The words in order, in escaped form; works at any depth (`Tree.leaves` recurses)."""
    found = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Tree):
            pending.extend(reversed(node))
        else:
            found.append(node)
    return found


def tags(tree: Tree) -> list[str]:
    """The part-of-speech tags in order, one for each word that stands alone under its tag."""
    found = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if _is_preterminal(node):
            found.append(node.label())
        else:
            pending.extend(child for child in reversed(node) if isinstance(child, Tree))
    return found


def set_words(tree: Tree, words: Iterable[str]) -> None:
    """Put words in place of those of a tree, in order; each stands alone under its tag.

    Raises:
        ValueError: fewer words than the tree has.
    """
    following = iter(words)
    pending = [tree]
    while pending:
        node = pending.pop()
        if _is_preterminal(node):
            word = next(following, None)
            if word is None:
                raise ValueError("fewer words than the tree has")
            node[0] = word
        else:
            pending.extend(child for child in reversed(node) if isinstance(child, Tree))
