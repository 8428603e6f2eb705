"""Least-squares fits of Keras models by Levenberg–Marquardt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rnnparse._tensorflow import keras
from rnnparse.errors import ConfigError
from rnnparse.optim.freezing import matched_variables
from rnnparse.optim.levenberg_marquardt.bounds import Bound
from rnnparse.optim.levenberg_marquardt.fit_data import FitData, check_model
from rnnparse.optim.levenberg_marquardt.fit_monitor import Callback, FitMonitor
from rnnparse.optim.levenberg_marquardt.minimizer import LevenbergMarquardt
from rnnparse.optim.levenberg_marquardt.results import MinimizeResult, StepResult, Tolerances
from rnnparse.optim.levenberg_marquardt.robust_loss import check_loss


def fit_least_squares(
    model: keras.Model,
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    batch_size: int | None = None,
    epochs: int = 100,
    loss: str = "linear",
    loss_scale: float = 1.0,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    validation_data: tuple[Any, ...] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    tolerances: Tolerances = Tolerances(),  # noqa: B008
    seed: int = 0,
    chunk: int = 64,
    **settings: Any,
) -> MinimizeResult:
    """Fit the trainable weights of a model: ½ Σ w_i ‖model(x_i) − y_i‖² + ½ Σ l θ².

    The model may be Sequential, functional or a subclass, and need be neither compiled nor built.
    It is called with `training=False`: dropout is off, and batch normalization keeps its moving
    statistics and learns only its scale and offset. The prediction for an example must not depend
    on the others in its batch. However the fit ends, also by Ctrl-C, the model keeps the weights of
    the last accepted step.

    With minibatches the residuals are scaled by √(N / batch), so that each batch estimates the
    whole objective. A step fits its batch as closely as μ permits. If a batch has fewer residuals
    than the model has parameters, set the minimum of `damping_range` to about the number of
    batches.

    Args:
        model: its weights change in place.
        x: [N, …], or a nest of such arrays, as for the model.
        y: targets in the shape of the predictions, [N, …]; [N] for predictions [N, 1]. The real
            and imaginary parts of complex targets are separate residuals.
        sample_weight: w ≥ 0, [N]; default 1. An example of weight 0 may contain NaN.
        batch_size: examples per step; None for all.
        epochs: passes over the data; with all examples in a batch, the maximum number of steps.
        loss: `huber`, `soft_l1` or `cauchy` instead of squares, so that outliers count for less, as
            defined by SciPy's `least_squares`; see `rnnparse.optim.robust`.
        loss_scale: the residual above which they count for less, as `f_scale` there.
        bounds: a lower and an upper bound (numbers or arrays that broadcast to the variable) by
            pattern of the variables' or layers' names; see `rnnparse.freeze`.
        validation_data: (x, y) or (x, y, sample_weight), whose loss is logged after each epoch.
        callbacks: Keras callbacks, or functions of an epoch (counted from 0) and its logs. The fit
            ends if a callback sets `model.stop_training` or a function returns True. The logs are
            `loss`, the objective after a step over N, averaged over the steps of an epoch, and
            `val_loss`, without the L2 term.
        progress: whether to show a bar on standard error once the fit takes more than 2 seconds.
        tolerances: when to stop; only used if a batch has all examples.
        seed: seed of the order of examples.
        chunk: number of residuals to differentiate at once, which limits the memory of the tape.
        settings: of `LevenbergMarquardt`: damping, damping_range, l2, acceleration, memory_limit.

    Returns:
        The reason why the fit ended, the cost on all examples, all steps, and all logs.

    Raises:
        ValueError: shapes do not match; numbers are not finite; the model has other losses
            (regularizers, `add_loss`) or constraints; or as for `LevenbergMarquardt.step`.
        ConfigError: the loss is unknown; a pattern matches nothing; or as for
            `LevenbergMarquardt.step`.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
        >>> x = np.linspace(-1, 1, 50)[:, None]
        >>> fit_least_squares(model, x, np.sin(3 * x), l2=1e-6).cost < 1e-3
        True
    """
    if epochs < 1 or (batch_size is not None and batch_size < 1):
        raise ValueError("epochs and batch_size must be at least 1")
    check_loss(loss, loss_scale)
    data = FitData(model, x, y, sample_weight, loss, loss_scale, chunk)
    held_out = _validation(model, validation_data, loss, loss_scale, chunk)
    check_model(model)
    optimizer = LevenbergMarquardt(
        model.trainable_variables, bounds=_bounds(model, bounds), **settings
    )
    size = min(batch_size or len(data), len(data))
    steps = -(-len(data) // size)
    history: list[StepResult] = []
    reason = ""
    with FitMonitor(model, callbacks, epochs, steps, progress) as monitor:
        for epoch in range(epochs):
            for place, rows in enumerate(_batches(len(data), size, epoch, seed)):
                monitor.before_step(epoch, place)
                fresh = steps > 1 or not history or bool(callbacks)  # these may change weights
                step = optimizer.step(data.residuals, data.jacobian, (rows,), fresh=fresh)
                history.append(step)
                monitor.after_step(place, history[-1].cost / len(data))
            logs = {"loss": float(np.mean([s.cost for s in history[-steps:]])) / len(data)}
            if held_out is not None:
                logs["val_loss"] = held_out.mean_loss()
            stop = monitor.after_epoch(epoch, logs)
            reason = tolerances.reached(history[-1]) if steps == 1 else ""
            if stop or reason:
                reason = reason or "callback"
                break
    cost = optimizer.cost(data.residuals, (np.arange(len(data)),))
    return MinimizeResult(reason or "steps", cost, history, monitor.logs)


def _batches(count: int, size: int, epoch: int, seed: int) -> Iterator[np.ndarray]:
    """Indices of the examples of each step, shuffled unless a batch has all examples."""
    order = np.arange(count)
    if size < count:
        np.random.default_rng([seed, epoch]).shuffle(order)
    for start in range(0, count, size):
        yield order[start : start + size]


def _validation(
    model: keras.Model, data: tuple[Any, ...] | None, loss: str, scale: float, chunk: int
) -> FitData | None:
    if data is None:
        return None
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        raise ValueError("validation_data must be a tuple (x, y) or (x, y, sample_weight)")
    try:
        weight = data[2] if len(data) == 3 else None
        return FitData(model, data[0], data[1], weight, loss, scale, chunk)
    except ValueError as error:
        raise ValueError(f"validation_data: {error}") from None


def _bounds(model: keras.Model, bounds: Mapping[str, tuple[Any, Any]] | None) -> list[Bound] | None:
    """The bounds of each trainable variable."""
    if bounds is None:
        return None
    of: dict[int, Bound] = {}
    for pattern, bound in bounds.items():
        for variable in matched_variables(model, [pattern]):
            if id(variable) in of:
                raise ConfigError(
                    f"bounds: two patterns match {variable.path}; make them more specific"
                )
            of[id(variable)] = bound
    return [of.get(id(variable)) for variable in model.trainable_variables]
