"""Diagonal AdaGrad exactly as in Socher et al. (2013)."""

from __future__ import annotations

from typing import Any

from rnnparse._keras_compat import tensorflow_variable
from rnnparse._tensorflow import keras, tf
from rnnparse.optim.sparse_rows import sum_repeated


@keras.saving.register_keras_serializable("rnnparse")
class AdaGrad(keras.optimizers.Optimizer):
    """θ ← θ − α g / √(Σ g²), where 0/0 = 0.

    The sum is over all steps including this one and starts at 0, so the first step on a weight has
    the full length α. Keras's own Adagrad starts at 0.1 and adds 1e-7 under the root, and CoreNLP
    starts at 1 and adds 1e-3 to the root, so their learning rates are not comparable. With sparse
    gradients only the given rows change; indices may repeat.

    Args:
        learning_rate: α, a number or a Keras schedule.
        name: of the optimizer.
        kwargs: clipping and averaging, as for any Keras optimizer.

    Reference:
        Socher et al. (2013), equation 11; Duchi et al. (2011), Adaptive Subgradient Methods.

    Example:
        >>> model.compile(optimizer=AdaGrad(0.02), loss="mse")
    """

    def __init__(self, learning_rate: Any = 0.02, name: str = "adagrad", **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)

    def build(self, variables: list[Any]) -> None:
        """Create the sums of squares, one per weight."""
        if not self.built:
            super().build(variables)
            self._sums = self.add_optimizer_variables(variables, "sum_of_squares")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Take one step on one variable; called by `apply`."""
        sums = self._sums[self._get_variable_index(variable)].value
        # Depending on its version, Keras passes its own or TensorFlow's variable.
        weights = tensorflow_variable(variable)
        rate, gradient = (tf.cast(x, weights.dtype) for x in (learning_rate, gradient))
        if isinstance(gradient, tf.IndexedSlices):
            summed = sum_repeated(gradient)
            rows, values = summed.indices, summed.values
            sums.scatter_add(tf.IndexedSlices(tf.square(values), rows))
            step = tf.math.divide_no_nan(rate * values, tf.sqrt(tf.gather(sums, rows)))
            weights.scatter_sub(tf.IndexedSlices(step, rows))
        else:
            sums.assign_add(tf.square(gradient))
            weights.assign_sub(tf.math.divide_no_nan(rate * gradient, tf.sqrt(sums)))
