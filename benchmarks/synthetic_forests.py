"""Synthetic forests of the size and the sharing that k-best lists of newspaper sentences have.

About 24 words and 100 candidates a sentence, some 500 nodes: each candidate changes one place of an
earlier one, near the root more often than far from it, so that most subtrees are shared.
"""

from __future__ import annotations

import numpy as np

from rnnparse.inference import Forest

TAGS, PHRASES = 45, 55
CATEGORIES = ("TOP", *(f"T{i}" for i in range(TAGS)), *(f"P{i}" for i in range(PHRASES)))


class Builder:
    """Collects nodes (category, left, right, start, end); equal ones are one node."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, int, int, int]] = []
        self.seen: dict[tuple[int, int, int, int, int], int] = {}

    def add(self, *node: int) -> int:
        """The number of a node, an old one where there is an equal one."""
        cat, left, right, start, end = node
        known = self.seen.setdefault((cat, left, right, start, end), len(self.nodes))
        if known == len(self.nodes):
            self.nodes.append((cat, left, right, start, end))
        return known


class Generator:
    """Makes sentences from one seed; labels follow Zipf's law, as they do in treebanks."""

    def __init__(self, seed: int, words: float = 24.0, candidates: int = 100) -> None:
        self.rng = np.random.default_rng(seed)
        self.words, self.candidates = words, candidates

    def label(self, count: int, first: int) -> int:
        """A category id of `count` ones that begin at `first`."""
        return first + min(int(self.rng.zipf(1.5)) - 1, 10_000) % count

    def phrase(self) -> int:
        """A phrase's category id."""
        return self.label(PHRASES, 1 + TAGS)

    def grow(self, builder: Builder, start: int, end: int) -> int:
        """A random tree over the words start … end - 1."""
        if end - start == 1:
            node = builder.add(self.label(TAGS, 1), -1, -1, start, end)
        else:
            # Mostly right-branching, as English is.
            size = min(int(self.rng.geometric(0.5)), end - start - 1)
            left = self.grow(builder, start, start + size)
            node = builder.add(
                self.phrase(), left, self.grow(builder, start + size, end), start, end
            )
        if self.rng.random() < 0.12:
            node = builder.add(self.phrase(), node, -1, start, end)
        return node

    def edit(self, builder: Builder, node: int) -> int:
        """The tree with one node relabelled or rotated, and new nodes above it."""
        cat, left, right, start, end = builder.nodes[node]
        if left < 0:
            return builder.add(self.label(TAGS, 1), -1, -1, start, end)
        if self.rng.random() < 0.75:
            if right < 0 or self.rng.random() < 0.3:
                return builder.add(cat, self.edit(builder, left), right, start, end)
            return builder.add(cat, left, self.edit(builder, right), start, end)
        if right >= 0 and builder.nodes[right][2] >= 0:
            _, low_left, low_right, _, _ = builder.nodes[right]
            middle = builder.nodes[low_left][4]
            low = builder.add(self.phrase(), left, low_left, start, middle)
            return builder.add(cat, low, low_right, start, end)
        return builder.add(self.phrase(), left, right, start, end)

    def forest(self) -> Forest:
        """One sentence's forest."""
        builder = Builder()
        words = max(2, int(self.rng.gamma(4.0, self.words / 4.0)))
        trees = [self.grow(builder, 0, words)]
        for _ in range(self.candidates * 4):
            if len(trees) == self.candidates:
                break
            new = self.edit(builder, trees[int(self.rng.integers(len(trees)))])
            if new not in trees:
                trees.append(new)
        roots = list(dict.fromkeys(builder.add(0, tree, -1, 0, words) for tree in trees))
        arrays = np.array(builder.nodes, np.int32).T
        return Forest(*arrays, np.array(roots, np.int32), -np.arange(len(roots)) * 0.1)
