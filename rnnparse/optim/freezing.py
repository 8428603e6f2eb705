"""Freeze variables of a model by name patterns, and single rows of variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from rnnparse._keras_compat import (
    all_layers,
    compile_settings,
    set_layer_trainable,
    tensorflow_variable,
    variable_key,
)
from rnnparse._tensorflow import keras, tf
from rnnparse.errors import ConfigError
from rnnparse.optim.adagrad import AdaGrad
from rnnparse.optim.name_patterns import match_names
from rnnparse.optim.slots import (
    MOVING_AVERAGE,
    rebuild_optimizer,
    variable_path,
    variable_slots,
)

__all__ = [
    "FrozenRows",
    "freeze",
    "match_names",
    "rebuild_optimizer",
    "refresh_training",
    "trained_by",
    "unfreeze",
]

_MARK = "_frozen_by_pattern"
"""Attribute that marks the variables and layers that `freeze` froze, for `unfreeze`."""


_TRAINERS: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()
"""Other models that train the variables of a model with their own optimizer."""


def trained_by(model: Any, trainer: Any) -> None:
    """Let `freeze(model, …)` and `unfreeze(model, …)` also apply to a trainer of the model."""
    _TRAINERS.setdefault(model, WeakSet()).add(trainer)


def freeze(model: Any, patterns: Sequence[str]) -> list[str]:
    """Exclude from training the variables of a Keras model whose names match patterns.

    A pattern is matched against the path of each variable and every suffix of it
    (`encoder/dense_1/kernel`, `dense_1/kernel`, `kernel`), and against those of the layers and
    nested models that contain it (`encoder/dense_1`, `dense_1`, `encoder`). `match_names` describes
    the patterns.

    If all variables of a layer are frozen, its `trainable` becomes False as well, so that
    BatchNormalization uses its stored statistics and does not change them. Calls accumulate, and
    variables that you froze by hand stay frozen.

    The optimizer of a compiled model is replaced by one without slots for the frozen variables (see
    `rebuild_optimizer`). You need not call `compile` again, not even in a callback. Pass the model
    that is trained, not a part of it. Retrace your own training step in a `tf.function`. An eager
    step still differentiates through the frozen part, unless its tape watches only the other
    variables: `tf.GradientTape(watch_accessed_variables=False)` and
    `tape.watch([v.value for v in model.trainable_variables])`.

    Saved models record frozen layers, but not single frozen variables, and restore an optimizer's
    slots only if their number matches. To continue from `save_weights`, build the model, freeze,
    build the optimizer on the trainable variables, and call `load_weights`. After `load_model`, if
    only whole layers were frozen, set `model.trainable` to False and then to True, so that it
    reaches all layers (Keras ignores a value that is already set), and freeze again.

    Args:
        model: any Keras model whose variables exist.
        patterns: one pattern or several.

    Returns:
        Paths of the variables that the patterns freeze, in the order of `model.weights`.

    Raises:
        ConfigError: a pattern matches nothing, or the model has no variables.

    Example:
        >>> freeze(model, ["embedding", "dense_1/*"])
        ['sequential/embedding/embeddings', 'sequential/dense_1/kernel', 'sequential/dense_1/bias']
    """
    matched = matched_variables(model, patterns)
    frozen = [v for v in matched if v.trainable or getattr(v, _MARK, False)]
    for variable in frozen:
        variable.trainable = False
        setattr(variable, _MARK, True)
    touched = {id(variable) for variable in matched}
    for layer in all_layers(model, include_self=False):
        weights = layer.weights
        if (
            layer.trainable
            and any(id(v) in touched for v in weights)
            and not any(v.trainable for v in weights)
        ):
            _set_layer(layer, False)
    _refresh_all(model)
    return [variable_path(v) for v in frozen]


def unfreeze(model: Any, patterns: Sequence[str] = ("*",)) -> list[str]:
    """Undo `freeze` for some variables, or for all.

    Only variables that `freeze` froze are affected; statistics of BatchNormalization and variables
    that you froze by hand stay as they are. The optimizer of a compiled model gets fresh slots for
    the affected variables and keeps the others; see `rebuild_optimizer`.

    Args:
        model: a Keras model.
        patterns: as for `freeze`.

    Returns:
        Paths of the variables that are trained again, in the order of `model.weights`.

    Raises:
        ConfigError: a pattern matches nothing.

    Example:
        >>> unfreeze(model, ["dense_1"])
        ['sequential/dense_1/kernel', 'sequential/dense_1/bias']
    """
    matched = matched_variables(model, patterns)
    restored = [v for v in matched if getattr(v, _MARK, False)]
    for variable in restored:
        variable.trainable = True
        delattr(variable, _MARK)
    touched = {id(variable) for variable in matched}
    for layer in all_layers(model, include_self=False):
        weights = layer.weights
        if (
            getattr(layer, _MARK, False)
            and any(id(v) in touched for v in weights)
            and (any(v.trainable for v in weights) or not any(hasattr(v, _MARK) for v in weights))
        ):
            _set_layer(layer, True)
    _refresh_all(model)
    return [variable_path(v) for v in restored]


def _set_layer(layer: Any, trainable: bool) -> None:
    set_layer_trainable(layer, trainable)
    setattr(layer, _MARK, not trainable)


def matched_variables(model: Any, patterns: Sequence[str]) -> list[Any]:
    """Variables of a model that match patterns, including those that are never trained."""
    weights = model.weights
    if not weights:
        raise ConfigError(f"the model {model.name} has no variables yet; build it first")
    place = {id(variable): i for i, variable in enumerate(weights)}
    aliases = []
    for layer in all_layers(model, include_self=False):
        names = dict.fromkeys([layer.name, *_tails(layer.path or layer.name)])
        aliases += [(name, place[id(v)]) for name in names for v in layer.weights]
    aliases += [(tail, i) for i, v in enumerate(weights) for tail in _tails(variable_path(v))]
    hits = match_names(patterns, [name for name, _ in aliases], "variable or layer")
    chosen = {i for (_, i), hit in zip(aliases, hits, strict=True) if hit}
    return [weights[i] for i in sorted(chosen)]


def _tails(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[i:]) for i in range(len(parts)))


def _refresh_all(model: Any) -> None:
    for one in (model, *_TRAINERS.get(model, ())):
        refresh_training(one)


def refresh_training(model: Any) -> None:
    """Update the optimizer and the training step of a compiled model after freezing."""
    old = getattr(model, "optimizer", None)
    if old is None:
        return
    if old.built:
        new = model.optimizer = rebuild_optimizer(old, model.trainable_variables)
        # `save` writes these settings; they have the optimizer without Keras's loss scaling.
        settings = compile_settings(model)
        same = settings["optimizer"] is old
        settings["optimizer"] = new if same else getattr(new, "inner_optimizer", new)
    if model.train_function is not None:
        model.make_train_function(force=True)


class FrozenRows:
    """Rows of variables that no step changes, under any optimizer.

    Their gradients are set to 0, and after the step the rows of the variable and of its slots are
    restored, so that momentum, weight decay or a constraint do not change them either. The moving
    average of a frozen row is the row itself. Works eagerly and within `tf.function`.

    Args:
        rows: pairs of a variable and its frozen rows, int [F]. Several pairs of the same variable
            are combined.

    Raises:
        ValueError: the rows are not integers on one axis, or do not exist.

    Example:
        >>> frozen = FrozenRows([(embedding.embeddings, [0, 1])])
        >>> gradients = tape.gradient(optimizer.scale_loss(loss), model.trainable_variables)
        >>> frozen.apply(optimizer, gradients, model.trainable_variables)
    """

    def __init__(self, rows: Iterable[tuple[Any, Any]]) -> None:
        self._rows: dict[str, np.ndarray] = {}
        self._kept: dict[str, np.ndarray] = {}
        for variable, frozen in rows:
            index = _check_rows(variable, np.asarray(frozen))
            if len(index):
                key = variable_key(variable)
                kept = self._kept.setdefault(key, np.ones(variable.shape[0], bool))
                kept[index] = False
                self._rows[key] = np.flatnonzero(~kept).astype(np.int32)

    def __repr__(self) -> str:
        rows = sum(map(len, self._rows.values()))
        return f"FrozenRows(rows={rows}, variables={len(self._rows)})"

    def apply(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Take a step of an optimizer that does not change the frozen rows.

        Args:
            optimizer: a Keras optimizer.
            gradients: a tensor, `tf.IndexedSlices` or None for each variable.
            variables: the variables of the gradients.

        Raises:
            ConfigError: the optimizer has slots of other shapes than their variables, as Adafactor
                does.
        """
        variables = list(variables)
        if not optimizer.built:
            optimizer.build(variables)
        held = [
            row
            for gradient, variable in zip(gradients, variables, strict=True)
            for row in self._hold(optimizer, gradient, variable)
        ]
        filtered = [self.filter(g, v) for g, v in zip(gradients, variables, strict=True)]
        # Reading a value after the step began would make the step copy the variable.
        with tf.control_dependencies([values for _, _, values, _ in held]):
            optimizer.apply(filtered, variables)
        for target, rows, values, sparse in held:
            _put_back(target, rows, values, sparse)

    def filter(self, gradient: Any, variable: Any) -> Any:
        """The gradient with zeros for the frozen rows, dense or sparse as before."""
        kept = self._kept.get(variable_key(variable))
        if kept is None or gradient is None:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            chosen = tf.gather(tf.constant(kept), gradient.indices)
            values = _where(chosen, gradient.values)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return _where(tf.constant(kept), tf.convert_to_tensor(gradient))

    def _hold(self, optimizer: Any, gradient: Any, variable: Any) -> list[_Held]:
        """The frozen rows of a variable and of its slots."""
        weights, key = tensorflow_variable(variable), variable_key(variable)
        if key not in self._rows:
            return []
        rows = tf.constant(self._rows[key])
        sparse = isinstance(gradient, tf.IndexedSlices)
        if sparse and _moves_given_rows_alone(optimizer, variable):
            # Then the frozen rows of the gradient are enough; others are replaced by rows[0].
            free = tf.gather(tf.constant(self._kept[key]), gradient.indices)
            rows = tf.where(free, tf.cast(rows[0], gradient.indices.dtype), gradient.indices)
        present = _take(weights, rows, sparse)
        held = [(weights, rows, present, sparse)]
        for name, slot in variable_slots(optimizer, variable).items():
            if slot.shape == variable.shape:
                target = tensorflow_variable(slot)
                values = present if name == MOVING_AVERAGE else _take(target, rows, sparse)
                held.append((target, rows, values, sparse))
            elif slot.shape:
                raise ConfigError(
                    f"rows of {variable_path(variable)} cannot be frozen with {optimizer.name}: "
                    f"its slot {slot.path} has the shape {tuple(slot.shape)}"
                )
        return held


