"""What this package needs of Keras that Keras 3 does not offer in public, each with the reason.

No other module uses names of Keras that begin with an underscore or live in `keras.src`, except for
those that a subclass inherits. An upgrade of Keras that breaks something breaks it here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from rnnparse._tensorflow import keras  # first, so that TensorFlow starts quietly

# isort: split
# Not exported: `reduce_weighted_values` applies a loss's reduction, mask and weights; a
# `LossFunctionWrapper` makes a `Loss` of a function, as `compile` does; and the class of models
# made from inputs and outputs is needed to subclass it. `global_seed_generator` is what layers
# without a seed draw from; `keras.random` has no access to it.
from keras.src.losses.loss import reduce_weighted_values
from keras.src.losses.losses import LossFunctionWrapper
from keras.src.models.functional import Functional
from keras.src.random.seed_generator import global_seed_generator

__all__ = [
    "Functional",
    "LossFunctionWrapper",
    "global_seed_generator",
    "reduce_weighted_values",
]

SETTINGS_OUTSIDE_CONFIG = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
"""Attributes of an optimiser that `exclude_from_weight_decay` sets and `get_config` leaves out."""


def tensorflow_variable(variable: Any) -> Any:
    """The `tf.Variable` of a Keras variable; any other variable as it is."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def variable_key(variable: Any) -> str:
    """A hashable key of a variable, the same for a Keras variable and the `tf.Variable` in it.

    The key that Keras's optimisers use. `ref()` would tell apart the variable and its replica.
    """
    return tensorflow_variable(variable)._unique_id


# -- layers and models -------------------------------------------------------------------------


def all_layers(model: Any, *, include_self: bool = True) -> list[Any]:
    """All layers and nested models, at any depth; none for None.

    `Model.layers` has only the outermost ones, and no layer that is an attribute of another.
    """
    return [] if model is None else list(model._flatten_layers(include_self=include_self))


def seed_generators(layer: Any) -> list[Any]:
    """The generators that a layer draws from: not an attribute of a fixed name in public."""
    return list(layer._seed_generators)


def set_layer_trainable(layer: Any, trainable: bool) -> None:
    """Set `trainable` of a layer alone: the public setter also sets it for all that is within."""
    layer._trainable = trainable


def takes_training(model: Any) -> bool:
    """Whether `call` has an argument `training`, however it is wrapped."""
    return bool(model._call_has_training_arg)


def compile_settings(model: Any) -> dict[str, Any]:
    """The arguments of `compile`, to be changed: `get_compile_config` serialises a copy."""
    return model._compile_config.config


def keras_mask(tensor: Any) -> Any:
    """The mask that a layer has attached to its output, or None: losses get it in this way."""
    return getattr(tensor, "_keras_mask", None)


# -- optimisers --------------------------------------------------------------------------------


def optimized_variables(optimizer: Any) -> list[Any]:
    """The variables that an optimiser was built with, which it does not list in public."""
    return optimizer._trainable_variables


def position(optimizer: Any, variable: Any) -> int | None:
    """The place of a variable among the `optimized_variables`, in which slots are listed, too."""
    return optimizer._trainable_variables_indices.get(optimizer._var_key(variable))


def own_variables(optimizer: Any) -> list[Any]:
    """The variables of an optimiser; `variables` has those of an optimiser within it, too."""
    return optimizer._variables


def rate_or_schedule(optimizer: Any) -> Any:
    """What the optimiser was given as its rate: `learning_rate` is the value at this step."""
    return optimizer._learning_rate


def optimizer_map(optimizer: Any) -> Any:
    """The map, or the function, by which a `MultiOptimizer` chooses; it has no accessor."""
    return optimizer._optimizer_map


def variable_scope(optimizer: Any) -> AbstractContextManager[Any]:
    """The scope of the distribution strategy that the optimiser's variables live in."""
    return optimizer._distribution_strategy.scope()
