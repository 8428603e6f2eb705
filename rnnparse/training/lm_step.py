"""Training steps by Levenberg–Marquardt: the hinge violations as residuals, by v alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch
from rnnparse.models.cvg import CVG
from rnnparse.models.frozen_weights import NOTHING, Frozen
from rnnparse.models.objective import loss_of_scores
from rnnparse.models.score_vectors import linear_jacobian, linear_scores
from rnnparse.optim.freezing import FrozenRows
from rnnparse.optim.levenberg_marquardt import LevenbergMarquardt
from rnnparse.training.network_telemetry import NetworkTelemetry

LM = "levenberg-marquardt"
_GREATEST = 1e15  # damping


class LevenbergMarquardtStep:
    """Steps on 1/m Σ r_i² + λ/2 ‖v‖² for the violations r_i of a batch.

    As W and the word vectors are frozen, scores are linear in v, and r is piecewise linear: within
    a piece the step is exact but for the damping, and across its kinks the gain ratio judges it.
    The residuals are √(2/m) r_i. Where r_i = 0 the example is left out of the equations.

    At a kink where no step along its piece lowers the loss the method stops, near the optimum but
    short of it. A step fits its batch, whatever came before, as far as μ lets it: the first μ,
    which is the learning rate of the settings, is the least one, too. For batches of all sentences
    0.001 is a good one, for minibatches about 100.

    Args:
        model: the network, whose v is changed; whatever its engine, scores come from numba.
        config: objective, margin, tie rule, L2, and μ as the learning rate.
        frozen: weights that are not trained: W, the word vectors, and any rows of v.
        telemetry: observes each step.

    Raises:
        ConfigError: another objective, or W or the word vectors are not frozen for good.
    """

    def __init__(
        self,
        model: CVG,
        config: TrainingConfig,
        frozen: Frozen = NOTHING,
        telemetry: NetworkTelemetry | None = None,
    ) -> None:
        check_settings(config, frozen)
        self.model, self.config, self.telemetry = model, config, telemetry
        model.freeze(frozen)
        self._rows = FrozenRows(model.frozen_rows())
        self._fixed = frozen.rows.get("v", np.empty(0, np.int32))
        l2 = np.full((model.v.shape[0], 1), config.l2)
        l2[self._fixed] = 0
        self.optimizer = LevenbergMarquardt(
            [model.v],
            damping=config.learning_rate,
            damping_range=(config.learning_rate, _GREATEST),
            l2=[l2],
            acceleration=False,  # as there is no second derivative but at kinks
        )

    def __call__(self, batch: LevelBatch) -> np.ndarray:
        """Take one step; returns the losses of the examples before it, [B]."""
        config, model = self.config, self.model
        if self.telemetry is not None:
            losses, gradients = model.loss_gradients(
                batch, config.objective, config.kappa, config.tie, config.l2
            )
            pairs = zip(gradients, model.trainable_variables, strict=True)
            self.telemetry.before(losses, [self._rows.filter(g, v) for g, v in pairs])
        leaves = np.asarray(model.vectors.value)[batch.words]
        W, v = (np.asarray(x.value) for x in (model.W, model.v))
        structure = (batch.rows, batch.key, batch.left, batch.right)
        vectors = kernels.forward(leaves, W, v, *structure)[0]
        scale = np.sqrt(2 / len(batch.gold))

        def violations() -> tuple[np.ndarray, np.ndarray]:
            scores = linear_scores(batch, vectors, np.asarray(model.v.value, np.float64))
            return loss_of_scores(batch, scores, "hinge", config.kappa, config.tie)

        before, weights = violations()
        violated = _violated(before)

        def residuals() -> np.ndarray:
            found = violations()[0]
            return scale * found[_violated(found)]

        def jacobian() -> np.ndarray:
            found = linear_jacobian(batch, vectors, scale * weights, violated, model.v.shape[0])
            found[:, self._fixed] = 0
            return found.reshape(len(violated), -1)

        self.optimizer.step(residuals, jacobian)
        if self.telemetry is not None:
            self.telemetry.after()
        return np.square(before)

    def freeze(self, frozen: Frozen) -> None:
        """No other weights can be frozen in the course of the training.

        Raises:
            ConfigError: always.
        """
        raise _refusal("the word vectors and W stay frozen; leave out freeze_epochs")

    def state(self) -> list[np.ndarray]:
        """The optimiser's trust region and scale."""
        return self.optimizer.state()

    def restore(self, state: Sequence[np.ndarray]) -> None:
        """Go on from what `state` gave, under the same settings and frozen weights."""
        self.optimizer.restore(state)


def check_settings(config: TrainingConfig, frozen: Frozen) -> None:
    """Raise ConfigError where the settings are not for Levenberg–Marquardt."""
    if config.objective != "squared-hinge":
        raise _refusal(f"the objective must be squared-hinge, not {config.objective}")
    if not {"W", "vectors"} <= frozen.variables or config.freeze_epochs:
        raise _refusal("freeze W and vectors, for all epochs")
    if config.learning_rate > _GREATEST:
        raise _refusal(
            f"the learning rate is its damping, at most {_GREATEST:g}, not {config.learning_rate:g}"
        )


def _refusal(what: str) -> ConfigError:
    return ConfigError(f"{LM} trains v alone, on a sum of squares: {what}")


def _violated(violations: np.ndarray) -> np.ndarray:
    """Which examples count; the first where none does, as there must be a residual."""
    found = np.flatnonzero(violations > 0)
    return found if len(found) else np.arange(1)
