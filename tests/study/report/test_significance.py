"""Whether settings differ by more than chance: over sentences, over seeds, of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rnnparse.evaluation import EvalbParams, Evaluation, SentenceScore
from rnnparse.evaluation.report import paired_bootstrap
from rnnparse.study.report.significance import Comparison, best_epoch, compare_with_best

SENTENCES = 120
GOLD = np.random.default_rng(0).integers(5, 25, SENTENCES)
Counts = list[list[int]]


def counts(rng: np.random.Generator, accuracy: float) -> Counts:
    """Matched and test brackets of each sentence; sentences differ in how hard they are."""
    easy = np.clip(accuracy + 0.1 * np.sin(np.arange(SENTENCES)), 0, 1)
    return np.stack([rng.binomial(GOLD, easy), GOLD], axis=1).tolist()


def f1(pairs: Counts) -> float:
    matched, test = np.array(pairs).sum(axis=0)
    return float(200 * matched / (test + GOLD.sum()))


def peak(pairs: Counts) -> dict[str, Any]:
    return {"epoch": 1, "dev_f1": f1(pairs), "dev_counts": pairs}


def peaks(accuracy: float, seeds: int, sway: float, seed: int = 1) -> list[dict[str, Any]]:
    """The best epochs of a setting whose accuracy sways from seed to seed."""
    rng = np.random.default_rng(seed)
    return [peak(counts(rng, accuracy + sway * rng.normal())) for _ in range(seeds)]


def compared(*sides: Sequence[dict[str, Any]], samples: int = 2_000, seed: int = 0) -> Comparison:
    """The first of two settings minus the second."""
    _, comparison = compare_with_best(sides, 0, GOLD.tolist(), samples=samples, seed=seed)
    assert comparison is not None
    return comparison


def evaluation(pairs: Counts) -> Evaluation:
    scores = [
        SentenceScore(i, 10, 0, matched=m, gold=int(g), test=t)
        for i, ((m, t), g) in enumerate(zip(pairs, GOLD, strict=True))
    ]
    return Evaluation(EvalbParams(), scores)


def test_one_seed_each_gives_the_paired_bootstrap_of_evaluations() -> None:
    rng = np.random.default_rng(3)
    one, other = counts(rng, 0.80), counts(rng, 0.78)
    comparison = compared([peak(one)], [peak(other)], samples=5_000)
    expected = paired_bootstrap(evaluation(one), evaluation(other), samples=5_000)
    for name in ("difference", "low", "high", "p_value", "sentences"):
        assert getattr(comparison, name) == pytest.approx(getattr(expected, name)), name
    assert comparison.seeds == (1, 1)


def test_the_best_epochs_are_compared() -> None:
    epochs = [{"dev_f1": None}, {"dev_f1": 80.0}, {"dev_f1": 85.0}, {"dev_f1": 85.0}]
    assert best_epoch({"epochs": epochs}) == {"epoch": 3, "dev_f1": 85.0}
    assert best_epoch({"epochs": epochs[:1]}) is None


def test_clear_differences_are_not_within_noise() -> None:
    rng = np.random.default_rng(4)
    high, low = counts(rng, 0.9), counts(rng, 0.5)
    comparison = compared([peak(high)], [peak(low)])
    assert comparison.difference == pytest.approx(f1(high) - f1(low))
    assert not comparison.within_noise and comparison.p_value < 0.001


def test_equal_settings_do_not_differ() -> None:
    side = peaks(0.8, 1, 0.0)
    comparison = compared(side, side)
    assert comparison.difference == comparison.low == comparison.high == 0
    assert comparison.p_value == 1
    assert comparison.within_noise


def test_seeds_widen_the_interval() -> None:
    widths = []
    for sway in (0.0, 0.05):
        comparison = compared(peaks(0.8, 4, sway), peaks(0.8, 4, sway, seed=2))
        assert comparison.seeds == (4, 4)
        widths.append(comparison.high - comparison.low)
    assert widths[1] > 2 * widths[0]


def test_intervals_cover_what_is_true_over_sentences_and_seeds() -> None:
    hits = 0
    for i in range(120):
        sides = (peaks(0.8, 3, 0.03, seed=2 * i), peaks(0.8, 3, 0.03, seed=2 * i + 1))
        hits += compared(*sides, samples=400, seed=i).within_noise
    assert 0.85 <= hits / 120 <= 0.995


def test_resampling_agrees_with_the_delta_method() -> None:
    for accuracy in (0.79, 0.75):
        sides = (peaks(0.8, 3, 0.01), peaks(accuracy, 3, 0.01, seed=2))
        many = compared(*sides, samples=20_000)
        rough = compared(*sides, samples=20_000, seed=1)
        assert (many.low, many.high) == pytest.approx((rough.low, rough.high), abs=0.1)


def test_without_counts_welchs_test_compares_the_seeds() -> None:
    values = [[80.0, 81.0, 80.5, 79.9], [82.0, 83.5, 81.0]]
    sides = [[{"dev_f1": x} for x in side] for side in values]
    comparison = compared(*sides)
    exact = stats.ttest_ind(*values, equal_var=False)
    interval = exact.confidence_interval()
    assert comparison.difference == pytest.approx(np.mean(values[0]) - np.mean(values[1]))
    assert (comparison.low, comparison.high) == pytest.approx((interval.low, interval.high))
    assert (comparison.p_value, comparison.sentences) == (pytest.approx(exact.pvalue), 0)
    assert compare_with_best([sides[0], sides[1][:1], []], 0)[1:] == [None, None]
    same, other = [{"dev_f1": 80.0}] * 2, [{"dev_f1": 81.0}] * 3
    assert compared(same, same).within_noise and not compared(other, same).within_noise


def test_counts_for_other_sentences_are_refused() -> None:
    with pytest.raises(ValueError, match="120 dev sentences"):
        compare_with_best([peaks(0.8, 1, 0)] * 2, 0, GOLD[:-1].tolist())


def test_settings_without_an_epoch_cannot_be_compared() -> None:
    comparisons = compare_with_best([peaks(0.8, 2, 0.01), []], 0, GOLD.tolist())
    assert comparisons[0] is not None and comparisons[0].within_noise and comparisons[1] is None


def test_of_many_equal_settings_hardly_any_is_called_worse_than_the_best() -> None:
    rng = np.random.default_rng(1)
    sides = [[peak(counts(rng, 0.8))] for _ in range(60)]
    scores = [side[0]["dev_f1"] for side in sides]
    best, worst = int(np.argmax(scores)), int(np.argmin(scores))
    comparisons = [one for one in compare_with_best(sides, best, GOLD.tolist()) if one]
    assert sum(not one.within_noise for one in comparisons) <= 3
    alone = compared(sides[best], sides[worst])
    assert not alone.within_noise
    assert comparisons[worst].difference == alone.difference
    assert comparisons[worst].p_value == pytest.approx(min(1.0, 59 * alone.p_value), abs=0.1)
    assert comparisons[worst].low < alone.low < alone.high < comparisons[worst].high
