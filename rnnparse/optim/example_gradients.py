"""The gradients of the single examples of a batch, as arrays that can be worked on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.gathering import Read, plain, reading_rows
from rnnparse.optim.manipulations import Manipulation


class ExampleGradients(NamedTuple):
    """The derivatives of B losses by some variables.

    Attributes:
        losses: [B].
        variables: the variables.
        values: for each variable [B, *shape]; or, of a table that was read by rows,
            [B, U, *row shape]; None where the losses do not depend on it.
        rows: for each variable None, or the rows of the table: int [U], each once; or int [B, U],
            where each example has rows of its own. All other rows have the derivative 0.
    """

    losses: tf.Tensor
    variables: list[Any]
    values: list[tf.Tensor | None]
    rows: list[tf.Tensor | None]

    def through(self, chain: Sequence[Manipulation]) -> ExampleGradients:
        """These gradients after the manipulations, one after the other.

        Raises:
            ValueError: one does not return tensors of the shapes that it was given.
        """
        known = [i for i, value in enumerate(self.values) if value is not None]
        gradients: list[Any] = [self.values[i] for i in known]
        for manipulation in chain:
            shapes = [g.shape for g in gradients]
            gradients = [tf.convert_to_tensor(g) for g in manipulation(gradients, self.losses)]
            found = [g.shape for g in gradients]
            if len(found) != len(shapes) or not all(
                a.is_compatible_with(b) for a, b in zip(found, shapes, strict=True)
            ):
                name = getattr(manipulation, "__qualname__", type(manipulation).__name__)
                raise ValueError(f"{name} was given gradients of {shapes} and returned {found}")
        values: list[Any] = [None] * len(self.values)
        for i, gradient in zip(known, gradients, strict=True):
            values[i] = gradient
        return self._replace(values=values)

    def sum(self) -> list[Any]:
        """The sum over the examples, for an optimiser.

        Returns:
            For each variable a tensor of its shape, indexed slices for a table that was read by
            rows, or None.
        """
        return [
            None if value is None else _sum(value, rows, variable)
            for value, rows, variable in zip(self.values, self.rows, self.variables, strict=True)
        ]

    def mean(self) -> list[Any]:
        """As `sum`, divided by the number of examples."""
        return divide(self.sum(), tf.shape(self.losses)[0])


class ExampleTape:
    """Records losses, as a `tf.GradientTape` does, and gives the gradient of each.

    To be used within a `tf.function`; eagerly, TensorFlow makes a new graph for each call.

    Args:
        variables: Keras or TensorFlow variables.
        model: a Keras model or layer whose `Embedding` layers are to be read by rows. Look-ups
            outside of such layers are, too, where they go through `gather_rows`.

    Example:
        >>> with ExampleTape(model.trainable_variables, model) as tape:
        ...     losses = tf.square(model(x)[:, 0] - y)
        >>> gradients = tape.gradients(losses).through([clip_each(1.0)])
        >>> optimizer.apply(gradients.mean(), model.trainable_variables)
    """

    def __init__(self, variables: Sequence[Any], model: Any = None) -> None:
        self._variables = list(variables)
        # What is not differentiated by, the tape does not follow.
        self._tape = tf.GradientTape(watch_accessed_variables=False)
        self._reading = reading_rows(self._tape, self._variables, model)
        self._reads: list[Read] = []

    def __enter__(self) -> ExampleTape:
        self._tape.__enter__()
        self._tape.watch([plain(variable) for variable in self._variables])
        self._reads = self._reading.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._reading.__exit__(*error)
        self._tape.__exit__(*error)

    def gradients(self, losses: tf.Tensor) -> ExampleGradients:
        """Derivatives of losses [B] that were computed under this tape; may be called once.

        By `tape.jacobian`, the cost of which grows with B²: cut large batches into parts.

        Raises:
            ConfigError: `losses` is not one value an example.
        """
        if losses.shape.rank != 1:
            raise ConfigError(
                f"the loss has the shape {losses.shape}; per-example gradients need [B], "
                "one value for each example, not reduced over the batch"
            )
        sources = [*map(plain, self._variables), *(read.rows for read in self._reads)]
        found = self._tape.jacobian(losses, sources)
        direct = found[: len(self._variables)]
        pairs = [
            self._join(variable, value, found[len(self._variables) :])
            for variable, value in zip(self._variables, direct, strict=True)
        ]
        return ExampleGradients(
            losses, self._variables, [value for value, _ in pairs], [rows for _, rows in pairs]
        )

    def _join(
        self, variable: Any, direct: tf.Tensor | None, by_rows: list[tf.Tensor | None]
    ) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Add up what is known of one variable; return the derivatives and their rows."""
        reads = [
            (read.ids, value)
            for read, value in zip(self._reads, by_rows, strict=True)
            if read.table is variable and value is not None
        ]
        if not reads:
            return direct, None
        ids = tf.concat([tf.cast(rows, tf.int64) for rows, _ in reads], axis=0)
        values = tf.concat([value for _, value in reads], axis=1)
        if direct is not None:  # it is also used as a whole, for example as an output layer
            count = tf.cast(variable.shape[0], tf.int64)
            return direct + _sum_places(values, ids, count), None
        if len(reads) == 1:
            return values, ids
        different, place = tf.unique(ids)
        return _sum_places(values, place, tf.size(different)), different


