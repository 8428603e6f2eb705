"""Range tests where the limits are known, and on Keras models, which they leave as they were."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.errors import ConfigError, MissingExtraError
from rnnparse.study.lr_range_test import RangeTest, range_test, sweep
from rnnparse.study.range_result import format_range, write_range_svg


def quadratic(
    curvature: float, noise: float = 0.0, momentum: float = 0.0, seed: int = 0
) -> Callable[[float], float]:
    """Gradient descent on ½ Σ λᵢ xᵢ², whose greatest λ is the curvature; stable below 2/λ.

    Losses and gradients have noise in proportion to the scale of the problem.
    """
    generator = np.random.default_rng(seed)
    eigenvalues = curvature * np.geomspace(0.01, 1, 12)
    x, velocity = np.ones(12), np.zeros(12)

    def step(rate: float) -> float:
        nonlocal x, velocity
        loss = 0.5 * float(eigenvalues @ x**2) + noise * curvature * generator.standard_normal()
        gradient = eigenvalues * x + noise * curvature * generator.standard_normal(12)
        velocity = momentum * velocity - rate * gradient
        x = x + velocity
        return loss

    return step


# -- functions -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    exponent=st.floats(-3, 3),
    noise=st.sampled_from([0.0, 0.001, 0.01]),
    updates=st.integers(50, 400),
    seed=st.integers(0, 1000),
)
def test_the_limit_of_gradient_descent_is_found(
    exponent: float, noise: float, updates: int, seed: int
) -> None:
    """Within a factor of two, though without noise the loss goes on falling far beyond it."""
    limit = 2 / 10**exponent
    step = quadratic(10**exponent, noise, seed=seed)
    result = sweep(step, low=1e-4 * limit, high=1e3 * limit, updates=updates)
    assert result.limit is not None and 0.5 < result.limit / limit < 2
    assert result.minimum is not None and result.steepest is not None
    assert result.falling is not None and result.falling <= result.steepest <= result.minimum
    assert result.interval is not None and result.interval[0] < result.interval[1] < limit
    assert result.interval[0] <= result.minimum / 10
    assert result.suggestion is not None
    assert result.interval[0] < result.suggestion < result.interval[1]


def test_momentum_has_a_limit_of_its_own() -> None:
    result = sweep(quadratic(1.0, 0.001, momentum=0.9), low=1e-4, high=1e3)
    assert result.limit is not None and 1.9 < result.limit < 2 * 2 * (1 + 0.9)


def test_rates_scale_with_the_problem() -> None:
    """A loss of ten times the size takes gradient descent to a tenth of the rates."""
    one = sweep(quadratic(1.0, 0.01), low=1e-4, high=1e3)
    ten = sweep(quadratic(10.0, 0.01), low=1e-5, high=1e2)
    for name in ("falling", "steepest", "minimum", "limit"):
        assert getattr(ten, name) == pytest.approx(getattr(one, name) / 10)


def test_losses_are_those_after_the_update() -> None:
    rates = []

    def step(rate: float) -> float:
        rates.append(rate)
        return 100.0 - len(rates)

    result = sweep(step, low=0.1, high=1.0, updates=20)
    assert result.rates == tuple(rates[:-1]) and result.losses[0] == 98.0
    np.testing.assert_allclose(np.diff(np.log(rates)), math.log(10) / 19)


def test_a_sweep_ends_when_the_loss_has_grown_or_is_no_number() -> None:
    counts = []
    for bad in (1e9, math.nan, math.inf):
        losses = iter([1.0] * 30 + [bad] * 70)
        result = sweep(lambda rate, losses=losses: next(losses), low=1.0, high=2.0)  # type: ignore[misc]
        counts.append(len(result.rates))
        assert result.limit is not None and result.interval is None
        assert result.rates[24] <= result.limit <= result.rates[28]
        assert "never fell" in result.remarks[0] and "begin lower, as the loss" in result.remarks[1]
    assert counts == [32, 30, 30]


def test_one_bad_minibatch_does_not_end_a_sweep() -> None:
    losses = iter([*np.linspace(2, 1, 60), 50.0, *np.linspace(1, 0.5, 39)])
    result = sweep(lambda rate: float(next(losses)), updates=100)
    assert len(result.rates) == 99 and result.limit is None


def test_what_a_sweep_cannot_tell_is_said() -> None:
    generator = np.random.default_rng(0)
    flat = sweep(lambda rate: 1 + 0.1 * generator.standard_normal())
    assert (flat.falling, flat.steepest, flat.minimum, flat.limit) == (None,) * 4
    assert flat.suggestion is None and flat.interval is None
    assert "more updates or larger batches." in flat.remarks[1]
    assert "sweep to a higher rate" in flat.remarks[2]
    late = sweep(quadratic(1.0), low=0.1, high=1e3)
    assert any("sweep from less than 0.1" in remark for remark in late.remarks)
    hidden = sweep(quadratic(1.0), low=1e-4, high=1e3)
    assert any("too small to be seen" in remark for remark in hidden.remarks)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"low": 0.0}, "must rise from a positive rate, not from 0.0 to 10.0"),
        ({"low": 1.0, "high": 0.1}, "must rise"),
        ({"high": math.inf}, "must rise"),
        ({"updates": 19}, "at least 20 updates"),
    ],
)
def test_bad_sweeps_are_named(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        sweep(lambda rate: 1.0, **arguments)


def noisy_plain(limit: float, noise: float, seed: int) -> Callable[[float], float]:
    """Gradient descent, stable below the limit, whose loss of 5 to 11 has much noise."""
    generator = np.random.default_rng(seed)
    eigenvalues = 2 / limit * np.geomspace(0.05, 1, 12)
    x = np.ones(12)

    def step(rate: float) -> float:
        nonlocal x
        loss = 5 + limit / 4 * float(eigenvalues @ x**2) + noise * generator.standard_normal()
        x = x - rate * eigenvalues * (x + 0.05 * generator.standard_normal(12))
        return loss

    return step


@pytest.mark.parametrize("limit", [0.01, 1.0])
def test_a_sweep_from_far_below_is_to_begin_higher_and_finds_the_rates_then(limit: float) -> None:
    unclear = [sweep(noisy_plain(limit, 1.7, seed)) for seed in range(20)]
    unclear = [result for result in unclear if result.interval is None and result.limit is not None]
    assert len(unclear) >= 4
    helped = 0
    for seed, result in enumerate(unclear):
        assert "begin higher" in result.remarks[1], result.remarks
        lowest = result.rates[int(np.argmin(result.smoothed))]
        assert f"it is lowest at {lowest:.2g}" in result.remarks[0]
        assert re.search(r"it is lowest at +not clear", format_range(result))
        ends = result.next_sweep
        assert ends is not None and ends[0] < limit / 10 and ends[1] > limit
        again = sweep(noisy_plain(limit, 1.7, 100 + seed), low=ends[0], high=ends[1])
        helped += again.interval is not None and limit / 300 < again.interval[0] < limit
    assert helped >= len(unclear) / 3


def test_a_sweep_from_above_is_to_begin_lower() -> None:
    result = sweep(quadratic(1.0, 0.01), low=3.0, high=1e3)
    ends = result.next_sweep
    assert "begin lower" in result.remarks[1] and ends is not None and ends[0] < 0.1
    assert sweep(quadratic(1.0, 0.01), low=ends[0], high=ends[1]).interval is not None


def test_a_loss_without_a_value_is_an_error() -> None:
    with pytest.raises(ConfigError, match="not finite before the first update"):
        sweep(lambda rate: math.nan)


# -- Keras ---------------------------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32) * [1.0, 2.0, 0.5]
Y = X @ [1.0, -2.0, 0.5]


def linear(optimizer: Any) -> Any:
    from rnnparse._tensorflow import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False)])
    model.compile(optimizer=optimizer, loss="mse", metrics=["mae"], jit_compile=False)
    return model


def test_the_limit_of_a_keras_model_is_found() -> None:
    """Least squares has the Hessian 2 XᵀX/n."""
    limit = 2 / float(np.linalg.eigvalsh(2 * X.T @ X / len(X))[-1])
    result = range_test(linear("sgd"), ((X, Y) for _ in range(300)))
    assert result.limit == pytest.approx(limit, rel=0.1)
    assert result.interval is not None and result.interval[1] < limit


def stateful(optimizer: str) -> Any:
    """A model with everything that has state: averages, random generators, slots."""
    from rnnparse._tensorflow import keras

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
    model.compile(optimizer=optimizer, loss="mse", metrics=["mae"], jit_compile=False)
    return model


@pytest.mark.parametrize(
    "optimizer",
    ["adam", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sgd", "adagrad"))],
)
def test_a_model_goes_on_as_if_there_had_been_no_test(optimizer: str) -> None:
    ends = []
    for tested in (False, True):
        model = stateful(optimizer)
        history = model.fit(X, Y, epochs=2, shuffle=False, verbose=0)
        if tested:
            range_test(model, X, Y, batch_size=2, updates=40, low=1e-4, high=1.0, shuffle=False)
            assert model.history is history
        after = model.fit(X, Y, epochs=2, shuffle=False, verbose=0).history
        ends.append(([np.array(v) for v in model.variables + model.optimizer.variables], after))
    (plain, losses), (tested_too, same) = ends
    assert losses == same
    for one, other in zip(plain, tested_too, strict=True):
        np.testing.assert_array_equal(one, other)


def test_models_that_are_not_built_and_data_sets_will_do() -> None:
    from rnnparse._tensorflow import tf

    model = linear("adam")
    result = range_test(model, tf.data.Dataset.from_tensor_slices((X, Y)).batch(16), updates=60)
    assert len(result.rates) > 30 and result.minimum is not None
    assert float(model.optimizer.learning_rate.numpy()) == pytest.approx(0.001)
    assert int(model.optimizer.iterations.numpy()) == 0
    # The first loss is that of the weights that were put back.
    first = float(model.evaluate(X, Y, verbose=0)[0])
    assert result.start == pytest.approx(first, rel=0.7)


def dataset(batches: int) -> Any:
    from rnnparse._tensorflow import keras

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return batches

        def __getitem__(self, i: int) -> tuple[np.ndarray, np.ndarray]:
            return X[16 * i : 16 * i + 16], Y[16 * i : 16 * i + 16]

    return Batches()


def stream(batches: int) -> Any:
    for i in range(batches):
        yield X[16 * (i % 4) :][:16], Y[16 * (i % 4) :][:16]


@cache
def of_arrays() -> RangeTest:
    return range_test(linear("sgd"), X, Y, batch_size=16, updates=60, shuffle=False)


@pytest.mark.parametrize(
    "make", [lambda: dataset(4), pytest.param(lambda: stream(300), marks=pytest.mark.slow)]
)
def test_models_that_are_not_built_learn_their_shape_from_any_data(
    make: Callable[[], Any],
) -> None:
    model = linear("sgd")
    assert not model.built
    result = range_test(model, make(), updates=60, shuffle=False)
    assert result == of_arrays() and result.interval is not None
    assert int(model.optimizer.iterations.numpy()) == 0


@pytest.mark.slow
def test_steps_that_keras_takes_together_have_rates_of_their_own() -> None:
    result = []
    for steps in (1, 4):
        model = linear("sgd")
        model.compile("sgd", "mse", steps_per_execution=steps, jit_compile=False)
        result.append(range_test(model, X, Y, batch_size=16, updates=60, shuffle=False))
        assert model.steps_per_execution == steps
        model.fit(X, Y, batch_size=16, verbose=0)
        assert int(model.optimizer.iterations.numpy()) == 4
    assert result[0] == result[1]


def named(*names: str) -> Any:
    """A model whose own training step returns its loss under these names."""
    from rnnparse._tensorflow import keras

    class Named(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.layer = keras.layers.Dense(1, use_bias=False)

        def call(self, x: Any) -> Any:
            return self.layer(x)

        def train_step(self, data: Any) -> dict[str, Any]:
            loss = super().train_step(data)["loss"]
            return dict.fromkeys(names, loss)

    keras.utils.set_random_seed(0)
    model = Named()
    model.compile("sgd", "mse", jit_compile=False)
    return model


def test_a_training_step_may_give_its_loss_another_name() -> None:
    result = range_test(named("energy"), X, Y, batch_size=16, updates=60, shuffle=False)
    assert result == of_arrays()
    with pytest.raises(ConfigError, match="train_step returns d, g; let it return the loss"):
        range_test(named("d", "g"), X, Y)


def test_callbacks_are_called_and_epochs_are_refused() -> None:
    from rnnparse._tensorflow import keras

    seen: list[int] = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda i, logs: seen.append(i))
    for one in (callback, [callback]):
        result = range_test(linear("sgd"), X, Y, batch_size=2, updates=20, callbacks=one)
        assert len(seen) == len(result.rates) + 1
        seen.clear()
    with pytest.raises(ConfigError, match="no epochs; give the number of updates"):
        range_test(linear("sgd"), X, Y, epochs=3)


def test_mixed_precision_has_a_rate_too() -> None:
    from rnnparse._tensorflow import keras

    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01))
    result = range_test(linear(optimizer), X, Y, batch_size=16, updates=60)
    assert result.interval is not None


def test_an_error_in_the_test_restores_the_model_too() -> None:
    model = linear("sgd")
    model.build((None, 3))
    before = model.get_weights()[0]
    with pytest.raises(ConfigError, match="not finite"):
        range_test(model, X, np.full(64, np.nan), batch_size=16)
    np.testing.assert_array_equal(model.get_weights()[0], before)


def test_models_that_cannot_be_tested_are_named() -> None:
    from rnnparse._tensorflow import keras

    with pytest.raises(ConfigError, match="compile the model"):
        range_test(keras.Sequential([keras.layers.Dense(1)]), X, Y)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    with pytest.raises(ConfigError, match="is a schedule; compile the model with a number"):
        range_test(linear(keras.optimizers.SGD(schedule)), X, Y)


# -- how it is shown -----------------------------------------------------------------------------


def test_a_range_test_is_shown_as_text_and_as_json() -> None:
    result = sweep(quadratic(1.0, 0.01), low=1e-4, high=1e3)
    lines = format_range(result).splitlines()
    assert lines[0].startswith("loss ") and {"▁", "█"} <= set(lines[0])
    assert lines[1].split() == ["rate", "0.0001", f"{result.rates[-1]:.2g}"]
    assert f"{result.limit:.2g}" in next(line for line in lines if "rises for good" in line)
    assert max(map(len, lines)) <= 88
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["limit"] == result.limit and len(plain["rates"]) == len(plain["losses"])
    assert plain["suggestion"] == result.suggestion
    nothing = format_range(sweep(lambda rate: 1.0))
    assert "suggested" not in nothing and "▁" in nothing


def test_a_range_test_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, step in (("falls", quadratic(1.0, 0.01)), ("flat", lambda rate: 1.0)):
        write_range_svg(sweep(step, low=1e-4, high=1e3), tmp_path / f"{name}.svg", "sgd")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text(encoding="utf-8")


def test_drawing_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="matplotlib"):
        write_range_svg(sweep(lambda rate: 1.0), tmp_path / "range.svg")
    assert not list(tmp_path.iterdir())
