"""Training steps on manipulated gradients, against a Python loop over the examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.optim.per_example_model import (
    GradientTransform,
    PerExampleModel,
    clip_each,
    gather_rows,
    normalize_each,
    per_example,
    sign,
    weight_each,
)

layers = keras.layers
Arrays = list[np.ndarray]
SIZE = 11


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    """Keras in float64, with the same weights each time."""
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


class Subclass(keras.Model):
    """Two tables, one a Keras embedding and one of its own; the second is read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words = layers.Embedding(20, 3)
        self.table = self.add_weight(shape=(20, 3), initializer="uniform", name="table")
        self.dense = layers.Dense(3)

    def call(self, ids: Any) -> Any:
        own = gather_rows(self.table, ids) * gather_rows(self.table, ids[:, ::-1] // 2)
        return self.dense(tf.reduce_sum(tf.tanh(self.words(ids)) + own, axis=1))


class TiedOutput(keras.Model):
    """A table that is read by rows and used as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.words = layers.Embedding(20, 3)

    def call(self, ids: Any) -> Any:
        hidden = tf.tanh(tf.reduce_mean(self.words(ids), axis=1))
        return tf.matmul(hidden, self.words.embeddings.value, transpose_b=True)


def make(kind: str) -> tuple[keras.Model, np.ndarray]:
    """A classifier and inputs; ids repeat within an example and between examples."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 8, (SIZE, 6)).astype("int32")
    vectors = rng.standard_normal((SIZE, 5))
    if kind == "dense":
        stack = [layers.Dense(4, activation="tanh"), layers.LayerNormalization(), layers.Dense(3)]
        return keras.Sequential([keras.Input((5,)), *stack]), vectors
    if kind == "convolution":
        stack = [layers.Conv2D(3, 3), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(3)]
        images = rng.standard_normal((SIZE, 6, 6, 2))
        return keras.Sequential([keras.Input((6, 6, 2)), *stack]), images
    if kind in ("lstm", "gru"):
        cell = {"lstm": layers.LSTM, "gru": layers.GRU}[kind]
        stack = [layers.Embedding(20, 4, mask_zero=True), cell(3), layers.Dense(3)]
        return keras.Sequential([keras.Input((6,), dtype="int32"), *stack]), ids
    if kind == "functional":
        words = keras.Input((6,), dtype="int32")
        other = keras.Input((5,))
        pooled = layers.GlobalAveragePooling1D()(layers.Embedding(20, 4)(words))
        output = layers.Dense(3)(layers.Concatenate()([pooled, layers.Dense(2)(other)]))
        return keras.Model([words, other], output), [ids, vectors]
    return {"subclass": Subclass, "tied": TiedOutput}[kind](), ids


LABELS = np.random.default_rng(2).integers(0, 3, SIZE)
WEIGHTS = np.random.default_rng(3).random(SIZE)


def cross_entropy(**options: Any) -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, dtype="float64", **options)


def single_gradients(model: keras.Model, x: Any, loss: Any = None) -> list[Arrays]:
    """The gradients of weighted losses of batches of one example, in a Python loop."""
    by_example = []
    loss = loss or cross_entropy()
    for i in range(SIZE):
        with tf.GradientTape() as tape:
            one = keras.tree.map_structure(lambda a, i=i: a[i : i + 1], x)
            value = loss(LABELS[i : i + 1], model(one, training=True), WEIGHTS[i : i + 1])
        gradients = tape.gradient(value, [v.value for v in model.trainable_variables])
        by_example.append([np.asarray(tf.convert_to_tensor(g)) for g in gradients])
    return by_example


def length(gradients: Arrays) -> float:
    return float(np.sqrt(sum(np.square(g).sum() for g in gradients)))


def clipped(gradients: Arrays) -> Arrays:
    return [g * min(1.0, 0.3 / length(gradients)) for g in gradients]


def mean(gradients: list[Arrays]) -> Arrays:
    return [sum(parts) / len(gradients) for parts in zip(*gradients, strict=True)]


def step(model: keras.Model, x: Any, **options: Any) -> tuple[Arrays, dict[str, float]]:
    """How far one step of gradient descent with rate 1 goes, and what `fit` reports."""
    model.compile(**{"optimizer": keras.optimizers.SGD(1.0), "loss": cross_entropy(), **options})
    before = [v.numpy() for v in model.trainable_variables]
    history = model.fit(x, LABELS, SIZE, sample_weight=WEIGHTS, verbose=0, shuffle=False)
    after = [v.numpy() for v in model.trainable_variables]
    reported = {name: values[0] for name, values in history.history.items()}
    return [a - b for a, b in zip(before, after, strict=True)], reported


