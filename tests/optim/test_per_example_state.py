"""What per-example models do when something changes after a fit, and when they are saved."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.freezing import freeze, unfreeze
from rnnparse.optim.per_example_model import (
    PerExampleModel,
    clip_each,
    drop_nonfinite,
    normalize_each,
    per_example,
    sign,
    weight_each,
)

layers = keras.layers
RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal((32, n)).astype("float32") for n in (4, 2))


@keras.saving.register_keras_serializable("tests")
class Subclass(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.lower, self.upper = layers.Dense(3, "tanh"), layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.upper(self.lower(x))

    def get_config(self) -> dict[str, Any]:
        return {}


def sequential() -> keras.Sequential:
    lower, upper = layers.Dense(3, "tanh", name="lower"), layers.Dense(2, name="upper")
    return keras.Sequential([keras.Input((4,)), lower, upper])


def functional() -> PerExampleModel:
    inputs = keras.Input((4,))
    return PerExampleModel(inputs, layers.Dense(2)(layers.Dense(3, "tanh")(inputs)))


KINDS: dict[str, Callable[[], PerExampleModel]] = {
    "functional": functional,
    "trainer": lambda: per_example(sequential()),
    "subclass": lambda: per_example(Subclass()),
}
SLOW = ["trainer", pytest.param("functional", marks=pytest.mark.slow)]


def compiled(kind: str, **options: Any) -> PerExampleModel:
    keras.utils.set_random_seed(0)
    model = KINDS[kind]()
    chain = [drop_nonfinite(), clip_each(1.0)]
    model.compile(keras.optimizers.Adam(0.05), "mse", **{"per_example": chain, **options})
    return model


def fit(model: Any, epochs: int = 1, **options: Any) -> Any:
    return model.fit(X, Y, 16, epochs, verbose=0, shuffle=False, **options)


def moved(model: Any, action: Callable[[], Any]) -> list[bool]:
    """Which weights an action changes."""
    before = model.get_weights()
    action()
    return [not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True)]


@pytest.mark.slow
def test_what_is_frozen_after_a_fit_stays_as_it_is() -> None:
    keras.utils.set_random_seed(0)
    model = sequential()
    trainer = per_example(model)
    trainer.compile(keras.optimizers.Adam(0.05), "mse", per_example=[clip_each(1.0)])
    assert moved(model, lambda: fit(trainer)) == [True] * 4
    freeze(model, ["lower"])
    assert moved(model, lambda: fit(trainer)) == [False, False, True, True]
    unfreeze(model)
    assert moved(model, lambda: fit(trainer)) == [True] * 4
    assert int(trainer.optimizer.iterations) == 6  # Adam goes on
    model.layers[0].trainable = False  # by hand
    assert moved(model, lambda: fit(trainer)) == [False, False, True, True]
    trainer.optimizer = keras.optimizers.SGD(0.0)
    assert moved(model, lambda: fit(trainer)) == [False] * 4


@pytest.mark.slow
def test_a_callback_may_freeze_the_model_within() -> None:
    model = sequential()
    trainer = per_example(model)
    trainer.compile("sgd", "mse")
    seen = []

    class Freeze(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            seen.append(model.get_weights())
            if epoch == 1:
                freeze(model, ["lower"])

    fit(trainer, 2, callbacks=[Freeze()])
    assert not np.array_equal(seen[0][0], seen[1][0])
    assert np.array_equal(seen[1][0], model.get_weights()[0])
    assert not np.array_equal(seen[1][2], model.get_weights()[2])


def assert_same(model: Any, other: Any) -> None:
    for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("kind", [*SLOW, pytest.param("subclass", marks=pytest.mark.slow)])
def test_training_goes_on_from_a_file_as_if_it_had_not_been_interrupted(
    kind: str, tmp_path: Path
) -> None:
    whole, weights = compiled(kind), []

    class Keep(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            weights.append(whole.get_weights())

    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras")
    fit(whole, 2, callbacks=[checkpoint, Keep()])
    again = keras.models.load_model(tmp_path / "1.keras")
    assert isinstance(again, PerExampleModel)
    for a, b in zip(weights[0], again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    fit(again)
    assert_same(whole, again)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["trainer", "functional"])
def test_training_goes_on_from_a_backup(kind: str, tmp_path: Path) -> None:
    whole, first, again = compiled(kind), compiled(kind), compiled(kind)
    fit(whole, 2)

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                raise KeyboardInterrupt

    def backup() -> Any:
        return keras.callbacks.BackupAndRestore(tmp_path)

    with pytest.raises(KeyboardInterrupt):
        fit(first, 2, callbacks=[backup(), Stop()])
    fit(again, 2, callbacks=[backup()])
    assert_same(whole, again)


def half(losses: tf.Tensor) -> tf.Tensor:
    return 0.5 * tf.ones_like(losses)


@pytest.mark.parametrize(
    "transform",
    [clip_each(0.5), normalize_each(), sign(), drop_nonfinite(), weight_each([1.0, 2.0])],
)
def test_manipulations_go_through_their_configs(transform: Any) -> None:
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(transform))
    gradients, losses = [tf.constant([[3.0, -4.0], [0.0, 1.0]])], tf.zeros(2)
    np.testing.assert_array_equal(again(gradients, losses)[0], transform(gradients, losses)[0])


def test_functions_of_ones_own_have_to_be_named_when_a_file_is_read(tmp_path: Path) -> None:
    model, file = compiled("functional", per_example=[weight_each(half)]), tmp_path / "model.keras"
    model.optimizer.build(model.trainable_variables)
    model.save(file)
    with pytest.raises(ConfigError, match=r"'half'; name the function in.*compile=False"):
        keras.models.load_model(file)
    for again in (
        keras.models.load_model(file, {"half": half}),
        keras.models.load_model(file, compile=False),
    ):
        assert_same(model, again)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_models_are_exported_cloned_and_pickled(kind: str, tmp_path: Path) -> None:
    model = compiled(kind)
    fit(model)
    expected = model.predict(X, verbose=0)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve(X), expected, rtol=1e-5, atol=1e-6)
    clone = keras.models.clone_model(model)
    assert isinstance(clone, PerExampleModel) and clone(X).shape == expected.shape
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(copy(X), expected, rtol=1e-5, atol=1e-6)


def test_what_keras_takes_for_jit_compile_by_default_is_accepted() -> None:
    assert not compiled("functional", jit_compile="auto").jit_compile


@pytest.mark.slow
def test_the_check_of_examples_restores_all_that_it_changes() -> None:
    """Weights that a forward pass changes, states of layers, metrics and random seeds."""
    normed = layers.SpectralNormalization(layers.Dense(3))
    inputs = keras.Input((4,))
    hidden = layers.Dropout(0.5)(normed(inputs))
    outputs = {name: layers.Dense(2, name=name)(hidden) for name in ("a", "b")}
    model = PerExampleModel(inputs, outputs)
    model.compile("sgd", {"a": "mse", "b": "mse"}, metrics={"a": "mae"})
    model.fit(X, {"a": Y, "b": Y}, verbose=0)
    everything = [*model.variables, *model.metrics_variables]
    before = [v.numpy() for v in everything]
    model.check_examples(X, {"a": Y, "b": Y})
    for variable, value in zip(everything, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, variable.path)


class Counting(keras.Model):
    """Keeps a metric of what it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.upper, self.seen = layers.Dense(2), keras.metrics.Mean(name="seen")

    def call(self, x: Any) -> Any:
        self.seen.update_state(x)
        return self.upper(x)


def test_metrics_of_the_model_within_are_updated_once_and_reported() -> None:
    model = per_example(Counting())
    model.compile("sgd", "mse", per_example=[clip_each(1.0)], chunk=4)
    reported = fit(model, 2).history["seen"]
    np.testing.assert_allclose(reported, [X.mean(), X.mean()], rtol=1e-5)
