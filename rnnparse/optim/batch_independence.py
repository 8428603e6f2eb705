"""Whether the loss of an example depends on that example alone."""

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
    """Raise ConfigError where a layer of a Keras model makes examples depend on each other.

    Known are batch normalisation (unless it is frozen), layers that blend examples, Keras layers
    that work along axis 0, and recurrent layers that keep a state for each row of the batch. See
    `check_examples` for a test that knows no names.

    Raises:
        ConfigError: names the layer and says what may be used instead.
    """
    for layer in all_layers(model):
        reason = _reason(layer)
        if reason is not None:
            raise ConfigError(
                f"layer {layer.name!r} ({type(layer).__name__}) {reason}; "
                "the loss of an example has no gradient of its own then"
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
    """Check by running it that the loss of an example depends on that example alone.

    All other examples are replaced by copies of one, which must leave its loss as it is. Random
    layers draw the same numbers each time. All variables are put back: weights (which
    `SpectralNormalization` changes in a forward pass), states of layers, metrics, random seeds.

    Args:
        losses_of: gives the losses [B] of a batch, as in training.
        batch: nested tensors or arrays [B, …], at least two different examples.
        model: a Keras model, the state of which is held.

    Raises:
        ConfigError: a loss depends on other examples; or the losses change from call to call, so
            that it cannot be told (a layer draws numbers from elsewhere than a Keras
            `SeedGenerator`).
    """
    batch = _mapped(tf.convert_to_tensor, batch)
    states = _states(model)
    losses_of(batch)  # makes the missing variables
    _restore(states)
    states = _states(model)

    def losses(batch: Any) -> np.ndarray:
        found = losses_of(batch).numpy()
        _restore(states)
        return found

    expected = losses(batch)
    # What the order of additions may change.
    tolerance = 1e3 * float(np.finfo(expected.dtype).eps) * np.abs(expected).max()
    if not np.array_equal(expected, losses(batch), equal_nan=True):
        raise ConfigError(
            "the losses change from call to call, so that it cannot be told whether examples "
            "depend on each other; let random layers draw from a keras.random.SeedGenerator"
        )
    for i in (0, len(expected) - 1):
        found = losses(_mapped(partial(_copies, i), batch))[i]
        if not np.isclose(found, expected[i], rtol=0, atol=tolerance, equal_nan=True):
            raise ConfigError(
                f"the loss of example {i} depends on the other examples: it is {expected[i]:.6g}, "
                f"but {found:.6g} beside copies of itself; per-example gradients need a loss "
                "for each example alone"
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
