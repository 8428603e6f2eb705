"""`Node`: a tree inside the package, where waiting for NLTK would take a second.

`import nltk.tree` loads all of NLTK and parts of SciPy. What the package itself reads, cleans and
prints is therefore made of nodes, while functions for users return an `nltk.tree.Tree`. Code that
may get either uses `label`, `set_label` and the methods of lists, which both have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any


class Node(list):  # type: ignore[type-arg]
    """A tree of a label and children, each a `Node` or a word.

    Args:
        label: the label.
        children: the children.
    """

    __slots__ = ("_label",)

    def __init__(self, label: str, children: Iterable[Any]) -> None:
        super().__init__(children)
        self._label = label

    def label(self) -> str:
        return self._label

    def set_label(self, label: str) -> None:
        self._label = label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self._label == other._label and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Node({self._label!r}, {super().__repr__()})"


def is_nltk_tree(value: object) -> bool:
    """Whether a value is an `nltk.tree.Tree`. Before NLTK is loaded, no value is."""
    known = getattr(sys.modules.get("nltk.tree.tree"), "Tree", None)
    return known is not None and isinstance(value, known)


def is_tree(value: object) -> bool:
    """Whether a value is a tree of either kind, as opposed to a word."""
    return isinstance(value, Node) or is_nltk_tree(value)


def type_like(tree: Any) -> Any:
    """The type of a new tree made from an old one: `Node` for a node, otherwise NLTK's."""
    if isinstance(tree, Node):
        return Node
    from nltk.tree import Tree

    return Tree
