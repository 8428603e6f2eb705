"""Head-outward binarization with an exact inverse.

A node P with children c1 … cn and head ch is binarized from the outside inward: the right
siblings of the head are split off from the outermost one inward, then the left siblings, until
two children remain. The new nodes between are labelled `@P`:

    P(a b H d e)  →  P(@P(@P(a @P(b H)) d) e)

Nodes of one or two children do not change. Labels that begin with `@` or a backslash get a
backslash in front, so that `debinarize` restores any tree exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnnparse.trees.heads import HeadTable
from rnnparse.trees.node import is_tree, type_like

if TYPE_CHECKING:
    from nltk.tree import Tree

INTERMEDIATE = "@"
"""Prefix of the labels of nodes that binarization adds."""

_ESCAPE = "\\"


def outward_order(n: int, head: int) -> list[str]:
    """The sides from which siblings are split off, outermost first.

    Args:
        n: number of children.
        head: index of the head child, from 0.

    Returns:
        max(n - 2, 0) steps, each "left" or "right": first all right siblings of the head, then
        the left ones, until two children remain.

    Raises:
        ValueError: `head` is not one of the n children.
    """
    if not 0 <= head < n:
        raise ValueError(f"the head must be one of {n} children counted from 0, not {head}")
    steps = max(n - 2, 0)
    from_right = min(n - 1 - head, steps)
    return ["right"] * from_right + ["left"] * (steps - from_right)


def binarize(tree: Tree, heads: HeadTable) -> Tree:
    """A new tree in which no node has more than two children.

    The siblings of the head are split off from the outside inward, first those on its right.

    Args:
        tree: a cleaned tree.
        heads: finds the head child of nodes with more than two children.
    """
    new_tree = type_like(tree)
    root = new_tree(_escape(tree.label()), [])
    pending = [(tree, root)]
    while pending:
        old, new = pending.pop()
        children = []
        for child in old:
            if is_tree(child):
                copy = new_tree(_escape(child.label()), [])
                pending.append((child, copy))
                children.append(copy)
            else:
                children.append(child)
        if len(children) > 2:
            head = heads.find(old.label(), [_label_of(child) for child in old])
            _attach(new, children, head)
        else:
            new.extend(children)
    return root


def _attach(node: Tree, children: list[Tree], head: int) -> None:
    """Attach three or more children to `node`, outward from the head."""
    first, last = 0, len(children) - 1
    new_tree, label = type_like(node), INTERMEDIATE + node.label()
    for side in outward_order(len(children), head):
        inner = new_tree(label, [])
        if side == "right":
            node.extend((inner, children[last]))
            last -= 1
        else:
            node.extend((children[first], inner))
            first += 1
        node = inner
    node.extend((children[first], children[last]))


def debinarize(tree: Tree) -> Tree:
    """The inverse of `binarize`, a new tree: debinarize(binarize(t, heads)) == t.

    Raises:
        ValueError: the root is a node that binarization added.
    """
    if tree.label().startswith(INTERMEDIATE):
        raise ValueError(f"the root {tree.label()!r} of a binarized tree cannot be intermediate")
    new_tree = type_like(tree)
    root = new_tree(_unescape(tree.label()), [])
    pending = [(tree, root)]
    while pending:
        old, new = pending.pop()
        upcoming = list(reversed(old))
        while upcoming:
            child = upcoming.pop()
            if not is_tree(child):
                new.append(child)
            elif child.label().startswith(INTERMEDIATE):
                upcoming.extend(reversed(child))
            else:
                copy = new_tree(_unescape(child.label()), [])
                new.append(copy)
                pending.append((child, copy))
    return root


def _label_of(child: Tree | str) -> str:
    return child if isinstance(child, str) else child.label()


def _escape(label: str) -> str:
    return _ESCAPE + label if label.startswith((INTERMEDIATE, _ESCAPE)) else label


def _unescape(label: str) -> str:
    return label.removeprefix(_ESCAPE)


def post_order_labels(tree: Tree) -> list[str]:
    """The labels of a binarized tree, children before parents, without the backslashes."""
    labels = []
    pending = [tree]
    while pending:  # the reverse: parents first, right children before left ones
        node = pending.pop()
        added = INTERMEDIATE if node.label().startswith(INTERMEDIATE) else ""
        labels.append(added + node.label().removeprefix(added).removeprefix(_ESCAPE))
        pending.extend(child for child in node if is_tree(child))
    return labels[::-1]
