"""Transforms of per-example gradients, applied before the gradients are summed.

A transform is a function `(gradients, losses) -> gradients`:

    gradients   a list of tensors [B, *shape], one for each variable that the losses depend on, in
                the order of the variables. Entry i of the first axis belongs to example i. For a
                table that was read by rows (an embedding), the tensor is [B, U, *row shape] and
                has only the rows that the examples read, each once. All other rows have the
                derivative 0, so norms are those of the whole gradient.
    losses      [B].

It returns the same number of tensors, of the same shapes. It gets the examples of one chunk at a
time and must treat each example separately, so that the result does not depend on the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rnnparse._tensorflow import keras, tf

Gradients = Sequence[tf.Tensor]
GradientTransform = Callable[[Gradients, tf.Tensor], Gradients]
"""The type of a transformation of per-example gradients: (gradients, losses) → gradients."""


def example_norms(gradients: Gradients) -> tf.Tensor:
    """The Euclidean norm of each example's gradient over all variables: [B].

    Example:
        >>> example_norms([tf.constant([[3.0], [0.0]]), tf.constant([[4.0], [2.0]])]).numpy()
        array([5., 2.], dtype=float32)
    """
    squares = [
        tf.reduce_sum(tf.square(tf.reshape(g, [tf.shape(g)[0], -1])), axis=1) for g in gradients
    ]
    return tf.sqrt(tf.add_n([tf.cast(s, squares[0].dtype) for s in squares]))


def _finite_norms(gradients: Gradients) -> tf.Tensor:
    """As `example_norms`, but NaN instead of infinity, which would scale numbers to 0."""
    norms = example_norms(gradients)
    return tf.where(tf.math.is_inf(norms), tf.constant(float("nan"), norms.dtype), norms)


def scale_each(gradients: Gradients, factors: tf.Tensor) -> list[tf.Tensor]:
    """Multiply the gradient of example i by factors[i], in all variables.

    The factor 0 always gives 0, even for NaN and infinity, and so drops the example.

    Args:
        gradients: tensors [B, …].
        factors: [B], numbers or bool.
    """
    return [
        tf.math.multiply_no_nan(
            g, tf.reshape(tf.cast(factors, g.dtype), [-1] + [1] * (g.shape.rank - 1))
        )
        for g in gradients
    ]


class _Saved:
    """The methods by which Keras saves a transform with a model."""

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The inverse of `get_config`."""
        return cls(**config)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


@keras.saving.register_keras_serializable("rnnparse")
class clip_each(_Saved):
    """Scale down each example's gradient to at most this norm; see `example_norms`.

    A gradient without a finite norm becomes NaN. Put `drop_nonfinite()` first to drop such
    examples.

    Args:
        norm: > 0.

    Raises:
        ValueError: `norm` is not positive.

    Reference:
        Pascanu et al. (2013), On the difficulty of training recurrent neural networks, algorithm 1,
        here for each example; Abadi et al. (2016), Deep Learning with Differential Privacy.

    Example:
        >>> model.compile("sgd", "mse", per_example=[clip_each(1.0)])
    """

    def __init__(self, norm: float) -> None:
        if not norm > 0:
            raise ValueError(f"the norm must be positive, not {norm}")
        self._norm = float(norm)

    def __call__(self, gradients: Gradients, losses: tf.Tensor) -> list[tf.Tensor]:
        norms = _finite_norms(gradients)
        # For a gradient of 0 the factor does not matter.
        factors = tf.math.divide_no_nan(tf.constant(self._norm, norms.dtype), norms)
        return scale_each(gradients, tf.minimum(factors, 1))

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"norm": self._norm}


@keras.saving.register_keras_serializable("rnnparse")
class normalize_each(_Saved):
    """Scale each example's gradient to norm 1; a gradient of 0 stays 0.

    A gradient without a finite norm becomes NaN. Put `drop_nonfinite()` first to drop such
    examples.

    Example:
        >>> model.compile("sgd", "mse", per_example=[normalize_each()])
    """

    def __call__(self, gradients: Gradients, losses: tf.Tensor) -> list[tf.Tensor]:
        norms = _finite_norms(gradients)
        return scale_each(gradients, tf.math.divide_no_nan(tf.ones_like(norms), norms))


