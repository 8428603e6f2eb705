"""The learning-rate range test of the parser's training."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.models.frozen_weights import check_fields
from rnnparse.parser_study.shared_forests import read_problem
from rnnparse.study.lr_range_test import HIGH, LOW, UPDATES, Sweep, sweep
from rnnparse.study.range_result import RangeTest
from rnnparse.training.trainer import check_optimizer, minibatches


def parser_range_test(
    path: Path,
    config: TrainingConfig,
    *,
    low: float = LOW,
    high: float = HIGH,
    updates: int = UPDATES,
) -> RangeTest:
    """Sweep the learning rate of the parser's training, from its initial weights.

    The loss includes the L2 term.

    Args:
        path: the problem file from `rnnparse.parser_study.shared_forests.prepare_problem`.
        config: settings of the training run. Its learning rate is ignored.
        low, high, updates: as for `sweep`.

    Raises:
        ConfigError: as for `Sweep` and `GradientStep`.
    """
    from rnnparse.models.cvg import CVG
    from rnnparse.training.training_step import GradientStep

    check_range_test(config, low=low, high=high, updates=updates)
    problem = read_problem(path, config).problem
    model = CVG(problem.initial, config.engine)
    step = GradientStep(model, config, problem.frozen(config.freeze))
    epochs = (minibatches(len(problem.store), config, epoch) for epoch in count())
    batches = chain.from_iterable(epochs)

    def update(rate: float) -> float:
        step.optimizer.learning_rate = rate
        penalty = model.penalty(config.l2)
        return float(step(problem.store.batch(next(batches))).mean(dtype=np.float64)) + penalty

    return sweep(update, low=low, high=high, updates=updates)


def check_range_test(
    config: TrainingConfig, *, low: float = LOW, high: float = HIGH, updates: int = UPDATES
) -> None:
    """Raise the ConfigError of `parser_range_test` at once, before k-best lists are made."""
    check_optimizer(config)
    check_fields(config.freeze)
    Sweep(low, high, updates)
