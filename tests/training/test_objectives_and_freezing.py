"""Training with other objectives, and with a part of the weights frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse.config import OBJECTIVES, TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.losses.score_gradients import WEIGHTS as FUNCTIONS
from rnnparse.models.cvg import CVG
from rnnparse.models.frozen_weights import NOTHING, FrozenWeights
from rnnparse.models.objective import loss_of_scores
from rnnparse.models.parameters import Parameters
from rnnparse.training.checkpoint import TrainingState, load_state, save_state
from rnnparse.training.dev_selection import score_all
from rnnparse.training.pipeline import train
from rnnparse.training.training_step import GradientStep
from tests.training.problems import problem, run, small_config
from tests.training.runs import write_treebank


def moved(state: TrainingState, name: str) -> np.ndarray:
    """Which weights have changed since the start."""
    return np.asarray(getattr(state.parameters, name) != getattr(problem().initial, name))


def mean_loss(parameters: Parameters, objective: str) -> float:
    """By the scores of all candidates, without the training loop."""
    store = problem().store
    scores = score_all(parameters, store)
    return float(loss_of_scores(store.batch(range(len(store))), scores, objective)[0].mean())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_is_lowered_by_training(objective: str) -> None:
    config = small_config(objective=objective, learning_rate=0.03, averaging=False)
    state = run(config, epochs=6)
    assert state.history[-1]["loss"] < 0.9 * state.history[0]["loss"]
    assert mean_loss(state.parameters, objective) < 0.9 * mean_loss(problem().initial, objective)
    assert ("violated" in state.history[0]) == (objective not in ("mmi", "risk"))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_engines_take_the_same_step(objective: str) -> None:
    batch = problem().store.batch(range(10))
    rng = np.random.default_rng(1)
    start = Parameters(
        *(a.astype(np.float64) + rng.normal(0, 0.3, a.shape) for a in problem().initial)
    )
    ends = []
    for engine in ("numba", "tensorflow"):
        model = CVG(start, engine)
        config = small_config(objective=objective, optimizer="sgd", learning_rate=0.1)
        losses = GradientStep(model, config)(batch)
        expected = FUNCTIONS[objective](
            np.asarray(CVG(start)(batch))[batch.candidates],
            0.1 * batch.cost[batch.candidates],
            batch.gold,
            batch.mask,
        )[0]
        np.testing.assert_allclose(losses, expected, rtol=1e-9, atol=1e-12)
        ends.append(model.parameters())
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_frozen_weights_keep_their_bytes(optimizer: str, l2: float) -> None:
    config = small_config(optimizer=optimizer, l2=l2, freeze=("vectors", "W:NP,*"))
    state = run(config, epochs=2)
    names = problem().category_pairs.names
    rows = np.array([name.startswith("NP,") for name in names])
    assert 0 < rows.sum() < len(names)
    assert not moved(state, "vectors").any()
    assert not moved(state, "W")[rows].any()
    free = moved(state, "W")[~rows].any(axis=(1, 2))
    assert free.all() if l2 else free.any()
    assert moved(state, "v")[rows].any()
    # No slot for word vectors; none of the frozen rows has ever had a derivative.
    shapes = [array.shape for array in state.optimizer]
    assert problem().initial.vectors.shape not in shapes
    for slot in state.optimizer:
        if slot.shape == problem().initial.W.shape:
            assert not slot[rows].any() and slot[~rows].any()


def test_frozen_rows_do_not_change_how_others_are_trained_in_the_first_step() -> None:
    config = small_config(batch_size=24, averaging=False)
    free, frozen = (
        run(small_config(batch_size=24, averaging=False, freeze=f), epochs=1)
        for f in ((), ("W:NP,*",))
    )
    rows = np.array([name.startswith("NP,") for name in problem().category_pairs.names])
    np.testing.assert_array_equal(frozen.parameters.W[~rows], free.parameters.W[~rows])
    np.testing.assert_array_equal(frozen.parameters.vectors, free.parameters.vectors)
    assert config.freeze == ()


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd", "adam"])
def test_unfreezing_keeps_what_the_optimizer_knows(optimizer: str) -> None:
    """Two frozen epochs and one free one, against the same steps by hand."""
    config = small_config(
        optimizer=optimizer, learning_rate=0.01, freeze=("W", "vectors"), freeze_epochs=2
    )
    seen: list[Parameters] = []
    state = run(config, epochs=3, on_epoch=lambda s: seen.append(s.parameters))
    start = problem().initial
    np.testing.assert_array_equal(seen[1].W, start.W)
    np.testing.assert_array_equal(seen[1].vectors, start.vectors)
    assert (seen[2].W != start.W).any() and (seen[2].vectors != start.vectors).any()

    model = CVG(start)
    step = GradientStep(model, config, FrozenWeights(frozenset({"W", "vectors"}), {}))
    for epoch in range(3):
        if epoch == 2:
            before = step.state()
            step.freeze(NOTHING)
            kept = [array.tobytes() for array in step.state()]
            assert all(array.tobytes() in kept for array in before)
        order = np.random.default_rng([config.seed, 1, epoch]).permutation(24)
        for begin in range(0, 24, config.batch_size):
            step(problem().store.batch(order[begin : begin + config.batch_size]))
    for one, other in zip(state.parameters, model.parameters(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
@pytest.mark.parametrize("stop", [pytest.param(1, marks=pytest.mark.slow), 2, 3])
def test_training_goes_on_across_the_unfreezing(optimizer: str, stop: int, tmp_path: Path) -> None:
    """Slots go through the checkpoint, with what was frozen when it was written."""
    config = small_config(optimizer=optimizer, freeze=("vectors", "W:NP,*"), freeze_epochs=2)
    expected = run(config, epochs=4)
    save_state(tmp_path / "state.npz", run(config, epochs=stop), "key")
    kept = load_state(tmp_path / "state.npz", "key", problem().initial)
    state = run(config, epochs=4, state=kept)
    for one, other in zip(state.parameters, expected.parameters, strict=True):
        assert one.tobytes() == other.tobytes()
    for one, other in zip(state.optimizer, expected.optimizer, strict=True):
        assert one.tobytes() == other.tobytes()


def test_slots_outlive_epochs() -> None:
    """AdaGrad that began anew in the second epoch would take longer steps there."""
    config = small_config(averaging=False, l2=0.0)
    state = run(config, epochs=1)
    empty = [np.zeros_like(slot) if np.ndim(slot) else slot for slot in state.optimizer]
    fresh = TrainingState(**{**vars(state), "history": [], "optimizer": empty})
    with_slots = run(config, epochs=2)
    without = run(config, epochs=2, state=fresh)
    assert (with_slots.parameters.W != without.parameters.W).any()
    assert (
        np.abs(with_slots.parameters.v - state.parameters.v).sum()
        < 0.8 * np.abs(without.parameters.v - state.parameters.v).sum()
    )


@pytest.mark.parametrize("settings", [{"folds": 2}, {"objective": "mmi"}])
def test_whole_runs_freeze(tmp_path: Path, settings: dict[str, Any]) -> None:
    """A row that only the whole treebank has is no error in a fold."""
    treebank = write_treebank(tmp_path / "train.mrg", 30)
    config = small_config(
        treebank=treebank, cache=str(tmp_path / "cache"), freeze=("vectors", "W:NP,*"), **settings
    )
    report = train(config, tmp_path / "model", progress=False)
    assert report.cvg_f1 > 0


def test_unknown_names_are_errors(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 30)
    for pattern, message in (("w", "no variable matches 'w'"), ("W:QQ,*", "no row of W matches")):
        config = small_config(treebank=treebank, cache=str(tmp_path / "cache"), freeze=(pattern,))
        with pytest.raises(ConfigError, match=message):
            train(config, tmp_path / "model", progress=False)
    with pytest.raises(ConfigError, match="freeze_epochs"):
        TrainingConfig(freeze_epochs=2)
