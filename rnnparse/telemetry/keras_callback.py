"""Telemetry of any Keras model during `fit`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse._keras_compat import optimized_variables, tensorflow_variable
from rnnparse._tensorflow import keras, tf
from rnnparse.json_text import to_json
from rnnparse.telemetry.recorder import RowGradient, Telemetry


class TelemetryCallback(keras.callbacks.Callback):
    """Observes each step of the model's optimizer during `fit`.

    It records the gradients that `optimizer.apply` gets, before the optimizer clips them, but
    without the loss scale of `mixed_float16`. During observation the model is trained without XLA,
    which cannot call Python; apart from that, eagerly or as a graph, as it was compiled. If `fit`
    is interrupted (Ctrl-C), this remains so until the end of the next `fit` with such a callback,
    or until `compile` with another optimizer.

    Args:
        file: gets one JSON line per epoch; previous content is overwritten.
        activations: called after each epoch; returns activations [..., n] by name.

    Attributes:
        records: one per epoch, as `Telemetry.records`, with the epoch's `logs`.

    Example:
        >>> hidden = keras.Model(model.inputs, model.layers[0].output)
        >>> watch = TelemetryCallback(activations=lambda: {"hidden": hidden.predict(x[:100])})
        >>> model.fit(x, y, epochs=2, callbacks=[watch])
        >>> watch.records[-1]["activations"]["hidden"]["saturated"]
        0.031
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | None = None,
        activations: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self._file = None if file is None else Path(file)
        self._activations = activations
        self._telemetry = Telemetry()
        self._optimizer: Any = None

    def __repr__(self) -> str:
        file = None if self._file is None else str(self._file)
        return f"TelemetryCallback(records={len(self.records)}, file={file!r})"

    @property
    def records(self) -> list[dict[str, Any]]:
        """One per epoch."""
        return self._telemetry.records

    def on_train_begin(self, logs: Any = None) -> None:
        """Start to observe."""
        self._telemetry = Telemetry()
        if self._file is not None:
            self._file.write_text("", encoding="utf-8")
        # A callback whose `fit` was interrupted may have left its function here.
        left = vars(self.model.optimizer).get("apply")
        self._jit = getattr(left, "jit_compile", self.model.jit_compile)
        self.model.jit_compile = False
        self._attach()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Follow the model to another optimizer, which `freeze` and `unfreeze` give it."""
        if self.model.optimizer is not self._optimizer:
            self._attach()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Close the record of the epoch."""
        for name, values in (self._activations() if self._activations else {}).items():
            self._telemetry.add_activations(name, values)
        record = self._telemetry.end_epoch(logs=dict(logs or {}))
        if self._file is not None:
            with open(self._file, "a", encoding="utf-8") as stream:
                stream.write(to_json(record) + "\n")

    def on_train_end(self, logs: Any = None) -> None:
        """Restore the model."""
        self._detach()
        self.model.jit_compile = self._jit
        self.model.make_train_function(force=True)

    def _attach(self) -> None:
        self._detach()
        optimizer = self._optimizer = self.model.optimizer
        vars(optimizer).pop("apply", None)
        apply = optimizer.apply

        def observed(gradients: Sequence[Any], trainable_variables: Any = None) -> Any:
            variables = list(
                optimized_variables(optimizer)
                if trainable_variables is None
                else trainable_variables
            )
            before = [tf.convert_to_tensor(tensorflow_variable(variable)) for variable in variables]
            unscaled = _unscaled(gradients, optimizer)
            result = apply(gradients, trainable_variables)
            after = [tf.convert_to_tensor(tensorflow_variable(variable)) for variable in variables]
            self._observe(_names(variables), unscaled, before, after)
            return result

        observed.jit_compile = self._jit  # type: ignore[attr-defined]
        optimizer.apply = observed
        self.model.make_train_function(force=True)

    def _detach(self) -> None:
        if self._optimizer is not None:
            vars(self._optimizer).pop("apply", None)
            self._optimizer = None

    def _observe(
        self,
        names: list[str],
        gradients: Sequence[Any],
        before: Sequence[tf.Tensor],
        after: Sequence[tf.Tensor],
    ) -> None:
        """Pass a step to the telemetry; in a graph, when the graph runs."""
        parts = [_parts(gradient) for gradient in gradients]
        counts = [len(part) for part in parts]

        def observe(*arrays: np.ndarray) -> None:
            values = iter(arrays)
            pieces = [[next(values) for _ in range(count)] for count in counts]
            kinds: list[Callable[..., Any]] = [lambda: None, lambda dense: dense, RowGradient]
            named = {name: kinds[len(g)](*g) for name, g in zip(names, pieces, strict=True)}
            old = {name: next(values) for name in names}
            new = {name: next(values) for name in names}
            self._telemetry.before(old, named)
            self._telemetry.after(new)

        tensors = [tensor for part in parts for tensor in part]
        tf.numpy_function(observe, [*tensors, *before, *after], [])


def _names(variables: Sequence[Any]) -> list[str]:
    """The paths of variables, numbered if layers share a name."""
    paths = [variable.path for variable in variables]
    return [
        f"{path}:{paths[:i].count(path)}" if paths.count(path) > 1 else path
        for i, path in enumerate(paths)
    ]


def _unscaled(gradients: Sequence[Any], optimizer: Any) -> list[Any]:
    """The gradients of the unscaled loss."""
    one = tf.ones(())
    scale = optimizer.scale_loss(one)
    if scale is one:
        return list(gradients)
    # Indexed slices do not occur here: Keras cannot divide them by the scale.
    return [g if g is None else g / tf.cast(scale, g.dtype) for g in gradients]


def _parts(gradient: Any) -> list[tf.Tensor]:
    """The tensors of a gradient: none, the gradient itself, or indices and values."""
    if gradient is None:
        return []
    sparse = isinstance(gradient, tf.IndexedSlices)
    return [gradient.indices, gradient.values] if sparse else [gradient]


