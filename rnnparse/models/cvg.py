"""The Compositional Vector Grammar's network as a Keras model."""

from __future__ import annotations

from typing import Any

import numpy as np

from rnnparse._tensorflow import keras, tf
from rnnparse.errors import ConfigError
from rnnparse.models.batch import LevelBatch
from rnnparse.models.frozen_weights import NOTHING, FrozenWeights
from rnnparse.models.objective import danskin_batch, loss_gradients_at, loss_of_scores
from rnnparse.models.parameters import Gradients, Parameters
from rnnparse.models.su_rnn import SCORES


class CVG(keras.Model):
    """A Keras model that scores the candidate trees of a batch: `LevelBatch -> scores [T]`.

    Variables (float32 or float64; see `Parameters` for their layout): `vectors` [V, n],
    `W` [R, 2n + 1, n], `v` [R, n].

    Args:
        parameters: starting values, from `initial_parameters` or from a saved model.
        engine: `numba` is fast on a CPU; `tensorflow` supports GPUs, XLA and second derivatives.

    Raises:
        ConfigError: the engine is unknown.

    Example:
        >>> model = CVG(initial_parameters(category_pairs, len(vocabulary), 25))
        >>> scores = model(store.batch([0, 1, 2]))
    """

    def __init__(self, parameters: Parameters, engine: str = "numba") -> None:
        if engine not in SCORES:
            raise ConfigError(f"unknown engine {engine!r}; known are {', '.join(SCORES)}")
        super().__init__(name="cvg", dtype=str(parameters.v.dtype))
        self.engine = engine
        for name, value in parameters._asdict().items():
            weight = self.add_weight(name=name, shape=value.shape, initializer="zeros")
            weight.assign(value)
            setattr(self, name, weight)
        self._frozen = NOTHING
        self.built = True

    def freeze(self, frozen: FrozenWeights) -> None:
        """Train all weights except these; build or rebuild the optimizer afterwards."""
        self._frozen = frozen
        for name in Parameters._fields:
            getattr(self, name).trainable = name not in frozen.variables

    def frozen_rows(self) -> list[tuple[Any, np.ndarray]]:
        """Trainable variables with frozen rows, for `rnnparse.optim.freezing.FrozenRows`."""
        return [(getattr(self, name), rows) for name, rows in self._frozen.rows.items()]

    def penalty(self, l2: float) -> float:
        """λ/2 (‖W‖² + ‖v‖²) over the trained weights."""
        total = 0.0
        for name in ("W", "v"):
            if name not in self._frozen.variables:
                values = _view(getattr(self, name)).astype(np.float64)
                values[self._frozen.rows.get(name, [])] = 0
                total += float(np.square(values).sum())
        return 0.5 * l2 * total

    def call(self, batch: LevelBatch, width: int | None = None) -> tf.Tensor:
        """Scores [T]; `width` as for `scores_tensorflow`."""
        leaves = tf.gather(self.vectors.value, batch.words)
        # Gathering from the variable itself would make each later read a copy.
        W = tf.gather(tf.convert_to_tensor(self.W.value), batch.rows)
        v = tf.gather(tf.convert_to_tensor(self.v.value), batch.rows)
        return SCORES[self.engine](batch, leaves, W, v, width)

    def loss_gradients(
        self,
        batch: LevelBatch,
        objective: str = "hinge",
        kappa: float = 0.1,
        tie: str = "first",
        l2: float = 0.0,
    ) -> tuple[np.ndarray, list[Any]]:
        """Loss of each example, and a subgradient of their mean plus the L2 term.

        All candidates are scored, but only those whose scores have a weight are differentiated:
        under the hinges, two trees of each violated example (Danskin's theorem). Derivatives by
        variables that are not trainable are not computed.

        Args:
            batch: B sentences, as NumPy arrays.
            objective: one of `rnnparse.losses.names.OBJECTIVES`.
            kappa: the margin for each wrong labelled span.
            tie: see `rnnparse.losses.score_gradients.hinge_weights`.
            l2: λ of λ/2 (‖W‖² + ‖v‖²), which excludes word vectors.

        Returns:
            Losses [B], and derivatives for `optimizer.apply(…, model.trainable_variables)`: by
            `vectors` as indexed slices, by `W` and `v` as tensors, or as slices if λ is 0.
        """
        learned = [name for name in Parameters._fields if getattr(self, name).trainable]
        differentiate = {"numba": self._by_arrays, "tensorflow": self._by_tape}[self.engine]
        losses, gradients = differentiate(batch, objective, kappa, tie, learned)
        rows = {"vectors": gradients.words}
        derivatives = []
        for name in learned:
            variable, values = getattr(self, name), getattr(gradients, name)
            derivative = tf.IndexedSlices(
                tf.convert_to_tensor(values),
                tf.convert_to_tensor(rows.get(name, gradients.rows)),
                tf.constant(variable.shape),
            )
            if l2 and name != "vectors":
                derivative = tf.convert_to_tensor(_add_rows(l2 * _view(variable), derivative))
            derivatives.append(derivative)
        return losses, derivatives

    def _by_arrays(
        self, batch: LevelBatch, objective: str, kappa: float, tie: str, learned: list[str]
    ) -> tuple[np.ndarray, Gradients]:
        leaves = np.asarray(tf.gather(self.vectors.value, batch.words))
        return loss_gradients_at(
            batch, leaves, _view(self.W), _view(self.v), objective, kappa, tie, learned
        )

    def _by_tape(
        self, batch: LevelBatch, objective: str, kappa: float, tie: str, learned: list[str]
    ) -> tuple[np.ndarray, Gradients]:
        scores = np.asarray(self(batch))
        losses, weights = loss_of_scores(batch, scores, objective, kappa, tie)
        part, weights = danskin_batch(batch, weights / max(len(losses), 1))
        gradients = self.derivatives_by_tape(part, tf.constant(weights))
        derivatives = dict(zip(learned, gradients, strict=True))
        none = np.empty(0, np.int32)
        return losses, Gradients(
            part.rows,
            derivatives.get("W", none),
            derivatives.get("v", none),
            part.words,
            derivatives.get("vectors", none),
        )

    def derivatives_by_tape(self, batch: LevelBatch, weights: tf.Tensor) -> list[tf.Tensor]:
        """Derivatives of Σ weights · scores, by the rows of each trainable variable that are used.

        Args:
            batch: its trees are differentiated, all of them.
            weights: [T].
        """
        rows = {"vectors": batch.words, "W": batch.rows, "v": batch.rows}
        used = {name: tf.gather(getattr(self, name).value, rows[name]) for name in rows}
        watched = [used[variable.name] for variable in self.trainable_variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            scores = SCORES[self.engine](batch, used["vectors"], used["W"], used["v"])
            loss = tf.reduce_sum(scores * weights)
        return tape.gradient(loss, watched, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    def parameters(self) -> Parameters:
        """Copies of the weights."""
        return Parameters(*(x.value.numpy() for x in (self.vectors, self.W, self.v)))


def _view(variable: Any) -> np.ndarray:
    """A variable's values, read-only and not copied; valid until the next step."""
    return np.asarray(variable.value.read_value())


def _add_rows(dense: np.ndarray, slices: tf.IndexedSlices) -> np.ndarray:
    dense[np.asarray(slices.indices)] += np.asarray(slices.values)
    return dense
