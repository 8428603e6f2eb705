from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.adagrad import AdaGrad
from rnnparse.optim.freezing import FrozenRows
from rnnparse.optim.slots import variable_slots

ROWS, SHAPE = [1, 4, 5], (7, 3, 2)
OTHERS = [0, 2, 3, 6]
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "sgd with decay": lambda: keras.optimizers.SGD(0.1, weight_decay=0.1),
    "adam": lambda: keras.optimizers.Adam(0.1),
    "adamw": lambda: keras.optimizers.AdamW(0.1, weight_decay=0.1),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.1, momentum=0.5, centered=True),
    "keras-adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adagrad": lambda: AdaGrad(0.1),
    "adagrad with decay": lambda: AdaGrad(0.1, weight_decay=0.1),
    "accumulation": lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
}
makers = pytest.mark.parametrize("maker", OPTIMIZERS.values(), ids=OPTIMIZERS)


def new_variable() -> Any:
    values = np.random.default_rng(0).standard_normal(SHAPE)
    return keras.Variable(values, dtype="float32", name="W")


def gradients(count: int, sparse: bool, seed: int = 1) -> list[Any]:
    rng = np.random.default_rng(seed)
    drawn: list[Any] = []
    for _ in range(count):
        if sparse:
            rows = tf.constant(rng.integers(0, SHAPE[0], 5))
            values = tf.constant(rng.standard_normal((5, *SHAPE[1:])), tf.float32)
            drawn.append(tf.IndexedSlices(values, rows, tf.constant(SHAPE)))
        else:
            drawn.append(tf.constant(rng.standard_normal(SHAPE), tf.float32))
    return drawn


def slices_of(optimizer: Any, variable: Any, rows: list[int]) -> dict[str, bytes]:
    slots = variable_slots(optimizer, variable) | {"weights": variable}
    return {name: x.numpy()[rows].tobytes() for name, x in slots.items()}


@makers
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_frozen_rows_keep_their_bytes_and_the_others_go_their_way(maker: Any, sparse: bool) -> None:
    held, free = new_variable(), new_variable()
    one, two = maker(), maker()
    # Slots that are not at their start, so that momentum would move the rows.
    for gradient in gradients(3, sparse):
        one.apply([gradient], [held])
        two.apply([gradient], [free])
    before, moving = slices_of(one, held, ROWS), slices_of(one, held, OTHERS)
    frozen = FrozenRows([(held, ROWS)])
    for gradient in gradients(4, sparse, seed=2):
        frozen.apply(one, [gradient], [held])
        two.apply([gradient], [free])
    assert slices_of(one, held, ROWS) == before != slices_of(two, free, ROWS)
    assert slices_of(one, held, OTHERS) == slices_of(two, free, OTHERS) != moving


def stepper(optimizer: Any, variable: Any) -> Any:
    frozen = FrozenRows([(variable, ROWS)])
    return lambda gradient: frozen.apply(optimizer, [gradient], [variable])


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "compiled"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_steps_in_graphs_are_eager_steps(jit: bool, sparse: bool) -> None:
    results = []
    for traced in (False, True):
        variable, optimizer = new_variable(), keras.optimizers.Adam(0.1, weight_decay=0.1)
        optimizer.build([variable])
        step = stepper(optimizer, variable)
        run = tf.function(step, jit_compile=jit, autograph=False) if traced else step
        for gradient in gradients(3, sparse):
            run(gradient)
        results.append(variable.numpy())
    assert np.array_equal(results[1][ROWS], new_variable().numpy()[ROWS])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    assert not np.any(results[1][OTHERS] == new_variable().numpy()[OTHERS])


def test_the_average_of_a_frozen_row_is_the_row() -> None:
    variable = new_variable()
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9)
    frozen = FrozenRows([(variable, ROWS)])
    for gradient in gradients(4, sparse=False):
        frozen.apply(optimizer, [gradient], [variable])
    optimizer.finalize_variable_values([variable])
    assert np.array_equal(variable.numpy()[ROWS], new_variable().numpy()[ROWS])
    assert not np.array_equal(variable.numpy()[OTHERS], new_variable().numpy()[OTHERS])


def test_a_constraint_does_not_move_frozen_rows() -> None:
    variable = new_variable()
    variable.constraint = keras.constraints.UnitNorm(axis=(1, 2))
    FrozenRows([(variable, ROWS)]).apply(AdaGrad(0.1), gradients(1, sparse=False), [variable])
    norms = np.linalg.norm(variable.numpy().reshape(7, 6), axis=1)
    np.testing.assert_allclose(norms[OTHERS], 1, rtol=1e-5)
    assert np.array_equal(variable.numpy()[ROWS], new_variable().numpy()[ROWS])


def test_a_derivative_by_a_frozen_row_may_be_anything() -> None:
    values = np.ones(SHAPE, np.float32)
    values[ROWS] = np.nan
    variable = new_variable()
    optimizer = keras.optimizers.Adam(0.1, global_clipnorm=1.0)
    FrozenRows([(variable, ROWS)]).apply(optimizer, [tf.constant(values)], [variable])
    assert np.all(np.isfinite(variable))
    assert np.array_equal(variable.numpy()[ROWS], new_variable().numpy()[ROWS])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_frozen_weights_may_be_smaller_than_the_normal_numbers(sparse: bool) -> None:
    """TensorFlow turns those to 0 wherever it computes with them."""
    tiny = np.full(SHAPE, 1e-40, np.float32)
    variable, optimizer = keras.Variable(tiny, dtype="float32"), AdaGrad(0.1)
    optimizer.build([variable])
    step = tf.function(stepper(optimizer, variable), autograph=False)
    for gradient in gradients(2, sparse):
        step(gradient)
    assert variable.numpy()[ROWS].tobytes() == tiny[ROWS].tobytes()


