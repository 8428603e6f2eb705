"""The learning-rate range test of the parser's training."""

from __future__ import annotations

from itertools import chain, count

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.models.frozen_weights import check_fields
from rnnparse.parser_study.shared_forests import prepare_problem, read_problem
from rnnparse.study.lr_range_test import HIGH, LOW, UPDATES, Sweep, sweep
from rnnparse.study.range_result import RangeTest
from rnnparse.training.trainer import check_optimizer, minibatches


def parser_range_test(
    config: TrainingConfig,
    *,
    low: float = LOW,
    high: float = HIGH,
    updates: int = UPDATES,
    progress: bool = False,
) -> RangeTest:
    """Sweep the learning rate of the parser's training, from its initial weights.

    The loss includes the L2 term.

    Args:
        config: settings of the training run. Its learning rate is ignored.
        low, high, updates: as for `sweep`.
        progress: whether to show progress bars while candidates are listed.

    Raises:
        ConfigError: as for `Sweep` and `GradientStep`.
        RnnparseError: as for `prepare_problem`.
    """
    check_optimizer(config)
    check_fields(config.freeze)
    Sweep(low, high, updates)  # raises its errors before candidates are listed
    path = prepare_problem(config, progress).path

    from rnnparse.models.cvg import CVG
    from rnnparse.training.training_step import GradientStep

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
