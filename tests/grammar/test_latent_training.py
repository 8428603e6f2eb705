"""Split-merge training against brute force, finite differences and its own invariants."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.grammar.latent_layout import Layout
from rnnparse.grammar.latent_training import Trainer, expected_counts, probabilities
from rnnparse.grammar.latent_trees import treebank_arrays
from rnnparse.threads import Abandoned
from rnnparse.trees.heads import HeadTable
from tests.grammar.latent_trees import trainer_of, tree_probability, treebanks

seeds = st.integers(0, 1 << 32)


def likelihood(trainer: Trainer) -> float:
    return expected_counts(trainer.nodes, trainer.layout, trainer.probability)[0]


def totals(trainer: Trainer) -> np.ndarray:
    """The sum of the probabilities of each substate."""
    layout = trainer.layout
    sums: np.ndarray = np.bincount(layout.owner, trainer.probability, layout.state_ptr[-1])
    return sums


def test_trees_become_arrays() -> None:
    tree = Tree.fromstring("(TOP (A (X a) (B (Y b)) (X a) (X c)))")
    bank = treebank_arrays([tree, tree], HeadTable.left(), ("A", "B", "TOP", "X", "Y"))
    nodes, (a, b, top, x, y) = bank.nodes, range(5)
    assert nodes.ptr.tolist() == [0, 9, 18]
    assert nodes.category[:9].tolist() == [x, y, b, a + 5, x, a + 5, x, a, top]
    assert nodes.left[:9].tolist() == [-1, -1, 1, 0, -1, 3, -1, 5, 7]
    assert nodes.right[:9].tolist() == [-1, -1, -1, 2, -1, 4, -1, 6, -1]
    assert (nodes.left[9:] == np.where(nodes.left[:9] < 0, -1, nodes.left[:9] + 9)).all()
    assert bank.words == ("a", "b", "c")
    assert [
        (*bank.rules[r].tolist(), int(bank.word[r])) for r in nodes.rule[:9].tolist()
    ] == [
        (x, -1, -1, 0), (y, -1, -1, 1), (b, y, -1, -1), (a + 5, x, b, -1), (x, -1, -1, 0),
        (a + 5, a + 5, x, -1), (x, -1, -1, 2), (a, a + 5, x, -1), (top, a, -1, -1),
    ]  # fmt: skip


def test_labels_that_look_like_intermediate_ones_are_told_apart() -> None:
    names = ("@A", "A", "TOP", "X", "\\A")
    tree = Tree.fromstring("(TOP (A (@A (X a) (X b) (X c)) (\\A (X d)) (X e)))")
    bank = treebank_arrays([tree], HeadTable.left(), names)
    used = {names[c] if c < 5 else "between " + names[c - 5] for c in bank.nodes.category.tolist()}
    assert used == {*names, "between A", "between @A"}


def test_unknown_labels_are_an_error() -> None:
    with pytest.raises(ValueError, match="the label 'Q' is not a category"):
        treebank_arrays([Tree.fromstring("(TOP (Q a))")], HeadTable.left(), ("A", "TOP"))


@settings(max_examples=15)
@given(treebanks(most=2, depth=1), seeds)
def test_the_likelihood_is_the_sum_over_all_substates(trees: list[Tree], seed: int) -> None:
    bank, trainer = trainer_of(trees, seed)
    assume(bank.nodes.ptr[-1] <= 12)
    trainer.split(noise=0.8)
    trainer.layout = trainer.layout.only(np.arange(len(trainer.probability)) % 7 != seed % 7)
    trainer.probability = np.random.default_rng(seed).random(len(trainer.layout.rule))
    if not all(
        tree_probability(bank.nodes, trainer.layout, trainer.probability, t) > 0.0
        for t in range(len(trees))
    ):
        trainer.layout = Layout.full(bank.rules, trainer.layout.substates)
        trainer.probability = np.random.default_rng(seed).random(len(trainer.layout.rule))
    expected = sum(
        log(tree_probability(bank.nodes, trainer.layout, trainer.probability, t))
        for t in range(len(trees))
    )
    assert likelihood(trainer) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=10)
@given(treebanks(), seeds)
def test_counts_are_derivatives_by_the_logs_of_probabilities(trees: list[Tree], seed: int) -> None:
    _, trainer = trainer_of(trees, seed)
    for _ in range(2):
        trainer.split(noise=0.8)
    layout, p = trainer.layout, trainer.probability
    _, counts, _ = expected_counts(trainer.nodes, layout, p)
    rng = np.random.default_rng(seed)
    for place in rng.choice(len(p), min(len(p), 12), replace=False):
        up, down = p.copy(), p.copy()
        up[place] *= np.exp(1e-4)
        down[place] *= np.exp(-1e-4)
        difference = (
            expected_counts(trainer.nodes, layout, up)[0]
            - expected_counts(trainer.nodes, layout, down)[0]
        )
        assert counts[place] == pytest.approx(difference / 2e-4, abs=1e-6)
    assert counts.sum() == pytest.approx(bank_size(trainer))


def bank_size(trainer: Trainer) -> int:
    return int(trainer.nodes.ptr[-1])


@settings(max_examples=15)
@given(treebanks(most=6), seeds)
def test_training_never_lowers_the_likelihood(trees: list[Tree], seed: int) -> None:
    _, trainer = trainer_of(trees, seed)
    plain = np.zeros(len(trainer.layout.rules))
    for _ in range(2):
        trainer.split(noise=0.5)
        before = likelihood(trainer)
        for _ in range(6):
            trainer.train(1, plain)
            after = likelihood(trainer)
            assert after >= before - 1e-9
            before = after
    assert totals(trainer)[: trainer.layout.state_ptr[2]].max(initial=0) <= 1 + 1e-12


@settings(max_examples=15)
@given(treebanks(most=6), seeds)
def test_probabilities_sum_to_one(trees: list[Tree], seed: int) -> None:
    bank, trainer = trainer_of(trees, seed, smoothing=0.1)
    seen = np.zeros(2 * bank.categories, np.bool_)
    seen[bank.rules[:, 0]] = True
    for _ in range(2):
        trainer.cycle()
        expected = np.repeat(seen, trainer.layout.substates).astype(float)
        assert totals(trainer) == pytest.approx(expected, abs=1e-12)
        assert trainer.layout.substates[2] == 1  # TOP


def test_smoothing_draws_towards_the_mean() -> None:
    rules = np.array([[0, 1, -1], [0, 2, -1], [1, -1, -1], [2, -1, -1]], np.int32)
    layout = Layout.full(rules, np.array([2, 1, 1]))
    counts = np.array([8.0, 1.0, 2.0, 3.0, 5.0, 7.0])  # of rule 0 and 1, for two substates each
    smoothed = probabilities(layout, counts, np.full(4, 0.5))
    first, second = np.array([0.8, 0.2]), np.array([0.25, 0.75])
    mean = (first + second) / 2
    assert smoothed[[0, 2]] == pytest.approx((first + mean) / 2)
    assert smoothed[[1, 3]] == pytest.approx((second + mean) / 2)
    dead = probabilities(layout, counts * [1, 0, 1, 0, 1, 1], np.zeros(4))
    assert dead[[1, 3]] == pytest.approx(first)  # like the substate that has counts


@settings(max_examples=15)
@given(treebanks(most=6), seeds)
def test_merging_equal_substates_changes_nothing(trees: list[Tree], seed: int) -> None:
    _, trainer = trainer_of(trees, seed)
    trainer.split(noise=0.5)
    trainer.train(3, np.zeros(len(trainer.layout.rules)))
    before, substates = likelihood(trainer), trainer.layout.substates
    copies = trainer.split(noise=0.0)
    assert likelihood(trainer) == pytest.approx(before)
    pair_ptr = np.concatenate([[0], np.cumsum(np.where(copies == 2, substates, 0))])
    share = np.full(pair_ptr[-1], 0.5)
    *_, gains = expected_counts(
        trainer.nodes, trainer.layout, trainer.probability, pair_ptr, share
    )
    assert gains == pytest.approx(0.0, abs=1e-9)
    trainer.counts = expected_counts(trainer.nodes, trainer.layout, trainer.probability)[1]
    trainer.merge(copies)
    assert (trainer.layout.substates < substates * copies).any() == bool(len(gains) > 1)
    # Merging is a step of training, too, because it estimates probabilities anew.
    assert likelihood(trainer) >= before - 1e-9


@settings(max_examples=10)
@given(treebanks(most=5), seeds)
def test_gains_are_changes_of_the_likelihood_at_one_node(trees: list[Tree], seed: int) -> None:
    """For a category with a single node, the gain of a pair is exact."""
    trees = [*trees[:-1], Tree("TOP", [Tree("C", [trees[-1][0], Tree("X", ["w0"])])])]
    bank = treebank_arrays(trees, HeadTable.left(), ("A", "B", "C", "TOP", "X", "Y"))
    rng = np.random.default_rng(seed)
    trainer = Trainer(bank, 3, rng, np.zeros(len(bank.rules)))
    substates = np.ones(12, np.int64)
    substates[2] = 2
    trainer.layout = layout = Layout.full(bank.rules, substates)
    p = trainer.probability = rng.uniform(0.1, 0.9, layout.ptr[-1])
    share, pair_ptr = np.array([0.3]), np.array([0] * 3 + [1] * 10)
    now, _, (gain,) = expected_counts(bank.nodes, layout, p, pair_ptr, share)
    merged = p.copy()
    for r in np.flatnonzero(bank.rules[:, 0] == 2):  # inside: the weighted mean; outside: the sum
        a, b = layout.ptr[r], layout.ptr[r] + 1
        merged[a] = merged[b] = 0.3 * p[a] + 0.7 * p[b]
    then = expected_counts(bank.nodes, layout, merged)[0]
    assert gain == pytest.approx(then - now, abs=1e-9)


def test_training_stops_when_nobody_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree.fromstring("(TOP (A (X a) (B (Y b)) (X a) (X c)))")
    _, trainer = trainer_of([tree] * 100)
    before = trainer.probability.copy()
    stop = np.ones(1, np.uint8)
    monkeypatch.setattr("rnnparse.grammar.latent_training.stop_flag", lambda: stop)
    with pytest.raises(Abandoned):
        trainer.train(1, np.zeros(len(trainer.layout.rules)))
    assert (trainer.probability == before).all()
    stop[0] = 0
    trainer.train(1, np.zeros(len(trainer.layout.rules)))
