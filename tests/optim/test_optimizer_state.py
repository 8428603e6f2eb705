"""Momentum and AdaGrad's sums persist: from step to step, over epochs, and through a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

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
State = tuple[list[bytes], list[bytes]]


def compiled(optimizer: Any) -> Any:
    keras.utils.set_random_seed(0)
    hidden = keras.layers.Dense(4, activation="tanh", name="low")
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(2, name="top")])
    model.compile(optimizer=optimizer, loss="mse", run_eagerly=True)
    return model


def fit(model: Any, epochs: int = 1) -> None:
    model.fit(X, Y, batch_size=8, epochs=epochs, shuffle=False, verbose=0)


def state_of(model: Any) -> State:
    """The bytes of the weights, and of the optimizer's variables."""
    weights, slots = model.weights, model.optimizer.variables
    return [x.numpy().tobytes() for x in weights], [x.numpy().tobytes() for x in slots]


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


class Run(NamedTuple):
    """A training of two epochs, and what is on file after the first one."""

    maker: Any
    arrays: Path
    model: Path
    half: State
    whole: State


@pytest.fixture(scope="module", params=OPTIMIZERS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    maker, folder = OPTIMIZERS[request.param], tmp_path_factory.mktemp("run")
    whole, stopped = compiled(maker()), compiled(maker())
    fit(whole, epochs=2)
    fit(stopped)
    variables = stopped.weights + stopped.optimizer.variables
    np.savez(folder / "run.npz", *(x.numpy() for x in variables))
    stopped.save(folder / "model.keras")
    return Run(
        maker, folder / "run.npz", folder / "model.keras", state_of(stopped), state_of(whole)
    )


def resumed(run: Run) -> Any:
    """A model in the state after the first epoch."""
    model = compiled(run.maker())
    model.optimizer.build(model.trainable_variables)
    with np.load(run.arrays) as arrays:
        variables = model.weights + model.optimizer.variables
        for variable, array in zip(variables, arrays.values(), strict=True):
            variable.assign(array)
    return model


def test_two_fits_of_an_epoch_are_one_of_two_epochs(run: Run) -> None:
    model = compiled(run.maker())
    fit(model)
    assert state_of(model) == run.half
    fit(model)
    assert state_of(model) == run.whole


def test_without_the_state_training_goes_on_differently(run: Run) -> None:
    forgetful = resumed(run)
    forgetful.optimizer = run.maker()
    fit(forgetful)
    assert state_of(forgetful)[0] != run.whole[0]


def test_a_run_resumed_from_arrays_goes_on_as_if_it_had_not_stopped(run: Run) -> None:
    model = resumed(run)
    fit(model)
    assert state_of(model) == run.whole


def test_a_run_resumed_from_a_keras_file_goes_on_too(run: Run) -> None:
    model = keras.models.load_model(run.model, custom_objects={"AdaGrad": AdaGrad})
    assert state_of(model) == run.half
    fit(model)
    assert state_of(model) == run.whole


def test_a_rebuilt_optimiser_goes_on_where_the_other_was(run: Run) -> None:
    model = resumed(run)
    model.optimizer = rebuild_optimizer(model.optimizer, model.trainable_variables)
    fit(model)
    assert state_of(model) == run.whole
