from __future__ import annotations

import doctest
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.losses import external
from rnnparse.losses.external import external_loss

Result = tuple[Any, Any]


def quartic(a: np.ndarray) -> Result:
    """A loss for each example."""
    axes = tuple(range(1, a.ndim))
    return np.sum(a**4, axis=axes), 4 * a**3


def mixed(a: np.ndarray) -> Result:
    """A scalar that ties all examples together."""
    return np.sum(a) ** 2 / 2, np.full(a.shape, np.sum(a))


def distance(a: np.ndarray, target: np.ndarray) -> Result:
    return np.sum((a - target) ** 2, axis=1), 2 * (a - target)


def normal(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    return tf.constant(np.random.default_rng(seed).standard_normal(shape), dtype)


def with_gradient(x: Any, fn: Any, upstream: Any, **options: Any) -> tuple[Any, Any]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = external_loss(x, fn, **options)
        total = tf.reduce_sum(loss * upstream)
    return loss, tape.gradient(total, x)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 3), (5,), (2, 3, 2), (0, 3)])
def test_losses_of_examples_multiply_the_upstream_gradient_row_by_row(
    shape: tuple[int, ...], dtype: str, graph: bool
) -> None:
    x = normal(*shape, dtype=dtype)
    upstream = normal(shape[0], dtype=dtype, seed=1)
    run = tf.function(with_gradient) if graph else with_gradient
    loss, gradient = run(x, quartic, upstream)
    assert loss.dtype == gradient.dtype == dtype
    np.testing.assert_allclose(loss, quartic(x.numpy())[0], rtol=1e-6)
    rows = np.asarray(upstream).reshape(-1, *[1] * (len(shape) - 1))
    np.testing.assert_allclose(gradient, rows * quartic(x.numpy())[1], rtol=1e-6)


@pytest.mark.parametrize("graph", [False, True])
def test_a_scalar_loss_multiplies_the_upstream_gradient_as_a_whole(graph: bool) -> None:
    x = normal(4, 3)
    run = tf.function(with_gradient) if graph else with_gradient
    loss, gradient = run(x, mixed, tf.constant(-3.0, tf.float64))
    np.testing.assert_allclose(loss, np.sum(x) ** 2 / 2)
    np.testing.assert_allclose(gradient, np.full((4, 3), -3 * np.sum(x)))


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("pfor", [False, True])
@pytest.mark.parametrize("per_example", [None, True])
def test_a_jacobian_has_the_derivative_of_each_example(
    per_example: bool | None, pfor: bool, graph: bool
) -> None:
    x = normal(4, 3)

    def jacobian(x: Any) -> Any:
        with tf.GradientTape(persistent=not pfor) as tape:
            tape.watch(x)
            loss = external_loss(x, quartic, per_example=per_example)
        return tape.jacobian(loss, x, experimental_use_pfor=pfor)

    rows = np.asarray((tf.function(jacobian) if graph else jacobian)(x))
    expected = np.zeros((4, 4, 3))
    expected[np.arange(4), np.arange(4)] = 4 * x.numpy() ** 3
    np.testing.assert_allclose(rows, expected)


