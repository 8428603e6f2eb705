"""Read tables by rows, so that gradients have only the rows that were read, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from rnnparse._keras_compat import all_layers, tensorflow_variable
from rnnparse._tensorflow import keras, tf


class Read(NamedTuple):
    """One look-up of rows of a table: their indices `ids` [L], with repetitions, and values."""

    table: Any
    ids: tf.Tensor
    rows: tf.Tensor


class _Reader:
    """Looks up rows for a tape, which then differentiates the rows instead of the tables."""

    def __init__(self, tape: tf.GradientTape, tables: Sequence[Any]) -> None:
        self._tape, self._tables, self._graph = tape, tables, _current_graph()
        self.reads: list[Read] = []

    def serves(self, table: Any) -> bool:
        """Whether the tape differentiates this table, and can use tensors made here.

        It cannot in the body of a loop, a branch or another `tf.function`.
        """
        return _current_graph() is self._graph and any(table is t for t in self._tables)

    def look_up(self, table: Any, ids: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(ids, [-1])
        rows = tf.stop_gradient(tf.gather(tensorflow_variable(table), flat))
        self._tape.watch(rows)
        self.reads.append(Read(table, flat, rows))
        shaped = tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(rows)[1:]], axis=0))
        return tf.ensure_shape(shaped, ids.shape.concatenate(rows.shape[1:]))


_reader: ContextVar[_Reader | None] = ContextVar("reader", default=None)


def gather_rows(table: Any, ids: Any) -> tf.Tensor:
    """`tf.gather(table, ids)` for a variable, with sparse per-example gradients.

    Within `example_gradients`, the gradient of an example with respect to the table then has only
    the rows that were read, [B, U, …], instead of the whole table, [B, V, …]. Elsewhere this is
    `tf.gather`. Keras `Embedding` layers need no such call: they are always read in this way.

    Args:
        table: a Keras or TensorFlow variable [V, …].
        ids: int of any shape, possibly with repetitions.

    Returns:
        The rows, ids.shape + table.shape[1:].

    Example:
        >>> def call(self, words):
        ...     return tf.reduce_sum(gather_rows(self.vectors, words), axis=1)
    """
    ids = tf.convert_to_tensor(ids)
    reader = _reader.get()
    if reader is not None and reader.serves(table):
        return reader.look_up(table, ids)
    return tf.gather(tensorflow_variable(table), ids)


def sum_repeated(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Indexed slices with distinct rows, each with the sum of its values."""
    rows, place = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, place, tf.size(rows))
    return tf.IndexedSlices(values, rows, slices.dense_shape)


@contextmanager
def reading_rows(
    tape: tf.GradientTape, tables: Sequence[Any], model: Any = None
) -> Iterator[list[Read]]:
    """A context in which `gather_rows` and the `Embedding` layers of `model` read for this tape.

    Yields:
        The list of look-ups so far.
    """
    reader = _Reader(tape, tables)
    token = _reader.set(reader)
    layers = [layer for layer in all_layers(model) if _looks_rows_up(layer)]
    for layer in layers:
        # In the instance's dict, because Keras would track an attribute.
        layer.__dict__["call"] = _embed(layer)
    try:
        yield reader.reads
    finally:
        for layer in layers:
            del layer.__dict__["call"]
        _reader.reset(token)


def _looks_rows_up(layer: Any) -> bool:
    """Whether a layer is an ordinary `Embedding` whose table is one variable."""
    return (
        isinstance(layer, keras.layers.Embedding)
        and type(layer).call is keras.layers.Embedding.call
        and "call" not in layer.__dict__
        and not layer.lora_enabled
        and layer.quantization_mode is None
    )


def _embed(layer: Any) -> Callable[[Any], tf.Tensor]:
    def call(inputs: Any) -> tf.Tensor:
        ids = tf.convert_to_tensor(inputs)
        if ids.dtype not in (tf.int32, tf.int64):
            ids = tf.cast(ids, tf.int32)
        return tf.cast(gather_rows(layer.embeddings, ids), layer.compute_dtype)

    return call


def _current_graph() -> Any:
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
