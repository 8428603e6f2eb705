"""Jacobians of functions of Keras variables by GradientTape, in blocks of rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from rnnparse._tensorflow import tf

Blocks = np.ndarray | Iterable[np.ndarray]
"""J, float [B, P], or its rows in blocks."""

_ROWS = 512  # of the Jacobian that are multiplied at once, or more


class TapeJacobian:
    """J [B, P] of residuals [B] for P parameters, in blocks of rows that limit the tape's memory.

    A `tf.function` is differentiated in a graph, which is kept until another function follows. Any
    other function is differentiated eagerly, for which TensorFlow makes a new graph each time.

    Args:
        variables: TensorFlow variables; their entries are the columns of J, in this order.
        chunk: rows per block; the last block may have fewer.

    Example:
        >>> x = tf.Variable([1.0, 2.0])
        >>> list(TapeJacobian([x], 64).blocks(lambda: x**2, 2))
        [array([[2., 0.],
               [0., 4.]], dtype=float32)]
    """

    def __init__(self, variables: Sequence[tf.Variable], chunk: int) -> None:
        if chunk < 1:
            raise ValueError("chunk must be at least 1")
        self._variables, self._chunk = variables, chunk
        self._kept: tuple[Any, Any] = (None, None)

    def blocks(
        self, residuals: Callable[..., Any], count: int, data: Sequence[Any] = ()
    ) -> Iterator[np.ndarray]:
        """Blocks of J, in the dtype of the residuals.

        Args:
            residuals: called with `data`; returns a tensor, which is flattened.
            count: B.
            data: nests of tensors.

        Raises:
            ValueError: the residuals do not depend on any of the variables.
        """
        function, rows = self._kept
        if function is not residuals:
            rows = functools.partial(_rows, residuals, self._variables, self._chunk)
            if is_traced(residuals):
                rows = tf.function(rows, autograph=False, reduce_retracing=True)
                self._kept = residuals, rows
        for start in range(0, count, self._chunk):
            yield np.asarray(rows(tf.constant(start), *data))


def is_traced(function: Any) -> bool:
    """Whether a function is a `tf.function`."""
    return isinstance(function, tf.types.experimental.PolymorphicFunction)


def real_parts(values: tf.Tensor) -> tf.Tensor:
    """Flatten; alternate real and imaginary parts of complex values."""
    if values.dtype.is_complex:
        values = tf.stack([tf.math.real(values), tf.math.imag(values)], axis=-1)
    return tf.reshape(values, [-1])


def real_rows(values: np.ndarray) -> np.ndarray:
    """float64; [2 B, …] for complex [B, …], with alternating real and imaginary parts."""
    if not np.iscomplexobj(values):
        return np.asarray(values, np.float64)
    parts = np.stack([values.real, values.imag], axis=1)
    return parts.reshape(-1, *values.shape[1:]).astype(np.float64)


def _rows(
    residuals: Callable[..., Any],
    variables: Sequence[tf.Variable],
    count: int,
    start: tf.Tensor,
    *data: Any,
) -> tf.Tensor:
    """Rows start … start + count - 1, fewer at the end."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        chosen = real_parts(tf.convert_to_tensor(residuals(*data)))[start : start + count]
    parts = tape.jacobian(chosen, variables)
    if all(part is None for part in parts):
        raise ValueError(
            "the residuals do not depend on the variables: were they computed outside TensorFlow?"
        )
    height = tf.shape(chosen)[0]
    columns = [
        tf.zeros([height, tf.size(variable)], chosen.dtype)
        if part is None
        else tf.cast(tf.reshape(part, [height, -1]), chosen.dtype)
        for part, variable in zip(parts, variables, strict=True)
    ]
    return tf.concat(columns, axis=1)


def checked_blocks(blocks: Blocks, residuals: int, parameters: int) -> Iterator[np.ndarray]:
    rows = 0
    for block in [blocks] if hasattr(blocks, "shape") else blocks:
        block = real_rows(np.asarray(block))
        if block.ndim != 2 or block.shape[1] != parameters:
            raise ValueError(f"the Jacobian has shape {block.shape} for {parameters} parameters")
        rows += len(block)
        if rows > residuals:
            break
        yield block
    if rows != residuals:
        raise ValueError(f"the Jacobian has {rows} rows, but there are {residuals} residuals")


def whole_jacobian(blocks: Blocks, residuals: int, parameters: int) -> np.ndarray:
    """J [B, P] from its blocks; a copy."""
    jacobian = np.empty((residuals, parameters))
    row = 0
    for block in checked_blocks(blocks, residuals, parameters):
        jacobian[row : row + len(block)] = block
        row += len(block)
    return jacobian


def merged_blocks(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Merge small blocks, because many small products take longer than a large one."""
    waiting: list[np.ndarray] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= _ROWS:
            yield np.concatenate(waiting) if len(waiting) > 1 else block
            waiting = []
    if waiting:
        yield np.concatenate(waiting)
