"""What the steps of an optimiser do to the weights: gradients, updates, dead rows, histograms.

For any training loop over named variables; of this package it needs no parser. An epoch gives a
record, a plain dict ready for JSON (`null` stands for what is not finite or does not exist):

    epoch          from 1
    updates        lists with one number an update: `gradient_norm`, `update_norm`, `weight_norm`
                   and `update_ratio` over all variables, and what was given to `after`
    groups         for each variable:
        size, rows         components; rows along the first axis
        gradient_norm      Euclidean norm of the gradient
        update_norm        ‖Δθ‖, of what the step changed
        weight_norm        ‖θ‖ before the step
        update_ratio       ‖Δθ‖/‖θ‖
        zero_share         share of the components whose derivative is exactly 0; rows that a
                           sparse gradient leaves out count
                           (each of these five: `mean`, `min`, `median`, `max`)
        updates            the same five as lists with one number an update
        dead_rows          rows without a derivative other than 0 in the whole epoch
        absent_rows        of all rows those that the data do not have; they are not in dead_rows
        nonfinite_gradients  components of gradients that were infinite or no number, all updates
        histogram          of the weights after the epoch: `edges`, `counts`, `nonfinite`
    activations    for each name given to `add_activations`: see `measure_activations`

Numbers have six digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rnnparse.telemetry.statistics import (
    as_array,
    flat,
    gradient_sums,
    histogram,
    measure_activations,
    plain,
    step_sums,
    sum_repeated,
    summary,
)

QUANTITIES = ("gradient_norm", "update_norm", "weight_norm", "update_ratio", "zero_share")
"""What is measured of each variable at each update."""


class RowGradient(NamedTuple):
    """A gradient that is zero but for some rows; `tf.IndexedSlices` will do as well.

    Attributes:
        indices: int [A]; values of a row that occurs several times are summed up.
        values: [A, ...].
    """

    indices: np.ndarray
    values: np.ndarray


class Telemetry:
    """Observes the steps of an optimiser, epoch by epoch.

    Variables are Keras's, TensorFlow's or NumPy arrays; gradients are tensors, arrays, or rows
    (`tf.IndexedSlices`, `RowGradient`). Nothing is changed. An update costs a pass over the
    gradient and two over the weights.

    Args:
        lazy: the optimiser changes no row that has no gradient, and nothing else changes weights
            within an epoch. Under sparse gradients only their rows are then read. True of AdaGrad
            and plain gradient descent, not of momentum or Adam.
        present: for some variables, bool [R], the rows that the data have.
        epochs: how many have gone before.

    Attributes:
        records: one an epoch; see the head of this module.

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

    def _begin(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._variables: dict[str, Any] = {}
        self._updates: list[dict[str, float]] = []
        self._activations: dict[str, Any] = {}

    def before(self, variables: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
        """Observe a step that is about to be taken.

        Args:
            variables: those that the step may change, by name.
            gradients: of the same names; None, or no entry, where there is none.

        Raises:
            ValueError: a gradient that is not of the variable's shape.
        """
        for name, variable in variables.items():
            if name not in self._groups:
                self._groups[name] = _Group(variable, self.lazy, self.present.get(name))
            self._groups[name].before(variable, gradients.get(name))

    def after(self, variables: Mapping[str, Any], **values: float) -> dict[str, dict[str, float]]:
        """Observe the step that has been taken.

        Args:
            variables: as given to `before`.
            values: other numbers of this update, such as its loss, by their names.

        Returns:
            For each variable the quantities of this update.

        Raises:
            ValueError: a variable that has not the shape of the one given to `before`.
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
        """Add numbers to the last update, by their names."""
        self._updates[-1].update(values)

    def add_activations(self, name: str, values: Any) -> None:
        """Add activations, [..., n] for n units, to the record of this epoch."""
        self._activations[name] = measure_activations(values)

    def end_epoch(self, **more: Any) -> dict[str, Any]:
        """Close the epoch: its record, to which `more` is added; kept in `records`, too."""
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
        record = plain(record)
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
        self._weights: float | None = None  # ‖θ‖² at present, where it is kept up to date

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
        """Sums of squares of the gradient, if there is one, the step and the weights before it."""
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
        # The kernels that sum it up would read and write beyond the arrays.
        found = tuple(np.shape(values))
        if found != shape:
            raise ValueError(f"the {what} must have the shape {shape}, not {found}")

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
    update, weight = math.sqrt(step), math.sqrt(max(weights, 0.0))  # a running sum may fall short
    return {
        "gradient_norm": math.nan if gradient is None else math.sqrt(gradient),
        "update_norm": update,
        "weight_norm": weight,
        "update_ratio": update / weight if weight else math.nan,
    }


def _values(variable: Any, rows: np.ndarray | None = None, keep: bool = False) -> np.ndarray:
    """A variable's values, or some rows of them; later steps change them unless `keep`."""
    if isinstance(variable, np.ndarray):
        values = variable if rows is None else variable[rows]
        return values.copy() if keep and rows is None else values
    from rnnparse._keras_compat import tensorflow_variable
    from rnnparse._tensorflow import tf

    value = tensorflow_variable(variable)
    if not isinstance(value, tf.Variable):
        return as_array(value if rows is None else tf.gather(value, rows))
    # These take half the time of `read_value` and `tf.gather`, which count where variables are
    # small. A tensor is a snapshot: as long as it is held, the variable gets other memory.
    source = {"resource": value.handle, "dtype": value.dtype}
    if rows is None:
        return as_array(tf.raw_ops.ReadVariableOp(**source))
    return np.asarray(tf.raw_ops.ResourceGather(indices=rows, **source))