def _sum_places(values: tf.Tensor, place: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """[B, U, …] to [B, count, …]: values[:, i] is added to the column place[i]."""
    order = [1, 0, *range(2, values.shape.rank)]
    added = tf.math.unsorted_segment_sum(tf.transpose(values, order), place, count)
    return tf.transpose(added, order)


def _sum(value: tf.Tensor, rows: tf.Tensor | None, variable: Any) -> Any:
    if rows is None:
        return tf.cast(tf.reduce_sum(value, axis=0), variable.dtype)
    shape = tf.constant(tuple(variable.shape), tf.int64)
    if rows.shape.rank == 1:
        value = tf.cast(tf.reduce_sum(value, axis=0), variable.dtype)
        return tf.IndexedSlices(value, rows, shape)
    value = tf.reshape(value, tf.concat([[-1], tf.shape(value)[2:]], axis=0))
    return merge(tf.reshape(rows, [-1]), tf.cast(value, variable.dtype), shape)


def divide(gradients: Sequence[Any], number: tf.Tensor) -> list[Any]:
    """Divide gradients of the form that `ExampleGradients.sum` returns."""

    def divided(x: Any) -> tf.Tensor:
        return x / tf.cast(number, x.dtype)

    return [
        g
        if g is None
        else tf.IndexedSlices(divided(g.values), g.indices, g.dense_shape)
        if isinstance(g, tf.IndexedSlices)
        else divided(g)
        for g in gradients
    ]


def add(a: Any, b: Any) -> Any:
    """Add two gradients of the form that `ExampleGradients.sum` returns for a variable."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tf.IndexedSlices) and isinstance(b, tf.IndexedSlices):
        indices = tf.concat([a.indices, b.indices], axis=0)
        return merge(indices, tf.concat([a.values, b.values], axis=0), a.dense_shape)
    return tf.convert_to_tensor(a) + tf.convert_to_tensor(b)


def merge(indices: tf.Tensor, values: tf.Tensor, shape: tf.Tensor) -> tf.IndexedSlices:
    """Indexed slices in which each row stands once, the sum of the values for it."""
    different, place = tf.unique(indices)
    values = tf.math.unsorted_segment_sum(values, place, tf.size(different))
    return tf.IndexedSlices(values, different, shape)


def sum_over_parts(part: Callable[[tf.Tensor], list[Any]], size: Any, chunk: Any) -> list[Any]:
    """part(0) + part(chunk) + part(2 · chunk) + … of all starts below `size`, in a loop.

    Args:
        part: gives a list of tensors, of indexed slices (which are collected and not made dense)
            and of None, which of them always in the same places.
        size, chunk: int, tensors or numbers.
    """
    first = part(tf.constant(0))
    slices = [x for x in first if isinstance(x, tf.IndexedSlices)]
    count = -(-size // chunk)

    def body(i: tf.Tensor, sums: list[Any], found: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        more = part(i * chunk)
        new = [x for x in more if isinstance(x, tf.IndexedSlices)]
        sums = [a + b for a, b in zip(sums, _tensors(more), strict=True)]
        return i + 1, sums, _write(found, i, new)

    arrays = [_array(x, count) for g in slices for x in (g.indices, g.values)]
    start = (tf.constant(1), _tensors(first), _write(arrays, 0, slices))
    _, sums, arrays = tf.while_loop(
        lambda i, sums, found: i < count, body, start, parallel_iterations=1
    )
    joined = [array.concat() for array in arrays]
    merged = [merge(joined[2 * k], joined[2 * k + 1], g.dense_shape) for k, g in enumerate(slices)]
    found = {True: iter(merged), False: iter(sums)}
    return [x if x is None else next(found[isinstance(x, tf.IndexedSlices)]) for x in first]


def _tensors(values: list[Any]) -> list[tf.Tensor]:
    return [x for x in values if x is not None and not isinstance(x, tf.IndexedSlices)]


def _array(like: tf.Tensor, size: tf.Tensor) -> tf.TensorArray:
    """An array for pieces of different length."""
    shape = [None, *like.shape[1:]]
    return tf.TensorArray(like.dtype, size, element_shape=shape, infer_shape=False)


def _write(arrays: list[Any], i: Any, slices: list[tf.IndexedSlices]) -> list[Any]:
    pieces = [x for g in slices for x in (g.indices, g.values)]
    return [array.write(i, x) for array, x in zip(arrays, pieces, strict=True)]
