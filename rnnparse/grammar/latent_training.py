"""Split-merge training of substates.

After Petrov, Barrett, Thibaux & Klein, "Learning Accurate, Compact, and Interpretable Tree
Annotation" (COLING-ACL 2006). Each cycle splits every substate in two with a little noise, trains
by expectation maximization (EM), merges that half of the pairs whose merging costs the least
likelihood, trains again, and smooths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rnnparse.grammar.latent_kernel import expected_uses
from rnnparse.grammar.latent_trees import Nodes, TreebankArrays
from rnnparse.threads import Abandoned, stop_flag

NOISE = 0.01  # relative, of the probabilities of new substates
FEWEST = 2  # occurrences of a category that is split
MERGED = 0.5  # share of the pairs of new substates that are merged again
AFTER_SPLIT, AFTER_MERGE, SMOOTHED = 20, 10, 3  # iterations of EM


@dataclass(frozen=True)
class Layout:
    """Where the probabilities of M rules of D categories with substates are.

    Attributes:
        rules [M, 3] int32: see `TreebankArrays`.
        substates [D] int64: number of substates of each category.
        ptr [M+1] int64: rule r with substates x of the parent and y, z of the children has place
            ptr[r] + (x Y + y) Z + z among P; Y and Z are 1 where there is no child.
        state_ptr [D+1] int64: first of each category's S substates.
        owner [P] int64: parent substate of each place, from 0 to S - 1.
        column [P] int64: equal for places that differ only in the parent's substate.
    """

    rules: np.ndarray
    substates: np.ndarray
    ptr: np.ndarray
    state_ptr: np.ndarray
    owner: np.ndarray
    column: np.ndarray

    @classmethod
    def of(cls, rules: np.ndarray, substates: np.ndarray) -> Layout:
        size = np.where(rules < 0, 1, substates[rules])
        width = size[:, 1] * size[:, 2]
        ptr, state_ptr = _offsets(size.prod(axis=1)), _offsets(substates)
        rule = np.repeat(np.arange(len(rules)), np.diff(ptr))
        state, column = np.divmod(np.arange(ptr[-1]) - ptr[rule], width[rule])
        return cls(
            rules, substates, ptr, state_ptr,
            state + state_ptr[rules[rule, 0]], column + _offsets(width)[rule],
        )

    def places(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, rule: np.ndarray) -> np.ndarray:
        """The places of rules with substates."""
        left, right = (np.where(c < 0, 1, self.substates[c]) for c in self.rules[rule, 1:].T)
        places: np.ndarray = self.ptr[rule] + (x * left + y) * right + z
        return places

    def indices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """[P] each: the substates of parent and children, and the rule, of each place."""
        rule = np.repeat(np.arange(len(self.rules)), np.diff(self.ptr))
        _, left, right = np.where(self.rules < 0, 1, self.substates[self.rules]).T
        rest, z = np.divmod(np.arange(self.ptr[-1]) - self.ptr[rule], right[rule])
        x, y = np.divmod(rest, left[rule])
        return x, y, z, rule


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def probabilities(layout: Layout, counts: np.ndarray, smoothing: np.ndarray) -> np.ndarray:
    """[P] relative frequencies, smoothed towards their mean over the substates of the parent.

    Those of a substate without counts are the mean over the others. A category without counts has
    the probability 0 everywhere.

    Args:
        counts [P]: counts.
        smoothing [M]: the weight of the mean, for each rule.
    """
    states = int(layout.state_ptr[-1])
    total = np.bincount(layout.owner, counts, states)
    frequency = counts / np.where(total > 0.0, total, 1.0)[layout.owner]
    alive = (total > 0.0).astype(np.float64)[layout.owner]
    mean = np.bincount(layout.column, frequency) / np.maximum(
        np.bincount(layout.column, alive), 1.0
    )
    weight = np.repeat(smoothing, np.diff(layout.ptr))
    weight[alive == 0.0] = 1.0
    mixed = frequency + weight * (mean[layout.column] - frequency)
    total = np.bincount(layout.owner, mixed, states)  # 1 except where a tag is a phrase, too
    normal: np.ndarray = mixed / np.where(total > 0.0, total, 1.0)[layout.owner]
    return normal


class Trainer:
    """The state of training.

    Args:
        bank: the treebank.
        root: category that is not split.
        rng: for the noise.
        smoothing [M] float64: the weight of the mean for each rule in the last iterations of a
            cycle.

    Attributes:
        layout: of the rules.
        probability [P] float64: of the rules.
        counts [P] float64: the expected counts from which they were estimated.
    """

    def __init__(
        self,
        bank: TreebankArrays,
        root: int,
        rng: np.random.Generator,
        smoothing: np.ndarray,
    ) -> None:
        self.nodes, self._rng, self._smoothing = bank.nodes, rng, smoothing
        self.layout = Layout.of(bank.rules, np.ones(2 * bank.categories, np.int64))
        self.counts: np.ndarray = np.bincount(bank.nodes.rule).astype(np.float64)
        self._splits = np.bincount(bank.nodes.category, minlength=2 * bank.categories) >= FEWEST
        self._splits[root] = False
        self._plain = np.zeros(len(bank.rules))
        self.probability = probabilities(self.layout, self.counts, self._plain)

    def cycle(self) -> None:
        """Split, train, merge, train, smooth.

        Raises:
            Abandoned: the result is no longer needed; see `rnnparse.threads`.
        """
        copies = self.split()
        self.train(AFTER_SPLIT, self._plain)
        self.merge(copies)
        self.train(AFTER_MERGE, self._plain)
        self.train(SMOOTHED, self._smoothing)

    def train(self, iterations: int, smoothing: np.ndarray) -> float:
        """Iterations of EM; returns the log likelihood before the last one."""
        likelihood = 0.0
        for _ in range(iterations):
            likelihood, self.counts, _ = expected_counts(
                self.nodes, self.layout, self.probability
            )
            self.probability = probabilities(self.layout, self.counts, smoothing)
        return likelihood

    def split(self, noise: float = NOISE) -> np.ndarray:
        """Split the substates; returns by how many each one has been replaced, [D] int64."""
        old = self.layout
        copies = np.where(self._splits, 2, 1)
        self.layout = Layout.of(old.rules, old.substates * copies)
        *states, rule = self.layout.indices()
        factors = np.where(old.rules < 0, 1, copies[old.rules])[rule].T
        x, y, z = (state // factor for state, factor in zip(states, factors, strict=True))
        halves = self.probability[old.places(x, y, z, rule)] / (factors[1] * factors[2])
        halves *= 1.0 + noise * self._rng.uniform(-1.0, 1.0, len(halves))
        self.probability = probabilities(self.layout, halves, self._plain)
        return copies

    def merge(self, copies: np.ndarray) -> None:
        """Merge half of the pairs of substates that `split` has made."""
        layout, pair_ptr = self.layout, _offsets(np.where(copies == 2, self.layout.substates, 0))
        pair_ptr //= 2
        paired = np.repeat(copies == 2, layout.substates)
        total = np.bincount(layout.owner, self.counts, len(paired))[paired].reshape(-1, 2)
        share = total[:, 0] / np.maximum(total.sum(axis=1), 1e-300)
        _, counts, gains = expected_counts(
            self.nodes, layout, self.probability, pair_ptr, share
        )
        merged = np.zeros(len(gains), np.bool_)
        merged[np.argsort(-gains, kind="stable")[: int(MERGED * len(gains))]] = True
        new = np.ones(len(paired), np.int64)  # 0 for substates that join the one before
        new[np.flatnonzero(paired)[1::2]] = ~merged
        number = np.cumsum(new) - 1
        number -= np.repeat(number[layout.state_ptr[:-1]], layout.substates)
        self.layout = Layout.of(layout.rules, np.add.reduceat(new, layout.state_ptr[:-1]))
        *states, rule = layout.indices()
        first = np.where(layout.rules < 0, 0, layout.state_ptr[layout.rules])[rule].T
        inner = layout.rules[rule].T >= 0
        x, y, z = (
            np.where(real, number[begin + state], 0)
            for begin, state, real in zip(first, states, inner, strict=True)
        )
        places = self.layout.places(x, y, z, rule)
        self.counts = np.bincount(places, counts)
        self.probability = probabilities(self.layout, self.counts, self._plain)


def expected_counts(
    nodes: Nodes,
    layout: Layout,
    probability: np.ndarray,
    pair_ptr: np.ndarray | None = None,
    share: np.ndarray | None = None,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The E-step of EM.

    Args:
        nodes: of the trees.
        layout: of the rules.
        probability [P] float64: of the rules.
        pair_ptr, share: see `expected_uses`.

    Returns:
        The log likelihood; the expected counts [P]; for each pair, how much its merging would
        change the log likelihood.

    Raises:
        Abandoned: the result is no longer needed; see `rnnparse.threads`.
    """
    stop, uses = stop_flag(), np.zeros(len(probability))
    pair_ptr = np.zeros(len(layout.substates) + 1, np.int64) if pair_ptr is None else pair_ptr
    gains = np.zeros(pair_ptr[-1])
    likelihood = expected_uses(
        nodes, layout.substates, layout.ptr, probability, uses,
        pair_ptr, gains if share is None else share, gains, stop,
    )
    if stop[0]:
        raise Abandoned
    return likelihood, uses * probability, gains
