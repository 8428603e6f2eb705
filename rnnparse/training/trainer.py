"""The training loop: subgradient steps on the objective, and early stopping on dev F1."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from rnnparse.config import TrainingConfig
from rnnparse.divergence import is_beyond
from rnnparse.errors import ModelError
from rnnparse.invariants import GREATEST
from rnnparse.losses.score_gradients import MARGINS
from rnnparse.models.forest_dataset import ForestStore
from rnnparse.models.frozen_weights import NOTHING, Frozen
from rnnparse.models.parameters import Parameters
from rnnparse.models.scorer import Scorer
from rnnparse.training.checkpoint import TrainingState
from rnnparse.training.data import BracketCounts

if TYPE_CHECKING:
    from rnnparse.training.steps import Step

BETAS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
"""Weights of log P that are tried on dev."""

SCORING_BATCH = 100  # sentences scored at once


@dataclass(frozen=True)
class Tuning:
    """What epochs and β are chosen on: forests with the bracket counts of their candidates."""

    store: ForestStore
    counts: Sequence[BracketCounts]


def score_all(parameters: Parameters, store: ForestStore) -> np.ndarray:
    """SU-RNN scores of all candidates of a store: float32 [T], in its order."""
    scorer = Scorer(parameters)
    parts = [
        scorer.scores(store.batch(np.arange(i, min(i + SCORING_BATCH, len(store)))))
        for i in range(0, len(store), SCORING_BATCH)
    ]
    return np.concatenate([np.empty(0, np.float32), *parts])


def choose(scores: np.ndarray, store: ForestStore, beta: float) -> np.ndarray:
    """For each sentence the candidate with the highest s + β log P: int64 [S]."""
    total = scores + (beta * store.logp if beta else 0.0)
    offsets = store.root_offsets
    return np.array([np.argmax(total[a:b]) for a, b in pairwise(offsets.tolist())], np.int64)


def bracket_totals(parameters: Parameters, tuning: Tuning) -> np.ndarray:
    """Matched, test and gold brackets of the chosen trees for each of `BETAS`: int64 [len, 3]."""
    scores = score_all(parameters, tuning.store)
    totals = np.zeros((len(BETAS), 3), np.int64)
    for i, beta in enumerate(BETAS):
        for best, counts in zip(choose(scores, tuning.store, beta), tuning.counts, strict=True):
            totals[i] += (counts.matched[best], counts.test[best], counts.gold)
    return totals


def f1_of(totals: np.ndarray) -> np.ndarray:
    """F1 in per cent from matched, test and gold brackets [..., 3]; 0 where there are none."""
    return 200.0 * totals[..., 0] / np.maximum(totals[..., 1] + totals[..., 2], 1)


def train_network(
    initial: Parameters,
    store: ForestStore,
    tuning: Tuning | None,
    config: TrainingConfig,
    *,
    state: TrainingState | None = None,
    frozen: Frozen = NOTHING,
    epochs: int | None = None,
    on_epoch: Callable[[TrainingState], None] = lambda state: None,
    progress: bool = True,
    what: str = "SU-RNN",
) -> TrainingState:
    """Train until dev F1 has not risen for `patience` epochs, or until training diverges.

    J(θ) = 1/m Σ loss_i + λ/2 ‖θ‖² without the word vectors (Socher et al. 2013, equations 7 to 9,
    for the hinge).
    The order of sentences depends on the seed and the epoch alone, so that a run that was stopped
    between epochs goes on as if it had not been. With `averaging` each epoch is judged by, and
    gives, the mean of the weights after the epochs so far (Polyak & Juditsky 1992): subgradient
    steps of a fixed rate circle around a good point, and their mean lies nearer to it.
    An epoch in which training diverged ends the run; see `TrainingState.diverged`.

    Args:
        initial: starting weights.
        store: the training forests, costs for κ = 1 and targets.
        tuning: what the best epoch is chosen on; None to keep the last one.
        config: the settings.
        state: where to go on; changed in place.
        frozen: weights that are not trained, for good or in the first `config.freeze_epochs`.
        epochs: exactly so many epochs, instead of early stopping.
        on_epoch: called after each epoch, to log and to save; not after one that diverged, so
            that a run which goes on from what was saved diverges again.
        progress: whether to show a progress bar.
        what: what the bar says.

    Returns:
        The state after the last epoch; `best` holds the weights of the best one.
    """
    # Loaded only now: TensorFlow takes as much memory as the k-best lists before it.
    from rnnparse.models.cvg import CVG
    from rnnparse.training.network_telemetry import NetworkTelemetry
    from rnnparse.training.steps import make_step

    if state is None:
        state = TrainingState(0, [], initial, initial, initial)
    if state.diverged is not None:
        return state
    model = CVG(state.parameters, config.engine)
    telemetry = NetworkTelemetry(model, store, config, state.epoch) if config.telemetry else None
    now = _frozen_in(max(state.epoch - 1, 0), config, frozen)
    step = make_step(model, config, now, telemetry)
    if state.epoch:
        _restore(step, state)
    last = epochs or config.epochs
    while state.epoch < last and (epochs or not is_over(state.history, config.patience)):
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
            break
        state.mean = _running_mean(state)
        result = state.mean if config.averaging else state.parameters
        state.optimizer = step.state()
        if tuning is not None:
            entry |= _judge(result, tuning)
        entry["seconds"] = time.perf_counter() - began
        state.history.append(entry)
        if tuning is None or best_epoch(state.history) == state.epoch:
            state.best = result
        on_epoch(state)
    return state


def _restore(step: Step, state: TrainingState) -> None:
    try:
        step.restore(state.optimizer)
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"the checkpoint is damaged: its optimizer does not fit the run ({error}); train "
            "without --resume"
        ) from error


def _has_diverged(entry: dict[str, Any], state: TrainingState) -> bool:
    """Whether an epoch led beyond all bounds: its objective, or the weights after it."""
    first = state.history[0] if state.history else entry
    start = first.get("initial_objective", first["objective"])  # older states lack it
    bounded = all(np.abs(array).max() <= GREATEST for array in state.parameters)  # NaN is not
    return not bounded or is_beyond(entry["objective"], start)


def _judge(parameters: Parameters, tuning: Tuning) -> dict[str, Any]:
    """What dev says of weights, for the history."""
    totals = bracket_totals(parameters, tuning)
    f1 = f1_of(totals)
    return {
        "beta": BETAS[int(f1.argmax())],
        "dev_f1": float(f1.max()),
        "dev_brackets": totals.tolist(),
    }


def _frozen_in(epoch: int, config: TrainingConfig, frozen: Frozen) -> Frozen:
    """What is frozen in an epoch, counted from 0."""
    return NOTHING if config.freeze_epochs and epoch >= config.freeze_epochs else frozen


def check_optimizer(config: TrainingConfig) -> None:
    """Raise ConfigError for a wrong optimiser at once, not after hours of making lists."""
    if config.optimizer != TrainingConfig.optimizer:  # the default needs no TensorFlow to check
        import rnnparse._tensorflow  # noqa: F401  (it starts TensorFlow quietly)
        from rnnparse.training.steps import check_step

        check_step(config)


def _running_mean(state: TrainingState) -> Parameters:
    """The mean of the weights after each epoch but the first, which moves too far to count."""
    if state.epoch <= 2:
        return state.parameters
    share = np.float32(1 / (state.epoch - 1))
    return Parameters(
        *(
            mean + share * (now - mean)
            for mean, now in zip(state.mean, state.parameters, strict=True)
        )
    )


def best_epoch(history: Sequence[dict[str, Any]]) -> int:
    """The epoch, from 1, with the highest dev F1; the earliest of equals."""
    return max(range(1, len(history) + 1), key=lambda e: (history[e - 1]["dev_f1"], -e))


def is_over(history: Sequence[dict[str, Any]], patience: int) -> bool:
    """Whether dev F1 has not risen for `patience` epochs."""
    return bool(history) and len(history) - best_epoch(history) >= patience


def _epoch(
    step: Step,
    store: ForestStore,
    config: TrainingConfig,
    epoch: int,
    progress: bool,
    what: str,
) -> dict[str, Any]:
    """One pass over the training set: mean loss, objective, share of violated margins.

    It ends at the first loss that is not finite. The first epoch also has the objective of its
    first batch before any step.
    """
    entry: dict[str, Any] = {}
    penalty = step.model.penalty(config.l2)
    order = np.random.default_rng([config.seed, 1, epoch]).permutation(len(store))
    losses = np.zeros(len(store), np.float64)
    bar = tqdm(
        total=len(store), desc=f"{what} epoch {epoch + 1}", unit="sentence", disable=not progress
    )
    with bar:
        for start in range(0, len(order), config.batch_size):
            sentences = order[start : start + config.batch_size]
            losses[sentences] = step(store.batch(sentences))
            bar.update(len(sentences))
            mean = float(losses[sentences].mean())
            bar.set_postfix(loss=f"{mean:.3f}", refresh=False)
            if epoch == 0 and start == 0:
                entry["initial_objective"] = mean + penalty
            if not math.isfinite(mean):
                break
    entry["loss"] = float(losses.mean())
    entry["objective"] = entry["loss"] + step.model.penalty(config.l2)
    if config.objective in MARGINS:
        entry["violated"] = float((losses > 0).mean())
    return entry
