"""Split-merge training of substates.

After Petrov, Barrett, Thibaux & Klein, "Learning Accurate, Compact, and Interpretable Tree
Annotation" (COLING-ACL 2006). Each cycle splits every substate in two with a little noise, trains
by expectation maximization (EM), merges that half of the pairs whose merging costs the least
likelihood, trains again, and smooths. Probabilities that become very small are left out.
"""

from __future__ import annotations

import numpy as np

from rnnparse.grammar.latent_kernel import expected_uses
from rnnparse.grammar.latent_layout import Layout, offsets
from rnnparse.grammar.latent_trees import Nodes, TreebankArrays
from rnnparse.threads import Abandoned, stop_flag

NOISE = 0.01  # relative, of the probabilities of new substates
FEWEST = 2  # occurrences of a category that is split
MERGED = 0.5  # share of the pairs of new substates that are merged again
AFTER_SPLIT, AFTER_MERGE, SMOOTHED = 20, 10, 3  # iterations of EM
AT_ONCE = 5  # iterations after a split without leaving out probabilities
LEAST = 1e-8  # of probabilities and expected counts


def probabilities(layout: Layout, counts: np.ndarray, smoothing: np.ndarray) -> np.ndarray:
    """[P] relative frequencies, smoothed towards their mean over the substates of the parent.

    Those of a substate without counts are the mean over the others. A category without counts has
    the probability 0 everywhere.

    Args:
        layout: a completed one, where smoothing is not 0.
        counts [P]: counts.
        smoothing [M]: the weight of the mean, for each rule.
    """
    total = np.bincount(layout.owner, counts, layout.state_ptr[-1])
    frequency = counts / _or_one(total)[layout.owner]
    alive = (total > 0.0).astype(np.float64)
    others = _or_one(np.add.reduceat(alive, layout.state_ptr[:-1]))
    mean = np.bincount(layout.column, frequency)[layout.column]
    mean /= others[layout.rules[layout.rule, 0]]
    weight = np.where(alive[layout.owner] > 0.0, smoothing[layout.rule], 1.0)
    return normalized(layout, frequency + weight * (mean - frequency))


def normalized(layout: Layout, values: np.ndarray) -> np.ndarray:
    """[P] values divided by their sum over the rules of each substate."""
    total = np.bincount(layout.owner, values, layout.state_ptr[-1])
    result: np.ndarray = values / _or_one(total)[layout.owner]
    return result


def _or_one(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0.0, values, 1.0)


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
        probability [P] float64: of the entries.
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
        self.layout = Layout.full(bank.rules, np.ones(2 * bank.categories, np.int64))
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
        for _ in range(AFTER_SPLIT // AT_ONCE):
            self.train(AT_ONCE, self._plain)
            self.leave_out()
        self.merge(copies)
        self.train(AFTER_MERGE, self._plain)
        self.leave_out()
        self._complete()
        self.train(SMOOTHED, self._smoothing)
        self.leave_out()

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
        copies = np.where(self._splits, 2, 1)
        parent = copies[self.layout.rules[self.layout.rule, 0]]
        self.layout, old = self.layout.split(copies)
        share = (1.0 + noise * self._rng.uniform(-1.0, 1.0, len(old))) / np.bincount(old)[old]
        self.counts = self.counts[old] * share
        halves = self.probability[old] * share * parent[old]  # the children's substates share it
        self.probability = normalized(self.layout, halves)
        return copies

    def merge(self, copies: np.ndarray) -> None:
        """Merge half of the pairs of substates that `split` has made."""
        layout, pair_ptr = self.layout, offsets(np.where(copies == 2, self.layout.substates, 0))
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
        first = layout.state_ptr[:-1]
        number = np.cumsum(new) - 1
        number -= np.repeat(number[first], layout.substates)
        self.layout, place = layout.merge(number, np.add.reduceat(new, first))
        self.counts = np.bincount(place, counts)
        self.probability = probabilities(self.layout, self.counts, self._plain)

    def leave_out(self) -> None:
        """Leave out what is below `LEAST`, both in probability and in expected count.

        So every tree keeps almost all of its probability.
        """
        kept = (self.probability >= LEAST) | (self.counts >= LEAST)
        self.layout, self.counts = self.layout.only(kept), self.counts[kept]
        self.probability = normalized(self.layout, self.probability[kept])

    def _complete(self) -> None:
        """Make room for what smoothing makes positive."""
        self.layout, places = self.layout.completed()
        before, self.probability = self.probability, np.zeros(len(self.layout.rule))
        self.probability[places] = before


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
        probability [P] float64: of the entries.
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
        nodes, layout.substates, layout.ptr, layout.states, probability, uses,
        pair_ptr, gains if share is None else share, gains, stop,
    )
    if stop[0]:
        raise Abandoned
    return likelihood, uses * probability, gains
