from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.adagrad import AdaGrad
from rnnparse.optim.freezing import freeze, rebuild_optimizer, unfreeze
from rnnparse.optim.slots import variable_slots

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 3)).astype(np.float32)
Y = RNG.standard_normal((16, 2)).astype(np.float32)


def small(**options: Any) -> Any:
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(4, name="low", activation="tanh"),
            layers.BatchNormalization(name="norm", **options),
            layers.Dense(2, name="top"),
        ],
        name="net",
    )


def nested() -> Any:
    keras.utils.set_random_seed(0)
    inner = keras.Sequential(
        [keras.Input((3,)), layers.Dense(4, name="dense_a"), layers.Dropout(0.5, name="drop")],
        name="encoder",
    )
    source = keras.Input((3,))
    return keras.Model(source, layers.Dense(2, name="dense_b")(inner(source)), name="whole")


def trained(model: Any) -> list[str]:
    return [variable.path.removeprefix("net/") for variable in model.trainable_variables]


def values(model: Any) -> dict[str, bytes]:
    return {variable.path: variable.numpy().tobytes() for variable in model.weights}


def fit(model: Any, epochs: int = 1, **options: Any) -> None:
    model.fit(X, Y, batch_size=8, epochs=epochs, shuffle=False, verbose=0, **options)


NORM, TOP = ["norm/gamma", "norm/beta"], ["top/kernel", "top/bias"]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["low"], NORM + TOP),
        (["low/kernel"], ["low/bias", *NORM, *TOP]),
        (["net/low/kernel"], ["low/bias", *NORM, *TOP]),
        (["bias"], ["low/kernel", *NORM, "top/kernel"]),
        (["*o*"], []),
        (["low", "norm"], TOP),
        (["net/*"], []),
        (["norm/moving_*"], ["low/kernel", "low/bias", *NORM, *TOP]),
        ([], ["low/kernel", "low/bias", *NORM, *TOP]),
    ],
)
def test_patterns_choose_variables_and_layers(patterns: list[str], left: list[str]) -> None:
    model = small()
    everything = trained(model)
    frozen = freeze(model, patterns)
    assert trained(model) == left
    assert [path.removeprefix("net/") for path in frozen] == [
        p for p in everything if p not in left
    ]
    assert unfreeze(model) == frozen
    assert trained(model) == everything


def test_calls_add_up_and_what_was_frozen_by_hand_stays_so() -> None:
    model = small()
    model.get_layer("top").trainable = False
    freeze(model, ["low/kernel"])
    freeze(model, ["low/bias", "top"])
    assert trained(model) == NORM
    assert not model.get_layer("low").trainable
    assert unfreeze(model, ["low/bias"]) == ["net/low/bias"]
    assert model.get_layer("low").trainable
    assert trained(model) == ["low/bias", *NORM]
    unfreeze(model)
    assert trained(model) == ["low/kernel", "low/bias", *NORM]


def test_nested_models_are_reached_by_their_name_and_within() -> None:
    model = nested()
    inner = model.get_layer("encoder")
    assert freeze(model, ["encoder"]) == ["encoder/dense_a/kernel", "encoder/dense_a/bias"]
    assert not inner.trainable
    assert inner.get_layer("drop").trainable
    unfreeze(model, ["dense_a/kernel"])
    assert inner.trainable
    assert inner.get_layer("dense_a").trainable
    assert [v.path for v in inner.trainable_variables] == ["encoder/dense_a/kernel"]
    unfreeze(model)
    freeze(model, ["dense_*"])
    assert not model.trainable_variables


def test_layers_of_one_name_are_told_apart_by_their_paths() -> None:
    stack = [
        keras.Sequential([keras.Input((3,)), layers.Dense(3, name="dense")], name=name)
        for name in ("one", "two")
    ]
    model = keras.Sequential([keras.Input((3,)), *stack])
    assert freeze(model, ["two/dense"]) == ["two/dense/kernel", "two/dense/bias"]
    assert not stack[1].layers[0].trainable and stack[0].layers[0].trainable
    assert len(freeze(model, ["dense"])) == 4
    assert unfreeze(model, ["o*/dense"]) == ["one/dense/kernel", "one/dense/bias"]


def test_layers_within_layers_are_reached_by_their_names() -> None:
    wrapped = layers.Bidirectional(layers.GRU(2, name="gru"), name="both")
    model = keras.Sequential([keras.Input((4, 3)), wrapped, layers.Dense(2, name="top")])
    assert len(freeze(model, ["forward_gru", "gru_cell/bias"])) == 4
    assert len(wrapped.trainable_variables) == 2
    assert wrapped.trainable
    freeze(model, ["both"])
    assert not wrapped.trainable
    unfreeze(model, ["backward_gru"])
    assert wrapped.trainable
    assert len(model.trainable_variables) == 3 + 2


