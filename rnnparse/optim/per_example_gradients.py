"""Per-example gradients of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from rnnparse._keras_compat import all_layers, tensorflow_variable
from rnnparse._tensorflow import keras, tf
from rnnparse.errors import ConfigError
from rnnparse.optim.example_seeds import drawing_from, example_seeds
from rnnparse.optim.gradient_transforms import GradientTransform, all_finite, scale_each
from rnnparse.optim.sparse_rows import reading_rows, sum_repeated


class ExampleGradients(NamedTuple):
    """The gradients of B losses with respect to some variables.

    Attributes:
        losses: [B].
        variables: the variables.
        values: for each variable [B, *shape]; [B, U, *row shape] for a table that was read by
            rows; None if the losses do not depend on it.
        rows: for each variable None, or the rows of the table: int [U], each once; or int [B, U],
            if the rows differ between examples. All other rows have the derivative 0.
    """

    losses: tf.Tensor
    variables: list[Any]
    values: list[tf.Tensor | None]
    rows: list[tf.Tensor | None]

    def through(
        self, chain: Sequence[GradientTransform], optimizer: Any = None
    ) -> ExampleGradients:
        """Apply transforms, one after the other.

        Args:
            chain: see `rnnparse.optim.gradient_transforms`.
            optimizer: the optimizer whose `scale_loss` was applied to the losses (`mixed_float16`).
                The chain then works on unscaled gradients and losses, and the result is scaled.

        Raises:
            ValueError: a transform returns tensors of other shapes.
        """
        one = tf.ones(())
        scale = one if optimizer is None else optimizer.scale_loss(one)
        return self._through(chain) if scale is one else self._through_unscaled(chain, scale)

    def _through_unscaled(
        self, chain: Sequence[GradientTransform], scale: tf.Tensor
    ) -> ExampleGradients:
        scale = tf.cast(scale, self.losses.dtype)
        losses = self.losses / scale
        # The optimizer must see that the scale is too high, whatever the chain drops.
        known = [value for value in self.values if value is not None]
        overflow = tf.math.is_finite(losses) & ~all_finite(known)
        scales = tf.where(overflow, tf.constant(float("nan"), losses.dtype), scale)

        def unscale(gradients: Any, _: tf.Tensor) -> list[tf.Tensor]:
            return scale_each(gradients, tf.ones_like(losses) / scale)

        def rescale(gradients: Any, _: tf.Tensor) -> list[tf.Tensor]:
            return scale_each(gradients, scales)

        return self._replace(losses=losses)._through([unscale, *chain, rescale])

    def _through(self, chain: Sequence[GradientTransform]) -> ExampleGradients:
        known = [i for i, value in enumerate(self.values) if value is not None]
        gradients: list[Any] = [self.values[i] for i in known]
        for transform in chain:
            shapes = [g.shape for g in gradients]
            gradients = [tf.convert_to_tensor(g) for g in transform(gradients, self.losses)]
            returned = [g.shape for g in gradients]
            if len(returned) != len(shapes) or not all(
                a.is_compatible_with(b) for a, b in zip(returned, shapes, strict=True)
            ):
                name = getattr(transform, "__qualname__", type(transform).__name__)
                raise ValueError(f"{name} was given gradients of {shapes} and returned {returned}")
        values: list[Any] = [None] * len(self.values)
        for i, gradient in zip(known, gradients, strict=True):
            values[i] = gradient
        return self._replace(values=values)

    def sum(self) -> list[Any]:
        """The sum over the examples, for an optimizer.

        Returns:
            For each variable a tensor of its shape, `tf.IndexedSlices` for a table that was read by
            rows, or None.
        """
        return [
            None if value is None else _sum(value, rows, variable)
            for value, rows, variable in zip(self.values, self.rows, self.variables, strict=True)
        ]

    def mean(self) -> list[Any]:
        """As `sum`, divided by the number of examples."""
        return divide(self.sum(), tf.shape(self.losses)[0])


def example_gradients(
    losses_of: Callable[..., tf.Tensor], batch: Any, variables: Sequence[Any], model: Any = None
) -> ExampleGradients:
    """The gradient of each example: that of a loop over the examples, but computed at once.

    Each example is differentiated separately, so NaN or infinity in one does not affect the others.
    `tf.vectorized_map` differentiates all examples at once if it can; otherwise, for example for
    recurrent layers, this is a loop. Time and memory grow with B. Side effects of the function,
    such as updates of metrics, do not take place.

    Call it within a `tf.function`. In eager code TensorFlow makes a new graph for each call.

    Args:
        losses_of: called with a batch of one example, such as `losses_of(x[i:i + 1], y[i:i + 1])`;
            returns its loss, [1].
        batch: a tuple of arguments: nests of tensors or arrays [B, …], or None.
        variables: Keras or TensorFlow variables.
        model: a Keras model or layer whose `Embedding` layers are read by rows, as are look-ups
            through `gather_rows`. Its random layers draw different numbers for each example.

    Raises:
        ConfigError: `losses_of` does not return one value for one example.

    Example:
        >>> def losses_of(x, y):
        ...     return tf.square(model(x)[:, 0] - y)
        >>> gradients = example_gradients(losses_of, (x, y), model.trainable_variables, model)
        >>> clipped = gradients.through([clip_each(1.0)])
        >>> optimizer.apply(clipped.mean(), model.trainable_variables)
    """
    examples = _Examples(losses_of, batch, variables, model)
    # A separate graph without control dependencies runs only what the results need.
    signature = [tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in examples.tensors]
    run = tf.compat.v1.wrap_function(examples.differentiate, signature)
    return examples.joined(run(*examples.tensors))


class _Examples:
    """The examples of a batch, to be differentiated separately; see `example_gradients`."""

    def __init__(
        self,
        losses_of: Callable[..., tf.Tensor],
        batch: Any,
        variables: Sequence[Any],
        model: Any,
    ) -> None:
        self._losses_of, self._variables, self._model = losses_of, list(variables), model
        leaves = tf.nest.flatten(batch)
        self._nest = tf.nest.map_structure(lambda x: x is not None, batch)
        self.tensors = [tf.convert_to_tensor(x) for x in leaves if x is not None]
        self._known: list[int] = []
        self._tables: list[Any] = []

    def differentiate(self, *tensors: tf.Tensor) -> list[tf.Tensor]:
        """Losses [B], derivatives of `_known` variables, and rows of `_tables` with derivatives."""
        seeds = example_seeds(self._model, tf.shape(tensors[0])[0])
        elements = [tensors, [seed for _, seed in seeds]]

        def of_one(element: Any) -> list[tf.Tensor]:
            example, own = element
            pairs = [(generator, x) for (generator, _), x in zip(seeds, own, strict=True)]
            with drawing_from(pairs):
                return self._of_one([x[None] for x in example])

        try:
            if not _is_recurrent(self._model):
                with _quietly():
                    return tf.vectorized_map(of_one, elements, warn=False)
        except ConfigError:
            raise
        except Exception:
            pass  # not vectorizable, or an error in the function, which is raised again below
        first = of_one(tf.nest.map_structure(lambda x: x[0], elements))
        kinds = [tf.TensorSpec(x.shape, x.dtype) for x in first]
        return tf.map_fn(of_one, elements, fn_output_signature=kinds)

    def _of_one(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        parts = iter(tensors)
        batch = tf.nest.map_structure(lambda there: next(parts) if there else None, self._nest)
        sources = [tensorflow_variable(variable) for variable in self._variables]
        # The tape watches only these variables.
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            with reading_rows(tape, self._variables, self._model) as reads:
                losses = self._losses_of(*batch)
        if not losses.shape.is_compatible_with([1]) or losses.shape.rank is None:
            raise ConfigError(
                f"the loss of one example has the shape {losses.shape}; per-example gradients need "
                "[1]: one value for each example, not reduced over the batch"
            )
        gradients = tape.gradient(losses, [*sources, *(read.rows for read in reads)])
        direct, by_rows = gradients[: len(sources)], gradients[len(sources) :]
        self._known = [i for i, value in enumerate(direct) if value is not None]
        read = [(r, value) for r, value in zip(reads, by_rows, strict=True) if value is not None]
        self._tables = [r.table for r, _ in read]
        return [
            losses[0],
            *(tf.convert_to_tensor(direct[i]) for i in self._known),
            *(x for r, value in read for x in (tf.cast(r.ids, tf.int64), value)),
        ]

    def joined(self, results: Sequence[tf.Tensor]) -> ExampleGradients:
        """The results of `differentiate`, by variables."""
        losses, *values = results
        direct = dict(zip(self._known, values, strict=False))
        by_rows = values[len(self._known) :]
        pairs = []
        for i, variable in enumerate(self._variables):
            places = [k for k, table in enumerate(self._tables) if table is variable]
            reads = [(by_rows[2 * k], by_rows[2 * k + 1]) for k in places]
            pairs.append(_join(variable, direct.get(i), reads))
        return ExampleGradients(
            losses, self._variables, [value for value, _ in pairs], [rows for _, rows in pairs]
        )


def _join(
    variable: Any, direct: tf.Tensor | None, reads: Sequence[tuple[tf.Tensor, tf.Tensor]]
) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """Sum the derivatives of one variable; return them and their rows."""
    if not reads:
        return direct, None
    ids = tf.concat([rows for rows, _ in reads], axis=1)
    values = tf.concat([value for _, value in reads], axis=1)
    if direct is None:
        return _each_once(ids, values)
    # The table is also used as a whole, for example as an output layer.
    return direct + _sum_places(values, ids, tf.cast(variable.shape[0], tf.int64)), None


def _each_once(ids: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sum the repeated rows of each example; pad with row 0 and derivative 0."""
    order = tf.argsort(ids, axis=1)
    ids, values = (tf.gather(x, order, axis=1, batch_dims=1) for x in (ids, values))
    new = tf.concat([tf.ones_like(ids[:, :1]), tf.cast(ids[:, 1:] != ids[:, :-1], ids.dtype)], 1)
    place = tf.cumsum(new, axis=1) - 1
    count = tf.size(ids[0], ids.dtype)
    return _sum_places(values, place, count), _sum_places(ids * new, place, count)


