"""Training that diverges stops with a message and leaves only finite numbers."""

from __future__ import annotations

import json
import logging
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse.config import TrainingConfig
from rnnparse.divergence import change_rate, is_beyond
from rnnparse.errors import DivergedError
from rnnparse.parser import Parser
from rnnparse.training.checkpoint import TrainingState
from rnnparse.training.prepare import Problem
from tests.fuzz.commands import strict_json
from tests.training.problems import small_config, small_problem, train_network
from tests.training.runs import logs, model_bytes, run, write_treebank

# L2 alone multiplies the weights by 1 - 22 * 0.1 = -1.2 at each of three steps an epoch.
SLOWLY: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 22.0, "l2": 0.1, "epochs": 60}
AT_ONCE: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 1e30, "l2": 0.1}


@lru_cache(maxsize=1)
def problem() -> Problem:
    return small_problem(24)


def train(**settings: Any) -> TrainingState:
    given = problem()
    config = small_config(**settings)
    return train_network(given.initial, given.store, given.dev, config)


@pytest.mark.parametrize("engine", ["numba", "tensorflow"])
@pytest.mark.parametrize("objective", ["hinge", "squared-hinge", "perceptron", "mmi", "risk"])
def test_every_objective_and_engine_stops(engine: str, objective: str) -> None:
    state = train(engine=engine, objective=objective, **AT_ONCE)
    assert state.diverged is not None and state.diverged["epoch"] == 1
    assert state.history == [] and state.best is problem().initial


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam", "rmsprop"])
def test_every_optimizer_stops(optimizer: str) -> None:
    state = train(**{**AT_ONCE, "optimizer": optimizer, "epochs": 3})
    assert state.diverged is not None
    assert all(np.isfinite(array).all() for array in state.best)


def test_growth_without_overflow_is_divergence() -> None:
    """The weights grow at each step until the objective is a million times that of the start."""
    state = train(patience=60, **SLOWLY)
    assert state.diverged is not None
    assert np.isfinite(state.diverged["objective"]) and 3 <= state.diverged["epoch"] <= 8
    start = state.history[0]["initial_objective"]
    assert all(not is_beyond(entry["objective"], start) for entry in state.history)
    assert is_beyond(state.diverged["objective"], start)


def test_the_start_is_the_objective_of_the_first_batch_before_any_step() -> None:
    config = small_config(batch_size=24, epochs=1)
    given = problem()
    state = train_network(given.initial, given.store, None, config)
    weights = sum(float(np.square(a, dtype=np.float64).sum()) for a in given.initial[1:])
    expected = state.history[0]["loss"] + 0.5 * config.l2 * weights
    assert state.history[0]["initial_objective"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("objective", "start", "beyond"),
    [
        *[(float("nan"), 1.0, True), (float("inf"), 1.0, True), (2e6, 1.0, True)],
        *[(5e5, 1.0, False), (5e5, 0.0, False), (5e5, 1e-9, False), (1e9, 1e8, False)],
    ],
)
def test_bounds_of_the_objective(objective: float, start: float, beyond: bool) -> None:
    assert is_beyond(objective, start) is beyond


def test_advice_gives_the_new_rate() -> None:
    assert change_rate(30.0, 0.1) == "divide the learning rate by 10 (30 → 3)"
    assert change_rate(None, 3.0) == "multiply the learning rate by 3"


# -- whole runs --------------------------------------------------------------------------------


def run_on(folder: Path, **settings: Any) -> Any:
    treebank = write_treebank(folder / "train.mrg", 24)
    dev = None if settings.get("folds") else write_treebank(folder / "dev.mrg", 6, "dev")
    return run(folder, treebank=treebank, dev=dev, **settings)


def assert_nothing_is_beyond_json(model: Path) -> None:
    strict_json((model / "report.json").read_text("utf-8"))
    for log in model.glob("*.jsonl"):
        for line in log.read_text("utf-8").splitlines():
            strict_json(line)
    assert all(np.isfinite(array).all() for array in Parser.load(model).parameters)


def test_divergence_in_the_first_epoch_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"epoch 1 with sgd at learning rate 1e\+30") as e:
        run_on(tmp_path, **AT_ONCE)
    assert "divide the learning rate by 10" in str(e.value) and "no model to save" in str(e.value)
    assert not (tmp_path / "model").exists()


def test_the_epochs_before_it_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rnnparse"):
        report = run_on(tmp_path, patience=60, telemetry=True, **SLOWLY)
    assert report.diverged is not None and len(report.history) == report.diverged - 1
    assert 1 <= report.best_epoch < report.diverged
    assert f"diverged in epoch {report.diverged}" in caplog.text
    assert "divide the learning rate by 10 (22 → 2.2)" in caplog.text
    assert re.search(rf"^diverged in epoch +{report.diverged}$", report.format_table(), re.M)
    assert_nothing_is_beyond_json(tmp_path / "model")
    seen = (tmp_path / "model" / "telemetry.jsonl").read_text().splitlines()
    assert json.loads(seen[-1])["epoch"] == report.diverged


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_resumed_run_diverges_again(tmp_path: Path, stopped: int) -> None:
    """Killed after `stopped` epochs, it writes the same model to the byte."""
    whole = tmp_path / "whole"
    whole.mkdir()
    run_on(whole, patience=60, **SLOWLY)
    part = tmp_path / "part"
    part.mkdir()
    settings = {**SLOWLY, "patience": 60, "cache": str(whole / "cache")}
    with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
        _interrupt_after(patch, stopped)
        run_on(part, **settings)
    report = run_on(part, resume=True, **settings)
    assert report.diverged is not None
    one, other = (model_bytes(folder / "model") for folder in (part, whole))
    for name in ("grammar.npz", "vocabulary.txt", "weights.npz"):  # others name the treebank
        assert one[name] == other[name]
    assert logs(part / "model") == logs(whole / "model")


def _interrupt_after(patch: pytest.MonkeyPatch, epochs: int) -> None:
    from rnnparse.training import pipeline

    def save(path: Path, state: TrainingState, key: str) -> None:
        if state.epoch > epochs:
            raise KeyboardInterrupt
        pipeline_save(path, state, key)

    pipeline_save = pipeline.save_state
    patch.setattr(pipeline, "save_state", save)


def test_folds_count_the_epochs_in_which_none_diverged(tmp_path: Path) -> None:
    report = run_on(tmp_path, folds=2, **SLOWLY)
    assert report.diverged is not None
    assert 1 <= report.best_epoch <= report.epochs < report.diverged
    assert len(report.history) == report.best_epoch
    assert_nothing_is_beyond_json(tmp_path / "model")


def test_folds_that_diverge_at_once_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="epoch 1"):
        run_on(tmp_path, folds=2, **AT_ONCE)


def test_the_usual_rate_does_not_diverge() -> None:
    state = train(epochs=TrainingConfig.epochs)
    assert state.diverged is None and len(state.history) > 1
