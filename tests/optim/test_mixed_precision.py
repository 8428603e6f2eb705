"""Steps under `mixed_float16`, where Keras scales the loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.losses.structured import structured_hinge
from rnnparse.optim.per_example_model import (
    PerExampleModel,
    clip_each,
    drop_nonfinite,
    example_gradients,
)

X = np.random.default_rng(0).standard_normal((64, 5)).astype("float32")
Y = X[:, :2] - X[:, 2:4]
PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"


@pytest.fixture(autouse=True)
def half_precision() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy(before)


def stack(kind: Any) -> Any:
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(8, "tanh")(inputs)
    return kind(inputs, keras.layers.Dense(2, dtype="float32")(hidden))


def step_of_the_docs() -> type:
    """The class in "In a step of your own"."""
    block = re.search(r">>> (class Cautious.*?)\n>>> ", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    space: dict[str, Any] = {"keras": keras, "tf": tf}
    exec(block[1].replace("\n... ", "\n"), space)
    cautious: type = space["Cautious"]
    return cautious


def test_the_step_of_the_docs_learns_and_takes_sample_weights() -> None:
    losses = []
    for kind in (keras.Sequential, step_of_the_docs()):
        keras.utils.set_random_seed(0)
        model = kind([keras.Input((5,)), keras.layers.Dense(2, dtype="float32")])
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
        fitted = model.fit(X, Y, epochs=5, verbose=0, sample_weight=np.linspace(0, 1, 64))
        losses.append(fitted.history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)


def hinge(costs: Any, scores: Any) -> Any:
    candidates = tf.fill(tf.shape(scores), True)
    return structured_hinge(scores, costs, tf.argmin(costs, axis=1), candidates)


@pytest.mark.parametrize("loss", ["mse", pytest.param(hinge, marks=pytest.mark.slow)])
def test_single_examples_learn_as_in_full_precision(loss: Any) -> None:
    losses = []
    for policy in ("float32", "mixed_float16"):
        keras.config.set_dtype_policy(policy)
        keras.utils.set_random_seed(0)
        model = stack(PerExampleModel)
        # The scale that Keras begins with would skip the first steps.
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), 2.0**8)
        model.compile(optimizer, loss, per_example=[drop_nonfinite(), clip_each(1.0)])
        losses.append(model.fit(X, Y, epochs=4, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)


def test_an_overflow_lowers_the_scale_whatever_the_chain_drops() -> None:
    model = stack(PerExampleModel)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), 2.0**24)
    model.compile(optimizer, "mse", per_example=[drop_nonfinite()])
    before = model.get_weights()
    model.fit(X, Y, batch_size=64, verbose=0)
    assert float(optimizer.dynamic_scale) == 2.0**23
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_chain_by_hand_sees_gradients_without_the_scale() -> None:
    model = stack(keras.Model)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), 2.0**8)
    optimizer.build(model.trainable_variables)
    totals = []
    for scaled in (False, True):

        def losses_of(x: Any, y: Any, scaled: bool = scaled) -> tf.Tensor:
            losses = tf.reduce_mean(tf.square(model(x) - y), axis=1)
            return optimizer.scale_loss(losses) if scaled else losses

        examples = example_gradients(losses_of, (X, Y), model.trainable_variables)
        totals.append(examples.through([clip_each(0.5)], optimizer if scaled else None).mean())
    for plain, scaled in zip(*totals, strict=True):
        np.testing.assert_allclose(scaled / 2.0**8, plain, rtol=0.02, atol=1e-4)
