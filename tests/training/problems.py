"""Small training problems in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rnnparse.config import TrainingConfig
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.frozen_weights import NOTHING, FrozenWeights
from rnnparse.models.parameters import Parameters
from rnnparse.training.checkpoint import TrainingState
from rnnparse.training.dev_selection import DevSet, select_epochs
from rnnparse.training.prepare import Lists, Problem, make_lists, make_problem
from rnnparse.training.trainer import training_epochs
from tests.grammar.small import trees

COUNT = 24
"""Sentences of `problem`."""


def small_config(**settings: Any) -> TrainingConfig:
    """Settings of a network that trains within a second."""
    return TrainingConfig(**{"candidates": 10, "dim": 5, "epochs": 2, "batch_size": 10, **settings})


def small_lists(count: int, dev: int = 6, **settings: Any) -> Lists:
    """Lists of the first trees of the embedded treebank."""
    with tempfile.TemporaryDirectory() as cache:
        lists = make_lists(
            trees(count),
            trees(dev, "dev"),
            None,
            small_config(**settings),
            Path(cache),
            n_jobs=1,
            progress=False,
        )
        return replace(lists, train=list(lists.train))  # not from the folder, which ends here


def small_problem(count: int, dev: int = 6, **settings: Any) -> Problem:
    """What the network trains on, of the first trees of the embedded treebank."""
    config = small_config(**settings)
    lists = small_lists(count, dev, **settings)
    return make_problem(lists, trees(count), trees(dev, "dev"), None, config)


def train_network(
    initial: Parameters,
    store: ForestDataset,
    dev: DevSet | None,
    config: TrainingConfig,
    *,
    state: TrainingState | None = None,
    frozen: FrozenWeights = NOTHING,
    epochs: int | None = None,
    on_epoch: Callable[[TrainingState], None] = lambda state: None,
) -> TrainingState:
    """The state after the last epoch, or after so many epochs, whatever dev F1 is."""
    state = TrainingState.start(initial) if state is None else state
    if epochs is not None:
        config = replace(config, epochs=epochs, patience=epochs)
    training = training_epochs(state, store, config, frozen=frozen, progress=False)
    for after in select_epochs(training, dev, config, state.history):
        on_epoch(after)
    return state


@lru_cache(maxsize=1)
def problem() -> Problem:
    return small_problem(COUNT, jackknife=3)


def run(config: TrainingConfig, **more: Any) -> TrainingState:
    frozen = problem().frozen(config.freeze)
    arguments = {"frozen": frozen, **more}
    return train_network(problem().initial, problem().store, None, config, **arguments)
