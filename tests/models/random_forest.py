"""Random forests with shared subtrees, for tests of everything that works on level arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rnnparse.inference.forest import Forest

CATEGORIES = ("TOP", "T0", "T1", "T2", "NP", "VP", "S", "@S", "PP", "X")
TOP, TAGS, INNER = 0, (1, 2, 3), (4, 5, 6, 7, 8)
"""Category ids; `X` never occurs in a forest."""


@dataclass
class Builder:
    """Collects nodes; the same category over the same children is one node (hash-consing)."""

    nodes: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    seen: dict[tuple[int, int, int, int, int], int] = field(default_factory=dict)

    def add(self, cat: int, left: int, right: int, start: int, end: int) -> int:
        node = (cat, left, right, start, end)
        if node not in self.seen:
            self.seen[node] = len(self.nodes)
            self.nodes.append(node)
        return self.seen[node]


def random_tree(builder: Builder, words: int, rng: np.random.Generator) -> int:
    """Add a random binary tree with some unary nodes and a TOP root; return its root."""

    def grow(start: int, end: int) -> int:
        if end - start == 1:
            node = builder.add(int(rng.choice(TAGS)), -1, -1, start, end)
            unary = 0.2
        else:
            split = int(rng.integers(start + 1, end))
            left, right = grow(start, split), grow(split, end)
            node = builder.add(int(rng.choice(INNER)), left, right, start, end)
            unary = 0.1
        if rng.random() < unary:
            node = builder.add(int(rng.choice(INNER)), node, -1, start, end)
        return node

    return builder.add(TOP, grow(0, words), -1, 0, words)


def random_forest(words: int, trees: int, rng: np.random.Generator) -> Forest:
    """A forest of up to `trees` different random trees over `words` words."""
    builder = Builder()
    roots = dict.fromkeys(random_tree(builder, words, rng) for _ in range(trees))
    arrays = np.array(builder.nodes, np.int32).T
    return Forest(*arrays, np.array(list(roots), np.int32), np.sort(-rng.random(len(roots))))


def random_forests(
    sizes: Sequence[tuple[int, int]], vocabulary: int, rng: np.random.Generator
) -> tuple[list[Forest], list[np.ndarray]]:
    """Forests for (words, trees) sizes, and the vocabulary rows of their tokens."""
    forests = [random_forest(words, trees, rng) for words, trees in sizes]
    rows = [rng.integers(0, vocabulary, words).astype(np.int32) for words, _ in sizes]
    return forests, rows


def single_trees(forest: Forest) -> list[Forest]:
    """Each candidate as a forest of its own, without sharing."""
    return [_extract(forest, k) for k in range(len(forest.root))]


def _extract(forest: Forest, candidate: int) -> Forest:
    builder = Builder()

    def copy(node: int) -> int:
        left, right = int(forest.left[node]), int(forest.right[node])
        left = copy(left) if left >= 0 else -1
        right = copy(right) if right >= 0 else -1
        span = int(forest.start[node]), int(forest.end[node])
        return builder.add(int(forest.cat[node]), left, right, *span)

    root = copy(int(forest.root[candidate]))
    arrays = np.array(builder.nodes, np.int32).T
    return Forest(*arrays, np.array([root], np.int32), forest.logp[[candidate]])
