"""Freezing parts of a model: whole variables by name patterns, and single rows of variables."""

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
from rnnparse.optim.patterns import match_names
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
"""Attribute of variables and layers that `freeze` has frozen, so that `unfreeze` finds them."""


_TRAINERS: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()
"""For a model, others that train its variables under an optimiser of their own."""


def trained_by(model: Any, trainer: Any) -> None:
    """Let `freeze(model, …)` and `unfreeze(model, …)` reach a model that trains this one."""
    _TRAINERS.setdefault(model, WeakSet()).add(trainer)


def freeze(model: Any, patterns: Sequence[str]) -> list[str]:
    """Exclude variables of a Keras model from training, by name patterns.

    A pattern is compared with the path of each variable and every tail of it
    (`encoder/dense_1/kernel`, `dense_1/kernel`, `kernel`), and with those of the layers and nested
    models that hold it (`encoder/dense_1`, `dense_1`, `encoder`); see `match_names` for its form.

    Where all variables of a layer are frozen, its `trainable` becomes False too, so that
    BatchNormalization works with its stored statistics and does not change them. Calls add up;
    what was frozen by hand stays so.

    A compiled model's optimiser is replaced by one without slots for the frozen variables (see
    `rebuild_optimizer`), and `fit` goes on without `compile`, also from within a callback. Pass
    the model that is trained, not a part of it. A training step of your own in `tf.function` has
    to be traced anew. One that runs eagerly still differentiates through the frozen part, unless
    its tape watches the others alone: `tf.GradientTape(watch_accessed_variables=False)` and
    `tape.watch([v.value for v in model.trainable_variables])`.

    Files know of frozen layers, not of single frozen variables, and load an optimiser's slots
    only where their number is right. To go on from `save_weights`: build the model, freeze, build
    the optimiser on the trainable variables, `load_weights`. After `load_model`, where layers
    alone were frozen: set `model.trainable` to False and to True, so that it reaches all layers
    (Keras passes over a value that is there already), then freeze again.

    Args:
        model: any Keras model whose variables exist.
        patterns: S of them; a string alone is one.

    Returns:
        Paths of the variables that the patterns freeze, in the order of `model.weights`.

    Raises:
        ConfigError: a pattern that matches nothing, or a model without variables.

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

    Only what `freeze` has frozen is restored: statistics of BatchNormalization and what was
    frozen by hand stay as they are. A compiled model's optimiser gets fresh slots for these
    variables and keeps the others, see `rebuild_optimizer`.

    Args:
        model: a Keras model.
        patterns: as for `freeze`.

    Returns:
        Paths of the variables that are trained again, in the order of `model.weights`.

    Raises:
        ConfigError: a pattern that matches nothing.

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
    """Variables of a model that patterns mean, those that are never trained too."""
    weights = model.weights
    if not weights:
        raise ConfigError(f"the model {model.name} has no variables yet: build it first")
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
    """Let a compiled model train what is trainable now."""
    old = getattr(model, "optimizer", None)
    if old is None:
        return
    if old.built:
        new = model.optimizer = rebuild_optimizer(old, model.trainable_variables)
        # What `save` writes; it knows the optimiser without the loss scale that Keras adds.
        settings = compile_settings(model)
        same = settings["optimizer"] is old
        settings["optimizer"] = new if same else getattr(new, "inner_optimizer", new)
    if model.train_function is not None:
        model.make_train_function(force=True)


class FrozenRows:
    """Rows of variables that no step of an optimiser changes, whatever its rule.

    Their derivatives are taken out, and after the step these rows of the variable and of its
    slots are put back, so that momentum, weight decay or a constraint do not move them either;
    the moving average of such a row is the row itself. Works eagerly and within `tf.function`.

    Args:
        rows: pairs of a variable and its frozen rows, int [F] each; those of several pairs of a
            variable add up.

    Raises:
        ValueError: rows that are not whole numbers of one axis, or that do not exist.

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

    def apply(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """One step of an optimiser that leaves the frozen rows alone.

        Args:
            optimizer: a Keras optimiser.
            gradients: a tensor, `tf.IndexedSlices` or None for each variable.
            variables: those of the gradients.

        Raises:
            ConfigError: the optimiser keeps slots that are not divided as the variable is, such as
                Adafactor's.
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
        # A value that is read later than the step begins would make the step copy the variable.
        with tf.control_dependencies([values for _, _, values, _ in held]):
            optimizer.apply(filtered, variables)
        for target, rows, values, sparse in held:
            _put_back(target, rows, values, sparse)

    def filter(self, gradient: Any, variable: Any) -> Any:
        """A gradient with zeros for the frozen rows, of the same kind."""
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
            # So the frozen ones among these are enough; the same number for any gradient.
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
"""A variable, rows of it, their values, and whether its steps are sparse."""


def _moves_given_rows_alone(optimizer: Any, variable: Any) -> bool:
    """Whether a sparse step changes no other rows than those of the gradient, for certain."""
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
        # After a scatter, TensorFlow copies the whole variable at each reading, now and later.
        # One copy here is cheaper.
        present = tf.convert_to_tensor(target)
        target.assign(tf.tensor_scatter_nd_update(present, rows[:, None], values))


def _where(kept: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Zeros for the rows that are not kept, even where they are NaN."""
    mask = tf.reshape(kept, [-1] + [1] * (rows.shape.rank - 1))
    return tf.where(mask, rows, tf.zeros((), rows.dtype))


def _check_rows(variable: Any, rows: np.ndarray) -> np.ndarray:
    if not rows.size:
        return np.empty(0, np.int32)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"rows must be whole numbers of one axis, not {rows.dtype}, {rows.shape}")
    if not len(variable.shape) or rows.min() < 0 or rows.max() >= variable.shape[0]:
        raise ValueError(
            f"{variable_path(variable)} of shape {tuple(variable.shape)} has no such rows: "
            f"{rows.min()} to {rows.max()}"
        )
    return np.unique(rows).astype(np.int32)