def test_a_shared_layer_is_frozen_once_and_for_all_its_uses() -> None:
    shared = layers.Dense(3, name="shared")
    source = keras.Input((3,))
    model = keras.Model(source, layers.Dense(2, name="top")(shared(shared(source))))
    other = keras.Model(source, shared(source))
    assert len(freeze(model, ["shared"])) == 2
    assert not other.trainable_variables
    assert len(unfreeze(other)) == 2
    assert len(model.trainable_variables) == 4


class Bare(keras.Model):
    """Variables of its own, no layers."""

    def __init__(self) -> None:
        super().__init__(name="bare")
        self.W = self.add_weight(name="W", shape=(3, 2))
        self.v = self.add_weight(name="v", shape=(2,))

    def call(self, x: Any) -> Any:
        return tf.matmul(x, self.W) + self.v


def test_a_model_without_layers_has_patterns_for_its_variables() -> None:
    model = Bare()
    assert freeze(model, "W") == ["bare/W"]
    assert trained(model) == ["bare/v"]
    assert freeze(model, "*") == ["bare/W", "bare/v"]
    assert model.trainable  # the whole model is left to its user


def test_batch_normalization_that_is_frozen_keeps_its_statistics() -> None:
    for options in ({}, {"center": False, "scale": False}):
        model = small(**options)
        model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
        fit(model)
        freeze(model, ["norm"])
        before = values(model)
        fit(model)
        changed = {path for path, value in values(model).items() if value != before[path]}
        assert changed == {f"net/{p}" for p in ("low/kernel", "low/bias", *TOP)}
        # One of the two leaves it at work, as Keras means it.
        unfreeze(model)
        if not options:
            freeze(model, ["norm/beta"])
        fit(model)
        moved = {path for path, value in values(model).items() if value != before[path]}
        assert {"net/norm/moving_mean", "net/norm/moving_variance"} <= moved
        assert "net/norm/beta" not in moved


def test_statistics_are_never_made_trainable() -> None:
    model = small()
    unfreeze(model, ["norm/moving_mean", "*"])
    freeze(model, ["*"])
    unfreeze(model)
    assert trained(model) == ["low/kernel", "low/bias", *NORM, *TOP]


def test_patterns_that_match_nothing_are_errors() -> None:
    with pytest.raises(ConfigError, match="no variable or layer matches 'lov'; did you mean low"):
        freeze(small(), ["lov"])
    with pytest.raises(ConfigError, match="no variable or layer matches 'lov'"):
        unfreeze(small(), ["lov"])
    with pytest.raises(ConfigError, match="nothing has no variables yet; build it first"):
        freeze(keras.Sequential([layers.Dense(2)], name="nothing"), ["*"])


@pytest.mark.parametrize("run_eagerly", [False, True], ids=["graph", "eager"])
def test_frozen_variables_get_neither_gradient_nor_slot_in_fit(run_eagerly: bool) -> None:
    model = small()
    adam = keras.optimizers.Adam(0.1)
    model.compile(adam, "mse", run_eagerly=run_eagerly, jit_compile=False)
    fit(model)
    before, old = values(model), model.optimizer
    held = {v.path: slot_bytes(old, v) for v in model.trainable_variables}
    freeze(model, ["low"])
    slots = [x.path for x in model.optimizer.variables]
    assert not [path for path in slots if "low" in path]
    assert len(slots) == 2 + 2 * len(NORM + TOP)
    for variable in model.trainable_variables:
        assert slot_bytes(model.optimizer, variable) == held[variable.path]
    fit(model)
    after = values(model)
    frozen = {path for path in after if after[path] == before[path]}
    assert frozen == {"net/low/kernel", "net/low/bias"}
    assert int(model.optimizer.iterations) == 4


def slot_bytes(optimizer: Any, variable: Any) -> dict[str, bytes]:
    return {name: x.numpy().tobytes() for name, x in variable_slots(optimizer, variable).items()}


def by_hand(model: Any, optimizer: Any, epochs: int) -> None:
    for _ in range(epochs):
        for start in (0, 8):
            with tf.GradientTape() as tape:
                output = model(X[start : start + 8], training=True)
                loss = tf.reduce_mean(tf.square(output - Y[start : start + 8]))
            chosen = model.trainable_variables
            optimizer.apply(tape.gradient(loss, chosen), chosen)


