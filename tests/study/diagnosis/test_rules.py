"""Curves of each class get their label for any noise and length, and fitting advice."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from rnnparse.study.diagnosis import EVIDENCE, diagnose, diagnose_all
from rnnparse.study.diagnosis.advice import Advice, Finding
from tests.study.diagnosis.notes import codes, values_of
from tests.study.diagnosis.synthetic_curves import MAKERS, Setting

LENGTHS = [(1024, 10), (256, 10), (256, 20), (64, 20), (25, 20)]
"""Batch sizes and epochs: 40 to 2,560 updates."""
A_CLASS = 60  # curves
SPREADS = pytest.mark.parametrize(
    "spread", [1.0, *(pytest.param(spread, marks=pytest.mark.slow) for spread in (0.2, 0.5))]
)


def confusion(spread: float, lengths: list[tuple[int, int]]) -> dict[str, Counter[str]]:
    """True label → labels of `A_CLASS` curves."""
    matrix = {}
    for label, make in MAKERS.items():
        rng = np.random.default_rng([len(label), A_CLASS])
        matrix[label] = Counter(
            diagnose(make(rng, Setting(*lengths[i % len(lengths)], spread))).label
            for i in range(A_CLASS)
        )
    return matrix


def falling(*values: float | None, **updates: list[float | None]) -> dict[str, Any]:
    return {"updates": {"objective": list(values), **updates}, "epochs": []}


def line(start: float, end: float, n: int) -> list[float | None]:
    return list(np.linspace(start, end, n).tolist())


@SPREADS
def test_every_class_is_recognized(spread: float) -> None:
    matrix = confusion(spread, LENGTHS)
    for label, labels in matrix.items():
        assert labels[label] >= 0.95 * A_CLASS, matrix
    assert not matrix["converged"]["diverged"]
    assert not matrix["diverged"]["converged"]


@SPREADS
def test_twenty_updates_are_enough_for_all_but_overfitting(spread: float) -> None:
    matrix = confusion(spread, [(1024, 5)])
    for label, labels in matrix.items():
        assert labels[label] >= (0.6 if label == "overfitting" else 0.95) * A_CLASS, matrix
    assert set(matrix["overfitting"]) <= {"overfitting", "improving"}


def test_heavy_noise_never_confuses_convergence_with_divergence() -> None:
    rng = np.random.default_rng(7)
    for batch, epochs in [(3200, 8), (1024, 3), (256, 5), (25, 10)]:
        for _ in range(40):
            setting = Setting(batch, epochs, spread=2.0)
            assert diagnose(MAKERS["converged"](rng, setting)).label != "diverged"
            assert diagnose(MAKERS["diverged"](rng, setting)).label != "converged"


@pytest.mark.parametrize("epochs", [8, 20, 100])
@pytest.mark.parametrize("label", ["converged", "improving", "diverged", "stalled"])
def test_curves_by_epochs_are_judged_like_those_by_updates(label: str, epochs: int) -> None:
    rng = np.random.default_rng(epochs)
    labels: Counter[str] = Counter()
    for _ in range(20):
        record = MAKERS[label](rng, Setting(3200, epochs, 0.5))
        ratios = record["updates"].pop("update_ratio")
        values = record.pop("updates")["objective"]
        record["epochs"] = [{"epoch": i + 1, "objective": v} for i, v in enumerate(values)]
        if label == "stalled":
            record["updates"] = {"update_ratio": ratios}
        diagnosis = diagnose(record)
        assert diagnosis.evidence.get("unit", "epoch") == "epoch"
        labels[diagnosis.label] += 1
    assert labels[label] >= 19, labels


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ([1.0, 0.8, 0.6, 0.4], "improving"),
        ([1.0, 0.99, 0.98, 0.97], "too few updates"),
        ([1.0, 1.5, 2.5, 4.0], "diverged"),
        ([1.0, 0.3], "too few updates"),
        ([1.0], "too few updates"),
        ([1.0, 3.0], "too few updates"),
        ([0.0] * 8, "converged"),
        ([3.0] * 8, "stalled"),
    ],
)
def test_a_few_updates_are_judged_cautiously(values: list[float], label: str) -> None:
    assert diagnose(falling(*values)).label == label


def test_a_reference_distinguishes_a_plateau_from_the_minimum() -> None:
    record = falling(*(0.6 + 0.4 * math.exp(-t) for t in range(60)))
    assert diagnose(record).label == "converged"
    assert diagnose(record, reference=0.6).label == "converged"
    diagnosis = diagnose(record, reference=0.2)
    assert diagnosis.label == "stalled"
    assert diagnosis.evidence["progress"] == pytest.approx(0.5)


def test_a_start_at_the_reference_is_not_stalled() -> None:
    record = falling(*([2.0] * 30), update_ratio=[0.05] * 30)
    assert diagnose(record).label == "stalled"
    assert diagnose(record, reference=2.0).label == "converged"


def test_a_long_way_to_the_reference_means_too_few_updates() -> None:
    record = falling(*line(1.0, 0.7, 20))
    assert diagnose(record).label == "improving"
    diagnosis = diagnose(record, reference=-3.0)
    assert diagnosis.label == "too few updates"
    assert diagnosis.evidence["needed"] == pytest.approx((0.7 + 3) / 0.3 * 19 / 20)
    assert Advice("times_updates", times=10.0) in diagnosis.notes


def test_the_length_of_all_updates_distinguishes_a_low_rate_from_a_stall() -> None:
    rng = np.random.default_rng(8)
    values = (1 + rng.normal(0, 0.02, 40)).tolist()
    low = diagnose(falling(*values, update_ratio=[1e-5] * 40))
    assert low.label == "too few updates"
    assert low.evidence["travelled"] == pytest.approx(4e-4)
    assert values_of(low, "change_rate")["factor"] == 100
    assert diagnose(falling(*values, update_ratio=[0.03] * 40)).label == "stalled"


def test_updates_that_stopped_are_a_stall() -> None:
    ratios = np.geomspace(1e-2, 1e-9, 40).tolist()
    diagnosis = diagnose(falling(*[1.0] * 40, update_ratio=ratios))
    assert diagnosis.label == "stalled"
    assert "updates_shrank" in codes(diagnosis)
    dead = diagnose(falling(*[1.0] * 40, gradient_norm=[1.0] * 20 + [0.0] * 20))
    assert dead.label == "stalled"
    assert codes(dead) == ["zero_gradients", "check_units"]


def test_saturated_units_are_reported() -> None:
    record = falling(*[1.0] * 40, update_ratio=[0.03] * 40)
    record["epochs"] = [{"epoch": 1, "saturation": 0.9}]
    diagnosis = diagnose(record)
    assert diagnosis.evidence["saturation"] == 0.9
    assert Finding("saturated", share=0.9) in diagnosis.notes


def test_advice_on_divergence_gives_a_rate() -> None:
    record = falling(*np.geomspace(1, 20, 30).tolist(), update_ratio=[0.4] * 30)
    record["config"] = {"learning_rate": 0.3}
    diagnosis = diagnose(record)
    assert diagnosis.label == "diverged"
    assert codes(diagnosis) == ["grew", "updates_short", "change_rate"]
    assert Finding("updates_short", ratio=0.4) in diagnosis.notes
    assert Advice("change_rate", factor=1 / 30, rate=0.3) in diagnosis.notes


def test_growth_after_a_fall_is_divergence() -> None:
    values = line(1.0, 0.2, 30) + line(0.2, 0.8, 30)
    assert diagnose(falling(*values)).label == "diverged"


def test_a_trial_that_was_stopped_for_divergence_has_diverged() -> None:
    record = falling(1.0, 0.9, 0.8, 0.7) | {"status": "diverged"}
    assert diagnose(record).label == "diverged"
    leap = falling(1.0, 0.9, 2e6, 0.9, 0.8, 0.7, 0.6, 0.5)
    assert diagnose(leap).evidence["broke"] == "update 3"


@pytest.mark.parametrize(
    ("record", "finding"),
    [
        ({"status": "out of memory", "error": None}, Finding("out_of_memory")),
        (
            {"status": "failed", "error": {"type": "ValueError", "message": "shapes"}},
            Finding("raised", error="ValueError"),
        ),
        ({"updates": {}, "epochs": []}, Finding("no_objective")),
        ({}, Finding("no_objective")),
    ],
)
def test_a_trial_without_a_curve_has_failed(record: dict[str, Any], finding: Finding) -> None:
    diagnosis = diagnose(record)
    assert diagnosis.label == "failed"
    assert diagnosis.notes[0] == finding
    assert set(diagnosis.evidence) == {"error"}


def with_l2(loss: np.ndarray, penalty: np.ndarray, **updates: list[float]) -> dict[str, Any]:
    return falling(*(loss + penalty).tolist(), loss=loss.tolist(), **updates)


def test_an_l2_term_that_hides_the_loss_is_reported() -> None:
    rng = np.random.default_rng(9)
    penalty = 250 * np.exp(-np.linspace(0, 0.6, 60))
    flat = diagnose(with_l2(0.7 + rng.normal(0, 0.02, 60), penalty))
    assert flat.label == "improving"
    assert flat.evidence["loss"] == "stays"
    assert flat.evidence["l2_share"] > 0.99
    assert flat.evidence["l2_share_of_fall"] == pytest.approx(1, abs=0.01)
    assert codes(flat)[:4] == ["l2_term", "l2_fall", "loss_stays", "lower_l2"]
    assert values_of(flat, "l2_term")["share"] == flat.evidence["l2_share"]
    rising = diagnose(with_l2(np.linspace(0.7, 2.0, 60), penalty))
    assert rising.evidence["loss"] == "rises"
    assert values_of(rising, "loss_rises") == pytest.approx({"start": 0.7, "end": 2.0}, abs=0.03)
    falls = diagnose(with_l2(np.linspace(0.7, 0.2, 60), penalty))
    assert falls.evidence["loss"] == "falls"
    assert "judge_by_loss" in codes(falls)


def test_a_small_l2_term_is_not_mentioned() -> None:
    diagnosis = diagnose(with_l2(np.geomspace(1, 0.1, 60), np.full(60, 0.01)))
    assert diagnosis.evidence["l2_share"] == pytest.approx(0.1, rel=0.2)
    assert "l2_term" not in codes(diagnosis)


def test_shrinking_weights_do_not_make_a_loss_converge() -> None:
    penalty = 400 * np.exp(-np.linspace(0, 12, 80))
    loss = np.linspace(0.8, 0.6, 80)
    assert diagnose(falling(*(penalty + loss).tolist())).label == "converged"
    assert diagnose(with_l2(loss, penalty)).label == "improving"


def overfitted(n: int = 12, drop: float = 2.0, falls: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(10)
    t = np.arange(n) / (n - 1)
    f1 = 86 - drop * np.square(np.maximum(0, t - 0.3)) / 0.49 + rng.normal(0, 0.1, n)
    loss = np.exp(-3 * t) if falls else 1 + t / 10
    epochs = [
        {"epoch": i + 1, "objective": 5 * np.exp(-3 * x) + y, "loss": y, "dev_f1": f}
        for i, (x, y, f) in enumerate(zip(t, loss.tolist(), f1.tolist(), strict=True))
    ]
    return {"updates": {}, "epochs": epochs}


def test_overfitting_names_the_epoch_to_stop_at() -> None:
    diagnosis = diagnose(overfitted())
    assert diagnosis.label == "overfitting"
    assert diagnosis.evidence["dev_drop"] == pytest.approx(2.0, abs=0.6)
    assert values_of(diagnosis, "stop")["epoch"] == diagnosis.evidence["dev_peak_epoch"]


def test_a_loss_that_rises_with_f1_falling_is_not_overfitting() -> None:
    assert diagnose(overfitted(falls=False)).label == "improving"


def test_more_epochs_are_not_advised_once_dev_f1_stops_rising() -> None:
    def run(*f1: float) -> dict[str, Any]:
        epochs = [
            {"epoch": i, "objective": 5 * 0.8**i, "dev_f1": value} for i, value in enumerate(f1, 1)
        ]
        return {"updates": {}, "epochs": epochs}

    resting = diagnose(run(80, 84, 85, 84.9, 85, 84.8, 84.9, 85))
    assert (resting.label, resting.evidence["dev_since_best"]) == ("improving", 5)
    assert resting.notes[0] == Finding("dev_f1_rests", epochs=5)
    assert codes(resting)[-1] == "stop_here"
    rising = diagnose(run(80, 84, 85, 84.9, 85, 84.8, 84.9, 85.1))
    assert (rising.label, rising.evidence["dev_since_best"]) == ("improving", 0)
    assert codes(rising) == ["still_falls", "more_epochs"]


def test_a_drop_within_noise_is_not_overfitting() -> None:
    assert diagnose(overfitted(drop=0.2)).label == "improving"
    record = overfitted(drop=2.0)
    counts = np.full((30, 2), 10)
    for epoch in record["epochs"]:
        epoch["dev_counts"] = counts.tolist()
    few = diagnose(record)
    assert few.label == "overfitting"
    for i, epoch in enumerate(record["epochs"]):
        # Epochs that differ on other sentences each time: 30 sentences cannot tell them apart.
        matched = np.where((np.arange(30) + i) % 3 == 0, 2, 10)
        epoch["dev_counts"] = np.stack([matched, np.full(30, 11)], axis=1).tolist()
    assert diagnose(record).label == "improving"


def test_a_convex_problem_is_judged_by_its_best_iterate() -> None:
    t = np.arange(1, 41)
    values = 1.0 + 2.0 * t**-1.5 + 0.004 * (-1.0) ** t
    gaps = (2.0 * t**-1.5).tolist()
    record = falling(*values.tolist())
    record["convex"] = {"optimum": 1.0, "gap": gaps, "bound": (4.0 * t**-0.5).tolist()}
    diagnosis = diagnose(record)
    assert diagnosis.label == "converged"
    assert diagnosis.evidence["gap"] == pytest.approx(gaps[-1])
    assert diagnosis.evidence["gap_share"] < 0.01
    assert diagnosis.evidence["decay"] == pytest.approx(1.5)
    assert diagnosis.evidence["decay_low"] <= 1.5 <= diagnosis.evidence["decay_high"]
    assert diagnosis.evidence["within_bound"] == "yes"
    assert diagnosis.evidence["reference"] == 1.0
    assert codes(diagnosis) == ["gap", "decay"]
    assert values_of(diagnosis, "gap")["optimum"] == 1.0


def test_a_shrinking_gap_is_not_a_stall() -> None:
    t = np.arange(1, 101)
    plateau = (1.5 + 1.5 * np.exp(-t / 3)).tolist()
    record = falling(*plateau)
    gaps = 0.5 + t**-0.5
    record["convex"] = {"optimum": 1.0, "lower_bound": 0.9, "gap": gaps.tolist(), "bound": []}
    diagnosis = diagnose(record)
    assert diagnosis.label == "improving"
    assert codes(diagnosis) == ["nears_optimum", "more_epochs", "decaying_rate"]
    record["convex"]["gap"] = [0.5] * 100
    assert diagnose(record).label == "stalled"


def test_missing_series_and_nulls_elsewhere_are_ignored() -> None:
    record = falling(*line(1.0, 0.4, 20), update_ratio=[None] * 20, gradient_norm=[None, 1.0])
    record["epochs"] = [{"epoch": 1, "dev_f1": None}, {"epoch": 2}]
    diagnosis = diagnose(record)
    assert diagnosis.label == "improving"
    assert "update_ratio" not in diagnosis.evidence
    assert not set(diagnosis.evidence) - set(EVIDENCE)


def test_trials_of_a_study_are_each_others_reference() -> None:
    low = falling(*(0.2 + 0.8 * math.exp(-t) for t in range(60)))
    high = falling(*(0.6 + 0.4 * math.exp(-t) for t in range(60)))
    low["config"] = {"optimizer": "adam", "learning_rate": 0.1, "l2": 0.1}
    high["config"] = {"optimizer": "sgd", "learning_rate": 0.01, "l2": 0.1}
    other = high | {"config": {"optimizer": "sgd", "learning_rate": 0.01, "l2": 0.2}}
    broken = falling(1.0, None) | {"config": low["config"]}
    failed = {"status": "failed", "config": low["config"]}
    diagnoses = diagnose_all([low, high, other, broken, failed])
    labels = ["converged", "stalled", "converged", "diverged", "failed"]
    assert [diagnosis.label for diagnosis in diagnoses] == labels
    assert diagnoses[1].evidence["reference"] == diagnoses[0].evidence["end"]
    assert diagnoses[1] == diagnose(high, reference=float(diagnoses[0].evidence["end"]))
