"""`Layout`: which probabilities of rules with substates are kept, as arrays.

Training makes most of them 0, so a layout keeps only some: *entries*, each a rule with substates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Layout:
    """P entries of M rules of D categories with substates.

    Entries are sorted by rule, then by the substates of the parent and of the children.

    Attributes:
        rules [M, 3] int32: see `TreebankArrays`.
        substates [D] int64: number of substates of each category.
        rule [P] int32: the rule of each entry.
        states [3, P] int32: substates of the parent and of the children; 0 where there is no child.
    """

    rules: np.ndarray
    substates: np.ndarray
    rule: np.ndarray
    states: np.ndarray

    @classmethod
    def full(cls, rules: np.ndarray, substates: np.ndarray) -> Layout:
        """The layout with all entries."""
        none = cls(rules, substates, np.empty(0, np.int32), np.empty((3, 0), np.int32))
        return none._with_keys(np.arange(none._first[-1]))

    @cached_property
    def ptr(self) -> np.ndarray:
        """[M+1] int64: where the entries of each rule begin."""
        return np.searchsorted(self.rule, np.arange(len(self.rules) + 1)).astype(np.int64)

    @cached_property
    def state_ptr(self) -> np.ndarray:
        """[D+1] int64: the first of each category's S substates."""
        return offsets(self.substates)

    @cached_property
    def owner(self) -> np.ndarray:
        """[P] int64: the parent's substate, from 0 to S - 1."""
        owners: np.ndarray = self.state_ptr[self.rules[self.rule, 0]] + self.states[0]
        return owners

    @cached_property
    def column(self) -> np.ndarray:
        """[P] int64: equal for entries that differ only in the parent's substate."""
        width = self._sizes[:, 1] * self._sizes[:, 2]
        columns: np.ndarray = offsets(width)[self.rule] + (self.place % width[self.rule])
        return columns

    @cached_property
    def place(self) -> np.ndarray:
        """[P] int64: (x Y + y) Z + z, with substates x, y, z; the children have Y and Z."""
        _, left, right = self._sizes.T
        x, y, z = self.states.astype(np.int64)
        places: np.ndarray = (x * left[self.rule] + y) * right[self.rule] + z
        return places

    @cached_property
    def _sizes(self) -> np.ndarray:
        """[M, 3] int64: numbers of substates, 1 where there is no child."""
        sizes: np.ndarray = np.where(self.rules < 0, 1, self.substates[self.rules])
        return sizes

    @cached_property
    def _first(self) -> np.ndarray:
        """[M+1] int64: the least key of each rule."""
        return offsets(self._sizes.prod(axis=1))

    @property
    def keys(self) -> np.ndarray:
        """[P] int64: a number for each entry, in rising order."""
        keys: np.ndarray = self._first[self.rule] + self.place
        return keys

    def _with_keys(self, keys: np.ndarray) -> Layout:
        """The layout with the entries that have these keys, which rise."""
        rule = np.searchsorted(self._first, keys, side="right") - 1
        _, left, right = self._sizes[rule].T
        rest, z = np.divmod(keys - self._first[rule], right)
        x, y = np.divmod(rest, left)
        states = np.stack([x, y, z]).astype(np.int32)
        return Layout(self.rules, self.substates, rule.astype(np.int32), states)

    def only(self, kept: np.ndarray) -> Layout:
        """The layout with some of the entries; kept [P] bool."""
        return Layout(self.rules, self.substates, self.rule[kept], self.states[:, kept])

    def completed(self) -> tuple[Layout, np.ndarray]:
        """The layout with all entries that differ from its own only in the parent's substate.

        Returns:
            That layout, and the places of its own entries in it.
        """
        parent = self._sizes[:, 0]
        width = self._sizes[:, 1] * self._sizes[:, 2]
        columns = np.unique(self.column)
        rule = np.searchsorted(offsets(width), columns, side="right") - 1
        of = np.repeat(np.arange(len(columns)), parent[rule])
        x = np.arange(len(of)) - offsets(parent[rule])[of]
        rule, within = rule[of], (columns - offsets(width)[rule])[of]
        keys = np.sort(self._first[rule] + x * width[rule] + within)
        return self._with_keys(keys), np.searchsorted(keys, self.keys)

    def split(self, copies: np.ndarray) -> tuple[Layout, np.ndarray]:
        """The layout in which each substate is several ones.

        Args:
            copies [D] int64: how many, for each category.

        Returns:
            That layout, and the place of the entry that each of its entries comes from.
        """
        factors = np.where(self.rules < 0, 1, copies[self.rules])[self.rule]
        total = factors.prod(axis=1)
        old = np.repeat(np.arange(len(total)), total)
        rest, z = np.divmod(np.arange(len(old)) - offsets(total)[old], factors[old, 2])
        x, y = np.divmod(rest, factors[old, 1])
        states = self.states[:, old] * factors[old].T + np.stack([x, y, z])
        new = Layout(self.rules, self.substates * copies, self.rule[old], states.astype(np.int32))
        order = np.argsort(new.keys)
        return new.only(order), old[order]

    def merge(self, number: np.ndarray, substates: np.ndarray) -> tuple[Layout, np.ndarray]:
        """The layout in which some substates are one.

        Args:
            number [S]: the new number of each substate within its category.
            substates [D] int64: how many remain.

        Returns:
            That layout, and what place in it each entry of this one gets.
        """
        rows = self.rules[self.rule].T
        places = self.state_ptr[np.maximum(rows, 0)] + self.states
        states = np.where(rows < 0, 0, number[places])
        keys = Layout(self.rules, substates, self.rule, states.astype(np.int32)).keys
        distinct, place = np.unique(keys, return_inverse=True)
        none = Layout(self.rules, substates, self.rule[:0], self.states[:, :0])
        return none._with_keys(distinct), place.ravel()


def offsets(sizes: np.ndarray) -> np.ndarray:
    """[N+1] int64: where parts of the given sizes begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
