"""Learning-rate range tests: one short run in which the rate rises, to see where it helps.

Reference:
    Smith (2017), Cyclical Learning Rates for Training Neural Networks, section 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.study.curve import plain
from rnnparse.study.grid import LM
from rnnparse.study.trends import noise

LOW, HIGH, UPDATES = 1e-5, 10.0, 100
"""The usual sweep."""

LEAST_UPDATES = 20
CLEAR = 4.0
"""A change of the loss counts from so many standard errors on."""
STILL = 0.1
"""Shares of the fall below this count as no change."""
RISE = 0.25
"""The loss has risen for good when this share of its fall is lost."""
ALIKE = 1.25
"""Estimates of a curvature agree up to this factor."""


@dataclass(frozen=True)
class RangeTest:
    """What the loss did as the rate rose; rates are None where it did not do so.

    Attributes:
        rates: of the updates.
        losses: after each of them; None is not finite.
        smoothed: the same without most of their noise; great losses are cut off.
        start: the loss at the smallest rates.
        falling: from this rate on the loss falls visibly.
        steepest: here it falls most, by a factor of the rate.
        minimum: here it is lowest.
        limit: the greatest rate before it rises for good.
        interval: rates to train with: up to half of `minimum` and of `limit`; from `steepest`, or
            a tenth of those if that is less.
        remarks: what to make of it, in sentences.
    """

    rates: tuple[float, ...]
    losses: tuple[float | None, ...]
    smoothed: tuple[float, ...]
    start: float
    falling: float | None
    steepest: float | None
    minimum: float | None
    limit: float | None
    interval: tuple[float, float] | None
    remarks: tuple[str, ...]

    @property
    def suggestion(self) -> float | None:
        """A rate to begin with: the steepest, within the interval, to two digits."""
        if self.interval is None or self.steepest is None:
            return None
        return float(f"{min(max(self.steepest, self.interval[0]), self.interval[1]):.2g}")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        return {**plain(vars(self)), "suggestion": self.suggestion}


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
        return len(self.losses) == len(self.rates) or _has_grown(np.array(self.losses))

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
        return _analyse(self.rates[: len(losses) - 1], losses)


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

    Weights, the optimiser with its state, random generators and metrics are put back.

    Args:
        model: compiled; its optimiser's rate must be a number, not a schedule.
        x, y: as for the model's `fit`: arrays, or a data set, which is gone through again and
            again.
        low, high, updates: as for `sweep`.
        fit: other arguments of `fit`, such as `batch_size`.

    Raises:
        ConfigError: the model is not compiled, its optimiser has a schedule; or see `Sweep`.

    Example:
        >>> model.compile(optimizer="adam", loss="mse")
        >>> found = range_test(model, x, y, batch_size=32)
        >>> model.optimizer.learning_rate = found.suggestion
        >>> model.fit(x, y, batch_size=32, epochs=10)
    """
    from rnnparse.models.tf import keras

    _check_keras(model, keras)
    run = Sweep(low, high, updates)

    def begin(batch: int, logs: Any = None) -> None:
        model.optimizer.learning_rate = run.rate
        model.reset_metrics()  # else the loss is the mean of all batches so far

    def end(batch: int, logs: dict[str, float]) -> None:
        run.add(logs["loss"])
        model.stop_training = run.over

    callback = keras.callbacks.LambdaCallback(on_train_batch_begin=begin, on_train_batch_end=end)
    _build(model, x)
    with _kept(model):
        model.fit(x, y, epochs=updates, verbose=0, callbacks=[callback], **fit)
    return run.result()


def parser_range_test(
    path: Path,
    config: TrainingConfig,
    *,
    low: float = LOW,
    high: float = HIGH,
    updates: int = UPDATES,
) -> RangeTest:
    """Range test of the parser's training, from its starting weights; the loss has the L2 term.

    Args:
        path: of the problem, from `rnnparse.study.problem.prepare_problem`.
        config: settings of the training run; its learning rate has no part in it.
        low, high, updates: as for `sweep`.

    Raises:
        ConfigError: Levenberg–Marquardt, which has no rate; or see `Sweep`, `make_step`.
    """
    from rnnparse.models.cvg import CVG
    from rnnparse.study.problem import read_problem
    from rnnparse.training.steps import make_step

    if config.optimizer.lower() == LM:
        raise ConfigError(f"{LM} has a damping, no learning rate; try dampings in a study")
    problem = read_problem(path, config).problem
    model = CVG(problem.initial, config.engine)
    step: Any = make_step(model, config, problem.frozen(config.freeze))
    batches = _batches(len(problem.store), config)

    def update(rate: float) -> float:
        step.optimizer.learning_rate = rate
        penalty = model.penalty(config.l2)
        return float(step(problem.store.batch(next(batches))).mean(dtype=np.float64)) + penalty

    return sweep(update, low=low, high=high, updates=updates)