_Held = tuple[Any, tf.Tensor, tf.Tensor, bool]
"""A variable, some of its rows, their values, and whether its steps are sparse."""


def _moves_given_rows_alone(optimizer: Any, variable: Any) -> bool:
    """Whether a sparse step certainly changes only the rows of the gradient."""
    kind = type(optimizer)
    local = kind is AdaGrad or (kind is keras.optimizers.SGD and not optimizer.momentum)
    everywhere = (
        optimizer.weight_decay
        or optimizer.use_ema
        or optimizer.gradient_accumulation_steps
        or getattr(variable, "constraint", None)
    )
    return local and not everywhere


def _take(target: Any, rows: tf.Tensor, sparse: bool) -> tf.Tensor:
    return tf.gather(target if sparse else tf.convert_to_tensor(target), rows)


def _put_back(target: Any, rows: tf.Tensor, values: tf.Tensor, sparse: bool) -> None:
    if sparse:
        target.scatter_update(tf.IndexedSlices(values, rows))
    else:
        # After a scatter, TensorFlow copies the whole variable whenever it is read. One copy here
        # is cheaper.
        present = tf.convert_to_tensor(target)
        target.assign(tf.tensor_scatter_nd_update(present, rows[:, None], values))


def _where(kept: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Replace rows that are not kept by zeros, even if they are NaN."""
    mask = tf.reshape(kept, [-1] + [1] * (rows.shape.rank - 1))
    return tf.where(mask, rows, tf.zeros((), rows.dtype))


def _check_rows(variable: Any, rows: np.ndarray) -> np.ndarray:
    if not rows.size:
        return np.empty(0, np.int32)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"rows must be integers on one axis, not {rows.dtype}, {rows.shape}")
    if not len(variable.shape) or rows.min() < 0 or rows.max() >= variable.shape[0]:
        raise ValueError(
            f"{variable_path(variable)} of shape {tuple(variable.shape)} has no such rows: "
            f"{rows.min()} to {rows.max()}"
        )
    return np.unique(rows).astype(np.int32)
