"""NaN and Inf in one example leave the gradients of the others as a loop gives them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.models.cvg import CVG
from rnnparse.models.per_example import ExampleSubgradients
from rnnparse.optim.per_example_model import (
    clip_each,
    drop_nonfinite,
    example_gradients,
    normalize_each,
    per_example,
    scale_each,
    weight_each,
)
from tests.models.conftest import make_world

layers = keras.layers
SIZE = 5
SHAPES = {"dense": (3,), "convolution": (5, 5, 1), "embedding": (4,)}
STACKS: dict[str, Callable[[], list[Any]]] = {
    "dense": lambda: [layers.Dense(4, activation="relu"), layers.LayerNormalization()],
    "convolution": lambda: [layers.Conv2D(2, 3), layers.MaxPooling2D(), layers.Flatten()],
    "embedding": lambda: [layers.Embedding(6, 2), layers.GlobalAveragePooling1D()],
}
VALUES = st.sampled_from([0.5, -1.0, float("nan"), float("inf"), -float("inf"), 1e3])


@cache
def problem(kind: str) -> tuple[Any, np.ndarray, Any, Any]:
    """A model, inputs, and its gradients by examples and by a loop, as functions of x and y."""
    keras.utils.set_random_seed(0)
    dtype = "int32" if kind == "embedding" else "float32"
    inputs = keras.Input(SHAPES[kind], dtype=dtype)
    model = keras.Sequential([inputs, *STACKS[kind](), layers.Dense(2)])
    variables = model.trainable_variables
    x = np.random.default_rng(0).integers(0, 6, (SIZE, *SHAPES[kind])).astype(dtype)

    def losses_of(x: Any, y: Any) -> tf.Tensor:
        # The square root has an infinite slope at 0, where the loss itself is finite.
        return tf.reduce_sum(tf.square(model(x)), axis=1) * y + tf.sqrt(tf.abs(y))

    def single(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = losses_of(x, y)
        gradients = tape.gradient(loss, [v.value for v in variables])
        return loss[0], [tf.convert_to_tensor(g) for g in gradients]

    def together(x: Any, y: Any) -> Any:
        examples = example_gradients(losses_of, (x, y), variables, model)
        values = []
        for value, rows, variable in zip(examples.values, examples.rows, variables, strict=True):
            assert value is not None
            if rows is not None:
                hits = tf.one_hot(rows, variable.shape[0])
                value = tf.reduce_sum(
                    tf.math.multiply_no_nan(value[:, :, None], hits[..., None]), 1
                )
            values.append(value)
        return examples.losses, values

    # In a graph, a fused product and relu may turn NaN to 0: the loop runs eagerly.
    return model, x, tf.function(together), single


def check(kind: str, x: np.ndarray, y: np.ndarray) -> None:
    _, _, together, single = problem(kind)
    losses, values = together(x, y)
    for i in range(SIZE):
        loss, expected = single(x[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(losses[i], loss, rtol=1e-5, atol=1e-6)
        for value, e in zip(values, expected, strict=True):
            np.testing.assert_allclose(value[i], e, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        pytest.param("convolution", marks=pytest.mark.slow),
        pytest.param("embedding", marks=pytest.mark.slow),
    ],
)
@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1000), VALUES), max_size=4),
    st.lists(VALUES, min_size=SIZE, max_size=SIZE),
)
def test_every_pattern_of_nan_and_inf_gives_what_a_loop_gives(
    kind: str, places: list[tuple[int, float]], y: list[float]
) -> None:
    x = problem(kind)[1].copy()
    if kind != "embedding":
        for place, value in places:
            x.flat[place % x.size] = value
    check(kind, x, np.array(y, np.float32))


def test_thirteen_examples_of_which_one_is_nan() -> None:
    x = np.random.default_rng(0).standard_normal((13, 3)).astype("float32")
    x[4, 1] = np.nan
    together = problem("dense")[2]
    _, values = together(x, np.ones(13, "float32"))
    bad = [np.isnan(value).reshape(13, -1).any(axis=1) for value in values]
    assert np.flatnonzero(np.any(bad, axis=0)).tolist() == [4]


def test_random_layers_draw_for_each_example() -> None:
    keras.utils.set_random_seed(0)
    stack = keras.Sequential([keras.Input((8,)), layers.Dropout(0.5), layers.Dense(1)])
    examples = example_gradients(
        lambda x: stack(x, training=True)[:, 0],
        (np.ones((64, 8), "float32"),),
        stack.trainable_variables,
        stack,
    )
    kept = np.asarray(examples.values[0])[:, :, 0] > 0
    assert len({k.tobytes() for k in kept}) > 40 and 0.4 < kept.mean() < 0.6


def test_a_chain_that_drops_what_is_not_finite_keeps_the_weights_finite() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 3)).astype("float32"), rng.standard_normal((40, 1))
    weights = np.ones(40)
    x[3, 1], y[21], weights[22] = np.nan, np.inf, np.nan
    results = []
    for rows in (np.arange(40), np.flatnonzero(~np.isin(np.arange(40), [3, 21, 22]))):
        keras.utils.set_random_seed(0)
        model = per_example(keras.Sequential([keras.Input((3,)), layers.Dense(1)]))
        chain = [drop_nonfinite(), clip_each(1.0)]
        model.compile("sgd", "mse", per_example=chain, reduction="sum")
        model.fit(x[rows], y[rows], 40, sample_weight=weights[rows], shuffle=False, verbose=0)
        results.append(model.get_weights())
    for with_them, without in zip(*results, strict=True):
        np.testing.assert_allclose(with_them, without, rtol=1e-5)


def test_the_factor_zero_drops_an_example() -> None:
    gradients = [tf.constant([[np.nan, 1.0], [np.inf, 2.0], [3.0, 4.0]])]
    losses = tf.constant([np.nan, 0.0, 1.0])
    kept = scale_each(gradients, tf.constant([False, False, True]))
    np.testing.assert_array_equal(kept[0], [[0, 0], [0, 0], [3, 4]])
    by_losses = weight_each(lambda x: tf.cast(tf.math.is_finite(x), x.dtype))
    np.testing.assert_array_equal(by_losses(gradients, losses)[0][0], [0, 0])
    np.testing.assert_array_equal(drop_nonfinite()(gradients, losses)[0], kept[0])


@pytest.mark.parametrize("transform", [clip_each(1.0), normalize_each()])
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30])
def test_a_gradient_without_a_norm_is_not_hidden(transform: Any, value: float) -> None:
    """1e30: its square is beyond float32, by which the gradient would vanish."""
    gradients = [tf.constant([[value, 1.0], [3.0, 4.0]], tf.float32)]
    transformed = transform(gradients, tf.zeros(2))[0].numpy()
    assert np.isnan(transformed[0]).all()
    np.testing.assert_allclose(transformed[1], [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("engine", ["numba", pytest.param("tensorflow", marks=pytest.mark.slow)])
def test_sentences_with_nan_leave_other_sentences_alone(engine: str) -> None:
    world = make_world(1)
    batch = world.batch()
    own = [set(world.store.batch([i]).words) for i in range(len(world.store))]
    word = next(w for w in sorted(own[0]) if not any(w in other for other in own[1:]))
    world.parameters.vectors[word] = np.nan
    model = CVG(world.parameters, engine)
    examples = next(ExampleSubgradients(model, "mmi").chunks(batch))
    for i in range(len(world.store)):
        _, expected = model.loss_gradients(world.store.batch([i]), "mmi")
        for value, rows, e in zip(examples.values, examples.rows, expected, strict=True):
            assert value is not None and rows is not None
            whole = np.zeros(e.shape)
            np.add.at(whole, rows[i].numpy(), value[i].numpy())
            np.testing.assert_allclose(whole, tf.convert_to_tensor(e), rtol=1e-9, atol=1e-12)
            assert np.isfinite(whole).all() == (i != 0)
