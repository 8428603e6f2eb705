"""From treebank trees to the trees a parser learns: no traces, no functional tags, root TOP."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees.scanner import ROOT_LABELS

ROOT = "TOP"
"""The label of every cleaned tree's root."""

_TRACE = "-NONE-"
_TAG_START = re.compile("[-=|]")


@lru_cache(maxsize=1 << 16)
def basic_label(label: str) -> str:
    """The category without functional tags and indices: `NP-SBJ-1=2` gives `NP`.

    Of alternatives (`PRT|ADVP`) the first is kept. A label that begins with the sign itself
    (`-LRB-`, `-NONE-`) stays whole, and so do `PRP$` and quotation marks.
    """
    found = _TAG_START.search(label)
    return label[: found.start()] if found and found.start() else label


def clean(tree: Tree) -> Tree | None:
    """A new tree in the form that grammars are read off and parsers put out.

    Labels become basic; traces go, and with them every node that they leave empty; a node that
    is the only child of a node of its own label is merged with it. The outer bracket (no label,
    TOP, ROOT, S1, VROOT) becomes TOP, or TOP is put above where there is none.
    `clean(clean(t)) == clean(t)`.

    Returns:
        The cleaned tree, or None where nothing but traces was in it.

    Raises:
        TreebankError: a word that does not stand alone under its tag.
    """
    body = _strip(tree)
    while body is not None and body.label() in ROOT_LABELS and not _is_preterminal(body):
        if len(body) > 1:
            body.set_label(ROOT)
            return body
        body = body[0]
    return None if body is None else Tree(ROOT, [body])


def _strip(tree: Tree) -> Tree | None:
    """`clean` but for the root; iterative, because trees may be deeper than Python's stack."""
    top = Tree("", [])
    # Each entry: the new node, its parent, the children of the old node that are still to come.
    opened: list[tuple[Tree, Tree, Iterator[Tree]]] = []

    def enter(node: Tree, parent: Tree) -> None:
        label = basic_label(node.label())
        if len(node) == 1 and isinstance(node[0], str):
            if label != _TRACE:
                parent.append(Tree(label, [node[0]]))
            return
        if not all(isinstance(child, Tree) for child in node):
            raise TreebankError(
                "expected one word alone under its tag, found among the children of the node "
                f"{node.label()!r}: {[child for child in node if not isinstance(child, Tree)]}"
            )
        opened.append((Tree(label, []), parent, iter(node)))

    enter(tree, top)
    while opened:
        node, parent, children = opened[-1]
        child = next(children, None)
        if child is not None:
            enter(child, node)
            continue
        opened.pop()
        if len(node) == 1 and node[0].label() == node.label():
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
