"""The slots of an optimizer: its state for each variable, and how to move it to another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rnnparse._keras_compat import (
    SETTINGS_OUTSIDE_CONFIG,
    optimized_variables,
    optimizer_map,
    own_variables,
    position,
    rate_or_schedule,
    variable_scope,
)
from rnnparse._tensorflow import keras
from rnnparse.errors import ConfigError

MOVING_AVERAGE = "_model_variables_moving_average"
"""Name of the slots for the moving averages of the weights, with `use_ema`."""


def variable_path(variable: Any) -> str:
    """The path of a Keras variable, or the name of a TensorFlow variable."""
    path = getattr(variable, "path", None)
    return path if path is not None else str(variable.name).split(":")[0]


def variable_slots(optimizer: Any, variable: Any) -> dict[str, Any]:
    """The slots of an optimizer for one variable of the model.

    Args:
        optimizer: a built Keras optimizer; optimizers inside a wrapper (loss scale) are included.
        variable: a Keras or TensorFlow variable.

    Returns:
        The slots by the name of the optimizer's attribute that lists them, such as `_momentums`.

    Example:
        >>> sorted(variable_slots(keras_adam, model.weights[0]))
        ['_momentums', '_velocities']
    """
    own = {}
    place = position(optimizer, variable)
    if place is not None:
        own = {
            name: slots[place]
            for name, slots in _slot_lists(optimizer).items()
            if slots[place] is not None
        }
    for inner in _inner_optimizers(optimizer):
        own.update(variable_slots(inner, variable))
    return own


def rebuild_optimizer(optimizer: Any, variables: Sequence[Any]) -> Any:
    """A copy of an optimizer for other variables, which continues where that one was.

    A Keras optimizer works only on the variables that it was built with. The new one has slots for
    `variables` only. It keeps the settings, the number of steps, the learning rate or its schedule,
    and every slot (momentum, sums of squares, moving average …) of the remaining variables, which
    are matched by identity or else by path. Slots of added variables start afresh; their moving
    averages start at the current value.

    The number of steps is common to all variables. So an update rule that corrects for the first
    steps, such as Adam's, does not correct those of variables that are added later: Adam's first
    step on them is up to (1 − β₁) / √(1 − β₂) ≈ 3.2 learning rates long.

    Args:
        optimizer: any Keras optimizer, including `LossScaleOptimizer` and `MultiOptimizer` (with an
            `OptimizerMap`); it is not changed.
        variables: of the model, in the order of its `trainable_variables`.

    Returns:
        A new optimizer of the same class.

    Raises:
        ConfigError: the optimizer has state that is neither listed by variable nor an attribute, or
            two variables have the same path.

    Example:
        >>> model.layers[0].trainable = False
        >>> optimizer = rebuild_optimizer(optimizer, model.trainable_variables)
    """
    variables = list(variables)
    with variable_scope(optimizer):
        new = _clone(optimizer)
        new.build(variables)
    _transfer(optimizer, new)
    return new


def _inner_optimizers(optimizer: Any) -> list[Any]:
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return [optimizer.inner_optimizer]
    if isinstance(optimizer, keras.optimizers.MultiOptimizer):
        return list(optimizer.optimizers)
    return []


def _slot_lists(optimizer: Any) -> dict[str, list[Any]]:
    """Attributes that list one variable of the optimizer (or None) for each of the model's.

    The names of slots do not help: Adafactor names all of them after the last part of the path.
    """
    own = {id(variable) for variable in own_variables(optimizer)}
    count = len(optimized_variables(optimizer))
    return {
        name: value
        for name, value in vars(optimizer).items()
        if isinstance(value, list)
        and name != "_variables"
        and len(value) == count > 0
        and all(slot is None or id(slot) in own for slot in value)
    }


def _common_variables(optimizer: Any) -> dict[str, Any]:
    """Attributes that are variables: the number of steps, the learning rate …"""
    return {name: x for name, x in vars(optimizer).items() if isinstance(x, keras.Variable)}


def _clone(optimizer: Any) -> Any:
    """An optimizer with the same settings, not built."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return keras.optimizers.LossScaleOptimizer(
            _clone(optimizer.inner_optimizer),
            initial_scale=optimizer.initial_scale,
            dynamic_growth_steps=optimizer.dynamic_growth_steps,
            name=optimizer.name,
        )
    if isinstance(optimizer, keras.optimizers.MultiOptimizer):
        return _clone_multi(optimizer)
    config = optimizer.get_config()
    rate = rate_or_schedule(optimizer)
    # Schedules and functions have no state, and not every function can be serialized.
    config["learning_rate"] = float(rate.numpy()) if isinstance(rate, keras.Variable) else rate
    new = type(optimizer).from_config(config)
    for name in SETTINGS_OUTSIDE_CONFIG:
        if hasattr(optimizer, name):
            setattr(new, name, getattr(optimizer, name))
    return new


