"""The checked data of least-squares fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rnnparse._tensorflow import keras, tf
from rnnparse.optim.levenberg_marquardt.jacobian import TapeJacobian, real_parts
from rnnparse.optim.levenberg_marquardt.robust_loss import robust

_EXAMPLES = 512  # predicted at once


class FitData:
    """Residuals and Jacobian of a model on some examples, computed in parts to limit memory.

    Examples of weight 0 are dropped, whatever their x and y; `len` counts the others.

    Args:
        model: called with `training=False`.
        x, y, sample_weight: as for `rnnparse.fit_least_squares`.
        loss, scale: see `rnnparse.optim.robust`.
        chunk: number of residuals to differentiate at once.

    Raises:
        ValueError: shapes do not match, or numbers are not finite; the message names the argument.
    """

    def __init__(
        self,
        model: keras.Model,
        x: Any,
        y: Any,
        sample_weight: Any,
        loss: str,
        scale: float,
        chunk: int,
    ) -> None:
        x = tf.nest.map_structure(np.asarray, x)
        inputs = tf.nest.flatten(x)
        if not inputs or not all(array.ndim and len(array) for array in inputs):
            raise ValueError(
                "x must be an array [N, …] of at least one example, or a nest of such arrays; "
                "lists of rows and data sets are not supported"
            )
        predictions = model(_take(x, np.arange(1)), training=False)
        if not tf.is_tensor(predictions):
            raise ValueError("the model must have a single output")
        y = np.asarray(y)
        weight = _weights(sample_weight, len(inputs[0]))
        if {len(array) for array in (*inputs, weight)} != {len(y) if y.ndim else -1}:
            raise ValueError(
                "x, y and sample_weight must have the same length, with one weight for each example"
            )
        used = np.flatnonzero(weight)
        if not len(used):
            raise ValueError("every sample_weight is 0; at least one must be positive")
        self._weight, self._x = weight[used], tf.nest.map_structure(lambda array: array[used], x)
        is_complex = np.iscomplexobj(y) or predictions.dtype.is_complex
        self._y = _like(y[used].astype(np.complex128 if is_complex else np.float64), predictions)
        _check_finite(self._x, self._y, used)
        self._examples = max(1, chunk // (self._y[0].size * (2 if is_complex else 1)))
        self._tape = TapeJacobian([v.value for v in model.trainable_variables], chunk)

        @tf.function(reduce_retracing=True)
        def function(x: Any, y: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
            residuals = tf.cast(model(x, training=False), y.dtype) - y
            rows = tf.reshape(real_parts(residuals), [tf.shape(root)[0], -1])
            return root[:, None] * robust(rows, loss, scale)

        self._function = function

    def __len__(self) -> int:
        return len(self._y)

    def residuals(self, rows: np.ndarray) -> np.ndarray:
        """[B], float64."""
        parts = [np.ravel(self._function(*part)) for part in self._parts(rows, _EXAMPLES)]
        return np.concatenate(parts)

    def jacobian(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Blocks [b, P], float64."""
        count = 2 if np.iscomplexobj(self._y) else 1
        for part in self._parts(rows, self._examples):
            yield from self._tape.blocks(self._function, count * int(tf.size(part[1])), part)

    def mean_loss(self) -> float:
        """½ Σ w_i ρ_i, without an L2 term, over the number of examples."""
        squares = np.square(self.residuals(np.arange(len(self))))
        return 0.5 * float(np.sum(squares)) / len(self)

    def _parts(self, rows: np.ndarray, size: int) -> Iterator[tuple[Any, tf.Tensor, tf.Tensor]]:
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            root = np.sqrt(self._weight[part] * (len(self) / len(rows)))
            yield _take(self._x, part), tf.constant(self._y[part]), tf.constant(root)


def check_model(model: keras.Model) -> None:
    """Raise ValueError if the objective of the model is more than a sum of squares."""
    if model.losses:
        raise ValueError(
            "the model has other losses (regularizers or add_loss), which are not sums of squared "
            "residuals; remove them, and set l2= for an L2 term"
        )
    bound = [v.path for v in model.trainable_variables if v.constraint is not None]
    if bound:
        raise ValueError(
            f"constraints are not supported: remove those of {', '.join(bound)}, and set bounds= "
            "for lower and upper bounds of weights"
        )


def _take(x: Any, rows: np.ndarray) -> Any:
    return tf.nest.map_structure(lambda array: tf.constant(array[rows]), x)


def _weights(sample_weight: Any, count: int) -> np.ndarray:
    """w [N], float64."""
    if sample_weight is None:
        return np.ones(count)
    weight = np.asarray(sample_weight)
    if np.iscomplexobj(weight) or weight.ndim != 1:
        raise ValueError(
            "sample_weight must be a vector of real numbers of the same length as x, not of shape "
            f"{weight.shape} and dtype {weight.dtype}"
        )
    weight = weight.astype(np.float64)
    if not np.all((weight >= 0) & np.isfinite(weight)):
        place = np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))[0]
        raise ValueError(
            "sample_weight must be finite and not negative; that of "
            f"example {place} is {weight[place]}"
        )
    return weight


def _like(y: np.ndarray, predictions: Any) -> np.ndarray:
    """Targets in the shape of the predictions, without broadcasting."""
    shape = tuple(predictions.shape[1:])
    if shape == (*y.shape[1:], 1):
        y = y[..., None]
    if y.shape[1:] != shape:
        raise ValueError(
            f"the targets have shape {('N', *y.shape[1:])}, but the predictions {('N', *shape)}"
        )
    return y


def _check_finite(x: Any, y: np.ndarray, used: np.ndarray) -> None:
    for name, array in [*(("x", array) for array in tf.nest.flatten(x)), ("y", y)]:
        if not np.issubdtype(array.dtype, np.inexact):
            continue
        bad = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
        if bad.any():
            raise ValueError(
                f"{name} of example {used[bad][0]} is not finite ({bad.sum()} in all); remove such "
                "examples, or set their sample_weight to 0"
            )