@pytest.mark.parametrize("graph", [False, True])
def test_the_function_is_called_once_for_each_forward_pass(graph: bool) -> None:
    calls = []

    def counted(a: np.ndarray) -> Result:
        calls.append(a)
        return quartic(a)

    def step(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            losses = external_loss(x, counted)
            first, total = losses[0], tf.reduce_sum(losses)
        return tape.gradient(first, x), tape.gradient(total, x), tape.jacobian(losses, x)

    run = tf.function(step) if graph else step
    for n in range(1, 4):
        run(normal(4, 3))
        assert len(calls) == n


@pytest.mark.parametrize("graph", [False, True])
def test_gradients_of_gathered_losses(graph: bool) -> None:
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(tf.gather(external_loss(x, quartic), [1, 1, 3]))
        return tape.gradient(total, x)

    x = normal(4, 3)
    gradient = (tf.function(run) if graph else run)(x)
    np.testing.assert_allclose(gradient, np.array([[0], [2], [0], [1]]) * 4 * x.numpy() ** 3)


def test_forward_mode() -> None:
    x = normal(4, 3)
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        loss = external_loss(x, quartic)
    np.testing.assert_allclose(accumulator.jvp(loss), np.sum(4 * x.numpy() ** 3, axis=1))


@pytest.mark.parametrize("graph", [False, True])
def test_nests_of_activations_and_further_arguments(graph: bool) -> None:
    x = {"left": normal(4, 3), "right": (normal(4, 2, seed=1), normal(4, seed=2))}
    labels = {"scale": tf.constant([1, 2, 3, 4])}

    def both(a: Any, labels: Any, power: Any) -> Result:
        assert set(a) == {"left", "right"} and a["right"][1].shape == (4,)
        scale = labels["scale"]
        loss = scale * (np.sum(a["left"] ** power, axis=1) + a["right"][1])
        right = [np.zeros((4, 2)), scale.astype(float)]
        return loss, {"right": right, "left": scale[:, None] * power * a["left"] ** (power - 1)}

    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = external_loss(x, both, labels, 2)
        return loss, tape.gradient(loss, x)

    loss, gradient = (tf.function(run) if graph else run)(x)
    scale = np.arange(1, 5)
    left, last = x["left"].numpy(), x["right"][1].numpy()
    np.testing.assert_allclose(loss, scale * (np.sum(left**2, axis=1) + last))
    np.testing.assert_allclose(gradient["left"], scale[:, None] * 2 * left)
    np.testing.assert_array_equal(gradient["right"][0], np.zeros((4, 2)))
    np.testing.assert_array_equal(gradient["right"][1], scale)


def test_numbers_in_lists_are_one_array() -> None:
    def fn(a: np.ndarray, target: np.ndarray) -> Result:
        assert a.dtype == np.float32 and a.shape == target.shape == (2, 2)
        return distance(a, target)

    np.testing.assert_array_equal(external_loss([[1.0, 2.0], [3.0, 4.0]], fn, [[1, 2]] * 2), [0, 8])


def test_variables_of_tensorflow_and_keras_are_activations_too() -> None:
    value = normal(4, 3)
    of_keras = keras.Variable(value, dtype="float64")
    for x, source in [(tf.Variable(value),) * 2, (of_keras, of_keras.value)]:
        with tf.GradientTape() as tape:
            loss = external_loss(x, quartic)
        np.testing.assert_allclose(tape.gradient(loss, source), 4 * value.numpy() ** 3)


@pytest.mark.parametrize("graph", [False, True])
def test_a_function_may_write_to_its_arrays_and_reuse_its_buffers(graph: bool) -> None:
    memory = np.zeros(4 * 3 * 8 + 64, np.uint8)
    start = -memory.ctypes.data % 64  # TensorFlow takes over aligned memory without a copy
    buffer = memory[start:][: 4 * 3 * 8].view(np.float64).reshape(4, 3)

    def careless(a: np.ndarray) -> Result:
        loss = np.sum(a**2, axis=1)
        buffer[:] = 2 * a
        a[:] = np.nan
        return loss, buffer

    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = external_loss(x, careless) + external_loss(3 * x, careless)
        return tape.gradient(loss, x)

    x = normal(4, 3)
    before = x.numpy().copy()
    np.testing.assert_allclose((tf.function(run) if graph else run)(x), 20 * before)
    np.testing.assert_array_equal(x, before)


def test_the_static_shape_is_known_where_it_can_be() -> None:
    shapes = {}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64)])
    def trace(x: Any) -> Any:
        for per_example in (True, False):
            fn = quartic if per_example else mixed
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = external_loss(x, fn, per_example=per_example)
            shapes[per_example] = loss.shape.as_list(), tape.gradient(loss, x).shape.as_list()
        return loss

    trace(normal(4, 3))
    assert shapes == {True: ([None], [None, 3]), False: ([], [None, 3])}


def test_activations_of_unknown_rank() -> None:
    run = tf.function(with_gradient, input_signature=None)
    x, upstream = normal(4, 3), normal(4, seed=1)

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float64)])
    def unknown(x: Any) -> Any:
        return with_gradient(x, quartic, upstream)

    for a, b in zip(unknown(x), run(x, quartic, upstream), strict=True):
        np.testing.assert_allclose(a, b)


class WithOwnLoss(keras.layers.Layer):
    """Adds an external loss of what passes through."""

    def call(self, x: Any) -> Any:
        self.add_loss(tf.reduce_mean(external_loss(x, quartic)))
        return x


def test_it_trains_a_keras_model_as_a_loss_and_as_an_added_loss() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 3)).astype(np.float32)
    y = x @ rng.standard_normal((3, 2)).astype(np.float32)
    weights = rng.random(64).astype(np.float32)

    def fit(loss: Any, *layers: Any) -> list[float]:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Dense(2), *layers])
        model.compile(keras.optimizers.SGD(0.02), loss=loss, jit_compile=False)
        history = model.fit(x, y, sample_weight=weights, epochs=4, batch_size=16, verbose=0)
        return history.history["loss"]

    def outside(y: Any, y_pred: Any) -> Any:
        return external_loss(y_pred, distance, y, per_example=True)

    def inside(y: Any, y_pred: Any) -> Any:
        return tf.reduce_sum((y_pred - y) ** 2, axis=1)

    losses = fit(outside)
    np.testing.assert_allclose(losses, fit(inside), rtol=1e-5)
    assert losses[-1] < 0.8 * losses[0]
    added = fit(lambda y, y_pred: 0 * inside(y, y_pred), WithOwnLoss())
    assert added[-1] < added[0]