def _clone_multi(optimizer: Any) -> Any:
    old = optimizer_map(optimizer)
    if not isinstance(old, keras.optimizers.OptimizerMap):
        raise ConfigError(
            "a MultiOptimizer that chooses by a function cannot be rebuilt; use an OptimizerMap"
        )
    new = {id(inner): _clone(inner) for inner in optimizer.optimizers}
    return keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(
            new[id(old.default_optimizer)], {key: new[id(inner)] for key, inner in old.items()}
        ),
        loss_scale_factor=optimizer.loss_scale_factor,
        name=optimizer.name,
    )


def _transfer(old: Any, new: Any) -> None:
    """Copy the values of all variables of an optimizer that have a counterpart."""
    for one, other in zip(_inner_optimizers(old), _inner_optimizers(new), strict=True):
        _transfer(one, other)
    common, lists = _common_variables(old), _slot_lists(old)
    _check_complete(old, common, lists)
    for name, variable in common.items():
        if name in vars(new):
            vars(new)[name].assign(variable)
    variables = optimized_variables(new)
    places = _places(old, variables)
    for name, slots in _slot_lists(new).items():
        for variable, place, slot in zip(variables, places, slots, strict=True):
            if place is None:
                if name == MOVING_AVERAGE:
                    slot.assign(variable)
            elif slot is not None:
                slot.assign(lists[name][place])


def _check_complete(optimizer: Any, common: dict[str, Any], lists: dict[str, list[Any]]) -> None:
    known = {id(x) for x in common.values()} | {id(x) for slots in lists.values() for x in slots}
    lost = [x.path for x in own_variables(optimizer) if id(x) not in known]
    if lost:
        raise ConfigError(
            f"the optimizer {optimizer.name} cannot be rebuilt: {', '.join(lost)} is neither an "
            "attribute nor in a list with one entry per variable"
        )


def _places(old: Any, variables: Sequence[Any]) -> list[int | None]:
    """The position of each variable in the old optimizer, or None for added ones."""
    places = [position(old, variable) for variable in variables]
    taken = set(places)
    left = [
        (variable_path(variable), i)
        for i, variable in enumerate(optimized_variables(old))
        if i not in taken
    ]
    coming = [variable_path(v) for v, place in zip(variables, places, strict=True) if place is None]
    counts = Counter(path for path, _ in left)
    for path, count in Counter(coming).items():
        if path in counts and max(count, counts[path]) > 1:
            raise ConfigError(f"several variables have the path {path}: their slots are ambiguous")
    by_path = dict(left)
    for i, variable in enumerate(variables):
        if places[i] is None and variable_path(variable) in by_path:
            places[i] = _same_shape(old, by_path[variable_path(variable)], variable)
    return places


def _same_shape(old: Any, place: int, variable: Any) -> int:
    before = optimized_variables(old)[place]
    if tuple(before.shape) != tuple(variable.shape):
        raise ConfigError(
            f"{variable_path(variable)} had the shape {tuple(before.shape)} and has "
            f"{tuple(variable.shape)} now: its slots cannot be kept"
        )
    return place
