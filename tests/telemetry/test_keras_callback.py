"""Telemetry of any Keras model in `fit`, against a loop by hand."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse._tensorflow import keras, tf
from rnnparse.telemetry.keras_callback import TelemetryCallback
from rnnparse.telemetry.recorder import QUANTITIES, Telemetry
from rnnparse.telemetry.statistics import activation_statistics

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.optim.freezing import freeze, unfreeze  # isort: skip

KERNEL = "model/hidden/kernel"


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 9, (20, 3)), rng.normal(size=(20, 1)).astype("f")


def make_model(optimizer: Any = None, **settings: Any) -> keras.Model:
    """A small model with an embedding, of whose 12 rows the data have 9."""
    keras.utils.set_random_seed(0)
    layers = [
        keras.Input((3,), dtype="int32"),
        keras.layers.Embedding(12, 4, embeddings_initializer="normal", name="words"),
        keras.layers.Flatten(),
        keras.layers.Dense(5, "tanh", name="hidden"),
        keras.layers.Dense(1, name="out"),
    ]
    model = keras.Sequential(layers, name="model")
    model.compile(optimizer or keras.optimizers.SGD(0.1), "mse", **settings)
    return model


def by_hand(model: keras.Model, epochs: int) -> list[dict[str, Any]]:
    """Records of training by a tape, batches of 8 in order."""
    x, y = data()
    telemetry, variables = Telemetry(), {v.path: v for v in model.trainable_variables}
    for _ in range(epochs):
        for start in range(0, len(x), 8):
            with tf.GradientTape() as tape:
                error = model(x[start : start + 8]) - y[start : start + 8]
                loss = tf.reduce_mean(error**2)
            gradients = tape.gradient(loss, model.trainable_weights)
            telemetry.before(variables, dict(zip(variables, gradients, strict=True)))
            model.optimizer.apply(gradients, model.trainable_variables)
            telemetry.after(variables)
        telemetry.end_epoch()
    return telemetry.records


@lru_cache(maxsize=1)
def plain_records() -> list[dict[str, Any]]:
    """Records of two epochs of a model as it is by default."""
    return by_hand(make_model(), 2)


def fit(model: keras.Model, *callbacks: Any, epochs: int = 2) -> Any:
    x, y = data()
    arguments: dict[str, Any] = {"batch_size": 8, "shuffle": False, "verbose": 0}
    return model.fit(x, y, epochs=epochs, callbacks=callbacks, **arguments)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"run_eagerly": True},
        {"jit_compile": True, "steps_per_execution": 2},
        pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
        pytest.param({"steps_per_execution": 2}, marks=pytest.mark.slow),
    ],
    ids=lambda settings: "-".join(settings) or "graph",
)
def test_records_are_those_of_a_loop_by_hand(settings: dict[str, Any]) -> None:
    watch = TelemetryCallback()
    model = make_model(**settings)
    compiled = model.jit_compile
    history = fit(model, watch).history
    assert model.jit_compile == compiled
    assert len(watch.records) == 2
    for record, plain in zip(watch.records, plain_records(), strict=True):
        assert list(record["groups"]) == [v.path for v in model.trainable_variables]
        for name, group in record["groups"].items():
            for quantity in QUANTITIES:
                np.testing.assert_allclose(
                    np.array(group["updates"][quantity], float),
                    np.array(plain["groups"][name]["updates"][quantity], float),
                    rtol=1e-4,
                    atol=1e-6,
                )
            assert group["dead_rows"] == plain["groups"][name]["dead_rows"]
        assert record["groups"]["model/words/embeddings"]["dead_rows"] == 3
    losses = [record["logs"]["loss"] for record in watch.records]
    np.testing.assert_allclose(losses, history["loss"], rtol=1e-5)


def dense_records(optimizer: Any) -> list[dict[str, Any]]:
    """Records of two epochs of a model without an embedding."""
    keras.utils.set_random_seed(0)
    hidden, out = keras.layers.Dense(5, "tanh", name="hidden"), keras.layers.Dense(1, name="out")
    model = keras.Sequential([keras.Input((3,)), hidden, out], name="model")
    model.compile(optimizer, "mse")
    watch = TelemetryCallback()
    fit(model, watch)
    return watch.records


@lru_cache(maxsize=1)
def unscaled_records() -> list[dict[str, Any]]:
    return dense_records(keras.optimizers.Adam(0.01))


@pytest.mark.parametrize(
    "optimizer",
    [
        keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
        keras.optimizers.Adam(0.01, loss_scale_factor=64.0),
    ],
    ids=["dynamic", "fixed"],
)
def test_gradients_are_those_of_the_loss_whatever_scales_it(optimizer: Any) -> None:
    records, unscaled = dense_records(optimizer), unscaled_records()
    for one, other in zip(records, unscaled, strict=True):
        for name, group in one["groups"].items():
            for quantity in QUANTITIES:
                pair = [g["updates"][quantity] for g in (group, other["groups"][name])]
                np.testing.assert_allclose(*np.array(pair, float), rtol=1e-4, atol=1e-6)


def test_training_is_the_same_to_the_bit() -> None:
    with_it, without = make_model(jit_compile=False), make_model(jit_compile=False)
    fit(with_it, TelemetryCallback())
    fit(without)
    for one, other in zip(with_it.get_weights(), without.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_model_is_observed_in_this_fit_alone() -> None:
    model, watch = make_model(), TelemetryCallback()
    fit(model)  # its graph is there before
    fit(model, watch, epochs=1)
    assert len(watch.records) == 1 and len(watch.records[0]["updates"]["update_norm"]) == 3
    apply = model.optimizer.apply
    fit(model)
    assert len(watch.records) == 1 and "apply" not in vars(model.optimizer)
    assert apply.__func__ is type(model.optimizer).apply
    fit(model, watch, epochs=1)
    assert [record["epoch"] for record in watch.records] == [1]


def test_a_fit_that_breaks_off_does_no_harm() -> None:
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise KeyboardInterrupt

    model, watch = make_model(jit_compile=True), TelemetryCallback()
    with pytest.raises(KeyboardInterrupt):
        fit(model, watch, Stop())
    again = TelemetryCallback()
    fit(model, again, epochs=1)
    assert len(again.records[0]["updates"]["update_norm"]) == 3
    assert watch.records == []
    assert "apply" not in vars(model.optimizer)
    assert model.jit_compile


def test_a_file_has_a_line_an_epoch_and_the_model_can_be_saved(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    file.write_text("old\n")
    model, (x, _) = make_model(), data()
    hidden = keras.Model(model.inputs[0], model.get_layer("hidden").output)
    watch = TelemetryCallback(file, lambda: {"hidden": hidden(x)})
    saved = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras")
    fit(model, watch, saved)
    assert [json.loads(line) for line in file.read_text().splitlines()] == watch.records
    loaded = keras.models.load_model(tmp_path / "2.keras")
    np.testing.assert_array_equal(loaded(x), model(x))
    recorded = watch.records[-1]["activations"]["hidden"]
    expected = activation_statistics(hidden(x))
    assert recorded["magnitude"] == pytest.approx(expected["magnitude"], rel=1e-5)
    assert recorded["observations"] == 20 and recorded["histogram"]["counts"]


@pytest.mark.parametrize("first", [pytest.param(True, marks=pytest.mark.slow), False])
def test_variables_that_are_unfrozen_in_between_are_seen_from_then_on(first: bool) -> None:
    """`unfreeze` gives the model another optimiser, whatever the order of the callbacks."""
    model, watch = make_model(), TelemetryCallback()
    freeze(model, ["hidden"])
    thaw = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: unfreeze(model) if epoch == 1 else None
    )
    fit(model, *((watch, thaw) if first else (thaw, watch)))
    names = [set(record["groups"]) for record in watch.records]
    assert KERNEL not in names[0] and KERNEL in names[1]
    assert [len(record["updates"]["update_norm"]) for record in watch.records] == [3, 3]


def test_a_variable_without_gradient_and_gradients_that_are_clipped() -> None:
    """Gradients are seen as they are before the optimiser clips them."""

    class Part(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="part")
            self.used, self.other = keras.layers.Dense(1), keras.layers.Dense(1)

        def build(self, shape: Any) -> None:
            self.used.build(shape)
            self.other.build(shape)

        def call(self, x: Any) -> Any:
            return self.used(x)

    model, watch = Part(), TelemetryCallback()
    model.compile(keras.optimizers.SGD(1.0, global_clipnorm=1e-3), "mse")
    x = np.full((8, 2), 10.0, "f")
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        model.fit(x, x[:, :1] * 100, batch_size=8, verbose=0, callbacks=[watch])
    groups = watch.records[0]["groups"]
    norms = {name: group["updates"]["gradient_norm"] for name, group in groups.items()}
    assert [None] in norms.values()
    update = watch.records[0]["updates"]
    assert update["update_norm"] == [pytest.approx(1e-3, rel=1e-2)]
    assert update["gradient_norm"][0] > 1


def test_layers_that_share_a_name_are_told_apart() -> None:
    class Twins(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="twins")
            self.one = keras.layers.Dense(2, use_bias=False, name="same")
            self.two = keras.layers.Dense(1, use_bias=False, name="same")

        def call(self, x: Any) -> Any:
            return self.two(self.one(x))

    model, watch = Twins(), TelemetryCallback()
    model.compile("sgd", "mse")
    x = np.ones((4, 3), "f")
    model.fit(x, x[:, :1], verbose=0, callbacks=[watch])
    sizes = {name: group["size"] for name, group in watch.records[0]["groups"].items()}
    assert sizes == {"twins/same/kernel:0": 6, "twins/same/kernel:1": 2}
