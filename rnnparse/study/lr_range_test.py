"""Learning-rate range tests: one short run in which the rate rises, to see where it helps.

Reference:
    Smith (2017), Cyclical Learning Rates for Training Neural Networks, section 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import GeneratorType
from typing import Any

import numpy as np

from rnnparse.errors import ConfigError
from rnnparse.study.range_result import LEAST_UPDATES, RangeTest, analyse, has_grown

LOW, HIGH, UPDATES = 1e-5, 10.0, 200
"""The usual sweep."""


class Sweep:
    """The rates of a range test, one an update, and the losses that come of them.

    Args:
        low, high: the first rate and the last; they rise by equal factors.
        updates: how many rates.

    Raises:
        ConfigError: the rates do not rise from a positive one, or the updates are too few.

    Example:
        >>> sweep = Sweep(1e-3, 10.0)
        >>> while not sweep.over:
        ...     sweep.add(update_with(sweep.rate))
        >>> sweep.result().interval
    """

    def __init__(self, low: float = LOW, high: float = HIGH, updates: int = UPDATES) -> None:
        if not (0 < low < high < math.inf):
            raise ConfigError(f"the rates must rise from a positive one, not from {low} to {high}")
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
        """Whether all rates have been tried, or the loss has grown too far to come back."""
        return len(self.losses) == len(self.rates) or has_grown(np.array(self.losses))

    def add(self, loss: float) -> None:
        """Note the loss before the update with the present rate, and go on to the next rate."""
        self.losses.append(float(loss))

    def result(self) -> RangeTest:
        """What the losses so far tell.

        Raises:
            ConfigError: there are too few to tell anything, or the first is not finite.
        """
        losses = np.array(self.losses)
        if not len(losses) or not math.isfinite(losses[0]):
            raise ConfigError("the loss is no finite number before the first update")
        if len(losses) < LEAST_UPDATES and math.isfinite(losses[-1]):
            raise ConfigError(f"a range test takes at least {LEAST_UPDATES} updates")
        # The loss before an update tells what the rate before it has done.
        return analyse(self.rates[: len(losses) - 1], losses)


def sweep(
    step: Callable[[float], float],
    *,
    low: float = LOW,
    high: float = HIGH,
    updates: int = UPDATES,
) -> RangeTest:
    """Range test of anything that can take an update with a given rate.

    Args:
        step: `step(rate)` takes one update and returns the loss before it.
        low, high: the first rate and the last.
        updates: how many, at most; the test ends early when the loss has grown for good.

    Raises:
        ConfigError: see `Sweep`.

    Example:
        >>> x = 1.0
        >>> def step(rate):
        ...     global x
        ...     loss = x * x
        ...     x -= rate * 2 * x
        ...     return loss
        >>> sweep(step).limit            # the parabola x² has the limit 2/2 = 1
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
    """Range test of a compiled Keras model, which afterwards is as it was before.

    Weights, the optimiser with its state, random generators and metrics are put back. Every update
    has a rate of its own, also where the model was compiled with `steps_per_execution`.

    Args:
        model: compiled; its optimiser's rate must be a number, not a schedule.
        x, y: as for the model's `fit`: arrays, or a data set, which is gone through again and
            again. A generator should have as many batches as there are updates.
        low, high, updates: as for `sweep`.
        fit: other arguments of `fit`, such as `batch_size` or `callbacks`, but not `epochs`.

    Raises:
        ConfigError: the model is not compiled, its optimiser has a schedule, its `train_step`
            returns no `loss`; or see `Sweep`.

    Example:
        >>> model.compile(optimizer="adam", loss="mse")
        >>> found = range_test(model, x, y, batch_size=32)
        >>> model.optimizer.learning_rate = found.suggestion
        >>> model.fit(x, y, batch_size=32, epochs=10)
    """
    from rnnparse._tensorflow import keras

    _check_keras(model)
    if "epochs" in fit:
        raise ConfigError("a range test has no epochs; give the number of updates as updates")
    run = Sweep(low, high, updates)

    def begin(batch: int, logs: Any = None) -> None:
        model.optimizer.learning_rate = run.rate
        model.reset_metrics()  # else the loss is the mean of all batches so far

    def end(batch: int, logs: Mapping[str, float]) -> None:
        run.add(_loss_of(logs))
        model.stop_training = run.over

    sweeping = keras.callbacks.LambdaCallback(on_train_batch_begin=begin, on_train_batch_end=end)
    callbacks = keras.tree.flatten(fit.pop("callbacks", None) or [])
    x = _build(model, x)
    with _kept(model):
        model.fit(x, y, epochs=updates, callbacks=[*callbacks, sweeping], **{"verbose": 0, **fit})
    return run.result()


def _check_keras(model: Any) -> None:
    from rnnparse._keras_compat import rate_or_schedule
    from rnnparse._tensorflow import keras

    if not getattr(model, "compiled", False):
        raise ConfigError("compile the model before the range test")
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # of mixed precision
    if not isinstance(rate_or_schedule(optimizer), keras.Variable):
        raise ConfigError(
            "the optimizer's learning rate is a schedule; compile the model with a number"
        )


def _loss_of(logs: Mapping[str, float]) -> float:
    """The loss that an update tells of; the only number will do."""
    if "loss" in logs:
        return logs["loss"]
    if len(logs) == 1:
        return next(iter(logs.values()))
    names = ", ".join(logs)
    raise ConfigError(f"the model's train_step returns {names}; let it return the loss as loss")


def _build(model: Any, x: Any) -> Any:
    """Make the variables of a model and its optimiser, which are else made in the first update.

    Returns:
        The data, from their first batch on.
    """
    if not model.built:
        inputs, x = _first_inputs(x)
        model(inputs)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return x


def _first_inputs(x: Any) -> tuple[Any, Any]:
    """What a model gets first from arrays or a data set, and these from their beginning."""
    from rnnparse._tensorflow import keras, tf

    if isinstance(x, GeneratorType):
        batch = next(x, None)
        if batch is None:
            raise ConfigError("the data ended before the first update")
        x = _again(batch, x)
    elif isinstance(x, keras.utils.PyDataset):
        batch = x[0]
    elif isinstance(x, tf.data.Dataset):
        batch = next(iter(x))
    else:
        return keras.tree.map_structure(lambda array: array[:1], x), x
    return keras.utils.unpack_x_y_sample_weight(batch)[0], x


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    """A generator, as Keras knows them, with its first item back in its place."""
    yield first
    yield from rest


@contextmanager
def _kept(model: Any) -> Iterator[None]:
    """Let a model take single updates, and put back what these change."""
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