def _sum_places(values: tf.Tensor, place: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """[B, L, …] to [B, count, …]: values[b, i] is added to row place[b, i]."""
    size = tf.shape(place, place.dtype)[0]
    place = place + count * tf.range(size)[:, None]
    added = tf.math.unsorted_segment_sum(values, place, size * count)
    return tf.reshape(added, tf.concat([[size, count], tf.shape(values, place.dtype)[2:]], axis=0))


def _is_recurrent(model: Any) -> bool:
    """Whether a model has loops, which TensorFlow cannot vectorize, but tries for long."""
    return any(isinstance(layer, keras.layers.RNN) for layer in all_layers(model))


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress TensorFlow's warnings about operations that it cannot vectorize."""
    logger = tf.get_logger()
    before = logger.level
    logger.setLevel("FATAL")
    try:
        yield
    finally:
        logger.setLevel(before)


def _sum(value: tf.Tensor, rows: tf.Tensor | None, variable: Any) -> Any:
    if rows is None:
        return tf.cast(tf.reduce_sum(value, axis=0), variable.dtype)
    shape = tf.constant(tuple(variable.shape), tf.int64)
    if rows.shape.rank == 1:
        value = tf.cast(tf.reduce_sum(value, axis=0), variable.dtype)
        return tf.IndexedSlices(value, rows, shape)
    value = tf.reshape(value, tf.concat([[-1], tf.shape(value)[2:]], axis=0))
    value = tf.cast(value, variable.dtype)
    return sum_repeated(tf.IndexedSlices(value, tf.reshape(rows, [-1]), shape))


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
        values = tf.concat([a.values, b.values], axis=0)
        indices = tf.concat([a.indices, b.indices], axis=0)
        return sum_repeated(tf.IndexedSlices(values, indices, a.dense_shape))
    return tf.convert_to_tensor(a) + tf.convert_to_tensor(b)


def sum_over_parts(part: Callable[[tf.Tensor], list[Any]], size: Any, chunk: Any) -> list[Any]:
    """part(0) + part(chunk) + part(2 · chunk) + … for all starts below `size`, in a loop.

    Args:
        part: returns a list of tensors, indexed slices (which stay sparse) and None, always of the
            same kinds in the same places.
        size, chunk: int, tensors or numbers.
    """
    first = part(tf.constant(0))
    slices = [x for x in first if isinstance(x, tf.IndexedSlices)]
    count = -(-size // chunk)

    def body(i: tf.Tensor, sums: list[Any], arrays: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        more = part(i * chunk)
        new = [x for x in more if isinstance(x, tf.IndexedSlices)]
        sums = [a + b for a, b in zip(sums, _tensors(more), strict=True)]
        return i + 1, sums, _write(arrays, i, new)

    arrays = [_array(x, count) for g in slices for x in (g.indices, g.values)]
    start = (tf.constant(1), _tensors(first), _write(arrays, 0, slices))
    _, sums, arrays = tf.while_loop(
        lambda i, sums, arrays: i < count, body, start, parallel_iterations=1
    )
    joined = [array.concat() for array in arrays]
    merged = [
        sum_repeated(tf.IndexedSlices(values, indices, g.dense_shape))
        for indices, values, g in zip(joined[::2], joined[1::2], slices, strict=True)
    ]
    totals = {True: iter(merged), False: iter(sums)}
    return [x if x is None else next(totals[isinstance(x, tf.IndexedSlices)]) for x in first]


def _tensors(values: list[Any]) -> list[tf.Tensor]:
    return [x for x in values if x is not None and not isinstance(x, tf.IndexedSlices)]


def _array(like: tf.Tensor, size: tf.Tensor) -> tf.TensorArray:
    """An array for pieces of different lengths."""
    shape = [None, *like.shape[1:]]
    return tf.TensorArray(like.dtype, size, element_shape=shape, infer_shape=False)


def _write(arrays: list[Any], i: Any, slices: list[tf.IndexedSlices]) -> list[Any]:
    pieces = [x for g in slices for x in (g.indices, g.values)]
    return [array.write(i, x) for array, x in zip(arrays, pieces, strict=True)]
