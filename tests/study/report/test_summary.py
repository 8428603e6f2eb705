"""Settings are pooled over seeds and compared beyond chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnnparse.evaluation import EvalbParams, Evaluation, SentenceScore
from rnnparse.evaluation.report import paired_bootstrap
from rnnparse.parser_study.grid import Grid
from rnnparse.study.diagnosis import diagnose_all
from rnnparse.study.report.summary import (
    against_best,
    best,
    compare,
    edges,
    indistinguishable,
    rows,
)

SENTENCES = 120
GOLD = np.random.default_rng(0).integers(5, 25, SENTENCES)


def counts(rng: np.random.Generator, accuracy: float, spread: float = 0.1) -> list[list[int]]:
    """Matched and test brackets of each sentence; sentences differ in how hard they are."""
    easy = np.clip(accuracy + spread * np.sin(np.arange(SENTENCES)), 0, 1)
    matched = rng.binomial(GOLD, easy)
    return np.stack([matched, GOLD], axis=1).tolist()


def f1(pairs: list[list[int]]) -> float:
    matched, test = np.array(pairs).sum(axis=0)
    return float(200 * matched / (test + GOLD.sum()))


def trial(
    config: dict[str, Any], seed: int = 0, *, epochs: list[list[list[int]]], **more: Any
) -> dict[str, Any]:
    loss = np.linspace(1, 0.5, 20)
    return {
        "id": f"{config}{seed}",
        "config": config,
        "seed": seed,
        "status": "finished",
        "updates": {"objective": loss.tolist()},
        "epochs": [
            {"epoch": i, "dev_f1": f1(pairs), "dev_counts": pairs}
            for i, pairs in enumerate(epochs, 1)
        ],
        "convex": None,
        "seconds": 2.0,
        **more,
    }


def made(accuracies: dict[str, float], seeds: int = 3, sway: float = 0.0) -> list[dict[str, Any]]:
    """Trials of settings with these accuracies, which sway from seed to seed."""
    rng = np.random.default_rng(1)
    return [
        trial({"optimizer": name}, seed, epochs=[counts(rng, accuracy + sway * rng.normal())])
        for name, accuracy in accuracies.items()
        for seed in range(seeds)
    ]


def test_seeds_are_pooled() -> None:
    rng = np.random.default_rng(2)
    low, high = counts(rng, 0.5), counts(rng, 0.9)
    records = [
        trial({"a": 1}, 0, epochs=[low, high, low], seconds=1.0),
        trial({"a": 2}, 0, epochs=[low]),
        trial({"a": 1}, 1, epochs=[high, low], seconds=4.0),
        trial({"a": 1}, 2, epochs=[high], status="diverged"),
    ]
    first, second = rows(records, diagnose_all(records))
    assert first["config"] == {"a": 1}
    assert first["trials"] == [0, 2, 3]
    assert first["labels"] == {"improving": 2, "diverged": 1}
    assert first["label"] == "improving"
    assert first["dev_f1"] == {"mean": pytest.approx(f1(high)), "sd": 0, "n": 2}
    assert first["epoch"] == 1.5
    assert first["objective"]["mean"] == pytest.approx(0.5)
    assert first["seconds"] == {"mean": 2.5, "sd": pytest.approx(4.5**0.5), "n": 2}
    assert second["dev_f1"] == {"mean": pytest.approx(f1(low)), "sd": None, "n": 1}


def test_the_worst_of_equally_frequent_labels_is_shown() -> None:
    records = [
        trial({"a": 1}, 0, epochs=[]),
        trial({"a": 1}, 1, epochs=[], status="failed"),
    ]
    (row,) = rows(records, diagnose_all(records))
    assert row["label"] == "failed"
    assert row["dev_f1"] == {"mean": None, "sd": None, "n": 0}
    assert row["epoch"] is None


def test_the_best_row_depends_on_what_it_is_chosen_by() -> None:
    records = made({"sgd": 0.7, "adam": 0.9}, seeds=1)
    records[0]["updates"]["objective"] = np.linspace(1, 0.1, 20).tolist()
    found = rows(records, diagnose_all(records))
    assert best(found) is found[1]
    assert best(found, by="objective") is found[0]
    assert best([]) is None
    with pytest.raises(ValueError, match="dev_f1, objective"):
        best(found, by="speed")


def test_a_best_value_on_the_edge_is_warned_of() -> None:
    grid = Grid.from_options({"seeds": [0]}, preset="question")
    config = {"optimizer": "adam", "learning_rate": 0.1, "batch_size": 256, "l2": 0.01}
    assert edges(grid, config) == [
        "learning_rate: the best value, 0.1, is the highest that was tried; try 1, too",
        "batch_size: the best value, 256, is the lowest that was tried; try 128, too",
    ]
    assert edges(grid, {"config": config}) == edges(grid.to_dict(), config)


def test_values_that_are_far_apart_have_edges_too() -> None:
    space = {"axes": {"n": [5e-324, 10**99]}}
    assert edges(space, {"n": 10**99})[0].startswith("n: the best value, 1000")
    assert edges(space, {"n": 5e-324}) == [
        "n: the best value, 5e-324, is the lowest that was tried"
    ]


def test_no_batch_is_larger_than_the_training_set() -> None:
    space = {"axes": {"batch_size": [64, 128, 256, 512]}}
    assert edges(space, {"batch_size": 512}, size=200) == []
    assert edges(space, {"batch_size": 256}, size=200) == []
    assert edges(space, {"batch_size": 512}, size=600) == [
        "batch_size: the best value, 512, is the highest that was tried; try 600, too"
    ]
    assert edges({"axes": {"batch_size": [256, 512]}}, {"batch_size": 256}, size=200) == []


def test_there_is_no_edge_at_zero_nor_where_nothing_varies_nor_among_names() -> None:
    space = {"axes": {"l2": [0, 0.1, 1], "kappa": [0.1], "tie": ["first", "gold"]}}
    assert edges(space, {"l2": 0, "kappa": 0.1, "tie": "gold"}) == []
    assert len(edges(space, {"l2": 1, "kappa": 0.1, "tie": "gold"})) == 1
    shift = {"axes": {"shift": [-1, 0, 1], "layers": [[8], [8, 8]]}}
    assert edges(shift, {"shift": -1, "layers": [8]}) == [
        "shift: the best value, -1, is the lowest that was tried"
    ]


def test_an_optimizer_with_rates_of_its_own_has_edges_of_its_own() -> None:
    space = {"axes": {"learning_rate": [0.1, 1.0]}, "rates": {"adam": [0.001, 0.01, 0.1]}}
    assert edges(space, {"optimizer": "adam", "learning_rate": 0.01}) == []
    assert len(edges(space, {"optimizer": "sgd", "learning_rate": 1.0})) == 1


def evaluation(pairs: list[list[int]]) -> Evaluation:
    scores = [
        SentenceScore(i, 10, 0, matched=m, gold=int(g), test=t)
        for i, ((m, t), g) in enumerate(zip(pairs, GOLD, strict=True))
    ]
    return Evaluation(EvalbParams(), scores)


def test_one_seed_each_gives_the_paired_bootstrap_of_evaluations() -> None:
    rng = np.random.default_rng(3)
    one, other = counts(rng, 0.80), counts(rng, 0.78)
    a, b = (trial({"a": x}, epochs=[x]) for x in (one, other))
    found = compare(a, b, GOLD, samples=20_000)
    expected = paired_bootstrap(evaluation(one), evaluation(other), samples=20_000, seed=5)
    assert found is not None
    assert found.difference == pytest.approx(expected.difference)
    assert found.low == pytest.approx(expected.low, abs=0.05)
    assert found.high == pytest.approx(expected.high, abs=0.05)
    assert found.p_value == pytest.approx(expected.p_value, abs=0.02)
    assert found.sentences == SENTENCES
    assert found.seeds == (1, 1)
    assert found.describe().endswith("other seeds may differ more")


def test_the_best_epochs_are_compared() -> None:
    rng = np.random.default_rng(4)
    low, high = counts(rng, 0.5), counts(rng, 0.9)
    found = compare(trial({}, epochs=[high, low]), trial({}, epochs=[low, low]), GOLD)
    assert found is not None
    assert found.difference == pytest.approx(f1(high) - f1(low))
    assert not found.within_noise
    assert found.p_value < 0.001
    assert "more than noise" in found.describe()


def test_equal_settings_do_not_differ() -> None:
    records = made({"sgd": 0.8}, seeds=1)
    found = compare(records[0], records[0], GOLD)
    assert found is not None
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)
    assert found.within_noise


def test_seeds_widen_the_interval() -> None:
    steady = made({"sgd": 0.8, "adam": 0.8}, seeds=4)
    swaying = made({"sgd": 0.8, "adam": 0.8}, seeds=4, sway=0.05)
    widths = []
    for records in (steady, swaying):
        found = compare(records[:4], records[4:], GOLD)
        assert found is not None
        assert found.seeds == (4, 4)
        widths.append(found.high - found.low)
    assert widths[1] > 2 * widths[0]


def test_intervals_cover_what_is_true_over_sentences_and_seeds() -> None:
    rng = np.random.default_rng(6)
    hits = 0
    for repetition in range(120):
        records = [
            trial({"a": i // 3}, i, epochs=[counts(rng, 0.8 + 0.03 * rng.normal())])
            for i in range(6)
        ]
        found = compare(records[:3], records[3:], GOLD, samples=400, seed=repetition)
        assert found is not None
        hits += found.within_noise
    assert 0.85 <= hits / 120 <= 0.995


def test_without_counts_seeds_tell_by_welchs_interval() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = [[80.0, 81.0, 80.5, 79.9], [82.0, 83.5, 81.0]]
    sides = [[{"epochs": [{"dev_f1": x}]} for x in side] for side in values]
    found = compare(*sides)
    assert found is not None
    exact = stats.ttest_ind(*values, equal_var=False)
    interval = exact.confidence_interval()
    assert found.difference == pytest.approx(np.mean(values[0]) - np.mean(values[1]))
    assert found.low == pytest.approx(interval.low, rel=0.01)
    assert found.high == pytest.approx(interval.high, abs=0.01)
    assert found.sentences == 0
    assert compare(sides[0][0], sides[1]) is None
    assert compare({"epochs": []}, sides[0]) is None


def test_counts_for_other_sentences_are_refused() -> None:
    records = made({"sgd": 0.8, "adam": 0.8}, seeds=1)
    with pytest.raises(ValueError, match="120 dev sentences"):
        compare(records[0], records[1], GOLD[:-1])


def test_settings_within_noise_of_the_best_are_named() -> None:
    records = made({"sgd": 0.4, "adam": 0.8, "adagrad": 0.8, "momentum": 0.7}, sway=0.005)
    records.append(trial({"optimizer": "lost"}, epochs=[], status="failed"))
    found = rows(records, diagnose_all(records))
    near = indistinguishable(found, records, GOLD)
    assert {found[i]["config"]["optimizer"] for i in near} == {"adam", "adagrad"}
    assert found[near[0]] is best(found)
    compared = against_best(found, records, GOLD)
    assert compared[-1] is None
    for row, comparison in zip(found[:-1], compared, strict=False):
        assert comparison is not None
        top = best(found)
        assert top is not None
        difference = top["dev_f1"]["mean"] - row["dev_f1"]["mean"]
        assert comparison.difference == pytest.approx(difference)


def test_the_best_is_compared_like_any_two_settings() -> None:
    records = made({"sgd": 0.79, "adam": 0.8}, sway=0.01)
    found = rows(records, diagnose_all(records))
    top = best(found)
    assert top is not None
    other = next(i for i, row in enumerate(found) if row is not top)
    near = against_best(found, records, GOLD, samples=20_000)[other]
    direct = compare(
        [records[i] for i in top["trials"]], [records[i] for i in found[other]["trials"]], GOLD
    )
    assert near is not None
    assert direct is not None
    assert near.low == pytest.approx(direct.low, abs=0.1)
    assert near.high == pytest.approx(direct.high, abs=0.1)


def test_of_many_equal_settings_hardly_any_is_called_worse_than_the_best() -> None:
    records = made({f"equal {i}": 0.8 for i in range(60)}, seeds=1)
    found = rows(records, diagnose_all(records))
    compared = [one for one in against_best(found, records, GOLD) if one]
    assert sum(not one.within_noise for one in compared) <= 3
    apart = max(compared, key=lambda one: one.difference)
    alone = against_best(sorted(found, key=lambda row: -row["dev_f1"]["mean"])[::59], records, GOLD)
    assert alone[1] is not None and not alone[1].within_noise
    assert apart.difference == alone[1].difference
    assert apart.p_value == pytest.approx(min(1.0, 59 * alone[1].p_value))
    assert apart.low < alone[1].low < alone[1].high < apart.high


def test_a_study_without_dev_f1_has_nothing_to_compare() -> None:
    records = [trial({"a": i}, epochs=[]) for i in range(3)]
    found = rows(records, diagnose_all(records))
    assert against_best(found, records) == [None] * 3
    assert indistinguishable(found, records) == []
    assert best(found) is None
    assert best(found, by="objective") is found[0]
