from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.adagrad import AdaGrad
from rnnparse.optim.optimizers import make_optimizer


def variable(values: Any, dtype: str = "float64") -> keras.Variable:
    return keras.Variable(np.array(values, dtype), dtype=dtype)


def test_golden_values_by_hand() -> None:
    """α = 0.5, g = (3, −4), then (4, 0): the roots of the sums are (3, 4), then (5, 4)."""
    theta = variable([1.0, 1.0])
    optimizer = AdaGrad(0.5)
    optimizer.apply([tf.constant([3.0, -4.0], tf.float64)], [theta])
    np.testing.assert_allclose(theta.numpy(), [0.5, 1.5], rtol=1e-15)
    optimizer.apply([tf.constant([4.0, 0.0], tf.float64)], [theta])
    np.testing.assert_allclose(theta.numpy(), [0.5 - 0.5 * 4 / 5, 1.5], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_over_nothing_is_nothing(dtype: str) -> None:
    theta = variable([1.0, 2.0], dtype)
    optimizer = AdaGrad(0.5)
    for gradient in ([0.0, 1.0], [0.0, 0.0]):
        optimizer.apply([tf.constant(gradient, dtype)], [theta])
    assert theta.numpy().tolist() == [1.0, 1.5]


def test_derivatives_of_another_precision_are_taken_as_keras_does() -> None:
    theta = variable([[0.0], [0.0], [0.0]])
    optimizer = AdaGrad(0.25)
    optimizer.apply([tf.constant([[1.0], [0.0], [-2.0]], tf.float32)], [theta])
    half = tf.constant([[5.0]], tf.float16)
    slices = tf.IndexedSlices(half, tf.constant([1]), tf.constant([3, 1]))
    optimizer.apply([slices], [theta])
    assert theta.numpy().ravel().tolist() == [-0.25, -0.25, 0.25]


def test_the_first_step_is_a_full_alpha_however_small_the_derivative() -> None:
    theta = variable([0.0, 0.0])
    AdaGrad(0.25).apply([tf.constant([1e-9, -1e6], tf.float64)], [theta])
    np.testing.assert_allclose(theta.numpy(), [-0.25, 0.25], rtol=1e-12)


def test_sparse_steps_are_dense_steps_with_repeated_rows_summed_first() -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal((6, 3))
    sparse, dense = variable(start), variable(start)
    one, two = AdaGrad(0.1), AdaGrad(0.1)
    for rows in ([0, 2, 2, 5], [2], [5, 5, 5], [1, 0]):
        values = rng.standard_normal((len(rows), 3))
        whole = np.zeros_like(start)
        np.add.at(whole, rows, values)
        slices = tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([6, 3]))
        one.apply([slices], [sparse])
        two.apply([tf.constant(whole)], [dense])
    np.testing.assert_allclose(sparse.numpy(), dense.numpy(), rtol=1e-12)
    assert np.array_equal(sparse.numpy()[[3, 4]], start[[3, 4]])


def test_it_trains_a_keras_model_and_survives_its_config() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32)
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(1)])
    optimizer = AdaGrad.from_config(AdaGrad(0.5).get_config())
    model.compile(optimizer=optimizer, loss="mse")
    losses = model.fit(x, y, epochs=15, batch_size=16, verbose=0).history["loss"]
    assert losses[-1] < 0.01 * losses[0]
    assert float(optimizer.learning_rate) == 0.5


@pytest.mark.parametrize("name", ["adam", "SGD", "RMSprop", "nadam", "AdamW", "keras-adagrad"])
def test_optimisers_by_name_whatever_the_case(name: str) -> None:
    optimizer = make_optimizer(name, 0.03)
    assert isinstance(optimizer, keras.optimizers.Optimizer)
    assert float(optimizer.learning_rate) == pytest.approx(0.03)
    theta = variable([1.0], "float32")
    optimizer.apply([tf.constant([2.0])], [theta])
    assert float(theta.numpy()[0]) < 1.0


def test_adagrad_is_the_papers_and_kerass_has_another_name() -> None:
    assert isinstance(make_optimizer("AdaGrad", 0.1), AdaGrad)
    assert isinstance(make_optimizer("keras-adagrad", 0.1), keras.optimizers.Adagrad)


def test_every_listed_optimiser_can_be_made() -> None:
    with pytest.raises(ConfigError, match="unknown optimizer 'gradient-descent'") as error:
        make_optimizer("gradient-descent", 0.1)
    names = str(error.value).split("known are ")[1].split(", ")
    assert {"adagrad", "adam", "sgd", "keras-adagrad"} <= set(names)
    for name in names:
        make_optimizer(name, 0.1)


def test_a_saved_model_brings_its_optimizer_along(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(AdaGrad(0.3), loss="mse", run_eagerly=True)
    x, y = np.ones((4, 2)), np.ones((4, 1))
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.optimizer, AdaGrad)
    for one in (model, loaded):
        one.fit(x, y, verbose=0)
    for a, b in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
