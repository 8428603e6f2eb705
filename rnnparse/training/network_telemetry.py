"""Telemetry of the parser's network: its training steps, and its activations on a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.losses.names import MARGINS
from rnnparse.models import kernels
from rnnparse.models.forest_file import Forests
from rnnparse.models.objective import danskin_batch, loss_of_scores
from rnnparse.models.parameters import Parameters
from rnnparse.telemetry.recorder import Telemetry

if TYPE_CHECKING:
    from rnnparse.models.cvg import CVG

SAMPLE = 100
"""Number of training sentences whose activations are recorded after each epoch."""

_LAZY = ("adagrad", "sgd")  # optimizers that do not change rows without a gradient


class NetworkTelemetry:
    """Observes the training of a CVG.

    Its records are those of `Telemetry` for the trained variables (`vectors`, `W` and `v`), with
    these additions:

        updates.loss         mean loss of the batch before each update
        updates.objective    the same with the L2 term
        updates.violated     for hinges, the share of the batch's sentences with a loss
        activations.nodes    vectors p of all phrases of the sample
        sample               values after the epoch, on the same sentences each time: `sentences`,
                             mean `loss`, share `violated`, `nodes` that were scored, and the
                             nodes that were `differentiated` (Danskin's theorem)

    All values are for the weights after the last step, not for their mean over the epochs.

    Args:
        model: the network.
        store: the training forests.
        config: objective, optimizer and seed.
        epochs: number of earlier epochs.
    """

    def __init__(
        self, model: CVG, store: Forests, config: TrainingConfig, epochs: int = 0
    ) -> None:
        self._model, self._config = model, config
        present = np.zeros(model.vectors.shape[0], bool)
        present[store.words()] = True
        self._telemetry = Telemetry(
            lazy=config.optimizer.lower() in _LAZY, present={"vectors": present}, epochs=epochs
        )
        order = np.random.default_rng([config.seed, 2]).permutation(len(store))
        self._sample = store.batch(np.sort(order[:SAMPLE]))
        self._fixed: float | None = None  # ‖θ‖² of frozen rows in the L2 term, in this epoch

    def before(self, losses: np.ndarray, gradients: Sequence[Any]) -> None:
        """Observe the coming step on a batch with these losses, [B]."""
        if self._fixed is None:
            self._fixed = sum(_squares(v, rows) for v, rows in self._model.frozen_rows())
        variables = self._variables()
        self._telemetry.before(variables, dict(zip(variables, gradients, strict=True)))
        self._values = {"loss": float(losses.mean(dtype=np.float64))}
        if self._config.objective in MARGINS:
            self._values["violated"] = float((losses > 0).mean())

    def after(self) -> None:
        """Observe the step after it was taken."""
        update = self._telemetry.after(self._variables(), **self._values)
        # The value of `CVG.penalty` before the step, without another pass over the weights.
        squares = sum(update[name]["weight_norm"] ** 2 for name in ("W", "v") if name in update)
        penalty = 0.5 * self._config.l2 * (squares - (self._fixed or 0.0))
        self._telemetry.note(objective=self._values["loss"] + penalty)

    def end_epoch(self, parameters: Parameters) -> dict[str, Any]:
        """Close the epoch and return its record; `parameters` are the weights after it."""
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
    """Sum of squares of the frozen rows that would otherwise be part of the L2 term."""
    if variable.name == "vectors":
        return 0.0
    return float(np.square(np.asarray(variable)[rows], dtype=np.float64).sum())
