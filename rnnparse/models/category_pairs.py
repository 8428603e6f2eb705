"""Category pairs: the categories of a node's children, which select its weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.array_invariants import KEYS, check

if TYPE_CHECKING:
    from rnnparse.inference.forest import Forest

RARE = 0
"""Row of the weights that rare and unseen pairs share."""


@dataclass(frozen=True, eq=False)
class CategoryPairs:
    """Rows of the stacked weights for pairs of child categories (or single ones).

    Row i + 1 belongs to `pairs[i]`. Rare and unseen pairs share row 0, so that every tree has a
    score.

    Attributes:
        categories: names of the basic categories; an id is a position in this tuple.
        pairs: int32 [R - 1, 2], category ids of the left and the right child; right is -1 for a
            unary node. Sorted, with -1 as the greatest.

    Raises:
        ValueError: the pairs violate `rnnparse.array_invariants.KEYS`.
    """

    categories: tuple[str, ...]
    pairs: np.ndarray

    def __post_init__(self) -> None:
        check("weights", KEYS, vars(self), C=len(self.categories))
        if np.any(self.pairs[:, 0] < 0) or np.any(self.packed[1:] <= self.packed[:-1]):
            raise ValueError("weights.pairs must be sorted and distinct, with a left child each")

    @classmethod
    def count(
        cls, categories: Sequence[str], left: np.ndarray, right: np.ndarray, min_count: int = 1
    ) -> CategoryPairs:
        """Give a row to each pair that occurs at least `min_count` times.

        Args:
            categories: names of the basic categories.
            left, right: int [M], child categories of M nodes; right is -1 for a unary node.
            min_count: rarer pairs get the shared row.
        """
        packed, counts = np.unique(_pack(left, right), return_counts=True)
        frequent = packed[counts >= min_count]
        return cls(tuple(categories), _unpack(frequent))

    @classmethod
    def from_forests(
        cls, categories: Sequence[str], forests: Iterable[Forest], min_count: int = 1
    ) -> CategoryPairs:
        """Count the pairs of all nodes of `forests`; see `count`."""
        parts = [child_categories(f.cat, f.left, f.right) for f in forests]
        internal = [left >= 0 for left, _ in parts]
        none = [np.empty(0, np.int32)]
        lefts = [left[i] for (left, _), i in zip(parts, internal, strict=True)]
        rights = [right[i] for (_, right), i in zip(parts, internal, strict=True)]
        return cls.count(
            categories, np.concatenate(none + lefts), np.concatenate(none + rights), min_count
        )

    def __len__(self) -> int:
        """R, the number of rows including the shared row 0."""
        return len(self.pairs) + 1

    @cached_property
    def packed(self) -> np.ndarray:
        """int64 [R - 1], ascending: left << 32 | right of each pair; -1 is 0xFFFFFFFF."""
        return _pack(self.pairs[:, 0], self.pairs[:, 1])

    @cached_property
    def is_unary(self) -> np.ndarray:
        """bool [R]: whether the row belongs to a single child category; False for row 0."""
        return np.concatenate([[False], self.pairs[:, 1] < 0])

    def rows(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The rows of pairs; 0 for pairs that share the back-off row.

        Args:
            left, right: int, same shape: child categories; right is -1 for a unary node. Ids
                outside `categories` are allowed and get row 0.

        Returns:
            int32, the shape of `left`.
        """
        wanted = _pack(left, right)
        if not len(self.pairs):
            return np.zeros(wanted.shape, np.int32)
        place = np.searchsorted(self.packed, wanted)
        place[place == len(self.pairs)] = 0
        return np.where(self.packed[place] == wanted, place + 1, RARE).astype(np.int32)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the rows: `NP,VP`, `NP` for a unary node, `<rare>` for row 0."""
        named = [
            self.categories[left] + ("" if right < 0 else "," + self.categories[right])
            for left, right in self.pairs
        ]
        return ("<rare>", *named)


def child_categories(
    cat: np.ndarray, left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Categories of the children of forest nodes, -1 for a missing child.

    Args:
        cat, left, right: int32 [N], arrays of a `Forest`.

    Returns:
        Two arrays int32 [N], for the left and the right child.
    """
    padded = np.append(np.asarray(cat, np.int32), np.int32(-1))
    return padded[left], padded[right]


def _pack(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    high = np.asarray(left, np.int64) << 32
    return high | (np.asarray(right, np.int64) & 0xFFFFFFFF)


def _unpack(packed: np.ndarray) -> np.ndarray:
    pairs = np.empty((len(packed), 2), np.int32)
    pairs[:, 0] = packed >> 32
    # The low half is unsigned; as int32 it is -1 again for a unary node.
    pairs[:, 1] = (packed & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return pairs