def _batches(sentences: int, config: TrainingConfig) -> Iterator[np.ndarray]:
    """The minibatches of a training run, without end."""
    epoch = 0
    while True:
        order = np.random.default_rng([config.seed, 1, epoch]).permutation(sentences)
        for start in range(0, sentences, config.batch_size):
            yield order[start : start + config.batch_size]
        epoch += 1


# -- Keras ---------------------------------------------------------------------------------------


def _check_keras(model: Any, keras: Any) -> None:
    if not getattr(model, "compiled", False):
        raise ConfigError("compile the model before the range test")
    rate = getattr(model.optimizer, "_learning_rate", None)
    if not isinstance(rate, keras.Variable):
        raise ConfigError(
            "the optimizer's learning rate is a schedule; compile the model with a number"
        )


def _build(model: Any, x: Any) -> None:
    """Make the variables of a model and its optimiser, which are else made in the first update."""
    from rnnparse.models.tf import keras, tf

    if not model.built:
        if isinstance(x, tf.data.Dataset):
            batch = next(iter(x))
            first = batch[0] if isinstance(batch, (tuple, list)) else batch
        else:
            first = keras.tree.map_structure(lambda array: array[:1], x)
        model(first)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


@contextmanager
def _kept(model: Any) -> Iterator[None]:
    """Put back what training changes in a model."""
    variables = [*model.variables, *model.optimizer.variables]
    before = [variable.numpy().copy() for variable in variables]
    history, stop = getattr(model, "history", None), model.stop_training
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
        model.reset_metrics()
        model.history, model.stop_training = history, stop


# -- analysis ------------------------------------------------------------------------------------


def _analyse(rates: np.ndarray, losses: np.ndarray) -> RangeTest:
    """What the losses tell: those before the first update and after each, [n + 1]."""
    start, start_error = _start(losses)
    ceiling = _ceiling(losses, 1.0)
    outcomes = np.where(np.isfinite(losses[1:]), np.minimum(losses[1:], ceiling), ceiling)
    width = max(1.0, len(rates) / 50)
    smoothed = _smooth(outcomes, width)
    lowest = int(smoothed.argmin())
    around = outcomes[max(0, lowest - math.ceil(5 * width)) : lowest + math.ceil(5 * width) + 1]
    # A Gaussian kernel leaves so much of white noise.
    error = math.hypot(start_error, noise(around) / math.sqrt(3.54 * width))
    fall = start - smoothed[lowest]
    fell = fall > CLEAR * error
    level = smoothed[lowest] + STILL * fall if fell else start + CLEAR * error
    found: dict[str, Any] = dict.fromkeys(("falling", "steepest", "minimum", "interval"))
    if fell:
        # A slope needs more smoothing than a level.
        slopes = np.gradient(_smooth(outcomes, 3 * width))[: lowest + 1]
        found |= _places(rates, smoothed, slopes, start)
    rise = max(RISE * fall if fell else 0.0, CLEAR * error)
    limit = _limit(rates, smoothed, level, rise, grew=_has_grown(losses))
    unstable = None if limit is None else _unstable(rates, losses)
    if limit is not None and unstable is not None:
        limit = min(limit, unstable)
    if found["interval"] is not None and limit is not None:
        low, high = found["interval"]
        found["interval"] = min(low, limit / 10), min(high, limit / 2)
    return RangeTest(
        rates=tuple(rates.tolist()),
        losses=tuple(plain(losses[1:])),
        smoothed=tuple(smoothed.tolist()),
        start=start,
        limit=limit,
        remarks=tuple(_remarks(rates, limit, **found)),
        **found,
    )


