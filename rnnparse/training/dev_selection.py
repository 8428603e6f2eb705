"""Dev selection: score every epoch on a development set, keep the best one, and stop early."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.parameters import Parameters
from rnnparse.models.scorer import Scorer
from rnnparse.training.candidate_brackets import BracketCounts
from rnnparse.training.checkpoint import TrainingState

BETAS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
"""Weights of log P that are tried on dev."""

SCORING_BATCH = 100  # sentences scored at once


@dataclass(frozen=True)
class DevSet:
    """The sentences that select the epoch and β: their forests, and the candidates' brackets."""

    store: ForestDataset
    counts: Sequence[BracketCounts]


def select_epochs(
    epochs: Iterable[TrainingState],
    dev: DevSet | None,
    config: TrainingConfig,
    history: Sequence[dict[str, Any]] = (),
) -> Iterator[TrainingState]:
    """Score each epoch on dev, and end when dev F1 has not risen for `patience` epochs.

    Adds `beta`, `dev_f1` and `dev_brackets` to the last entry of each state's history, and sets its
    `best` and `choices`. A diverged epoch is passed on without scores.

    Args:
        epochs: from `training_epochs`.
        dev: the development set; None keeps the last epoch as the best one.
        config: `averaging` and `patience`.
        history: the entries of epochs that were trained and scored before.

    Yields:
        The states of `epochs`.
    """
    if dev is not None and is_over(history, config.patience):
        return
    for state in epochs:
        if state.diverged is None and dev is not None:
            _select(state, dev, config)
        elif state.diverged is None:
            state.best = state.result(config)
        yield state
        if dev is not None and is_over(state.history, config.patience):
            return


def _select(state: TrainingState, dev: DevSet, config: TrainingConfig) -> None:
    """Add the dev scores of the last epoch, and keep its weights if it is the best so far."""
    began = time.perf_counter()
    entry, result = state.history[-1], state.result(config)
    totals, choices = score_on_dev(result, dev)
    f1 = f1_of(totals)
    best = int(f1.argmax())
    entry |= {"beta": BETAS[best], "dev_f1": float(f1[best]), "dev_brackets": totals.tolist()}
    state.choices = choices[best]
    if best_epoch(state.history) == state.epoch:
        state.best = result
    entry["seconds"] += time.perf_counter() - began


def score_on_dev(parameters: Parameters, dev: DevSet) -> tuple[np.ndarray, np.ndarray]:
    """Choose candidates with each of `BETAS`.

    Returns:
        The matched, test and gold brackets of the chosen trees, int64 [len(BETAS), 3]; and the
        index of the candidate chosen for each sentence, int64 [len(BETAS), S].
    """
    scores = score_all(parameters, dev.store)
    choices = np.array([choose(scores, dev.store, beta) for beta in BETAS])
    chosen = dev.store.root_offsets[:-1] + choices
    matched, test = (
        np.concatenate([getattr(counts, name) for counts in dev.counts])[chosen].sum(axis=1)
        for name in ("matched", "test")
    )
    gold = np.full(len(BETAS), sum(counts.gold for counts in dev.counts))
    return np.stack([matched, test, gold], axis=1), choices


def score_all(parameters: Parameters, store: ForestDataset) -> np.ndarray:
    """SU-RNN scores of all candidates of a store: float32 [T], in its order."""
    scorer = Scorer(parameters)
    parts = [
        scorer.scores(store.batch(np.arange(i, min(i + SCORING_BATCH, len(store)))))
        for i in range(0, len(store), SCORING_BATCH)
    ]
    return np.concatenate([np.empty(0, np.float32), *parts])


def choose(scores: np.ndarray, store: ForestDataset, beta: float) -> np.ndarray:
    """The index of each sentence's candidate with the highest s + β log P: int64 [S]."""
    total = scores + (beta * store.logp if beta else 0.0)
    offsets = store.root_offsets
    return np.array([np.argmax(total[a:b]) for a, b in pairwise(offsets.tolist())], np.int64)


def f1_of(totals: np.ndarray) -> np.ndarray:
    """F1 in per cent from matched, test and gold brackets [..., 3]; 0 without any brackets."""
    return 200.0 * totals[..., 0] / np.maximum(totals[..., 1] + totals[..., 2], 1)


def best_epoch(history: Sequence[dict[str, Any]]) -> int:
    """The epoch, counted from 1, with the highest dev F1; the earliest if several are equal."""
    return max(range(1, len(history) + 1), key=lambda e: (history[e - 1]["dev_f1"], -e))


def is_over(history: Sequence[dict[str, Any]], patience: int) -> bool:
    """Whether dev F1 has not risen for `patience` epochs."""
    return bool(history) and len(history) - best_epoch(history) >= patience
