"""Records what the steps of an optimizer do: gradients, updates, dead rows, histograms.

Works for any training loop over named variables. Each epoch gives a record, a dict ready for JSON
(`null` for values that are not finite or do not exist):

    epoch          counted from 1
    updates        lists with one number per update: `gradient_norm`, `update_norm`, `weight_norm`
                   and `update_ratio` over all variables, and the values given to `after`
    groups         for each variable:
        size, rows         number of components, and of rows along the first axis
        gradient_norm      Euclidean norm of the gradient
        update_norm        ‖Δθ‖ of the step
        weight_norm        ‖θ‖ before the step
        update_ratio       ‖Δθ‖/‖θ‖
        zero_share         share of components whose derivative is exactly 0, including the rows
                           that a sparse gradient omits
                           (each of these five has `mean`, `min`, `median` and `max`)
        updates            the same five as lists with one number per update
        dead_rows          number of rows whose derivative is 0 in the whole epoch
        absent_rows        number of rows that the data do not use; dead_rows excludes them
        nonfinite_gradients  number of components of gradients that were NaN or infinite
        histogram          of the weights after the epoch: `edges`, `counts`, `nonfinite`
    activations    for each name given to `add_activations`: see `activation_statistics`

Numbers are rounded to six significant digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rnnparse.telemetry.statistics import (
    activation_statistics,
    as_array,
    flat,
    gradient_sums,
    histogram,
    json_ready,
    step_sums,
    sum_repeated,
    summary,
)

QUANTITIES = ("gradient_norm", "update_norm", "weight_norm", "update_ratio", "zero_share")
"""The quantities recorded for each variable and update."""


class RowGradient(NamedTuple):
    """A gradient that is zero except in some rows, like `tf.IndexedSlices`.

    Attributes:
        indices: int [A], the rows; if a row is repeated, its values are summed.
        values: [A, ...].
    """

    indices: np.ndarray
    values: np.ndarray


class Telemetry:
    """Observes the steps of an optimizer, epoch by epoch.

    Variables may be Keras or TensorFlow variables or NumPy arrays. Gradients may be tensors,
    arrays, `tf.IndexedSlices` or `RowGradient`. Nothing is changed. Each update costs one pass over
    the gradient and two over the weights.

    Args:
        lazy: whether the optimizer leaves rows without a gradient unchanged, and nothing else
            changes the weights within an epoch. Then only the rows of a sparse gradient are read.
            This is true for AdaGrad and SGD, but not with momentum or for Adam.
        present: for some variables, bool [R], the rows that the data use.
        epochs: number of earlier epochs.

    Attributes:
        records: one per epoch; see the description of this module.

    Example:
        >>> telemetry = Telemetry()
        >>> variables = {variable.path: variable for variable in model.trainable_variables}
        >>> for x, y in batches:
        ...     loss, gradients = differentiate(model, x, y)
        ...     telemetry.before(variables, dict(zip(variables, gradients)))
        ...     optimizer.apply(gradients, model.trainable_variables)
        ...     telemetry.after(variables, loss=loss)
        >>> telemetry.end_epoch()["groups"]["dense/kernel"]["update_ratio"]["median"]
        0.00134
    """

    def __init__(
        self,
        *,
        lazy: bool = False,
        present: Mapping[str, np.ndarray] | None = None,
        epochs: int = 0,
    ) -> None:
        self.lazy, self.present, self.epochs = lazy, dict(present or {}), epochs
        self.records: list[dict[str, Any]] = []
        self._begin()

    def __repr__(self) -> str:
        return f"Telemetry(records={len(self.records)}, lazy={self.lazy})"

    def _begin(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._variables: dict[str, Any] = {}
        self._updates: list[dict[str, float]] = []
        self._activations: dict[str, Any] = {}

    def before(self, variables: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
        """Observe the coming step.

        Args:
            variables: the variables that the step may change, by name.
            gradients: their gradients by name; None or no entry for a variable without one.

        Raises:
            ValueError: a gradient does not have the shape of its variable.
        """
        for name, variable in variables.items():
            if name not in self._groups:
                self._groups[name] = _Group(variable, self.lazy, self.present.get(name))
            self._groups[name].before(variable, gradients.get(name))

    def after(self, variables: Mapping[str, Any], **values: float) -> dict[str, dict[str, float]]:
        """Observe the step after it was taken.

        Args:
            variables: as given to `before`.
            values: other numbers of this update by name, such as its loss.

        Returns:
            The quantities of this update for each variable.

        Raises:
            ValueError: a variable does not have the shape of the one given to `before`.
        """
        squares = [self._groups[name].after(variable) for name, variable in variables.items()]
        gradients = [gradient for gradient, _, _ in squares if gradient is not None]
        norms = _norms(
            sum(gradients) if gradients else None,
            sum(step for _, step, _ in squares),
            sum(weights for _, _, weights in squares),
        )
        self._variables.update(variables)
        self._updates.append(norms | values)
        return {
            name: {quantity: values[-1] for quantity, values in self._groups[name].series.items()}
            for name in variables
        }

    def note(self, **values: float) -> None:
        """Add numbers to the last update, by name."""
        self._updates[-1].update(values)

    def add_activations(self, name: str, values: Any) -> None:
        """Add activations of n units, [..., n], to the record of this epoch."""
        self._activations[name] = activation_statistics(values)

    def end_epoch(self, **more: Any) -> dict[str, Any]:
        """Close the epoch, add `more` to its record, and return the record."""
        self.epochs += 1
        names = dict.fromkeys(name for update in self._updates for name in update)
        record = {
            "epoch": self.epochs,
            "updates": {
                name: [update.get(name, math.nan) for update in self._updates] for name in names
            },
            "groups": {
                name: group.record(self._variables[name]) for name, group in self._groups.items()
            },
            **({"activations": self._activations} if self._activations else {}),
            **more,
        }
        record = json_ready(record)
        self.records.append(record)
        self._begin()
        return record


class _Group:
    """One variable in one epoch."""

    def __init__(self, variable: Any, lazy: bool, present: np.ndarray | None) -> None:
        self.shape = tuple(variable.shape)
        self.size = math.prod(self.shape)
        self.count = self.shape[0] if self.shape else 1
        self.lazy, self.present = lazy, present
        self.touched = np.zeros(self.count, bool)
        self.differentiated = False
        self.nonfinite = 0
        self.series: dict[str, list[float]] = {name: [] for name in QUANTITIES}
        self._weights: float | None = None  # ‖θ‖² now, if it is kept up to date

    def before(self, variable: Any, gradient: Any) -> None:
        self._check_shape("variable", variable, self.shape)
        rows = None
        self._gradient: float | None = None
        self._zero_share = math.nan
        if gradient is not None:
            values = gradient
            if hasattr(gradient, "indices"):
                shape = (len(gradient.indices), *self.shape[1:])
                self._check_shape("gradient's rows", gradient.values, shape)
                rows, values = sum_repeated(gradient.indices, gradient.values)
            else:
                self._check_shape("gradient", gradient, self.shape)
            touched = np.empty(self.count if rows is None else len(rows), bool)
            self._gradient, others, nonfinite = gradient_sums(flat(values), touched)
            self.touched[slice(None) if rows is None else rows] |= touched
            self.nonfinite += nonfinite
            self.differentiated = True
            self._zero_share = 1 - others / self.size if self.size else math.nan
        self._rows = rows if self.lazy else None
        if self._rows is not None and self._weights is None:
            whole = flat(_values(variable))
            self._weights = step_sums(whole, whole)[1]
        self._before = flat(_values(variable, self._rows, keep=True))

    def after(self, variable: Any) -> tuple[float | None, float, float]:
        """Sums of squares of the gradient (or None), of the step, and of the weights before it."""
        self._check_shape("variable", variable, self.shape)
        step, old, new = step_sums(self._before, flat(_values(variable, self._rows)))
        del self._before
        weights = old
        if self._rows is not None and self._weights is not None:
            weights = self._weights
            self._weights += new - old
        else:
            self._weights = None
        for name, value in _norms(self._gradient, step, weights).items():
            self.series[name].append(value)
        self.series["zero_share"].append(self._zero_share)
        return self._gradient, step, weights

    def _check_shape(self, what: str, values: Any, shape: tuple[int, ...]) -> None:
        # The kernels would read and write beyond the arrays otherwise.
        actual = tuple(np.shape(values))
        if actual != shape:
            raise ValueError(f"the {what} must have the shape {shape}, not {actual}")

    def record(self, variable: Any) -> dict[str, Any]:
        present = np.ones(self.count, bool) if self.present is None else self.present
        dead = int((present & ~self.touched).sum()) if self.differentiated else None
        return {
            "size": self.size,
            "rows": self.count,
            **{name: summary(values) for name, values in self.series.items()},
            "updates": self.series,
            "dead_rows": dead,
            **({} if self.present is None else {"absent_rows": int((~present).sum())}),
            "nonfinite_gradients": self.nonfinite,
            "histogram": histogram(_values(variable)),
        }


def _norms(gradient: float | None, step: float, weights: float) -> dict[str, float]:
    """The four norms, from sums of squares."""
    update, weight = math.sqrt(step), math.sqrt(max(weights, 0.0))  # running sums may be < 0
    return {
        "gradient_norm": math.nan if gradient is None else math.sqrt(gradient),
        "update_norm": update,
        "weight_norm": weight,
        "update_ratio": update / weight if weight else math.nan,
    }


def _values(variable: Any, rows: np.ndarray | None = None, keep: bool = False) -> np.ndarray:
    """The values of a variable, or of some rows; with `keep`, later steps do not change them."""
    if isinstance(variable, np.ndarray):
        values = variable if rows is None else variable[rows]
        return values.copy() if keep and rows is None else values
    from rnnparse._keras_compat import tensorflow_variable
    from rnnparse._tensorflow import tf

    value = tensorflow_variable(variable)
    if not isinstance(value, tf.Variable):
        return as_array(value if rows is None else tf.gather(value, rows))
    # These take half the time of `read_value` and `tf.gather`, which matters for small variables.
    # The tensor is a snapshot: while it exists, the variable gets new memory.
    source = {"resource": value.handle, "dtype": value.dtype}
    if rows is None:
        return as_array(tf.raw_ops.ReadVariableOp(**source))
    return np.asarray(tf.raw_ops.ResourceGather(indices=rows, **source))
