"""Models whose examples depend on each other are found before they are trained."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.per_example_model import PerExampleModel, per_example

layers = keras.layers
X = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
Y = np.random.default_rng(1).standard_normal((6, 2)).astype("float32")


def stack(*between: Any) -> keras.Sequential:
    return keras.Sequential([keras.Input((4,)), *between, layers.Dense(2)])


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (layers.BatchNormalization(name="bn"), r"'bn' \(BatchNormalization\).*LayerNormalization"),
        (layers.UnitNormalization(axis=0, name="un"), "'un'.*works along axis 0"),
        (layers.Softmax(axis=(0, 1), name="s"), "'s'.*works along axis 0"),
    ],
)
def test_layers_that_mix_examples_are_named(layer: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        per_example(stack(layer)).compile("sgd", "mse")


def test_a_layer_within_a_layer_is_found() -> None:
    words = keras.Input((3, 4), batch_size=6)
    state = layers.LSTM(2, stateful=True, name="memory")
    model = keras.Model(words, layers.Bidirectional(state)(words))
    with pytest.raises(ConfigError, match=r"'\w*memory\w*' \(LSTM\) keeps a state"):
        per_example(model).compile("sgd", "mse")


def test_layers_that_come_later_are_found_before_the_first_step() -> None:
    class Late(PerExampleModel):
        def build(self, shape: Any) -> None:
            self.norm, self.dense = layers.BatchNormalization(), layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(self.norm(x))

    model = Late()
    model.compile("sgd", "mse")
    with pytest.raises(ConfigError, match="BatchNormalization"):
        model.fit(X, Y, verbose=0)
    assert not model.norm.moving_mean.numpy().any()


def test_other_layers_and_frozen_ones_are_accepted() -> None:
    frozen = layers.BatchNormalization(trainable=False)
    others = [layers.GroupNormalization(2), layers.GaussianNoise(0.1), layers.Dropout(0.5)]
    model = per_example(stack(frozen, *others, layers.LayerNormalization(), layers.Softmax()))
    model.compile("sgd", "mse")
    model.check_examples(X, Y)


class Mix(keras.layers.Layer):
    """What the batch has in common is taken out, little of it."""

    def call(self, x: Any) -> Any:
        return x - 0.01 * tf.reduce_mean(x, axis=0)


class Neighbour(keras.layers.Layer):
    """Each example sees the one before it."""

    def call(self, x: Any) -> Any:
        return x + 0.01 * tf.roll(x, 1, axis=0)


@pytest.mark.parametrize("layer", [Mix(), Neighbour()])
def test_running_the_model_finds_layers_that_are_not_known(layer: Any) -> None:
    model = per_example(stack(layers.Dropout(0.5), layer))
    model.compile("sgd", "mse")
    with pytest.raises(ConfigError, match="depends on the other examples: it is"):
        model.check_examples(X, Y)


def test_the_check_leaves_the_model_as_it_was_and_its_random_numbers_too() -> None:
    results = []
    for checked in (False, True):
        keras.utils.set_random_seed(0)
        model = per_example(stack(layers.Dropout(0.5)))
        model.compile("sgd", "mse")
        if checked:
            model.check_examples(X, Y, np.ones(6, "float32"))
        model.fit(X, Y, verbose=0)
        results.append(model.get_weights())
    for a, b in zip(*results, strict=True):
        assert np.array_equal(a, b)


def test_integers_are_checked_as_numbers_are() -> None:
    words = np.array([[1, 2, 3], [4, 4, 0], [2, 0, 1]])
    for layer, mixes in ((layers.Dropout(0.1), False), (Mix(), True)):
        model = per_example(keras.Sequential([layers.Embedding(5, 2), layers.Flatten(), layer]))
        model.compile("sgd", "mse")
        if mixes:
            with pytest.raises(ConfigError, match="depends on the other examples"):
                model.check_examples(words, np.zeros((3, 6)))
        else:
            model.check_examples(words, np.zeros((3, 6)))


def test_numbers_from_elsewhere_are_told_apart_from_mixing() -> None:
    class Noise(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x + tf.random.normal(tf.shape(x))

    model = per_example(stack(Noise()))
    model.compile("sgd", "mse")
    with pytest.raises(ConfigError, match=r"change from call to call.*SeedGenerator"):
        model.check_examples(X, Y)
