"""The training loop: one state after each epoch of subgradient steps on the objective."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from rnnparse.array_invariants import GREATEST
from rnnparse.config import TrainingConfig
from rnnparse.divergence import is_beyond
from rnnparse.errors import ModelError
from rnnparse.losses.names import MARGINS
from rnnparse.models.forest_file import Forests
from rnnparse.models.frozen_weights import NOTHING, FrozenWeights
from rnnparse.models.parameters import Parameters
from rnnparse.training.checkpoint import TrainingState

if TYPE_CHECKING:
    from rnnparse.training.training_step import GradientStep


def training_epochs(
    state: TrainingState,
    store: Forests,
    config: TrainingConfig,
    *,
    frozen: FrozenWeights = NOTHING,
    progress: bool = True,
    what: str = "SU-RNN",
) -> Iterator[TrainingState]:
    """Train from a state on, up to `config.epochs` epochs or until training diverges.

    The objective is J(θ) = 1/m Σ loss_i + λ/2 ‖θ‖², where θ excludes the word vectors (for the
    hinge: Socher et al. 2013, equations 7 to 9). The order of the sentences depends only on the
    seed and the epoch, so a run that was stopped between epochs continues exactly as if it had not
    been. `TrainingState.mean` averages the weights over the epochs (Polyak & Juditsky 1992):
    subgradient steps of constant size circle around a good point, and their mean lies nearer to it.

    Args:
        state: where to start: `TrainingState.start(initial)`, or the state of an earlier run.
        store: the training forests, with costs for κ = 1 and targets.
        config: the settings.
        frozen: weights that are not trained; only in the first `config.freeze_epochs` epochs, if
            that is set.
        progress: whether to show a progress bar.
        what: the label of the bar.

    Yields:
        After each epoch the given state, changed in place. If the epoch diverged, `diverged` is
        set, and it is the last one. Nothing is yielded for a state that is finished already.

    Raises:
        ModelError: the state's optimizer variables do not fit the settings.
    """
    # Imported late: TensorFlow takes as much memory as making the k-best lists did.
    from rnnparse.models.cvg import CVG
    from rnnparse.training.network_telemetry import NetworkTelemetry
    from rnnparse.training.training_step import GradientStep

    model = CVG(state.parameters, config.engine)
    telemetry = NetworkTelemetry(model, store, config, state.epoch) if config.telemetry else None
    now = _frozen_in(max(state.epoch - 1, 0), config, frozen)
    step = GradientStep(model, config, now, telemetry)
    if state.epoch:
        _restore(step, state)
    while state.epoch < config.epochs and state.diverged is None:
        began = time.perf_counter()
        if config.freeze_epochs and state.epoch == config.freeze_epochs:
            step.freeze(NOTHING)
        entry = _epoch(step, store, config, state.epoch, progress, what)
        state.epoch += 1
        state.parameters = model.parameters()
        if telemetry is not None:
            state.telemetry.append(telemetry.end_epoch(state.parameters))
        entry["epoch"] = state.epoch
        if _has_diverged(entry, state):
            state.diverged = entry
        else:
            state.mean = _running_mean(state)
            state.optimizer = step.state()
            entry["seconds"] = time.perf_counter() - began
            state.history.append(entry)
        yield state


def _restore(step: GradientStep, state: TrainingState) -> None:
    try:
        step.restore(state.optimizer)
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"the checkpoint is damaged: its optimizer does not fit the run ({error}); train "
            "without --resume"
        ) from error


def _has_diverged(entry: dict[str, Any], state: TrainingState) -> bool:
    """Whether the objective of an epoch, or a weight after it, is infinite, NaN or too large."""
    first = state.history[0] if state.history else entry
    start = first.get("initial_objective", first["objective"])  # older states lack it
    bounded = all(np.abs(array).max() <= GREATEST for array in state.parameters)  # NaN is not
    return not bounded or is_beyond(entry["objective"], start)


def _frozen_in(epoch: int, config: TrainingConfig, frozen: FrozenWeights) -> FrozenWeights:
    """The frozen weights of an epoch, counted from 0."""
    return NOTHING if config.freeze_epochs and epoch >= config.freeze_epochs else frozen


def check_optimizer(config: TrainingConfig) -> None:
    """Raise ConfigError for an unknown optimizer at once, before the k-best lists are made."""
    if config.optimizer != TrainingConfig.optimizer:  # checking the others imports TensorFlow
        from rnnparse.optim.optimizers import make_optimizer

        make_optimizer(config.optimizer, config.learning_rate)


def _running_mean(state: TrainingState) -> Parameters:
    """The mean of the weights after each epoch except the first, which moves them too far."""
    if state.epoch <= 2:
        return state.parameters
    share = np.float32(1 / (state.epoch - 1))
    return Parameters(
        *(
            mean + share * (now - mean)
            for mean, now in zip(state.mean, state.parameters, strict=True)
        )
    )


def minibatches(sentences: int, config: TrainingConfig, epoch: int) -> Iterator[np.ndarray]:
    """The numbers of the sentences of each step of an epoch; they depend on the seed alone."""
    order = np.random.default_rng([config.seed, 1, epoch]).permutation(sentences)
    for start in range(0, sentences, config.batch_size):
        yield order[start : start + config.batch_size]


def _epoch(
    step: GradientStep,
    store: Forests,
    config: TrainingConfig,
    epoch: int,
    progress: bool,
    what: str,
) -> dict[str, Any]:
    """Train for one epoch; return its mean loss, objective and share of violated margins.

    Stops at the first loss that is not finite. The entry of the first epoch also has the objective
    of its first batch before any step.
    """
    entry: dict[str, Any] = {}
    penalty = step.model.penalty(config.l2)
    losses = np.zeros(len(store), np.float64)
    bar = tqdm(
        total=len(store), desc=f"{what} epoch {epoch + 1}", unit="sentence", disable=not progress
    )
    with bar:
        for place, sentences in enumerate(minibatches(len(store), config, epoch)):
            losses[sentences] = step(store.batch(sentences))
            bar.update(len(sentences))
            mean = float(losses[sentences].mean())
            bar.set_postfix(loss=f"{mean:.3f}", refresh=False)
            if epoch == 0 and place == 0:
                entry["initial_objective"] = mean + penalty
            if not math.isfinite(mean):
                break
    entry["loss"] = float(losses.mean())
    entry["objective"] = entry["loss"] + step.model.penalty(config.l2)
    if config.objective in MARGINS:
        entry["violated"] = float((losses > 0).mean())
    return entry