@keras.saving.register_keras_serializable("rnnparse")
class drop_nonfinite(_Saved):
    """Drop examples whose loss or gradient has NaN or infinity: their gradient becomes 0.

    Put it first, before other transforms. Under `mixed_float16`, a gradient that is not finite
    although the loss is finite usually means that the loss scale is too high. Keras then skips the
    whole step and lowers the scale.

    Example:
        >>> model.compile("sgd", "mse", per_example=[drop_nonfinite(), clip_each(1.0)])
    """

    def __call__(self, gradients: Gradients, losses: tf.Tensor) -> list[tf.Tensor]:
        return scale_each(gradients, all_finite([losses, *gradients]))


def all_finite(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Whether all values of an example are finite: bool [B] for tensors [B, …]."""
    finite = [
        tf.reduce_all(tf.math.is_finite(tf.reshape(x, [tf.shape(x)[0], -1])), axis=1)
        for x in values
    ]
    return tf.reduce_all(tf.stack(finite), axis=0)


@keras.saving.register_keras_serializable("rnnparse")
class sign(_Saved):
    """Replace each component of each example's gradient by its sign: −1, 0 or 1.

    The sum over the examples is then a majority vote.

    Reference:
        Bernstein et al. (2018), signSGD: Compressed Optimisation for Non-Convex Problems.
    """

    def __call__(self, gradients: Gradients, losses: tf.Tensor) -> list[tf.Tensor]:
        return [tf.sign(g) for g in gradients]


@keras.saving.register_keras_serializable("rnnparse")
class weight_each(_Saved):
    """Multiply each example's gradient by a weight.

    Args:
        weights: [B], by position in the batch; or a function that gets the losses [B] of the
            *whole* batch, not of a chunk, and returns [B]. It is not differentiated.

    Example:
        Train on the examples with the highest losses only:

        >>> def hardest(losses):
        ...     return tf.cast(losses >= tf.sort(losses)[-8], losses.dtype)
        >>> model.compile("sgd", "mse", per_example=[weight_each(hardest)])
    """

    def __init__(self, weights: Any) -> None:
        self._weights = weights

    def of(self, losses: tf.Tensor) -> tf.Tensor:
        """The weights [B] for a batch with these losses."""
        weights = self._weights(losses) if callable(self._weights) else self._weights
        weights = tf.convert_to_tensor(weights, losses.dtype)
        tf.debugging.assert_equal(
            tf.shape(weights), tf.shape(losses), "weight_each needs one weight for each example"
        )
        return tf.stop_gradient(weights)

    def __call__(self, gradients: Gradients, losses: tf.Tensor) -> list[tf.Tensor]:
        return scale_each(gradients, self.of(losses))

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        weights = self._weights if callable(self._weights) else np.asarray(self._weights)
        return {"weights": keras.saving.serialize_keras_object(weights)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> weight_each:
        """The inverse of `get_config`."""
        return cls(keras.saving.deserialize_keras_object(config["weights"]))

    def __repr__(self) -> str:
        return f"weight_each({getattr(self._weights, '__name__', type(self._weights).__name__)})"


def batch_weights(chain: Sequence[GradientTransform], losses: tf.Tensor) -> list[tf.Tensor | None]:
    """The weights [B] of each `weight_each`, and None for other transforms; for `cut_chain`.

    Args:
        chain: transforms.
        losses: [B], of the whole batch.
    """
    return [m.of(losses) if isinstance(m, weight_each) else None for m in chain]


def cut_chain(
    chain: Sequence[GradientTransform], weights: Sequence[tf.Tensor | None], start: Any, stop: Any
) -> list[GradientTransform]:
    """The chain for examples start … stop - 1 of a batch with these `batch_weights`."""
    return [
        m if w is None else weight_each(w[start:stop]) for m, w in zip(chain, weights, strict=True)
    ]