def assert_close(actual: Arrays, expected: Arrays) -> None:
    assert any(np.abs(e).max() > 1e-3 for e in expected)
    for f, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("dense", marks=pytest.mark.slow),
        pytest.param("functional", marks=pytest.mark.slow),
        "subclass",
        "tied",
        pytest.param("convolution", marks=pytest.mark.slow),
        pytest.param("lstm", marks=pytest.mark.slow),
        pytest.param("gru", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("eager", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_step_is_that_of_a_loop_over_the_examples(kind: str, eager: bool) -> None:
    model, x = make(kind)
    model(x)
    expected = mean([clipped(g) for g in single_gradients(model, x)])
    options = {"per_example": [clip_each(0.3)], "chunk": 4, "run_eagerly": eager}
    moved, _ = step(per_example(model), x, **options)
    assert_close(moved, expected)


def dense_model(model: type = PerExampleModel, **options: Any) -> Any:
    inputs = keras.Input((5,))
    return model(inputs, layers.Dense(3, **options)(inputs)), make("dense")[1]


@pytest.mark.parametrize("eager", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_without_manipulations_training_is_what_keras_does(eager: bool) -> None:
    """Weights, reported loss and metrics; regularised, weighted, with a last batch of one."""
    results = []
    for kind in (keras.Model, PerExampleModel):
        keras.utils.set_random_seed(0)
        words = keras.Input((6,), dtype="int32")
        table = layers.Embedding(20, 4, embeddings_regularizer="l2")(words)
        hidden = layers.Dense(4, activity_regularizer="l1", kernel_regularizer="l2")(table)
        model = kind(words, layers.Dense(3)(layers.GlobalAveragePooling1D()(hidden)))
        model.compile(
            keras.optimizers.SGD(0.1, momentum=0.9),
            cross_entropy(),
            metrics=["accuracy"],
            weighted_metrics=["accuracy"],
            run_eagerly=eager,
            **({"chunk": 3} if kind is PerExampleModel else {"jit_compile": False}),
        )
        x = make("lstm")[1]
        # First, as this makes the variables of the metrics, so that the step is traced once.
        evaluation = model.evaluate(x, LABELS, verbose=0, return_dict=True)
        model.optimizer.build(model.trainable_variables)
        history = model.fit(x, LABELS, 5, 2, sample_weight=WEIGHTS, shuffle=False, verbose=0)
        results.append((model.get_weights(), history.history, evaluation))
    (weights, history, evaluation), (own_weights, own_history, own_evaluation) = results
    for a, b in zip(weights, own_weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    for reference, own in ((history, own_history), (evaluation, own_evaluation)):
        assert own.keys() == reference.keys()
        for name, values in reference.items():
            np.testing.assert_allclose(own[name], values, rtol=1e-9)


def test_regularisation_joins_after_the_manipulation() -> None:
    model, x = dense_model(kernel_regularizer=keras.regularizers.L2(0.125))
    kernel = model.trainable_variables[0].numpy()
    expected = mean([clipped(g) for g in single_gradients(model, x)])
    expected[0] = expected[0] + 0.25 * kernel
    losses = WEIGHTS * cross_entropy(reduction=None)(LABELS, model(x)).numpy()
    moved, reported = step(model, x, per_example=[clip_each(0.3)], chunk=4)
    assert_close(moved, expected)
    assert reported["loss"] == pytest.approx(losses.mean() + 0.125 * np.square(kernel).sum())


class Adds(keras.layers.Layer):
    """Adds a loss that is a sum over the batch, not a mean."""

    def call(self, x: Any) -> Any:
        self.add_loss(0.01 * tf.reduce_sum(x**2))
        return x


def test_losses_that_layers_add_are_those_of_the_whole_batch() -> None:
    inputs = keras.Input((5,))
    model, x = PerExampleModel(inputs, Adds()(layers.Dense(3)(inputs))), make("dense")[1]
    single = [clipped(g) for g in single_gradients(model, x)]
    variables = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        model(x)
        added = tf.add_n(model.losses)
    joined = zip(mean(single), tape.gradient(added, variables), strict=True)
    moved, _ = step(model, x, per_example=[clip_each(0.3)], chunk=4)
    assert_close(moved, [a + np.asarray(b) for a, b in joined])


def hardest(losses: tf.Tensor) -> tf.Tensor:
    return tf.cast(losses >= tf.sort(losses)[-4], losses.dtype)


@pytest.mark.parametrize("chunk", [3, pytest.param(None, marks=pytest.mark.slow)])
def test_chains_of_manipulations_do_not_depend_on_the_chunk(chunk: int | None) -> None:
    """Weights by the losses of the whole batch, in between functions of single examples."""
    model, x = dense_model()
    single = single_gradients(model, x)
    losses = WEIGHTS * cross_entropy(reduction=None)(LABELS, model(x)).numpy()
    share = np.exp(losses) / np.exp(losses).sum()
    expected = []
    for gradients, loss, weight in zip(single, losses, share, strict=True):
        scaled = [g / length(gradients) * (loss >= np.sort(losses)[-4]) for g in gradients]
        expected.append([weight * (np.sign(g) + 0.5 * g) for g in scaled])

    def own(gradients: Any, losses: tf.Tensor) -> list[tf.Tensor]:
        return [s + 0.5 * g for s, g in zip(sign()(gradients, losses), gradients, strict=True)]

    chain: list[GradientTransform] = [
        normalize_each(),
        weight_each(hardest),
        own,
        weight_each(tf.nn.softmax),
    ]
    moved, _ = step(model, x, per_example=chain, chunk=chunk, reduction="sum")
    assert_close(moved, [SIZE * g for g in mean(expected)])


@pytest.mark.slow
def test_losses_of_masked_sequences_are_those_of_batches_of_one() -> None:
    """[B, T] predictions, of which each example has its own number of valid ones."""
    ids = make("lstm")[1]
    ids[0, 2:] = 0
    labels = np.random.default_rng(5).integers(0, 3, ids.shape)
    words = keras.Input((6,), dtype="int32")
    hidden = layers.Embedding(20, 4, mask_zero=True)(words)
    model = PerExampleModel(words, layers.Dense(3)(hidden))
    single = []
    for i in range(SIZE):
        with tf.GradientTape() as tape:
            loss = cross_entropy()(labels[i : i + 1], model(ids[i : i + 1]))
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        single.append([np.asarray(tf.convert_to_tensor(g)) for g in gradients])
    model.compile(keras.optimizers.SGD(1.0), cross_entropy(), per_example=[clip_each(0.3)])
    before = model.get_weights()
    model.fit(ids, labels, SIZE, verbose=0)
    moved = [a - b for a, b in zip(before, model.get_weights(), strict=True)]
    assert_close(moved, mean([clipped(g) for g in single]))


def test_several_outputs_have_their_losses_and_weights() -> None:
    inputs = keras.Input((5,))
    one, two = layers.Dense(3, name="one")(inputs), layers.Dense(2, name="two")(inputs)
    model, x = PerExampleModel(inputs, {"one": one, "two": two}), make("dense")[1]
    targets = np.random.default_rng(6).standard_normal((SIZE, 2))
    single = []
    for i in range(SIZE):
        with tf.GradientTape() as tape:
            outputs = model(x[i : i + 1])
            loss = cross_entropy()(LABELS[i : i + 1], outputs["one"])
            loss += 0.5 * tf.reduce_mean(tf.square(outputs["two"] - targets[i]))
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        single.append([np.asarray(g) for g in gradients])
    model.compile(
        keras.optimizers.SGD(1.0),
        {"one": cross_entropy(), "two": "mse"},
        loss_weights={"one": 1.0, "two": 0.5},
        per_example=[clip_each(0.3)],
        chunk=4,
    )
    before = model.get_weights()
    history = model.fit(x, {"one": LABELS, "two": targets}, SIZE, verbose=0).history
    assert set(history) == {"loss", "one_loss", "two_loss"}
    total = history["one_loss"][0] + 0.5 * history["two_loss"][0]
    assert history["loss"][0] == pytest.approx(total)
    steps = [a - b for a, b in zip(before, model.get_weights(), strict=True)]
    assert_close(steps, mean([clipped(g) for g in single]))


def test_the_loss_may_be_computed_by_the_model() -> None:
    class Own(PerExampleModel):
        def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, **_: Any) -> Any:
            return tf.reduce_sum(tf.square(y_pred - y), axis=1)

    model, x = dense_model(Own)
    y = np.ones((SIZE, 3))
    model.compile(keras.optimizers.SGD(1.0), per_example=[normalize_each()])
    before = model.get_weights()[1]
    model.fit(x, y, SIZE, verbose=0)
    assert 0 < np.linalg.norm(model.get_weights()[1] - before) <= 1


@pytest.mark.slow
def test_scaled_losses_are_clipped_as_unscaled_ones() -> None:
    model, x = dense_model(kernel_regularizer="l2")
    start = model.get_weights()
    expected, _ = step(model, x, per_example=[clip_each(0.3)])
    model.set_weights(start)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), 2.0**10)
    moved, _ = step(model, x, per_example=[clip_each(0.3)], optimizer=optimizer)
    for f, e in zip(moved, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-9)


def test_frozen_variables_are_left_out_of_the_norm() -> None:
    inputs = keras.Input((6,), dtype="int32")
    frozen = layers.Embedding(20, 4, trainable=False)
    output = layers.Dense(3)(layers.Flatten()(frozen(inputs)))
    model, x = PerExampleModel(inputs, output), make("lstm")[1]
    table = frozen.get_weights()[0]
    expected = mean([clipped(g) for g in single_gradients(model, x)])
    moved, _ = step(model, x, per_example=[clip_each(0.3)])
    assert_close(moved, expected)
    assert np.array_equal(frozen.get_weights()[0], table)
