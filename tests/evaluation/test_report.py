"""Per label, per length, and the paired bootstrap."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.errors import ConfigError, TreebankError
from rnnparse.evaluation import EvalbParams, Evaluation, SentenceScore, evaluate
from rnnparse.evaluation.report import by_label, by_length, paired_bootstrap
from tests.evaluation.strategies import tree_pairs

GOLD = [
    Tree.fromstring("(TOP (S (NP (N a)) (VP (V b) (NP (N c)) (PP (P d) (NP (N e)))) (. .)))"),
    Tree.fromstring("(TOP (S (NP (N a)) (VP (V b) (ADVP (R c)))))"),
    Tree.fromstring("(TOP (S (NP (N a)) (VP (V b))))"),
]
TEST = [
    Tree.fromstring("(TOP (S (NP (N a)) (VP (V b) (NP (NP (N c)) (PP (P d) (N e)))) (. .)))"),
    Tree.fromstring("(TOP (S (NP (N a)) (VP (V b) (PRT (R c)))))"),
    Tree.fromstring("(TOP (S (NP (N x)) (VP (V b))))"),
]


def test_by_label_counted_by_hand() -> None:
    rows = {row.label: row for row in by_label(GOLD, TEST)}
    assert list(rows) == ["NP", "S", "VP", "ADVP|PRT", "PP"]
    # The third sentence is in error. Gold has the NPs a, c, e and a; test a, c-e, c and a.
    counts = {label: (row.gold, row.test, row.matched) for label, row in rows.items()}
    assert counts == {
        "NP": (4, 4, 3),
        "S": (2, 2, 2),
        "VP": (2, 2, 2),
        "ADVP|PRT": (1, 1, 1),
        "PP": (1, 1, 1),
    }
    assert (rows["NP"].precision, rows["NP"].recall, rows["NP"].f1) == (75.0, 75.0, 75.0)


def test_by_label_undefined_and_chains() -> None:
    gold, test = Tree.fromstring("(A (N x))"), Tree.fromstring("(B (N x))")
    rows = by_label([gold], [test], EvalbParams())
    assert [(row.label, row.precision, row.recall, row.f1) for row in rows] == [
        ("A", None, 0.0, 0.0),
        ("B", 0.0, None, 0.0),
    ]
    chain = EvalbParams(eq_labels=(("A", "C"), ("D", "B"), ("C", "D")), labeled=False)
    rows = by_label([gold], [test], chain)
    assert [(row.label, row.gold, row.test, row.matched) for row in rows] == [("A|B", 1, 1, 0)]


@settings(max_examples=40, deadline=None)
@given(st.lists(tree_pairs(), min_size=1, max_size=4))
def test_labels_add_up_to_the_totals(pairs: list[tuple[Tree, Tree]]) -> None:
    gold, test = [list(side) for side in zip(*pairs, strict=True)]
    totals = evaluate(gold, test).totals()
    rows = by_label(gold, test)
    for name in ("gold", "test", "matched"):
        assert sum(getattr(row, name) for row in rows) == getattr(totals, name)


def test_unequal_numbers_of_trees() -> None:
    with pytest.raises(TreebankError, match="3 gold trees and 2 test trees"):
        by_label(GOLD, TEST[:2])


def test_by_length() -> None:
    rows = by_length(evaluate(GOLD, TEST), (2, 3))
    assert [(row.low, row.high, row.sentences) for row in rows] == [
        (0, 2, 0),
        (3, 3, 1),
        (4, None, 1),
    ]
    assert rows[0].f1 is None
    assert (rows[1].f1, rows[1].complete_match, rows[1].tagging_accuracy) == (100.0, 100.0, 100.0)
    assert rows[2].f1 == pytest.approx(100 * 5 / 6)
    for bad in ((), (5, 5), (5, 3)):
        with pytest.raises(ConfigError, match="increasing"):
            by_length(evaluate(GOLD, TEST), bad)


def evaluation_of(counts: list[tuple[int, int, int]]) -> Evaluation:
    rows = [SentenceScore(i, 9, 0, *count) for i, count in enumerate(counts, start=1)]
    return Evaluation(EvalbParams(), rows)


def test_bootstrap_of_equal_systems() -> None:
    evaluation = evaluation_of([(3, 4, 5), (2, 2, 2), (1, 4, 3)])
    result = paired_bootstrap(evaluation, evaluation, samples=100)
    assert (result.difference, result.low, result.high, result.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_bootstrap_is_antisymmetric_and_reproducible() -> None:
    a = evaluation_of([(3, 4, 5), (2, 2, 2), (1, 4, 3), (4, 4, 4)])
    b = evaluation_of([(3, 4, 4), (1, 2, 2), (1, 4, 3), (3, 4, 4)])
    one, again = paired_bootstrap(a, b, samples=500), paired_bootstrap(a, b, samples=500)
    assert one == again
    other = paired_bootstrap(b, a, samples=500)
    assert other.difference == pytest.approx(-one.difference)
    assert (other.low, other.high) == (pytest.approx(-one.high), pytest.approx(-one.low))
    assert other.p_value == one.p_value
    assert asdict(one)["sentences"] == 4


def test_bootstrap_approaches_the_enumerated_distribution() -> None:
    """All 3**3 resampled sets of three sentences are equally likely."""
    a = [(3, 4, 5), (2, 2, 2), (1, 4, 3)]
    b = [(2, 4, 4), (2, 2, 3), (2, 4, 4)]

    def f1(counts: list[tuple[int, int, int]], chosen: tuple[int, ...]) -> float:
        matched, gold, test = (sum(counts[i][k] for i in chosen) for k in range(3))
        return 200 * matched / (gold + test)

    observed = f1(a, (0, 1, 2)) - f1(b, (0, 1, 2))
    exact = [f1(a, chosen) - f1(b, chosen) for chosen in itertools.product(range(3), repeat=3)]
    share = np.mean([abs(value - observed) >= abs(observed) - 1e-9 for value in exact])
    result = paired_bootstrap(evaluation_of(a), evaluation_of(b), samples=20_000, seed=1)
    assert result.difference == pytest.approx(observed)
    assert result.p_value == pytest.approx(share, abs=0.02)
    assert min(exact) <= result.low < result.high <= max(exact)


def test_bootstrap_finds_a_clear_difference_and_not_a_chance_one() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(10, 30, 300)
    noise = [rng.binomial(gold, 0.8) for _ in range(2)]
    better = rng.binomial(gold, 0.86)
    systems = [
        evaluation_of([(int(m), int(g), int(g)) for m, g in zip(matched, gold, strict=True)])
        for matched in (*noise, better)
    ]
    assert paired_bootstrap(systems[2], systems[0], samples=2000).p_value < 0.01
    assert paired_bootstrap(systems[2], systems[0], samples=2000).low > 0
    assert paired_bootstrap(systems[0], systems[1], samples=2000).p_value > 0.05


def test_bootstrap_uses_sentences_valid_in_both() -> None:
    a = evaluation_of([(1, 2, 2), (2, 2, 2)])
    b = evaluation_of([(2, 2, 2), (1, 2, 2)])
    b.sentences[1] = SentenceScore(2, 9, 1)
    result = paired_bootstrap(a, b, samples=10)
    assert (result.sentences, result.difference) == (1, -50.0)
    with pytest.raises(ConfigError, match="not of the same sentences"):
        paired_bootstrap(a, evaluation_of([(1, 1, 1)]))
    with pytest.raises(ConfigError, match="no sentence is valid"):
        paired_bootstrap(evaluation_of([]), evaluation_of([]))
    with pytest.raises(ConfigError, match="number of samples"):
        paired_bootstrap(a, a, samples=0)
