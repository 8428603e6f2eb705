"""Trials on problems with known answers: quadratics, logistic losses, plateaus."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rnnparse.study.diagnosis import Diagnosis, diagnose, diagnose_all
from rnnparse.study.diagnosis.advice import Advice, Finding
from tests.study.diagnosis.known_runs import OPTIMIZERS, PROBLEMS, Problem, contradictions, run
from tests.study.diagnosis.notes import codes, values_of

Step = Callable[[np.ndarray, np.random.Generator], tuple[float, np.ndarray]]


def descend(
    step: Step, start: np.ndarray, rate: float, updates: int, name: str = "rate", seed: int = 0
) -> dict[str, Any]:
    """Record stochastic gradient descent."""
    rng, x = np.random.default_rng(seed), start.copy()
    objective, ratio = [], []
    for _ in range(updates):
        value, slope = step(x, rng)
        objective.append(value)
        ratio.append(float(rate * np.linalg.norm(slope) / (np.linalg.norm(x) or 1.0)))
        if value > 1e6 * objective[0]:
            break
        x = x - rate * slope
    status = "finished" if len(objective) == updates else "diverged"
    series = {"objective": objective, "update_ratio": ratio}
    return {"config": {name: rate}, "seed": seed, "status": status, "updates": series, "epochs": []}


def quadratic(condition: float, noise: float = 0.0) -> tuple[Step, np.ndarray]:
    """½ Σ λ x² + 0.1 with λ from 1 to 1/condition; it converges for rates below 2."""
    curvature = np.geomspace(1, 1 / condition, 20)

    def step(x: np.ndarray, rng: np.random.Generator) -> tuple[float, np.ndarray]:
        value = 0.5 * float(curvature @ (x * x)) + 0.1
        return value, curvature * x + noise * rng.normal(size=20)

    return step, np.random.default_rng(0).normal(size=20)


def logistic(batch: int) -> tuple[Step, np.ndarray]:
    """Logistic regression on overlapping classes, from weights near 0."""
    rng = np.random.default_rng(0)
    true, x = rng.normal(size=10), rng.normal(size=(200, 10))
    y = np.sign(x @ true + 2 * rng.logistic(size=200))

    def step(v: np.ndarray, rng: np.random.Generator) -> tuple[float, np.ndarray]:
        drawn = rng.choice(200, batch, replace=False)
        margin = y[drawn] * (x[drawn] @ v)
        share = 1 / (1 + np.exp(np.clip(margin, -500, 500)))
        slope = -(x[drawn] * (y[drawn] * share)[:, None]).mean(0)
        return float(np.logaddexp(0, -margin).mean()), slope

    return step, 0.01 * rng.normal(size=10)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("optimizers", [OPTIMIZERS, ("sgd",), ("momentum",), ("adam",)])
def test_labels_from_means_of_epochs_never_contradict_the_known_answer(
    problem: Callable[[], Problem], optimizers: tuple[str, ...]
) -> None:
    made = problem()
    for epochs in (3, 5, 8, 15):
        rates = [10.0**exponent for exponent in range(-5, 2)]
        runs = [run(made, name, rate, epochs) for name in optimizers for rate in rates]
        labels = [diagnosis.label for diagnosis in diagnose_all([one.record for one in runs])]
        wrong = list(contradictions(runs, labels))
        assert not wrong, wrong[:3]
        assert len(set(labels)) >= 2


def by_epochs(
    rate: float, *losses: float, optimizer: str = "adam", first: int = 1
) -> dict[str, Any]:
    epochs = [{"epoch": i, "loss": loss} for i, loss in enumerate(losses, first)]
    config = {"optimizer": optimizer, "learning_rate": rate}
    return {"config": config, "seed": 0, "status": "finished", "updates": {}, "epochs": epochs}


def test_a_run_far_above_the_start_of_its_problem_has_diverged() -> None:
    """Its own first epoch is a mean over updates that already diverged."""
    wild = by_epochs(1.0, 677.0, 812.0, 590.0, 1103.0, 1451.0)
    healthy = [by_epochs(rate, *(2.0 * (1 - rate * i) for i in range(5))) for rate in (0.001, 0.01)]
    assert diagnose(wild).label == "too few updates"  # alone, nothing tells where it began
    for others in (
        healthy,
        [one | {"config": {**one["config"], "optimizer": "sgd"}} for one in healthy],
    ):
        diagnosis = diagnose_all([wild, *others])[0]
        assert diagnosis.label == "diverged" and diagnosis.evidence["start"] == 2.0
        assert values_of(diagnosis, "grew")["times"] > 100
    by_updates = healthy[0] | {"updates": {"loss": [2.1, 2.0, 1.9, 1.9, 1.8]}, "epochs": []}
    assert diagnose_all([wild, by_updates])[0].label == "diverged"
    assert diagnose(by_epochs(1.0, 2.0, *(677.0, 812.0, 590.0), first=0)).label == "diverged"


def test_a_slow_rate_has_not_diverged_although_others_fall_fast() -> None:
    slow = by_epochs(1e-6, *(5.0 - 0.001 * i for i in range(6)))
    fast = [by_epochs(rate, 0.3, 0.12, 0.11, 0.1, 0.1, 0.1) for rate in (0.01, 0.1)]
    labels = [diagnosis.label for diagnosis in diagnose_all([slow, *fast])]
    assert labels == ["too few updates", "converged", "converged"]


def test_a_few_epochs_that_went_far_are_not_too_few_updates() -> None:
    slow = by_epochs(1e-6, 15.0, 14.9, 14.9)
    diagnoses = diagnose_all([slow, by_epochs(0.1, 3.9, 0.5, 0.36), by_epochs(0.3, 3.0, 0.4, 0.3)])
    assert [one.label for one in diagnoses] == ["too few updates", "improving", "improving"]
    assert values_of(diagnoses[1], "went_in")["share"] == pytest.approx(1, abs=0.01)


def falling(values: np.ndarray, **updates: list[float]) -> dict[str, Any]:
    return {"updates": {"objective": values.tolist(), **updates}, "epochs": []}


def study(problem: tuple[Step, np.ndarray], rates: list[float], updates: int) -> list[Diagnosis]:
    return diagnose_all([descend(*problem, rate, updates) for rate in rates])


@pytest.mark.parametrize("updates", [8, 12, 20, 31, 64, 500])
def test_the_best_rates_of_a_quadratic_do_not_oscillate(updates: int) -> None:
    labels = [diagnosis.label for diagnosis in study(quadratic(1), [0.5, 0.7, 1.0, 1.3], updates)]
    assert labels == ["converged"] * 4


@pytest.mark.parametrize("updates", [20, 200])
def test_rates_of_a_quadratic_are_labelled_by_their_bound(updates: int) -> None:
    diagnoses = study(quadratic(100), [1e-6, 1e-3, 1.0, 1.99, 2.2, 3.0], updates)
    labels = [one.label for one in diagnoses]
    assert labels[:2] == ["too few updates"] * 2
    assert {labels[2], labels[3]} <= {"converged", "improving"}
    assert labels[4:] == ["diverged"] * 2
    assert all("best_rate" in codes(one) for one in (diagnoses[0], diagnoses[5]))


@pytest.mark.parametrize("updates", [5, 20, 200])
def test_rates_that_are_all_too_small_have_not_converged(updates: int) -> None:
    diagnoses = study(quadratic(100), [1e-9, 1e-8, 1e-7], updates)
    assert {one.label for one in diagnoses} == {"too few updates"}
    assert {one.label for one in study(quadratic(100), [1e-9], updates)} == {"too few updates"}


def test_a_constant_alone_in_its_study_has_not_converged() -> None:
    values = {"objective": [3.0] * 80, "update_ratio": [0.01] * 80}
    record = {"config": {"rate": 1.0}, "updates": values, "epochs": []}
    assert [diagnosis.label for diagnosis in diagnose_all([record, record])] == ["stalled"] * 2


@pytest.mark.parametrize("name", ["learning_rate", "rate", "lr", "step_size", "eta"])
def test_every_usual_name_of_the_rate_is_recognized(name: str) -> None:
    step, start = quadratic(1)
    low, high = (descend(step, start, rate, 300, name) for rate in (1e-4, 0.5))
    diagnoses = diagnose_all([low, high])
    assert diagnoses[0].evidence["reference"] == diagnoses[1].evidence["end"]
    assert "reference" not in diagnoses[1].evidence
    read = name.replace("_", " ")
    assert Advice("best_rate", rate=f"{read} 0.5") in diagnoses[0].notes
    assert "best_rate" not in codes(diagnoses[1])
    alone = diagnose_all([low, high | {"config": {name: 0.5, "width": 8}}])
    assert "reference" not in alone[0].evidence


def test_rates_need_not_be_numbers() -> None:
    step, start = quadratic(1)
    records = [descend(step, start, rate, 100) for rate in (1e-4, 0.5)]
    for record, rate in zip(records, (["linear", 0.1], "cosine"), strict=True):
        record["config"] = {"rate": rate}
    assert values_of(diagnose_all(records)[0], "best_rate")["rate"] == 'rate "cosine"'


def test_a_rate_is_advised_only_if_no_seed_diverges() -> None:
    step, start = quadratic(1)
    slow, fast, fastest = (descend(step, start, rate, 100) for rate in (1e-4, 0.01, 1.0))
    assert values_of(diagnose_all([slow, fast, fastest])[0], "best_rate")["rate"] == "rate 1"
    apart = descend(step, start, 3.0, 100, seed=1) | {"config": {"rate": 1.0}}
    assert apart["status"] == "diverged"
    diagnoses = diagnose_all([slow, fast, fastest, apart])
    assert all(Advice("best_rate", rate="rate 0.01") in diagnoses[i].notes for i in (0, 3))
    assert "best_rate" not in codes(diagnose_all([fastest, apart])[1])


@pytest.mark.parametrize("updates", [5, 10, 20])
def test_a_few_noisy_updates_that_still_fall_have_not_converged(updates: int) -> None:
    labels: Counter[str] = Counter()
    for seed in range(20):
        step, start = logistic(20)
        records = [descend(step, start, rate, updates, seed=seed) for rate in (1e-3, 1e-2, 0.1)]
        labels.update(diagnosis.label for diagnosis in diagnose_all(records))
    assert labels["converged"] <= 2, labels


def test_noise_that_may_hide_a_slope_is_not_a_stall() -> None:
    rng = np.random.default_rng(3)
    low = {"updates": {"objective": [0.1 + 0.9 * math.exp(-t) for t in range(20)]}, "epochs": []}
    labels: Counter[str] = Counter()
    for _ in range(50):
        slow = (0.4 + 0.6 * np.exp(-np.arange(20) / 6)) * (1 + 0.2 * rng.normal(size=20))
        record = {"updates": {"objective": slow.tolist(), "update_ratio": [0.01] * 20}}
        labels[diagnose_all([low, record | {"epochs": []}])[1].label] += 1
    assert labels["stalled"] <= 2, labels
    plateau = 0.4 + 0.6 * np.exp(-np.arange(400) / 6) + 0.01 * rng.normal(size=400)
    long = {"updates": {"objective": plateau.tolist()}, "epochs": []}
    assert diagnose_all([low, long])[1].label == "stalled"


def test_an_overshoot_that_ends_far_above_the_start_has_diverged() -> None:
    t = np.arange(20)
    overshoot = np.where(t < 3, 24, 24 + 1e6 * np.exp(-(t - 3) / 4))
    assert diagnose({"updates": {"objective": overshoot.tolist()}}).label == "diverged"
    rng = np.random.default_rng(4)
    noisy = np.where(np.arange(500) < 20, 0.7, 28 * rng.gamma(2, 0.5, 500))
    assert diagnose({"updates": {"objective": noisy.tolist()}}).label == "diverged"


def test_noise_alone_rarely_counts_as_growth() -> None:
    rng = np.random.default_rng(5)
    for updates in (4, 6, 8, 20, 100):
        for spread in (0.1, 0.3, 0.5):
            labels = Counter(
                diagnose({"updates": {"objective": values.tolist()}}).label
                for values in rng.gamma(spread**-2, spread**2, (200, updates))
            )
            assert labels["diverged"] <= 10, (updates, spread, labels)


def test_a_fall_in_the_first_few_of_many_updates_is_detected() -> None:
    values = 0.1 + 0.9 * 0.5 ** np.arange(5000)
    diagnosis = diagnose({"updates": {"objective": values.tolist()}})
    assert diagnosis.label == "converged"
    assert diagnosis.evidence["start"] == 1.0
    rng = np.random.default_rng(6)
    noisy = diagnose({"updates": {"objective": (1 + 0.3 * rng.normal(size=5000)).tolist()}})
    assert noisy.evidence["start"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("updates", [40, 200, 1000])
def test_noise_around_an_optimum_near_0_is_not_oscillation(updates: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        values = 9 * np.exp(-np.arange(updates) / 3) + 0.05 * rng.normal(size=updates)
        record = falling(values, update_ratio=[0.2] * updates)
        assert diagnose(record).label == "converged"


def test_a_fall_that_ends_above_the_start_asks_for_shorter_steps() -> None:
    t = np.arange(40)
    back = np.where(t < 4, 1.0, 1.1 + 8 * np.exp(-(t - 4) / 12))
    diagnosis = diagnose(falling(back) | {"config": {"lr": 0.5}})
    assert diagnosis.label in ("improving", "diverged")
    change = values_of(diagnosis, "change_rate")
    assert change["factor"] < 1 and change["rate"] == 0.5
    assert all(note.values.get("share", 0) >= 0 for note in diagnosis.notes)


def test_a_validation_loss_that_rises_is_overfitting() -> None:
    rng = np.random.default_rng(8)
    labels = []
    for rise in (0.0, 0.05):
        epochs = [
            {
                "epoch": i + 1,
                "loss": math.exp(-i / 6),
                "val_loss": 0.4 + 0.6 * math.exp(-i / 4) + rise * max(0, i - 8) + 0.005 * noise,
            }
            for i, noise in enumerate(rng.normal(size=20))
        ]
        labels.append(diagnose({"updates": {}, "epochs": epochs}))
    assert [diagnosis.label for diagnosis in labels] == ["improving", "overfitting"]
    assert labels[1].evidence["dev_drop"] == pytest.approx(0.4, abs=0.05)
    assert values_of(labels[1], "val_loss_got_worse")["drop"] == labels[1].evidence["dev_drop"]
    assert "stop" in codes(labels[1])


@pytest.mark.parametrize("first", [0.0, 1e-7, 0.3])
def test_zero_gradients_are_reported_whenever_they_begin(first: float) -> None:
    zeros = [first] + [0.0] * 59
    diagnosis = diagnose(falling(np.full(60, 0.5), update_ratio=zeros, gradient_norm=zeros))
    assert diagnosis.label == "stalled"
    assert diagnosis.notes[0] == Finding("zero_gradients")


def test_longer_steps_are_not_advised_if_the_weights_already_moved_far() -> None:
    rng = np.random.default_rng(9)
    curve = 5.0 + 0.3 * rng.normal(size=12) - 0.01 * np.arange(12)
    for ratio, longer in ((1e-4, True), (0.3, False)):
        diagnosis = diagnose(falling(curve, update_ratio=[ratio] * 12) | {"config": {"lr": 0.1}})
        factors = [one.values["factor"] for one in diagnosis.notes if one.code == "change_rate"]
        assert any(factor > 1 for factor in factors) == longer, diagnosis
