"""Momentum and AdaGrad's sums persist: from step to step, over epochs, and through a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.optim.adagrad import AdaGrad
from rnnparse.optim.slots import rebuild_optimizer, variable_slots

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 3)).astype(np.float32)
Y = RNG.standard_normal((24, 2)).astype(np.float32)
OPTIMIZERS = {
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adagrad": lambda: AdaGrad(0.1),
    "keras-adagrad": lambda: keras.optimizers.Adagrad(0.1),
}
makers = pytest.mark.parametrize("maker", OPTIMIZERS.values(), ids=OPTIMIZERS)


def compiled(optimizer: Any) -> Any:
    keras.utils.set_random_seed(0)
    hidden = keras.layers.Dense(4, activation="tanh", name="low")
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(2, name="top")])
    model.compile(optimizer=optimizer, loss="mse", run_eagerly=True)
    return model


def fit(model: Any, epochs: int = 1) -> None:
    model.fit(X, Y, batch_size=8, epochs=epochs, shuffle=False, verbose=0)


def weights_of(model: Any) -> list[bytes]:
    return [x.numpy().tobytes() for x in model.weights]


def slots_of(model: Any) -> list[bytes]:
    return [x.numpy().tobytes() for x in model.optimizer.variables]


def test_momentum_adds_up_from_step_to_step() -> None:
    theta = keras.Variable(np.zeros(2), dtype="float64")
    optimizer = keras.optimizers.SGD(0.5, momentum=0.9)
    velocity, expected = np.zeros(2), np.zeros(2)
    for gradient in ([1.0, -2.0], [3.0, 0.0], [0.0, 0.0]):
        optimizer.apply([tf.constant(gradient, tf.float64)], [theta])
        velocity = 0.9 * velocity - 0.5 * np.array(gradient)
        expected += velocity
        np.testing.assert_allclose(theta, expected, rtol=1e-6)
        np.testing.assert_allclose(variable_slots(optimizer, theta)["momentums"], velocity, 1e-6)
    assert velocity.all()  # the last step moved by momentum alone


@pytest.mark.parametrize(
    ("maker", "start", "name"),
    [(AdaGrad, 0.0, "_sums"), (keras.optimizers.Adagrad, 0.1, "_accumulators")],
)
def test_adagrads_sums_add_up_from_step_to_step(maker: Any, start: float, name: str) -> None:
    theta = keras.Variable(np.zeros(2), dtype="float64")
    optimizer = maker(0.5)
    sums = np.full(2, start)
    for gradient in ([1.0, -2.0], [3.0, 0.0]):
        optimizer.apply([tf.constant(gradient, tf.float64)], [theta])
        sums += np.square(gradient)
        np.testing.assert_allclose(variable_slots(optimizer, theta)[name], sums, rtol=1e-6)


@makers
def test_two_fits_of_an_epoch_are_one_of_two_epochs(maker: Any) -> None:
    twice, once, forgetful = (compiled(maker()) for _ in range(3))
    fit(twice)
    fit(twice)
    fit(once, epochs=2)
    fit(forgetful)
    forgetful.optimizer = maker()
    fit(forgetful)
    assert weights_of(twice) == weights_of(once) != weights_of(forgetful)
    assert slots_of(twice) == slots_of(once)


@makers
def test_a_run_resumed_from_arrays_goes_on_as_if_it_had_not_stopped(
    maker: Any, tmp_path: Path
) -> None:
    first = compiled(maker())
    fit(first)
    variables = first.weights + first.optimizer.variables
    np.savez(tmp_path / "run.npz", *(x.numpy() for x in variables))
    resumed = compiled(maker())
    resumed.optimizer.build(resumed.trainable_variables)
    with np.load(tmp_path / "run.npz") as arrays:
        for variable, array in zip(
            resumed.weights + resumed.optimizer.variables, arrays.values(), strict=True
        ):
            variable.assign(array)
    for model in (first, resumed):
        fit(model)
    assert weights_of(first) == weights_of(resumed)
    assert slots_of(first) == slots_of(resumed)


@makers
def test_a_run_resumed_from_a_keras_file_goes_on_too(maker: Any, tmp_path: Path) -> None:
    first = compiled(maker())
    fit(first)
    first.save(tmp_path / "model.keras")
    resumed = keras.models.load_model(tmp_path / "model.keras", custom_objects={"AdaGrad": AdaGrad})
    assert slots_of(first) == slots_of(resumed)
    for model in (first, resumed):
        fit(model)
    assert weights_of(first) == weights_of(resumed)


@makers
def test_a_rebuilt_optimiser_goes_on_where_the_other_was(maker: Any) -> None:
    kept, rebuilt = compiled(maker()), compiled(maker())
    for model in (kept, rebuilt):
        fit(model)
    rebuilt.optimizer = rebuild_optimizer(rebuilt.optimizer, rebuilt.trainable_variables)
    for model in (kept, rebuilt):
        fit(model)
    assert weights_of(kept) == weights_of(rebuilt)
    assert slots_of(kept) == slots_of(rebuilt)
