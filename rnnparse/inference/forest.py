"""A sentence's candidate trees as one forest in which every distinct subtree is one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from nltk.tree import Tree
from numba import njit

from rnnparse.inference.hashing import intern, new_table
from rnnparse.trees.binarize import INTERMEDIATE, binarize
from rnnparse.trees.head_kernel import find_head
from rnnparse.trees.heads import HeadTable


@dataclass(frozen=True)
class Forest:
    """K candidate trees over N shared nodes, children before parents.

    The trees are canonically binarized (head-outward), so equal trees have equal nodes whatever
    derivation they come from. A node occurs at most once in one tree; no two trees share a root.

    Attributes:
        cat [N] int32: category; C + c is the intermediate category of category c.
        left, right [N] int32: children; both -1 in a preterminal, right -1 in a unary node.
        start, end [N] int32: span in tokens, end exclusive.
        root [K] int32: root of each candidate, in order of falling logp.
        logp [K] float64: natural log of the probability of the candidate's best derivation.
    """

    cat: np.ndarray
    left: np.ndarray
    right: np.ndarray
    start: np.ndarray
    end: np.ndarray
    root: np.ndarray
    logp: np.ndarray


@njit(cache=True, nogil=True)
def _reachable(candidates):
    """Which n-ary nodes are part of a candidate tree."""
    used = np.zeros(candidates.category.shape[0], np.bool_)
    used[candidates.root] = True
    for v in range(used.shape[0] - 1, -1, -1):
        if used[v]:
            for c in range(candidates.child_ptr[v], candidates.child_ptr[v + 1]):
                used[candidates.child[c]] = True
    return used


@njit(cache=True, nogil=True)
def _put(out, at, category, left, right, start, end):
    out[0, at], out[1, at], out[2, at], out[3, at], out[4, at] = category, left, right, start, end


@njit(cache=True, nogil=True)
def _merge(category, kids, n, head, out, nodes, table):
    """Join n > 2 children from the head outward, until kids[0] and kids[1] are all.

    Args:
        category: of the intermediate nodes.
        kids: forest nodes of the children, overwritten.
        head: index of the head child.
        out, nodes: the forest and how many nodes it has.
        table: intermediate nodes by category and children.

    Returns:
        The new number of nodes.
    """
    low = max(head - 1, 0)
    high = low + 1
    a, b = kids[low], kids[high]
    most = np.int64(out.shape[1])
    while low > 0 or high < n - 1:
        inner = intern(table, (category * most + a) * most + b, nodes)
        if inner == nodes:
            _put(out, nodes, category, a, b, out[3, a], out[4, b])
            nodes += 1
        if low > 0:
            low -= 1
            a, b = kids[low], inner
        else:
            high += 1
            a, b = inner, kids[high]
    kids[0], kids[1] = a, b
    return nodes


@njit(cache=True, nogil=True)
def binarize_candidates(candidates, categories, heads):
    """Rebinarize shared n-ary trees head-outward, as `trees.binarize.binarize` does with one.

    Args:
        candidates: n-ary trees, a `Candidates`.
        categories: number C of basic categories.
        heads: arrays of a compiled head table over those categories.

    Returns:
        cat, left, right, start, end of the forest's nodes and the root of each tree.
    """
    total, children = candidates.category.shape[0], candidates.child.shape[0]
    out = np.empty((5, total + children), np.int32)
    place = np.empty(total, np.int32)  # forest node of each n-ary node
    kids, labels = np.full(children + 2, -1, np.int64), np.empty(children, np.int32)
    used = _reachable(candidates)
    table = new_table(children)
    nodes = np.int64(0)
    for v in range(total):
        if not used[v]:
            continue
        first = candidates.child_ptr[v]
        n = candidates.child_ptr[v + 1] - first
        category = np.int64(candidates.category[v])
        kids[0] = kids[1] = -1
        for c in range(n):
            kids[c] = place[candidates.child[first + c]]
            labels[c] = candidates.category[candidates.child[first + c]]
        if n > 2:
            head = find_head(category, labels, n, *heads)
            nodes = _merge(categories + category, kids, n, head, out, nodes, table)
        _put(out, nodes, category, kids[0], kids[1], candidates.start[v], candidates.end[v])
        place[v] = nodes
        nodes += 1
    return (
        out[0, :nodes].copy(), out[1, :nodes].copy(), out[2, :nodes].copy(),
        out[3, :nodes].copy(), out[4, :nodes].copy(), place[candidates.root],
    )


def candidate_tree(
    forest: Forest, candidate: int, tokens: Sequence[str], categories: Sequence[str]
) -> Tree:
    """One candidate as an n-ary `nltk.Tree` over the (escaped) tokens."""
    size = len(categories)
    built: dict[int, list[Tree]] = {}  # a node's tree, or an intermediate node's children
    for v in nodes_of(forest, candidate):
        kids = [c for c in (forest.left[v], forest.right[v]) if c >= 0]
        children = [tree for c in kids for tree in built[c]]
        if forest.cat[v] >= size:
            built[v] = children
        elif kids:
            built[v] = [Tree(categories[forest.cat[v]], children)]
        else:
            built[v] = [Tree(categories[forest.cat[v]], [tokens[forest.start[v]]])]
    return built[int(forest.root[candidate])][0]


def nodes_of(forest: Forest, candidate: int) -> list[int]:
    """The nodes of one candidate tree, children before parents."""
    stack, found = [int(forest.root[candidate])], []
    while stack:
        v = stack.pop()
        found.append(v)
        stack.extend(int(c) for c in (forest.left[v], forest.right[v]) if c >= 0)
    return found[::-1]


class ForestBuilder:
    """Adds single trees to a forest, sharing every subtree that is there already.

    Args:
        categories: names of the C basic categories. Other labels get the number 2C.
        heads: finds the head children for the canonical binarization.
        forest: where to begin; None for an empty forest.
    """

    def __init__(
        self, categories: Sequence[str], heads: HeadTable, forest: Forest | None = None
    ) -> None:
        self._number = {name: c for c, name in enumerate(categories)}
        self._size = len(categories)
        self._heads = heads
        self._nodes: list[tuple[int, int, int, int, int]] = []
        self._roots: list[int] = []
        self._logp: list[float] = []
        if forest is not None:
            columns = (forest.cat, forest.left, forest.right, forest.start, forest.end)
            self._nodes = list(zip(*(c.tolist() for c in columns), strict=True))
            self._roots, self._logp = forest.root.tolist(), forest.logp.tolist()
        self._place = {node: v for v, node in enumerate(self._nodes)}

    def add(self, tree: Tree, logp: float) -> int:
        """Add a cleaned tree and return which candidate it is, old or new.

        Args:
            tree: n-ary, with the root TOP.
            logp: its log probability, used where the tree is new.
        """
        root = self._insert(binarize(tree, self._heads))
        if root not in self._roots:
            self._roots.append(root)
            self._logp.append(logp)
        return self._roots.index(root)

    def _insert(self, tree: Tree) -> int:
        """The node of a canonically binarized tree; iterative, as trees may be deep."""
        done: list[int] = []
        position = 0
        pending: list[tuple[Tree, bool]] = [(tree, False)]
        while pending:
            node, ready = pending.pop()
            if len(node) == 1 and isinstance(node[0], str):
                leaf = (self._category(node.label()), -1, -1, position, position + 1)
                done.append(self._intern(leaf))
                position += 1
            elif not ready:
                pending.append((node, True))
                pending.extend((child, False) for child in reversed(node))
            else:
                right = done.pop() if len(node) == 2 else -1
                left = done.pop()
                start = self._nodes[left][3]
                end = self._nodes[left if right < 0 else right][4]
                done.append(
                    self._intern((self._category(node.label()), left, right, start, end))
                )
        return done[0]

    def _category(self, label: str) -> int:
        if label.startswith(INTERMEDIATE):
            basic = self._number.get(label[1:].removeprefix("\\"))
            return 2 * self._size if basic is None else self._size + basic
        return self._number.get(label.removeprefix("\\"), 2 * self._size)

    def _intern(self, node: tuple[int, int, int, int, int]) -> int:
        place = self._place.setdefault(node, len(self._nodes))
        if place == len(self._nodes):
            self._nodes.append(node)
        return place

    def forest(self) -> Forest:
        """The forest with all trees added so far."""
        columns = np.array(self._nodes, np.int32).reshape(-1, 5).T
        return Forest(
            *(np.ascontiguousarray(c) for c in columns),
            np.array(self._roots, np.int32),
            np.array(self._logp, np.float64),
        )