def test_a_sparse_gradient_without_rows_changes_nothing() -> None:
    variable = new_variable()
    none = tf.IndexedSlices(tf.zeros((0, *SHAPE[1:])), tf.zeros(0, tf.int32), tf.constant(SHAPE))
    FrozenRows([(variable, ROWS)]).apply(AdaGrad(0.1), [none], [variable])
    assert np.array_equal(variable, new_variable())


def test_clipping_by_the_norm_does_not_count_frozen_rows() -> None:
    (gradient,) = gradients(1, sparse=False)
    without = gradient.numpy()
    without[ROWS] = 0
    held, free = new_variable(), new_variable()
    FrozenRows([(held, ROWS)]).apply(keras.optimizers.SGD(0.1, clipnorm=0.1), [gradient], [held])
    keras.optimizers.SGD(0.1, clipnorm=0.1).apply([tf.constant(without)], [free])
    assert np.array_equal(held, free)


def test_filtered_gradients_keep_their_kind() -> None:
    variable, other = new_variable(), new_variable()
    frozen = FrozenRows([(variable, ROWS), (other, [])])
    dense, sparse = gradients(1, False)[0], gradients(1, True)[0]
    remaining = frozen.filter(dense, variable).numpy()
    assert np.array_equal(remaining[OTHERS], dense.numpy()[OTHERS])
    assert not remaining[ROWS].any()
    filtered = frozen.filter(sparse, variable)
    assert isinstance(filtered, tf.IndexedSlices)
    whole = np.array(tf.convert_to_tensor(sparse))
    whole[ROWS] = 0
    np.testing.assert_array_equal(tf.convert_to_tensor(filtered), whole)
    assert frozen.filter(dense, other) is dense
    assert frozen.filter(None, variable) is None


def test_variables_without_frozen_rows_or_gradient_are_left_to_the_optimiser() -> None:
    frozen_in, other, unused = new_variable(), new_variable(), new_variable()
    one, two = gradients(2, sparse=False)
    frozen = FrozenRows([(frozen_in, [0]), (unused, [0])])
    optimizer = AdaGrad(0.1)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        frozen.apply(optimizer, [one, two, None], [frozen_in, other, unused])
    expected = new_variable()
    AdaGrad(0.1).apply([two], [expected])
    assert np.array_equal(other, expected)
    assert np.array_equal(unused, new_variable())


def test_a_vector_has_rows_too() -> None:
    variable = keras.Variable(np.ones(4), dtype="float32")
    FrozenRows([(variable, np.array([2]))]).apply(AdaGrad(0.5), [tf.ones(4)], [variable])
    assert variable.numpy().tolist() == [0.5, 0.5, 1.0, 0.5]


@pytest.mark.parametrize("rows", [[7], [-1], [0.5], [[1, 2]], [True] * 7])
def test_rows_that_do_not_exist_are_refused(rows: list[Any]) -> None:
    with pytest.raises(ValueError, match="rows"):
        FrozenRows([(new_variable(), rows)])


def test_rows_of_several_pairs_add_up() -> None:
    variable = new_variable()
    before = variable.numpy()
    frozen = FrozenRows([(variable, [2, 0]), (variable, [5, 2])])
    frozen.apply(keras.optimizers.Adam(0.1), gradients(1, False), [variable])
    changed = (variable.numpy() != before).any(axis=tuple(range(1, before.ndim)))
    assert np.flatnonzero(~changed).tolist() == [0, 2, 5]


def test_an_optimiser_whose_slots_have_other_rows_is_refused() -> None:
    variable = new_variable()
    optimizer = keras.optimizers.Adafactor(0.1)
    with pytest.raises(ConfigError, match="rows of W cannot be frozen with adafactor"):
        FrozenRows([(variable, ROWS)]).apply(optimizer, gradients(1, False), [variable])


class RowsFrozen(keras.Sequential):
    """How `fit` is made to obey."""

    frozen: FrozenRows

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        variables = self.trainable_variables
        self.frozen.apply(self.optimizer, tape.gradient(loss, variables), variables)
        return {"loss": loss}


def test_fit_with_frozen_rows_of_an_embedding() -> None:
    layers = keras.layers
    model = RowsFrozen(
        [
            keras.Input((5,), dtype="int32"),
            layers.Embedding(9, 2),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    embeddings = model.layers[0].embeddings
    model.frozen = FrozenRows([(embeddings, [0, 3])])
    model.compile(optimizer=keras.optimizers.AdamW(0.1), loss="mse", jit_compile=False)
    before = embeddings.numpy()
    rng = np.random.default_rng(0)
    model.fit(rng.integers(0, 9, (32, 5)), rng.standard_normal((32, 1)), epochs=2, verbose=0)
    changed = (embeddings.numpy() != before).any(axis=1)
    assert np.flatnonzero(~changed).tolist() == [0, 3]
