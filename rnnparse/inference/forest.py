"""A sentence's candidate trees as one forest in which every distinct subtree is one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnparse.array_invariants import FOREST, check, trusted
from rnnparse.compiled import njit
from rnnparse.trees.binarization import INTERMEDIATE, binarize
from rnnparse.trees.heads import HeadTable

if TYPE_CHECKING:
    from nltk.tree import Tree


@dataclass(frozen=True)
class Forest:
    """K candidate trees over N shared nodes, children before parents.

    The trees are binarized in a canonical, head-outward way, so that equal trees from different
    derivations have equal nodes. A node occurs at most once in a tree; trees have distinct roots.

    Attributes:
        cat [N] int32: category; C + c is the intermediate category of category c.
        left, right [N] int32: children; both -1 in a preterminal, right -1 in a unary node.
        start, end [N] int32: span in tokens, end exclusive.
        root [K] int32: root of each candidate, by descending logp.
        logp [K] float64: natural log of the probability of the candidate's best derivation.

    Raises:
        ValueError: an array violates `rnnparse.array_invariants.FOREST`, a child does not precede
            its parent, or the children of a node do not divide its span.
    """

    cat: np.ndarray
    left: np.ndarray
    right: np.ndarray
    start: np.ndarray
    end: np.ndarray
    root: np.ndarray
    logp: np.ndarray

    def __post_init__(self) -> None:
        check("forest", FOREST, vars(self))
        node = _first_unsound(self.left, self.right, self.start, self.end)
        if node >= 0:
            raise ValueError(
                f"the children of node {node} in a forest do not precede it or divide its span"
            )


@dataclass(frozen=True)
class ScoredForest(Forest):
    """Candidates with scores besides their log probabilities, by descending score.

    Attributes:
        score [K] float64: of each candidate.
    """

    score: np.ndarray


@njit(nogil=True)
def _first_unsound(left: np.ndarray, right: np.ndarray, start: np.ndarray, end: np.ndarray) -> int:
    """The first node whose children violate the conditions of `Forest`, or -1.

    Since children divide their parent's span, no node occurs twice in a tree.
    """
    for v in range(len(left)):
        a, b = left[v], right[v]
        if a < 0:
            sound = b < 0 and end[v] == start[v] + 1
        elif a >= v or b >= v or start[a] != start[v]:
            sound = False
        elif b < 0:
            sound = end[a] == end[v]
        else:
            sound = start[b] == end[a] and end[b] == end[v]
        if not sound:
            return v
    return -1


def candidate_tree(
    forest: Forest, candidate: int, tokens: Sequence[str], categories: Sequence[str]
) -> Tree:
    """One candidate as an n-ary `nltk.Tree` over the (escaped) tokens."""
    from nltk.tree import Tree

    return candidate_as(Tree, forest, candidate, tokens, categories)


def candidate_as(
    tree_type: type,
    forest: Forest,
    candidate: int,
    tokens: Sequence[str],
    categories: Sequence[str],
) -> Any:
    """`candidate_tree` as a tree of one type, `Node` or NLTK's `Tree`."""
    size = len(categories)
    cat, left, right, start = map(_elements, (forest.cat, forest.left, forest.right, forest.start))
    built: dict[int, list[Any]] = {}  # a node's tree, or an intermediate node's children
    for v in nodes_of(forest, candidate):
        category, a, b = cat[v], left[v], right[v]
        if a < 0:
            built[v] = [tree_type(categories[category], [tokens[start[v]]])]
            continue
        children = built[a] if b < 0 else built[a] + built[b]
        built[v] = children if category >= size else [tree_type(categories[category], children)]
    return built[int(forest.root[candidate])][0]


def nodes_of(forest: Forest, candidate: int) -> list[int]:
    """The nodes of one candidate tree, children before parents."""
    left, right = _elements(forest.left), _elements(forest.right)
    stack, nodes = [int(forest.root[candidate])], []
    while stack:
        v = stack.pop()
        nodes.append(v)
        if left[v] >= 0:
            stack.append(left[v])
        if right[v] >= 0:
            stack.append(right[v])
    return nodes[::-1]


def forest_of(forest: Forest, candidates: Sequence[int]) -> Forest:
    """A forest of some of the candidates, in the given order."""
    nodes = np.array(sorted({v for c in candidates for v in nodes_of(forest, c)}), np.int32)
    place = np.full(len(forest.cat) + 1, -1, np.int32)  # the last is for missing children
    place[nodes] = np.arange(len(nodes))
    chosen = np.asarray(candidates, np.int64)
    return trusted(
        Forest,
        cat=forest.cat[nodes],
        left=place[forest.left[nodes]],
        right=place[forest.right[nodes]],
        start=forest.start[nodes],
        end=forest.end[nodes],
        root=place[forest.root[chosen]],
        logp=forest.logp[chosen],
    )


def _elements(array: Any) -> memoryview:
    """A view of an array [N] int32 whose single elements are read as fast as those of a list."""
    return memoryview(array)


class ForestBuilder:
    """Adds trees to a forest, sharing every subtree that it already has.

    Args:
        categories: names of the C basic categories. Other labels get the number 2C.
        heads: finds the head children for the canonical binarization.
        forest: the forest to extend; None for an empty one.
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
        """Add a cleaned tree and return its candidate number; equal trees share one.

        Args:
            tree: n-ary, with the root TOP.
            logp: its log probability, used if the tree is new.
        """
        root = self._insert(binarize(tree, self._heads))
        if root not in self._roots:
            self._roots.append(root)
            self._logp.append(logp)
        return self._roots.index(root)

    def _insert(self, tree: Tree) -> int:
        """The node of a canonically binarized tree; iterative, because trees may be deep."""
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
                done.append(self._intern((self._category(node.label()), left, right, start, end)))
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
        cat, left, right, start, end = (np.ascontiguousarray(c) for c in columns)
        root, logp = np.array(self._roots, np.int32), np.array(self._logp, np.float64)
        return Forest(cat, left, right, start, end, root, logp)
