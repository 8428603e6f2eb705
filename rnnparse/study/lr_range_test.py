"""Learning-rate range tests: one short run in which the rate rises shows which rates help.

Reference:
    Smith (2017), Cyclical Learning Rates for Training Neural Networks, section 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from types import GeneratorType
from typing import Any

import numpy as np

from rnnparse.errors import ConfigError
from rnnparse.study.range_result import LEAST_UPDATES, RangeTest, analyse, has_grown

LOW, HIGH, UPDATES = 1e-5, 10.0, 200
"""The default sweep."""


class Sweep:
    """The rates of a range test, one per update, and the losses that result.

    Args:
        low, high: the first and the last rate; each rate is the same multiple of the one before.
        updates: the number of rates.

    Raises:
        ConfigError: the rates do not rise from a positive one, or there are too few.

    Example:
        >>> sweep = Sweep(1e-3, 10.0)
        >>> while not sweep.over:
        ...     sweep.add(update_with(sweep.rate))
        >>> sweep.result().interval
    """

    def __init__(self, low: float = LOW, high: float = HIGH, updates: int = UPDATES) -> None:
        if not (0 < low < high < math.inf):
            raise ConfigError(f"the rates must rise from a positive rate, not from {low} to {high}")
        if updates < LEAST_UPDATES:
            raise ConfigError(f"a range test takes at least {LEAST_UPDATES} updates")
        self.rates: np.ndarray = np.geomspace(low, high, updates)
        self.losses: list[float] = []

    @property
    def rate(self) -> float:
        """The rate of the next update."""
        return float(self.rates[len(self.losses)])

    @property
    def over(self) -> bool:
        """Whether all rates have been tried, or the loss has grown too much to come back."""
        return len(self.losses) == len(self.rates) or has_grown(np.array(self.losses))

    def add(self, loss: float) -> None:
        """Record the loss before the update with the current rate, and go to the next rate."""
        self.losses.append(float(loss))

    def result(self) -> RangeTest:
        """Analyse the losses so far.

        Raises:
            ConfigError: there are too few, or the first is not finite.
        """
        losses = np.array(self.losses)
        if not len(losses) or not math.isfinite(losses[0]):
            raise ConfigError("the loss is not finite before the first update")
        if len(losses) < LEAST_UPDATES and math.isfinite(losses[-1]):
            raise ConfigError(f"a range test takes at least {LEAST_UPDATES} updates")
        # The loss before an update shows the effect of the rate before it.
        return analyse(self.rates[: len(losses) - 1], losses)


def sweep(
    step: Callable[[float], float],
    *,
    low: float = LOW,
    high: float = HIGH,
    updates: int = UPDATES,
) -> RangeTest:
    """Run a range test on any function that takes an update with a given rate.

    Args:
        step: `step(rate)` takes one update and returns the loss before it.
        low, high: the first and the last rate.
        updates: the number of updates; the test ends early once the loss has grown too much.

    Raises:
        ConfigError: as for `Sweep`.

    Example:
        >>> x = 1.0
        >>> def step(rate):
        ...     global x
        ...     loss = x * x
        ...     x -= rate * 2 * x
        ...     return loss
        >>> sweep(step).limit            # for the parabola x² it is 2/2 = 1
        0.98...
    """
    run = Sweep(low, high, updates)
    while not run.over:
        run.add(step(run.rate))
    return run.result()


def range_test(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    low: float = LOW,
    high: float = HIGH,
    updates: int = UPDATES,
    **fit: Any,
) -> RangeTest:
    """Run a range test on a compiled Keras model, and restore the model afterwards.

    That includes weights, the state of the optimizer, random generators and metrics. Each update
    has its own rate, even if the model was compiled with `steps_per_execution`.

    Args:
        model: a compiled model; the rate of its optimizer must be a number, not a schedule.
        x, y: as for the model's `fit`: arrays, or a data set, which is repeated as needed. A
            generator should have as many batches as there are updates.
        low, high, updates: as for `sweep`.
        fit: other arguments of `fit`, such as `batch_size` or `callbacks`, but not `epochs`.

    Raises:
        ConfigError: the model is not compiled, its optimizer has a schedule, or its `train_step`
            returns no `loss`; or as for `Sweep`.

    Example:
        >>> model.compile(optimizer="adam", loss="mse")
        >>> result = range_test(model, x, y, batch_size=32)
        >>> model.optimizer.learning_rate = result.suggestion
        >>> model.fit(x, y, batch_size=32, epochs=10)
    """
    from rnnparse._tensorflow import keras

    _check_keras(model)
    if "epochs" in fit:
        raise ConfigError("a range test has no epochs; give the number of updates as updates")
    run = Sweep(low, high, updates)

    def begin(batch: int, logs: Any = None) -> None:
        model.optimizer.learning_rate = run.rate
        model.reset_metrics()  # otherwise the loss is the mean of all batches so far

    def end(batch: int, logs: Mapping[str, float]) -> None:
        run.add(_loss(logs))
        model.stop_training = run.over

    sweeping = keras.callbacks.LambdaCallback(on_train_batch_begin=begin, on_train_batch_end=end)
    callbacks = keras.tree.flatten(fit.pop("callbacks", None) or [])
    x = _build(model, x)
    with _restored(model):
        model.fit(x, y, epochs=updates, callbacks=[*callbacks, sweeping], **{"verbose": 0, **fit})
    return run.result()


def _check_keras(model: Any) -> None:
    from rnnparse._keras_compat import rate_or_schedule
    from rnnparse._tensorflow import keras

    if not getattr(model, "compiled", False):
        raise ConfigError("compile the model before the range test")
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # mixed precision
    if not isinstance(rate_or_schedule(optimizer), keras.Variable):
        raise ConfigError(
            "the optimizer's learning rate is a schedule; compile the model with a number"
        )


def _loss(logs: Mapping[str, float]) -> float:
    """The loss of an update: the number named `loss`, or the only one."""
    if "loss" in logs:
        return logs["loss"]
    if len(logs) == 1:
        return next(iter(logs.values()))
    names = ", ".join(logs)
    raise ConfigError(f"the model's train_step returns {names}; let it return the loss as loss")


def _build(model: Any, x: Any) -> Any:
    """Create the variables of the model and its optimizer now, so that they can be saved.

    Returns:
        The data, including the first batch.
    """
    if not model.built:
        inputs, x = _first_inputs(x)
        model(inputs)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return x


def _first_inputs(x: Any) -> tuple[Any, Any]:
    """The first inputs in arrays or a data set, and the data, still including them."""
    from rnnparse._tensorflow import keras, tf

    if isinstance(x, GeneratorType):
        batch = next(x, None)
        if batch is None:
            raise ConfigError("the data ended before the first update")
        generator = x
        x = (item for item in chain([batch], generator))  # Keras takes generators, not iterators
    elif isinstance(x, keras.utils.PyDataset):
        batch = x[0]
    elif isinstance(x, tf.data.Dataset):
        batch = next(iter(x))
    else:
        return keras.tree.map_structure(lambda array: array[:1], x), x
    return keras.utils.unpack_x_y_sample_weight(batch)[0], x


@contextmanager
def _restored(model: Any) -> Iterator[None]:
    """Make a model take single updates, and restore it afterwards."""
    variables = [*model.variables, *model.optimizer.variables]
    before = [variable.numpy().copy() for variable in variables]
    history, stop = getattr(model, "history", None), model.stop_training
    steps, function = model.steps_per_execution, model.train_function
    if steps != 1:
        model.steps_per_execution, model.train_function = 1, None
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
        model.reset_metrics()
        model.history, model.stop_training = history, stop
        if steps != 1:
            model.steps_per_execution, model.train_function = steps, function
