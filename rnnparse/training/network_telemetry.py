"""Telemetry of the network of a parser: its steps, and its activations on some sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.losses.score_gradients import MARGINS
from rnnparse.models import kernels
from rnnparse.models.forest_dataset import ForestStore
from rnnparse.models.objective import danskin_batch, loss_of_scores
from rnnparse.models.parameters import Parameters
from rnnparse.telemetry.recorder import Telemetry

if TYPE_CHECKING:
    from rnnparse.models.cvg import CVG

SAMPLE = 100
"""Training sentences on which activations are measured after each epoch."""

_LAZY = ("adagrad", "sgd")  # optimisers that leave rows without a gradient as they are


class NetworkTelemetry:
    """Observes the training of a CVG.

    Records are those of `Telemetry` for the variables that are trained, `vectors`, `W` and `v`,
    with these besides:

        updates.loss, updates.objective    before each update: mean loss of its sentences, and with
                                           the L2 term
        updates.violated                   share of its sentences with a loss, under the hinges
        activations.nodes                  vectors p of all phrases of the sample
        sample         after the epoch, on the same sentences each time: `sentences`, their mean
                       `loss` and share `violated`, `nodes` that are scored, and how many of them
                       are `differentiated` (Danskin's theorem)

    The weights are those of the steps, also where the model gets their mean over the epochs.

    Args:
        model: the network.
        store: the training forests.
        config: objective, optimiser, seed.
        epochs: how many have gone before.
    """

    def __init__(
        self, model: CVG, store: ForestStore, config: TrainingConfig, epochs: int = 0
    ) -> None:
        self._model, self._config = model, config
        present = np.zeros(model.vectors.shape[0], bool)
        present[store.word[store.word >= 0]] = True
        self._telemetry = Telemetry(
            lazy=config.optimizer.lower() in _LAZY, present={"vectors": present}, epochs=epochs
        )
        order = np.random.default_rng([config.seed, 2]).permutation(len(store))
        self._sample = store.batch(np.sort(order[:SAMPLE]))
        self._fixed: float | None = None  # ‖θ‖² of frozen rows in the L2 term, in this epoch

    def before(self, losses: np.ndarray, gradients: Sequence[Any]) -> None:
        """Observe a step that is about to be taken on examples with these losses, [B]."""
        if self._fixed is None:
            self._fixed = sum(_squares(v, rows) for v, rows in self._model.frozen_rows())
        variables = self._variables()
        self._telemetry.before(variables, dict(zip(variables, gradients, strict=True)))
        self._values = {"loss": float(losses.mean(dtype=np.float64))}
        if self._config.objective in MARGINS:
            self._values["violated"] = float((losses > 0).mean())

    def after(self) -> None:
        """Observe the step that has been taken."""
        found = self._telemetry.after(self._variables(), **self._values)
        # As `CVG.penalty` before the step, without another pass over the weights.
        squares = sum(found[name]["weight_norm"] ** 2 for name in ("W", "v") if name in found)
        penalty = 0.5 * self._config.l2 * (squares - (self._fixed or 0.0))
        self._telemetry.note(objective=self._values["loss"] + penalty)

    def end_epoch(self, parameters: Parameters) -> dict[str, Any]:
        """Close the epoch, after which the network has these weights; its record."""
        batch, config = self._sample, self._config
        vectors, W, v = parameters
        nodes, totals = kernels.forward(
            vectors[batch.words], W, v, batch.rows, batch.key, batch.left, batch.right
        )
        losses, weights = loss_of_scores(
            batch, totals[batch.root], config.objective, config.kappa, config.tie
        )
        used, _ = danskin_batch(batch, weights)
        sample = {
            "sentences": len(losses),
            "loss": float(losses.mean(dtype=np.float64)),
            "nodes": len(batch.key) - len(batch.words),
            "differentiated": len(used.key) - len(used.words),
        }
        if config.objective in MARGINS:
            sample["violated"] = float((losses > 0).mean())
        self._fixed = None
        self._telemetry.add_activations("nodes", nodes[len(batch.words) :])
        return self._telemetry.end_epoch(sample=sample)

    def _variables(self) -> dict[str, Any]:
        return {variable.name: variable for variable in self._model.trainable_variables}


def _squares(variable: Any, rows: np.ndarray) -> float:
    """Sum of squares of rows that the L2 term would have if they were not frozen."""
    if variable.name == "vectors":
        return 0.0
    return float(np.square(np.asarray(variable)[rows], dtype=np.float64).sum())