def _start(losses: np.ndarray) -> tuple[float, float]:
    """The loss at the smallest rates, and its standard error."""
    there = losses[np.isfinite(losses)]
    count = max(3, len(there) // 10)
    first = there[:count]
    return float(np.median(first)), 1.25 * noise(there[: 3 * count]) / math.sqrt(len(first))


def _ceiling(losses: np.ndarray, times: float) -> float:
    """Above the start by a multiple of the fall below it, or of the noise."""
    there = losses[np.isfinite(losses)]
    start = _start(losses)[0]
    return start + times * max(start - float(there.min()), CLEAR * noise(there), 1e-9 * abs(start))


def _has_grown(losses: np.ndarray) -> bool:
    """Whether the latest losses have gone too far to come back."""
    if len(losses) and not math.isfinite(losses[-1]):
        return True
    return len(losses) >= LEAST_UPDATES and bool(losses[-3:].min() > _ceiling(losses, 2.0))


def _smooth(values: np.ndarray, width: float) -> np.ndarray:
    """Means under a Gaussian of this standard deviation, in points, cut off at the ends."""
    reach = math.ceil(3 * width)
    kernel = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / width))
    weights = np.convolve(np.ones(len(values)), kernel)[reach:-reach]
    return np.asarray(np.convolve(values, kernel)[reach:-reach] / weights)


def _places(
    rates: np.ndarray, smoothed: np.ndarray, slopes: np.ndarray, start: float
) -> dict[str, Any]:
    """Where the loss falls; slopes go as far as where it is lowest."""
    lowest = len(slopes) - 1
    above = np.flatnonzero(smoothed[: lowest + 1] > start - STILL * (start - smoothed[lowest]))
    falling = rates[min(above[-1] + 1, lowest) if len(above) else 0]
    minimum, steepest = float(rates[lowest]), float(rates[int(slopes.argmin())])
    return {
        "falling": float(falling),
        "steepest": steepest,
        "minimum": minimum,
        "interval": (min(steepest, minimum / 10), minimum / 2),
    }


def _limit(
    rates: np.ndarray, smoothed: np.ndarray, level: float, rise: float, grew: bool
) -> float | None:
    """The last rate at which the loss is still at this level, if it then rises by so much."""
    below = np.flatnonzero(smoothed <= level)
    if not len(below):
        return None
    last = int(below[-1])
    return float(rates[last]) if grew or smoothed[last:].max() > level + rise else None


def _unstable(rates: np.ndarray, losses: np.ndarray) -> float | None:
    """2/L, if the loss grew in the end as gradient descent makes it grow on a curvature of L.

    Rates above 2/L let a part of the loss grow that may be too small to be seen for a long time.
    Once seen, it grows (rate · L − 1)² times with each update, which gives L.
    """
    last = losses[-3:]
    if len(losses) < LEAST_UPDATES or not np.isfinite(last).all() or last.min() <= 0:
        return None
    after, before, rates = last[1:], last[:-1], rates[-2:]
    if not (after > before).all():
        return None
    curvatures = (1 + np.sqrt(after / before)) / rates
    alike = curvatures.max() < ALIKE * curvatures.min()
    return float(2 / curvatures.mean()) if alike else None


def _remarks(
    rates: np.ndarray,
    limit: float | None,
    *,
    falling: float | None,
    steepest: float | None,
    minimum: float | None,
    interval: tuple[float, float] | None,
) -> Iterator[str]:
    if interval is None or minimum is None or falling is None:
        yield (
            "The loss never fell clearly beyond its noise: take more updates or larger batches"
            + ("." if limit is None else ", or begin at a lower rate.")
        )
    else:
        edge = min(minimum, limit or minimum)
        yield (
            f"Train with {interval[0]:.2g} to {interval[1]:.2g}: above half of {edge:.2g} little "
            "is left before the loss rises, below a tenth of it training takes needlessly long."
        )
        if edge < minimum:
            yield (
                f"The loss fell on up to {minimum:.2g}, but a part of it, too small to be seen, "
                f"grew from {edge:.2g} on, by the pace at which it grew in the end."
            )
        if falling <= rates[len(rates) // 10]:
            yield f"The loss falls from the first rate on: sweep from less than {rates[0]:.2g}."
    if limit is None:
        yield f"It has not risen for good by {rates[-1]:.2g}: sweep to a higher rate."
