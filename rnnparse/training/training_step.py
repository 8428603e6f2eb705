"""One training step on a minibatch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.models.batch import LevelBatch
from rnnparse.models.cvg import CVG
from rnnparse.models.frozen_weights import NOTHING, FrozenWeights
from rnnparse.optim.freezing import FrozenRows, rebuild_optimizer
from rnnparse.optim.optimizers import make_optimizer
from rnnparse.training.network_telemetry import NetworkTelemetry


class GradientStep:
    """A step along a subgradient with a Keras optimizer.

    Args:
        model: the network; its variables are changed.
        config: objective, margin, tie rule, L2, optimizer and learning rate.
        frozen: weights that are not trained.
        telemetry: observes each step.

    Raises:
        ConfigError: the optimizer is unknown.
    """

    def __init__(
        self,
        model: CVG,
        config: TrainingConfig,
        frozen: FrozenWeights = NOTHING,
        telemetry: NetworkTelemetry | None = None,
    ) -> None:
        self.model, self.config, self.telemetry = model, config, telemetry
        self.optimizer = make_optimizer(config.optimizer, config.learning_rate)
        model.freeze(frozen)
        self.optimizer.build(model.trainable_variables)
        self._rows = FrozenRows(model.frozen_rows())

    def __call__(self, batch: LevelBatch) -> np.ndarray:
        """Take one step; return the losses of the examples before it, [B]."""
        config = self.config
        losses, gradients = self.model.loss_gradients(
            batch, config.objective, config.kappa, config.tie, config.l2
        )
        variables = self.model.trainable_variables
        if self.telemetry is not None:
            pairs = zip(gradients, variables, strict=True)
            self.telemetry.before(losses, [self._rows.filter(g, v) for g, v in pairs])
        self._rows.apply(self.optimizer, gradients, variables)
        if self.telemetry is not None:
            self.telemetry.after()
        return losses

    def freeze(self, frozen: FrozenWeights) -> None:
        """Freeze these weights and no others; the optimizer keeps its state of the others."""
        self.model.freeze(frozen)
        self.optimizer = rebuild_optimizer(self.optimizer, self.model.trainable_variables)
        self._rows = FrozenRows(self.model.frozen_rows())

    def state(self) -> list[np.ndarray]:
        """The optimizer's variables, in its order."""
        return [variable.value.numpy() for variable in self.optimizer.variables]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        """Restore what `state` returned, for the same settings and frozen weights."""
        for variable, value in zip(self.optimizer.variables, state, strict=True):
            variable.assign(value)
