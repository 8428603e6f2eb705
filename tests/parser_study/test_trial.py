"""Trials of the parser's studies against training runs with the same settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.files import read_arrays, write_arrays
from rnnparse.parser_study.grid import Grid
from rnnparse.parser_study.shared_forests import ProblemFile, prepare_problem, read_problem
from rnnparse.parser_study.trial import ParserTrial, training_config
from rnnparse.study.curve import Curve
from rnnparse.training.pipeline import train
from tests.training.runs import write_treebank

SETTINGS: dict[str, Any] = {"candidates": 10, "dim": 5, "batch_size": 10, "epochs": 3}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> TrainingConfig:
    folder = tmp_path_factory.mktemp("trial")
    return TrainingConfig(
        treebank=write_treebank(folder / "train.mrg", 40), cache=str(folder / "cache"), **SETTINGS
    )


@pytest.fixture(scope="module")
def problem(base: TrainingConfig) -> ProblemFile:
    return prepare_problem(base, progress=False)


def run(problem: ProblemFile, base: TrainingConfig, seed: int = 0, **config: Any) -> Curve:
    curve = Curve()
    for entry in ParserTrial(problem.path, base)(config, seed):
        curve.add(entry)
    return curve


def test_a_trial_is_the_training_run(
    problem: ProblemFile, base: TrainingConfig, tmp_path: Path
) -> None:
    """The same scores on dev as `train` reports, epoch by epoch, and counts that add up to them."""
    curve = run(problem, base, optimizer="adam", learning_rate=0.01)
    settings = {**base.to_dict(), "optimizer": "adam", "learning_rate": 0.01}
    report = train(TrainingConfig(**settings), tmp_path / "model", progress=False)
    for ours, theirs in zip(curve.epochs, report.history, strict=True):
        for name in ("loss", "objective", "violated", "dev_f1", "beta"):
            assert ours[name] == theirs[name], name
        matched, test = np.sum(ours["dev_counts"], axis=0)
        assert 200 * matched / (test + sum(problem.gold)) == pytest.approx(ours["dev_f1"])
    assert len(problem.gold) == len(curve.epochs[0]["dev_counts"]) == 4


def test_updates_are_on_record(problem: ProblemFile, base: TrainingConfig) -> None:
    curve = run(problem, base, learning_rate=0.05, l2=0.01)
    assert len(curve.updates["objective"]) == 3 * 4
    by_epoch = np.mean(np.reshape(curve.updates["loss"], (3, 4)), axis=1)
    # Minibatches of ten, ten, ten and six.
    np.testing.assert_allclose(by_epoch, [e["loss"] for e in curve.epochs], rtol=0.2)
    for name in ("gradient_norm", "update_ratio", "violated"):
        assert all(value >= 0 for value in curve.updates[name])
    assert curve.epochs[0]["weight_norm"] > 0 and 0 <= curve.epochs[0]["saturation"] < 1


def test_the_problem_comes_from_the_cache(
    problem: ProblemFile, base: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    import rnnparse.parser_study.shared_forests as module

    monkeypatch.delattr(module, "make_problem")
    again = prepare_problem(base, progress=False)
    assert again == problem
    other = TrainingConfig(**{**base.to_dict(), "candidates": 5})
    with pytest.raises(NameError):
        prepare_problem(other, progress=False)


def test_dimension_and_seed_decide_the_start(problem: ProblemFile, base: TrainingConfig) -> None:
    shared = read_problem(problem.path, base)
    seven = shared.for_trial(training_config(base, {"dim": 7}, 0)).initial
    assert seven.v.shape[1] == 7
    one, other = (shared.for_trial(training_config(base, {}, seed)).initial for seed in (1, 2))
    assert (one.W != other.W).any()
    np.testing.assert_array_equal(shared.for_trial(base).initial.W, shared.problem.initial.W)


@pytest.mark.parametrize(
    "config",
    [
        {"optimizer": "momentum", "learning_rate": 0.01},
        {"optimizer": "keras-adagrad", "objective": "mmi"},
    ],
)
def test_every_kind_of_setting_runs(
    problem: ProblemFile, base: TrainingConfig, config: dict[str, Any]
) -> None:
    curve = run(problem, base, epochs=2, **config)
    assert curve.epochs[1]["loss"] < curve.epochs[0]["loss"]


def test_grids_are_sets_of_such_settings(problem: ProblemFile, base: TrainingConfig) -> None:
    for config in Grid.from_options({}, preset="question").configs():
        assert training_config(base, config, 3).seed == 3


def test_a_plateau_ends_a_trial(problem: ProblemFile, base: TrainingConfig) -> None:
    still = {"epochs": 9, "patience": 1, "learning_rate": 1e-9}
    assert len(run(problem, base, **still).epochs) == 2
    assert len(run(problem, base, **{**still, "patience": 9}).epochs) == 9


@pytest.mark.parametrize("batch_size", [5, 1000])
def test_a_trial_that_diverges_ends(
    problem: ProblemFile, base: TrainingConfig, batch_size: int
) -> None:
    """Also where only the weights after its last update show that."""
    config = {"optimizer": "sgd", "learning_rate": 1e30, "l2": 0.1, "batch_size": batch_size}
    curve = run(problem, base, epochs=3, **config)
    assert curve.diverged() and curve.diverged(last=1)
    assert curve.updates["objective"][0] is not None and curve.epochs == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("train_key", lambda a: a + np.int32(10**6)),
        ("train_left", lambda a: a[::-1].copy()),
        ("dev_word", lambda a: np.where(a >= 0, a + 10**6, a).astype(np.int32)),
        ("dev_root", lambda a: a + np.int32(10**6)),
        ("pairs", lambda a: a[::-1].copy()),
        ("counts_test", lambda a: a[:-1]),
        ("counts_gold", lambda a: -a),
        ("words", lambda a: np.empty(0, np.uint8)),
    ],
)
def test_a_problem_in_the_cache_that_cannot_be_is_made_again(
    base: TrainingConfig,
    problem: ProblemFile,
    caplog: pytest.LogCaptureFixture,
    name: str,
    change: Callable[[np.ndarray], np.ndarray],
) -> None:
    whole = problem.path.read_bytes()
    arrays = read_arrays(problem.path)
    write_arrays(problem.path, {**arrays, name: change(arrays[name])})
    with pytest.raises(ConfigError, match="cannot be read"):
        read_problem(problem.path, base)
    assert prepare_problem(base, progress=False) == problem
    assert "the forests in the cache are damaged; making them again" in caplog.text
    assert problem.path.read_bytes() == whole


def test_a_damaged_problem_is_an_error(base: TrainingConfig, tmp_path: Path) -> None:
    (tmp_path / "problem.npz").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match=r"problem\.npz: the forests .* remove the file"):
        read_problem(tmp_path / "problem.npz", base)
    with pytest.raises(ConfigError, match="needs a dev part"):
        prepare_problem(TrainingConfig(folds=2), progress=False)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_convex_trials_know_their_distance_to_the_optimum(
    problem: ProblemFile, base: TrainingConfig, optimizer: str
) -> None:
    rate = {"sgd": 3.0, "adagrad": 0.1}[optimizer]
    frozen = TrainingConfig(**{**base.to_dict(), "freeze": ["vectors", "W"], "l2": 0.01})
    curve = run(problem, frozen, optimizer=optimizer, learning_rate=rate, batch_size=36, epochs=6)
    convex = curve.convex
    assert convex is not None
    gaps = convex["gap"]
    assert len(gaps) == 6 and all(gap >= 0 for gap in gaps) and gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.7 * gaps[0]
    assert 0 <= convex["optimum"] - convex["lower_bound"] <= 2e-3 * convex["optimum"]
    if optimizer == "sgd":  # full batches, so that the bound holds at every step
        assert all(gap <= bound for gap, bound in zip(gaps, convex["bound"], strict=True))
    else:
        assert convex["bound"] is None


def test_a_damaged_optimum_is_computed_again(
    problem: ProblemFile, base: TrainingConfig, caplog: pytest.LogCaptureFixture
) -> None:
    frozen = TrainingConfig(**{**base.to_dict(), "freeze": ["vectors", "W"], "l2": 0.5})
    first = run(problem, frozen, epochs=1).convex
    files = problem.path.parent.glob(f"{problem.path.stem}-optimum-*.npz")
    file = max(files, key=lambda path: path.stat().st_mtime_ns)
    for name, value in (("point", np.zeros(3)), ("value", np.asarray(np.nan))):
        write_arrays(file, {**read_arrays(file), name: value})
        assert run(problem, frozen, epochs=1).convex == first
    assert caplog.text.count("the optimum in the cache is damaged; computing it again") == 2


def test_other_trials_have_no_optimum(problem: ProblemFile, base: TrainingConfig) -> None:
    assert run(problem, base, epochs=1).convex is None
    frozen = TrainingConfig(**{**base.to_dict(), "freeze": ["vectors", "W"]})
    assert run(problem, frozen, epochs=1, objective="risk").convex is None
    assert run(problem, frozen, epochs=1, l2=0.0).convex is None
