"""Least-squares fits of Keras models by Levenberg–Marquardt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from rnnparse.optim.convergence import MinimizeResult, StepResult, Tolerances
from rnnparse.optim.levenberg_marquardt import LevenbergMarquardt
from rnnparse.optim.tape_jacobian import TapeJacobian

_EXAMPLES = 512  # predicted at once


def fit_least_squares(
    model: keras.Model,
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    batch_size: int | None = None,
    epochs: int = 100,
    tolerances: Tolerances = Tolerances(),  # noqa: B008
    seed: int = 0,
    chunk: int = 64,
    **settings: Any,
) -> MinimizeResult:
    """Fit the trainable weights of a model: ½ Σ w_i ‖model(x_i) − y_i‖² + ½ Σ l θ².

    The model need be neither compiled nor built, and may be of any kind: Sequential, functional or
    a subclass. It is called with `training=False`: dropout is off, and batch normalisation keeps
    its moving statistics and learns its scale and offset alone. The prediction for an example must
    not depend on the others in its batch. Whatever ends the fit, Ctrl-C too, the model stays at
    the last step that was accepted.

    With minibatches the residuals are scaled by √(N / batch), so that each batch estimates the
    whole objective. A step fits its batch as far as μ lets it: where a batch has fewer residuals
    than there are parameters, give a `damping_range` whose least μ is about the number of batches.

    Args:
        model: its weights change in place.
        x: [N, …], or a nest of such arrays, as the model takes it.
        y: targets in the shape of the predictions, [N, …]; [N] for predictions [N, 1].
        sample_weight: w ≥ 0, [N]; default 1.
        batch_size: examples a step; None for all.
        epochs: passes over the data; with all examples in a batch, the most steps.
        tolerances: when to stop; used where a batch holds all examples.
        seed: of the order of examples.
        chunk: residuals differentiated at once, which bounds the memory of the tape.
        settings: of `LevenbergMarquardt`: damping, damping_range, l2, memory_limit.

    Returns:
        Why it ended, the cost on all examples, and all steps.

    Raises:
        ValueError: shapes do not fit; the model has losses of its own (regularisers, `add_loss`)
            or constraints, which are no least squares; or as `LevenbergMarquardt.step`.
        ConfigError: as `LevenbergMarquardt.step`.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
        >>> x = np.linspace(-1, 1, 50)[:, None]
        >>> fit_least_squares(model, x, np.sin(3 * x), l2=1e-6).cost < 1e-3
        True
    """
    if epochs < 1 or (batch_size is not None and batch_size < 1):
        raise ValueError("epochs and batch_size must be at least 1")
    data = _Data(model, x, y, sample_weight, chunk)
    optimizer = LevenbergMarquardt(model.trainable_variables, **settings)
    size = min(batch_size or len(data), len(data))
    history: list[StepResult] = []
    reason = ""
    for rows in _batches(len(data), size, epochs, seed):
        history.append(optimizer.step(data.residuals, data.jacobian, (rows,)))
        reason = tolerances.reached(history[-1]) if size == len(data) else ""
        if reason:
            break
    cost = optimizer.cost(data.residuals, (np.arange(len(data)),))
    return MinimizeResult(reason or "steps", cost, history)


def _batches(count: int, size: int, epochs: int, seed: int) -> Iterator[np.ndarray]:
    """Indices of examples for each step; in their own order where a batch holds all."""
    for epoch in range(epochs):
        order = np.arange(count)
        if size < count:
            np.random.default_rng([seed, epoch]).shuffle(order)
        for start in range(0, count, size):
            yield order[start : start + size]


class _Data:
    """Residuals and Jacobian of a model on some examples, each in parts that bound the memory."""

    def __init__(self, model: keras.Model, x: Any, y: Any, sample_weight: Any, chunk: int) -> None:
        self._x = tf.nest.map_structure(np.asarray, x)
        inputs = tf.nest.flatten(self._x)
        if not inputs or not all(array.ndim and len(array) for array in inputs):
            raise ValueError(
                "x must be an array [N, …] of at least one example, or a nest of such arrays; "
                "neither rows in lists nor a data set"
            )
        predictions = model(self._take(np.arange(1)), training=False)
        if not tf.is_tensor(predictions):
            raise ValueError("the model must have a single output")
        y = np.asarray(y, np.float64)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        lengths = {array.shape[:1] for array in (*inputs, y, weight)}
        if len(lengths) > 1 or weight.ndim != 1 or np.any(weight < 0):
            raise ValueError(
                "x, y and sample_weight must be of the same length, and weights one number for "
                "each example, not negative"
            )
        self._y = _like(y, predictions)
        self._weight = weight.reshape(-1, *[1] * (self._y.ndim - 1))
        _check_model(model)
        self._examples = max(1, chunk // self._y[0].size)
        self._tape = TapeJacobian([v.value for v in model.trainable_variables], chunk)

        @tf.function(reduce_retracing=True)
        def function(x: Any, y: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
            return root * (tf.cast(model(x, training=False), tf.float64) - y)

        self._function = function

    def __len__(self) -> int:
        return len(self._y)

    def residuals(self, rows: np.ndarray) -> np.ndarray:
        """[B], float64."""
        parts = [np.ravel(self._function(*part)) for part in self._parts(rows, _EXAMPLES)]
        return np.concatenate(parts)

    def jacobian(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Blocks [b, P], float64."""
        for part in self._parts(rows, self._examples):
            yield from self._tape.blocks(self._function, int(tf.size(part[1])), part)

    def _parts(self, rows: np.ndarray, size: int) -> Iterator[tuple[Any, tf.Tensor, tf.Tensor]]:
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            root = np.sqrt(self._weight[part] * (len(self) / len(rows)))
            yield self._take(part), tf.constant(self._y[part]), tf.constant(root)

    def _take(self, rows: np.ndarray) -> Any:
        return tf.nest.map_structure(lambda array: tf.constant(array[rows]), self._x)


def _like(y: np.ndarray, predictions: Any) -> np.ndarray:
    """Targets in the shape of predictions, which nothing may broadcast."""
    shape = tuple(predictions.shape[1:])
    if shape == (*y.shape[1:], 1):
        y = y[..., None]
    if y.shape[1:] != shape:
        raise ValueError(
            f"targets of shape {('N', *y.shape[1:])}, but predictions of {('N', *shape)}"
        )
    return y


def _check_model(model: keras.Model) -> None:
    if model.losses:
        raise ValueError(
            "the model has losses of its own (regularisers or add_loss), which are not sums of "
            "squared residuals; take them out, and give l2= for an L2 term"
        )
    bound = [v.path for v in model.trainable_variables if v.constraint is not None]
    if bound:
        raise ValueError(f"constraints are not kept: take them from {', '.join(bound)}")
