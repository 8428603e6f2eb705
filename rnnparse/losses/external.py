"""Losses computed outside TensorFlow, by NumPy, numba, a compiled library or a lattice tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rnnparse._keras_compat import reduce_weighted_values
from rnnparse._tensorflow import keras, tf
from rnnparse.losses.gradient_check import (
    ExternalFunction,
    check_external,
    evaluate,
    is_one_array,
    name_of,
)
from rnnparse.losses.numpy_function import call_numpy

__all__ = ["ExternalFunction", "ExternalLoss", "check_external", "external_loss"]


def external_loss(
    activations: Any, fn: ExternalFunction, *args: Any, per_example: bool | None = None
) -> tf.Tensor:
    """A loss that `fn` computes in NumPy, with its derivative with respect to the activations.

    TensorFlow propagates that derivative to the weights. `fn` is called once per forward pass, and
    the backward pass uses the derivative that it returned.

    The loss has one of two forms:

    - a scalar ℓ: the derivative is ∂ℓ/∂a, and is multiplied by the upstream gradient;
    - [B], a loss ℓ_i for each example, where B is the length of axis 0 of the activations and ℓ_i
      depends only on row i: row i of the derivative is ∂ℓ_i/∂a_i, and is multiplied by entry i of
      the upstream gradient. So sums, means and weighted means over examples and `tape.jacobian`
      are correct. `check_external` checks whether a function satisfies this.

    Works eagerly, in `tf.function`, in Keras's `fit` and under `tape.jacobian`, but not under XLA,
    which cannot call Python: use `jit_compile=False`, also in Keras's `compile`. Requesting a
    second derivative is an error, since `fn` does not return it. A saved graph cannot contain `fn`.

    Args:
        activations: float tensor of any shape, or a nest (list, tuple, dict) of float tensors of
            one dtype. A list of numbers is one tensor.
        fn: gets copies of the activations as arrays, in their dtype and nest, and then `args`.
            Returns the loss, and the derivative in the shape and nest of the activations; both
            are cast to the dtype of the activations.
        args: further arguments of `fn`, such as labels and lengths: tensors, arrays or nests of
            them. They have no derivative. They keep their dtype, and strings become bytes. Note
            that Keras passes labels to a loss *function* as floats: use `ExternalLoss` there.
        per_example: whether the loss is [B] or scalar. By default this depends on what `fn`
            returns, so a graph does not know the rank of the loss before it runs. Keras's
            `compile(loss=…)` needs to know it.

    Returns:
        The loss, scalar or [B], in the dtype of the activations.

    Raises:
        ValueError: the activations are not float tensors; a result of `fn` has the wrong form or
            shape or is not finite; or `per_example` is missing within a loss function of Keras.
        NotImplementedError: a second derivative is requested.
        Exception: whatever `fn` raises, with the name of `fn` in the message. A graph raises a
            `tf.errors.OpError` that is also an instance of that class and names the line.

    Reference:
        Bahl et al. (1986), Maximum mutual information estimation of hidden Markov model parameters
        for speech recognition: the derivative comes from forward and backward passes over a
        lattice. `docs/examples/hmm_mmi.py` does this.

    Example:
        >>> def squared(a, target):
        ...     return np.sum((a - target) ** 2, axis=1), 2 * (a - target)
        >>> x = tf.Variable([[1.0, 2.0], [0.0, 3.0]])
        >>> with tf.GradientTape() as tape:
        ...     loss = external_loss(x, squared, [[1.0, 0.0], [0.0, 0.0]])
        >>> print(loss.numpy(), tape.gradient(loss, x).numpy().tolist())
        [4. 9.] [[0.0, 4.0], [0.0, 6.0]]
    """
    activations, *others = map(_as_tensors, (activations, *args))
    structure = tf.nest.map_structure(lambda _: None, activations)
    tensors = _float_tensors(activations, fn)
    dtype, count = tensors[0].dtype, len(tensors)
    if per_example is None and "compile_loss" in tf.get_current_name_scope().split("/"):
        raise ValueError(
            f"Keras needs to know in advance whether {name_of(fn)} returns a loss for each "
            "example: call external_loss with per_example=True for losses [B], or with False"
        )

    def call(*arrays: np.ndarray) -> list[np.ndarray]:
        rest = tf.nest.pack_sequence_as(others, arrays[count:])
        loss, derivatives = evaluate(fn, arrays[:count], structure, rest, per_example)
        return [loss, *derivatives]

    @tf.custom_gradient
    def loss(*tensors: tf.Tensor) -> Any:
        value, *derivatives = call_numpy(
            call,
            [*tensors, *tf.nest.flatten(others)],
            [dtype] * (1 + count),
            name="external_loss_needs_jit_compile_False",  # XLA's message shows the name
        )
        if per_example is not None:
            value.set_shape(tensors[0].shape[:1] if per_example else ())
        for derivative, tensor in zip(derivatives, tensors, strict=True):
            derivative.set_shape(tensor.shape)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            return [
                _multiply_rows(upstream, _differentiable_once(fn, derivative, tensors))
                for derivative in derivatives
            ]

        return value, gradient

    return loss(*tensors)


class ExternalLoss(keras.losses.Loss):
    """A Keras loss from a function for `external_loss`, which gets the labels unchanged.

    Keras casts labels to floats before it calls a loss function. With this class integers stay
    integers, and strings become bytes. Compile with `jit_compile=False`.

    Args:
        fn: `fn(predictions, labels) -> (loss, derivative)`, in NumPy: a loss [B], and its
            derivative in the shape of the predictions; see `external_loss`.
        reduction, name, dtype: as for any Keras loss.

    Example:
        >>> def negated(scores, labels):
        ...     rows, derivative = np.arange(len(labels)), np.zeros_like(scores)
        ...     derivative[rows, labels] = -1
        ...     return -scores[rows, labels], derivative
        >>> loss = ExternalLoss(negated)
        >>> print(float(loss(np.array([1, 0]), np.array([[1.0, 2.0], [0.0, 3.0]]))))
        -1.0
    """

    def __init__(
        self,
        fn: ExternalFunction,
        reduction: Any = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name or name_of(fn).strip("<>"), reduction, dtype)
        self.fn = fn

    def __repr__(self) -> str:
        return f"ExternalLoss({name_of(self.fn)}, reduction={self.reduction!r})"

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        y_pred = tf.nest.map_structure(lambda x: tf.cast(x, self.dtype), y_pred)
        losses = external_loss(y_pred, self.fn, y_true, per_example=True)
        return reduce_weighted_values(
            losses, sample_weight=sample_weight, reduction=self.reduction, dtype=self.dtype
        )

    def get_config(self) -> dict[str, Any]:
        """As for any Keras loss."""
        return super().get_config() | {"fn": keras.saving.serialize_keras_object(self.fn)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ExternalLoss:
        """The inverse of `get_config`; `fn` must be registered with Keras."""
        fn = keras.saving.deserialize_keras_object(config["fn"])
        return cls(**{**config, "fn": fn})


def _as_tensors(x: Any) -> Any:
    """A tensor or a nest of tensors, converted outside the custom gradient to read variables."""
    if is_one_array(x):
        return tf.convert_to_tensor(x)
    return tf.nest.map_structure(tf.convert_to_tensor, x)


def _float_tensors(activations: Any, fn: ExternalFunction) -> list[tf.Tensor]:
    tensors = tf.nest.flatten(activations)
    dtypes = {x.dtype for x in tensors}
    if len(dtypes) != 1 or not tensors[0].dtype.is_floating:
        names = ", ".join(sorted(x.name for x in dtypes)) or "nothing"
        raise ValueError(
            f"the activations for {name_of(fn)} must be float tensors or arrays of one dtype, "
            f"not {names}"
        )
    return tensors


def _multiply_rows(upstream: tf.Tensor, derivative: tf.Tensor) -> tf.Tensor:
    """The derivative times a scalar, or each row of it times an entry of upstream [B]."""
    ones = tf.ones([tf.rank(derivative) - tf.rank(upstream)], tf.int32)
    product = tf.reshape(upstream, tf.concat([tf.shape(upstream), ones], 0)) * derivative
    return tf.ensure_shape(product, derivative.shape)


def _differentiable_once(
    fn: ExternalFunction, derivative: tf.Tensor, tensors: Sequence[tf.Tensor]
) -> tf.Tensor:
    """The derivative as a function of the activations, whose own derivative raises an error.

    Otherwise TensorFlow would treat it as a constant, and second derivatives would be 0 or None.
    """

    def refuse(*_: Any) -> Any:
        raise NotImplementedError(
            f"{name_of(fn)} returns a loss and its first derivative; external_loss has no other"
        )

    @tf.custom_gradient
    def once(derivative: tf.Tensor, *tensors: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            # Raise only when the result is needed: under a persistent tape a graph builds this
            # operation in advance.
            sources = [derivative, *tensors]
            second = call_numpy(refuse, [upstream], [x.dtype for x in sources], stateful=False)
            for value, source in zip(second, sources, strict=True):
                value.set_shape(source.shape)
            return second

        return tf.identity(derivative), gradient

    return once(derivative, *tensors)
