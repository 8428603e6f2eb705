"""A treebank as flat arrays: what the kernels of split-merge training read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rnnparse.trees.binarization import INTERMEDIATE, binarize
from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.heads import HeadTable
from rnnparse.trees.node import is_tree

if TYPE_CHECKING:
    from nltk.tree import Tree


class Nodes(NamedTuple):
    """N nodes of T binarized trees, children before parents, and so roots last."""

    ptr: np.ndarray  # [T+1] int64: those of tree t are ptr[t]:ptr[t+1]
    category: np.ndarray  # [N] int32
    left: np.ndarray  # [N] int32: node number, -1 for tokens
    right: np.ndarray  # [N] int32: -1 for tokens and unary nodes
    rule: np.ndarray  # [N] int32: row of `TreebankArrays.rules`


class TreebankArrays(NamedTuple):
    """A treebank and its M distinct rules.

    Binary rules are rows (parent, left child, right child), unary ones (parent, child, -1), and the
    words of tags (tag, -1, -1). They come in this order, each kind sorted; words of tags are sorted
    by `word`, then by tag.
    """

    nodes: Nodes
    rules: np.ndarray  # [M, 3] int32
    word: np.ndarray  # [M] int32: place in `words`, -1 unless the rule gives a tag its word
    words: tuple[str, ...]  # unescaped, sorted
    categories: int  # number C of basic categories; C + c is the intermediate one of category c


def treebank_arrays(
    trees: Sequence[Tree], heads: HeadTable, categories: Sequence[str]
) -> TreebankArrays:
    """Binarize cleaned trees, and number their rules.

    Args:
        trees: cleaned trees.
        heads: for the binarization.
        categories: names of the basic categories.

    Raises:
        ValueError: a label is not among the categories.
    """
    flat = _Flat(categories)
    for tree in trees:
        flat.add(binarize(tree, heads))
    category = np.array(flat.category, np.int32)
    left, right = np.array(flat.left, np.int32), np.array(flat.right, np.int32)
    words = tuple(sorted({word for word in flat.word if word is not None}))
    number: dict[str | None, int] = {word: w for w, word in enumerate(words)}
    word = np.array([number.get(word, -1) for word in flat.word], np.int32)
    children = [np.where(child >= 0, category[child], -1) for child in (left, right)]
    kind = (left < 0).astype(np.int32) + (right < 0)
    rows = np.stack([kind, word, category, *children], axis=1)
    distinct, rule = np.unique(rows, axis=0, return_inverse=True)
    nodes = Nodes(
        np.array(flat.ptr, np.int64), category, left, right, rule.ravel().astype(np.int32)
    )
    rules = np.ascontiguousarray(distinct[:, 2:], np.int32)
    return TreebankArrays(nodes, rules, distinct[:, 1].copy(), words, len(categories))


class _Flat:
    """Collects the nodes of binarized trees."""

    def __init__(self, categories: Sequence[str]) -> None:
        self.ptr = [0]
        self.category: list[int] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.word: list[str | None] = []
        self._number = {name: c for c, name in enumerate(categories)}
        self._known: dict[str, int] = {}

    def add(self, tree: Tree) -> None:
        """Add the nodes of a tree, which may be deep."""
        nodes: list[tuple[int, str | None]] = []
        children: list[list[int]] = []
        pending = [(tree, -1)]
        while pending:  # parents first, right children before left ones
            node, parent = pending.pop()
            if parent >= 0:
                children[parent].append(len(nodes))
            inner = is_tree(node[0])
            nodes.append((self._category(node.label()), None if inner else unescape_token(node[0])))
            pending.extend((child, len(children)) for child in node if inner)
            children.append([])
        last = self.ptr[-1] + len(nodes) - 1
        for (category, word), below in zip(reversed(nodes), reversed(children), strict=True):
            self.category.append(category)
            self.word.append(word)
            places = [last - child for child in reversed(below)]
            self.left.append(places[0] if places else -1)
            self.right.append(places[1] if len(places) > 1 else -1)
        self.ptr.append(last + 1)

    def _category(self, label: str) -> int:
        """The number of a label of a binarized tree."""
        known = self._known.get(label)
        if known is None:
            basic = label.removeprefix(INTERMEDIATE).removeprefix("\\")
            if basic not in self._number:
                raise ValueError(f"the label {basic!r} is not a category of the grammar")
            size = len(self._number) if label.startswith(INTERMEDIATE) else 0
            known = self._known[label] = self._number[basic] + size
        return known