def test_the_second_derivative_is_an_error_not_zero() -> None:
    def second(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = external_loss(x, quartic)
            first = inner.gradient(loss, x)
        return outer.gradient(first, x)

    with pytest.raises((NotImplementedError, tf.errors.UnimplementedError), match="quartic ret"):
        second(normal(4, 3))
    with pytest.raises(tf.errors.UnimplementedError, match="quartic returns a loss and its first"):
        tf.function(second)(normal(4, 3))

    @tf.function
    def unused(x: Any) -> Any:
        second(x)
        return external_loss(x, quartic)

    unused(normal(4, 3))


@pytest.mark.parametrize("inner_graph", [False, True])
@pytest.mark.parametrize("outer_graph", [False, True])
def test_first_derivatives_within_other_tapes_are_no_error(
    inner_graph: bool, outer_graph: bool
) -> None:
    """Persistent and outer tapes prepare for second derivatives that nobody asks for."""
    compute = partial(external_loss, fn=quartic)
    loss_of = tf.function(compute) if inner_graph else compute

    def run(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(x)
                loss = loss_of(x)
            first = inner.gradient(loss, x)
            other = tf.reduce_sum(x**2) + tf.reduce_sum(loss)
        return first, outer.gradient(other, x)

    x = normal(4, 3)
    first, other = (tf.function(run) if outer_graph else run)(x)
    np.testing.assert_allclose(first, 4 * x.numpy() ** 3)
    np.testing.assert_allclose(other, 4 * x.numpy() ** 3 + 2 * x.numpy())


def test_the_message_of_xla_says_what_to_do() -> None:
    run = tf.function(partial(external_loss, fn=quartic), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs_jit_compile_False"):
        run(normal(4, 3))


def nan_derivative(a: np.ndarray) -> Result:
    return np.sum(a), np.where(np.arange(a.size).reshape(a.shape) == 4, np.nan, a)


BAD_RESULTS = {
    "derivative of shape (3, 4) for activations of shape (4, 3)": lambda a: (np.sum(a), a.T),
    "loss of shape (3,) for activations of shape (4, 3)": lambda a: (np.sum(a, axis=0), a),
    "loss of shape (1,)": lambda a: ([np.sum(a)], a),
    "(loss, derivative), not 3 results": lambda a: (np.sum(a), a, a),
    "(loss, derivative), not ndarray": lambda a: a,
    "not finite in float32, first at [1, 1]": nan_derivative,
    "not finite in float32": lambda a: (np.sum(a), np.full(a.shape, 1e300)),
    "loss that is not finite": lambda a: (np.float64("nan"), a),
}


@pytest.mark.parametrize("message", BAD_RESULTS)
def test_a_wrong_result_is_named_with_its_function(message: str) -> None:
    fn = BAD_RESULTS[message]
    x = normal(4, 3, dtype="float32")
    name = "nan_derivative" if fn is nan_derivative else "<lambda>"
    with pytest.raises(ValueError) as eager:
        external_loss(x, fn)
    with pytest.raises(tf.errors.InvalidArgumentError) as graph:
        tf.function(external_loss)(x, fn)
    for error in (eager, graph):
        assert f"{name} " in str(error.value) and message in str(error.value)


@pytest.mark.parametrize(("fn", "per_example"), [(quartic, False), (mixed, True)])
def test_a_loss_of_another_kind_than_declared_is_an_error(fn: Any, per_example: bool) -> None:
    with pytest.raises(ValueError, match=r"expected \(4,\)" if per_example else r"expected \(\)"):
        external_loss(normal(4, 3), fn, per_example=per_example)


def test_a_derivative_of_another_nest_is_an_error() -> None:
    x = [normal(4, 3), normal(4)]
    with pytest.raises(ValueError, match="nest like that of the activations"):
        external_loss(x, lambda a: (np.sum(a[0]), a[0]))
    with pytest.raises(ValueError, match="nest like that of the activations"):
        external_loss(x, lambda a: (np.sum(a[0]), [a[0]]))


def test_a_loss_for_each_example_needs_examples_in_all_arrays() -> None:
    x = [normal(4, 3), normal(2)]
    with pytest.raises(ValueError, match=r"\(4, 3\), \(2,\); expected \(\)"):
        external_loss(x, lambda a: (np.sum(a[0], axis=1), a))


@pytest.mark.parametrize(
    "activations", [tf.constant([1, 2]), [tf.constant(1.0), normal(2)], [[1, 2]], []]
)
def test_activations_have_to_be_float_tensors(activations: Any) -> None:
    with pytest.raises(ValueError, match="for quartic must be float tensors"):
        external_loss(activations, quartic)


class OwnError(Exception):
    """Not made from a message alone."""

    def __init__(self, utterance: int, frames: int) -> None:
        super().__init__(f"{frames} frames in utterance {utterance}")


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("error", [ZeroDivisionError("no frames"), KeyError("no"), OwnError(7, 0)])
def test_what_the_function_raises_reaches_the_user(error: Exception, graph: bool) -> None:
    def broken(a: np.ndarray) -> Result:
        raise error

    run = tf.function(external_loss) if graph else external_loss
    for _ in range(2):
        with pytest.raises(type(error)) as raised:
            run(normal(4, 3), broken)
        message = str(raised.value)
        assert str(error.args[0]) in message and "\n" not in message
        assert graph == ("test_external.py:" in message)
        assert graph == isinstance(raised.value, tf.errors.OpError)
        error.args = error.args[-1:]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"):
        tf.debugging.assert_positive(-1, "must be positive")  # others are as before


def test_the_example_of_the_docstring() -> None:
    result = doctest.testmod(external)
    assert result.attempted and not result.failed
