"""The Compositional Vector Grammar's network as a Keras model."""

from __future__ import annotations

from typing import Any

import numpy as np

from rnnparse.errors import ConfigError
from rnnparse.models.batch import LevelBatch
from rnnparse.models.objective import danskin_batch, hinge_gradients_at, hinge_of_scores
from rnnparse.models.parameters import Gradients, Parameters
from rnnparse.models.su_rnn import ENGINES
from rnnparse.models.tf import keras, tf


class CVG(keras.Model):
    """Scores all candidate trees of a batch of forests: `LevelBatch -> scores [T]`.

    Variables (float32 or float64; see `Parameters` for their layout): `vectors` [V, n],
    `W` [R, 2n + 1, n], `v` [R, n].

    Args:
        parameters: starting values, from `initial_parameters` or from a saved model.
        engine: `numba`: the fast one on a CPU; `tensorflow`: for a GPU, XLA, second derivatives.

    Raises:
        ConfigError: an unknown engine.

    Example:
        >>> model = CVG(initial_parameters(keys, len(vocabulary), 25))
        >>> scores = model(store.batch([0, 1, 2]))
    """

    def __init__(self, parameters: Parameters, engine: str = "numba") -> None:
        if engine not in ENGINES:
            raise ConfigError(f"unknown engine {engine!r}; known are {', '.join(ENGINES)}")
        super().__init__(name="cvg", dtype=str(parameters.v.dtype))
        self.engine = engine
        for name, value in parameters._asdict().items():
            weight = self.add_weight(name=name, shape=value.shape, initializer="zeros")
            weight.assign(value)
            setattr(self, name, weight)
        self.built = True

    def call(self, batch: LevelBatch, width: int | None = None) -> tf.Tensor:
        """Scores [T]; `width` as for `scores_tensorflow`."""
        leaves = tf.gather(self.vectors.value, batch.words)
        # Read, then gathered: a gather from the variable itself would make each later read a copy.
        W = tf.gather(tf.convert_to_tensor(self.W.value), batch.rows)
        v = tf.gather(tf.convert_to_tensor(self.v.value), batch.rows)
        return ENGINES[self.engine](batch, leaves, W, v, width)

    def hinge_gradients(
        self, batch: LevelBatch, kappa: float = 0.1, tie: str = "first", l2: float = 0.0
    ) -> tuple[np.ndarray, list[Any]]:
        """Violation of each example, and a subgradient of their mean plus the L2 term.

        Goes the two-tree path: all candidates are scored, and the maximiser and the target of each
        violated example alone are differentiated.

        Args:
            batch: B sentences, as NumPy arrays.
            kappa: the margin for each wrong labelled span.
            tie: see `rnnparse.losses.hinge.hinge_weights`.
            l2: λ of λ/2 (‖W‖² + ‖v‖²); word vectors are not in it.

        Returns:
            Violations [B], and derivatives by `vectors` (indexed slices), `W` and `v` (indexed
            slices where λ is 0, else tensors), for `optimizer.apply(…, model.variables)`.
        """
        if self.engine == "numba":
            violation, derivatives = self._differentiate_arrays(batch, kappa, tie)
        else:
            violation, derivatives = self._differentiate_tape(batch, kappa, tie)
        if l2:
            derivatives = [derivatives[0]] + [
                tf.convert_to_tensor(_add_rows(l2 * _view(variable), derivative))
                for variable, derivative in zip((self.W, self.v), derivatives[1:], strict=True)
            ]
        return violation, derivatives

    def _differentiate_arrays(
        self, batch: LevelBatch, kappa: float, tie: str
    ) -> tuple[np.ndarray, list[tf.IndexedSlices]]:
        leaves = np.asarray(tf.gather(self.vectors.value, batch.words))
        violation, gradients = hinge_gradients_at(
            batch, leaves, _view(self.W), _view(self.v), kappa, tie
        )
        return violation, self._slices(gradients)

    def _differentiate_tape(
        self, batch: LevelBatch, kappa: float, tie: str
    ) -> tuple[np.ndarray, list[tf.IndexedSlices]]:
        scores = np.asarray(self(batch))
        violation, weights = hinge_of_scores(batch, scores, kappa, tie)
        part, weights = danskin_batch(batch, weights / max(len(violation), 1))
        leaves = tf.gather(self.vectors.value, part.words)
        W, v = (tf.gather(x.value, part.rows) for x in (self.W, self.v))
        with tf.GradientTape() as tape:
            tape.watch((leaves, W, v))
            loss = tf.reduce_sum(ENGINES[self.engine](part, leaves, W, v) * weights)
        words, matrices, scorers = tape.gradient(
            loss, (leaves, W, v), unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return violation, self._slices(Gradients(part.rows, matrices, scorers, part.words, words))

    def _slices(self, gradients: Gradients) -> list[tf.IndexedSlices]:
        parts = (
            (self.vectors, gradients.words, gradients.vectors),
            (self.W, gradients.rows, gradients.W),
            (self.v, gradients.rows, gradients.v),
        )
        return [
            tf.IndexedSlices(
                tf.convert_to_tensor(values), tf.convert_to_tensor(rows), tf.constant(x.shape)
            )
            for x, rows, values in parts
        ]

    def parameters(self) -> Parameters:
        """The present weights, as copies."""
        return Parameters(*(x.value.numpy() for x in (self.vectors, self.W, self.v)))


def _view(variable: Any) -> np.ndarray:
    """A variable's values, read only and without a copy; not to be kept beyond the next step."""
    return np.asarray(variable.value.read_value())


def _add_rows(dense: np.ndarray, slices: tf.IndexedSlices) -> np.ndarray:
    dense[np.asarray(slices.indices)] += np.asarray(slices.values)
    return dense