def test_freezing_and_unfreezing_between_fits_is_the_loop_written_by_hand() -> None:
    model, other = small(), small()
    model.compile(optimizer=AdaGrad(0.1), loss="mse", run_eagerly=True)
    fit(model)
    freeze(model, ["low", "norm"])
    fit(model, epochs=2)
    unfreeze(model, ["low"])
    fit(model)
    optimizer = AdaGrad(0.1)
    by_hand(other, optimizer, 1)
    for name in ("low", "norm"):
        other.get_layer(name).trainable = False
    by_hand(other, optimizer, 2)
    other.get_layer("low").trainable = True
    # A variable that comes back starts afresh.
    optimizer = rebuild_optimizer(optimizer, other.get_layer("top").trainable_variables)
    optimizer = rebuild_optimizer(optimizer, other.trainable_variables)
    by_hand(other, optimizer, 1)
    for one, two in zip(model.weights, other.weights, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6, err_msg=one.path)


def test_a_tape_of_trainable_variables_alone_does_not_walk_through_the_frozen_part() -> None:
    walked = []

    @tf.custom_gradient
    def observed(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            walked.append(True)
            return upstream

        return tf.identity(x), gradient

    model = small()
    freeze(model, ["low", "norm"])
    chosen = model.trainable_variables
    gradients = []
    for watch in (False, True):
        walked.clear()
        with tf.GradientTape(watch_accessed_variables=not watch) as tape:
            if watch:
                tape.watch([variable.value for variable in chosen])
            hidden = observed(model.get_layer("low")(X))
            loss = tf.reduce_sum(tf.square(model.get_layer("top")(hidden)))
        gradients.append(tape.gradient(loss, chosen))
        # Keras's own eager step uses the first kind of tape, which costs as much as ever.
        assert bool(walked) is not watch
    for one, two in zip(*gradients, strict=True):
        assert np.array_equal(one, two)


class Thaw(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            unfreeze(self.model, ["low"])


@pytest.mark.slow
def test_a_callback_can_unfreeze_within_fit() -> None:
    one, two = small(), small()
    for model in (one, two):
        model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse")
        freeze(model, ["low"])
    fit(one, epochs=2, callbacks=[Thaw()])
    fit(two)
    unfreeze(two)
    fit(two)
    assert list(values(one).values()) == list(values(two).values())
    assert values(one)["net/low/kernel"] != values(small())["net/low/kernel"]


def test_a_model_that_is_frozen_as_a_whole_can_go_on_again() -> None:
    model = small()
    model.compile(optimizer="adam", loss="mse", run_eagerly=True)
    fit(model)
    freeze(model, ["*"])
    before = values(model)
    with pytest.warns(UserWarning, match="does not have any trainable weights"):
        fit(model)
    assert values(model) == before
    unfreeze(model, ["top"])
    fit(model)
    assert {p for p, v in values(model).items() if v != before[p]} == {f"net/{p}" for p in TOP}


def test_a_scaled_loss_goes_on_scaled() -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), layers.Dense(4, name="low"), layers.Dense(2)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1))
    model.compile(optimizer=optimizer, loss="mse", run_eagerly=True)
    fit(model)
    freeze(model, ["low"])
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert len(model.optimizer.inner_optimizer.variables) == 2 + 4
    assert int(model.optimizer.step_counter) == 2
    fit(model)
    assert int(model.optimizer.iterations) == 4


def test_a_model_that_several_devices_train_goes_on_as_such() -> None:
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = small()
        model.compile(optimizer=keras.optimizers.Adam(0.1), loss="mse", run_eagerly=True)
    fit(model)
    momentum = variable_slots(model.optimizer, model.get_layer("top").kernel)["_momentums"].numpy()
    freeze(model, ["low"])
    kept = variable_slots(model.optimizer, model.get_layer("top").kernel)["_momentums"]
    assert np.array_equal(kept, momentum)
    before = values(model)
    fit(model)
    after = values(model)
    frozen = {path for path in after if after[path] == before[path]}
    assert frozen == {"net/low/kernel", "net/low/bias"}


def test_frozen_layers_and_slots_survive_saving(tmp_path: Path) -> None:
    model = small()
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", run_eagerly=True)
    freeze(model, ["low", "norm"])
    fit(model)
    model.optimizer.nesterov = True
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.nesterov
    loaded.trainable = False
    loaded.trainable = True
    freeze(loaded, ["low", "norm"])
    model.make_train_function(force=True)
    for one in (model, loaded):
        fit(one)
        unfreeze(one)
        fit(one)
    assert list(values(model).values()) == list(values(loaded).values())


def test_single_frozen_variables_are_resumed_from_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.weights.h5"
    model, other = small(), small()
    for one in (model, other):
        one.compile(optimizer=AdaGrad(0.1), loss="mse", run_eagerly=True)
        freeze(one, ["low/kernel"])
    fit(model)
    model.save_weights(path)
    other.optimizer.build(other.trainable_variables)
    other.load_weights(path)
    for one in (model, other):
        fit(one)
    assert values(model) == values(other)
