"""Checks that the loss of each example depends only on that example."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rnnparse._keras_compat import all_layers, global_seed_generator
from rnnparse._tensorflow import keras, tf
from rnnparse.errors import ConfigError

_MIXING = tuple(
    getattr(keras.layers, name)
    for name in ("MixUp", "CutMix")
    if hasattr(keras.layers, name)  # by version of Keras
)


def refuse_mixing_layers(model: Any) -> None:
    """Refuse a Keras model with a layer that makes examples depend on each other.

    These are batch normalization (unless it is frozen), layers that blend examples, Keras layers
    that work along axis 0, and stateful recurrent layers. `check_examples` also finds others.

    Raises:
        ConfigError: there is such a layer; the message names it and an alternative.
    """
    for layer in all_layers(model):
        reason = _reason(layer)
        if reason is not None:
            raise ConfigError(
                f"layer {layer.name!r} ({type(layer).__name__}) {reason}; "
                "per-example gradients are not defined for it"
            )


def _reason(layer: Any) -> str | None:
    if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
        return (
            "normalises by the statistics of the batch: use GroupNormalization or "
            "LayerNormalization, or freeze it (layer.trainable = False)"
        )
    if isinstance(layer, _MIXING):
        return "blends examples: apply it to the data beforehand"
    if isinstance(layer, keras.layers.RNN) and layer.stateful:
        return "keeps a state from batch to batch: use stateful=False"
    if type(layer).__module__.startswith("keras."):
        axis = getattr(layer, "axis", getattr(layer, "axes", None))
        if 0 in np.atleast_1d(np.array(axis, object)):
            return "works along axis 0, the axis of the examples: use another axis"
    return None


def check_examples(losses_of: Callable[[Any], tf.Tensor], batch: Any, model: Any) -> None:
    """Check by evaluation that the loss of each example depends only on that example.

    Replacing all other examples by copies of one must not change its loss. Random layers draw the
    same numbers each time. Afterwards all variables are restored: weights (which
    `SpectralNormalization` changes in a forward pass), layer states, metrics and random seeds.

    Args:
        losses_of: returns the losses [B] of a batch, as in training.
        batch: nested tensors or arrays [B, …], at least two different examples.
        model: the Keras model whose state is restored.

    Raises:
        ConfigError: a loss depends on other examples; or the losses change from call to call
            because a layer does not draw its random numbers from a Keras `SeedGenerator`, so that
            the check is not possible.
    """
    batch = _mapped(tf.convert_to_tensor, batch)
    states = _states(model)
    losses_of(batch)  # builds missing variables
    _restore(states)
    states = _states(model)

    def losses(batch: Any) -> np.ndarray:
        values = losses_of(batch).numpy()
        _restore(states)
        return values

    expected = losses(batch)
    # Allows for another order of additions.
    tolerance = 1e3 * float(np.finfo(expected.dtype).eps) * np.abs(expected).max()
    if not np.array_equal(expected, losses(batch), equal_nan=True):
        raise ConfigError(
            "the losses change from call to call, so the check is not possible; let random layers "
            "draw from a keras.random.SeedGenerator"
        )
    for i in (0, len(expected) - 1):
        among_copies = losses(_mapped(partial(_copies, i), batch))[i]
        if not np.isclose(among_copies, expected[i], rtol=0, atol=tolerance, equal_nan=True):
            raise ConfigError(
                f"the loss of example {i} depends on the other examples: it is {expected[i]:.6g}, "
                f"but {among_copies:.6g} among copies of itself; per-example gradients need losses "
                "that depend on one example each"
            )


def _copies(i: int, x: tf.Tensor) -> tf.Tensor:
    return tf.repeat(x[i : i + 1], len(x), axis=0)


def _mapped(function: Callable[[Any], Any], batch: Any) -> Any:
    return keras.tree.map_structure(lambda x: None if x is None else function(x), batch)


def _states(model: Any) -> list[tuple[Any, np.ndarray]]:
    variables = [*model.variables, *model.metrics_variables, global_seed_generator().state]
    different = {id(variable): variable for variable in variables}.values()
    return [(variable, variable.numpy()) for variable in different]


def _restore(states: list[tuple[Any, np.ndarray]]) -> None:
    for variable, value in states:
        variable.assign(value)
