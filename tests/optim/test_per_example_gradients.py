"""Gradients of single examples as arrays, and what is done to them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.errors import ConfigError
from rnnparse.optim.per_example_gradients import sum_over_parts
from rnnparse.optim.per_example_model import (
    ExampleGradients,
    clip_each,
    example_gradients,
    example_norms,
    gather_rows,
    normalize_each,
    sign,
    weight_each,
)

Arrays = list[np.ndarray]


def random_gradients(seed: int, size: int = 5) -> Arrays:
    """Of three variables; the second example has none."""
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal((size, *shape)) for shape in ((2, 3), (), (4,))]
    for array in arrays:
        array[1] = 0
    return arrays


def apply(transform: Any, arrays: Arrays, losses: Any = (1.0, 2.0, 3.0, 4.0, 5.0)) -> Arrays:
    tensors = [tf.constant(a) for a in arrays]
    return [np.asarray(g) for g in transform(tensors, tf.constant(losses, tf.float64))]


def flat(arrays: Arrays) -> np.ndarray:
    """Each example's gradient as one row."""
    return np.concatenate([a.reshape(len(a), -1) for a in arrays], axis=1)


def test_norms_run_over_all_variables() -> None:
    arrays = random_gradients(0)
    expected = np.linalg.norm(flat(arrays), axis=1)
    np.testing.assert_allclose(example_norms([tf.constant(a) for a in arrays]), expected)


@settings(deadline=None)
@given(st.integers(0, 1000), st.floats(1e-3, 1e3))
def test_clipping_shortens_long_gradients_alone(seed: int, norm: float) -> None:
    arrays = random_gradients(seed)
    before, after = flat(arrays), flat(apply(clip_each(norm), arrays))
    for a, b in zip(before, after, strict=True):
        long = np.linalg.norm(a) > norm
        np.testing.assert_allclose(b, a * norm / np.linalg.norm(a) if long else a, rtol=1e-12)


def test_normalising_gives_the_length_one_and_leaves_zero() -> None:
    before = flat(random_gradients(1))
    after = flat(apply(normalize_each(), random_gradients(1)))
    lengths = np.linalg.norm(before, axis=1, keepdims=True)
    np.testing.assert_allclose(after * lengths, before, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), [1, 0, 1, 1, 1])


def test_signs_are_taken_of_each_example() -> None:
    arrays = random_gradients(2)
    assert np.array_equal(flat(apply(sign(), arrays)), np.sign(flat(arrays)))


def test_weights_are_given_or_computed_from_the_losses() -> None:
    arrays, weights = random_gradients(3), np.arange(5.0)
    expected = weights[:, None] * flat(arrays)
    np.testing.assert_allclose(flat(apply(weight_each(weights), arrays)), expected)
    by_losses = weight_each(lambda losses: losses - 1)
    np.testing.assert_allclose(flat(apply(by_losses, arrays)), expected)
    with pytest.raises(tf.errors.InvalidArgumentError, match="one weight for each example"):
        apply(weight_each([1.0]), arrays)


@pytest.mark.parametrize("norm", [0.0, -1.0, float("nan")])
def test_a_norm_to_clip_to_is_positive(norm: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        clip_each(norm)


def test_a_chain_works_on_the_variables_that_the_losses_depend_on() -> None:
    arrays = random_gradients(4)
    values: list[Any] = [tf.constant(a) for a in arrays]
    losses = tf.constant(np.ones(5))
    variables = [tf.Variable(a[0]) for a in arrays]
    whole = ExampleGradients(losses, variables, [values[0], None, values[2]], [None] * 3)
    result = whole.through([sign(), lambda gradients, losses: [2 * g for g in gradients]])
    assert result.values[1] is None
    for i in (0, 2):
        assert np.array_equal(result.values[i], 2 * np.sign(arrays[i]))
        np.testing.assert_allclose(result.sum()[i], 2 * np.sign(arrays[i]).sum(axis=0))
        np.testing.assert_allclose(result.mean()[i], 2 * np.sign(arrays[i]).mean(axis=0))
    assert result.sum()[1] is None
    for wrong in (
        lambda gradients, losses: gradients[:1],
        lambda gradients, losses: [g[:3] for g in gradients],
    ):
        with pytest.raises(ValueError, match="was given gradients of"):
            whole.through([wrong])


def dense(gradients: ExampleGradients, i: int) -> np.ndarray:
    """The gradients of all examples by variable i as arrays of its shape."""
    value, rows = gradients.values[i], gradients.rows[i]
    assert value is not None
    if rows is None:
        return np.asarray(value)
    result = np.zeros((len(value), *gradients.variables[i].shape))
    for example, own in enumerate(np.broadcast_to(rows, value.shape[:2])):
        np.add.at(result[example], own, value[example])
    return result


def look_up(table: Any, other: Any, ids: np.ndarray) -> tf.Tensor:
    """Losses [B] that read `table` twice, with ids that repeat."""
    read = gather_rows(table, ids) * gather_rows(table, ids[:, ::-1] // 2)
    return tf.reduce_sum(tf.tanh(read * other), axis=(1, 2))


def test_tables_are_differentiated_by_the_rows_that_were_read() -> None:
    rng = np.random.default_rng(0)
    start, ids = rng.standard_normal((50, 3)), rng.integers(0, 9, (4, 5))
    table, other = tf.Variable(start), tf.Variable(rng.standard_normal(3))
    unused = tf.Variable(1.0)
    gradients = example_gradients(
        lambda ids: look_up(table, other, ids), (ids,), [table, other, unused]
    )
    by_rows, rows = gradients.values[0], gradients.rows[0]
    assert by_rows is not None and rows is not None
    assert by_rows.shape == (4, 10, 3) and rows.shape == (4, 10)
    for own, value, expected in zip(rows.numpy(), by_rows.numpy(), ids, strict=True):
        there = own[np.any(value != 0, axis=1)]
        assert sorted(there) == sorted({*expected, *(expected // 2)})
    assert gradients.values[2] is None and gradients.sum()[2] is None
    for i in range(4):
        with tf.GradientTape() as plain:
            loss = look_up(table, other, ids[i : i + 1])
        by_table, by_other = plain.gradient(loss, [table, other])
        by_table = np.asarray(tf.convert_to_tensor(by_table))
        np.testing.assert_allclose(dense(gradients, 0)[i], by_table, atol=1e-12)
        np.testing.assert_allclose(dense(gradients, 1)[i], by_other, atol=1e-12)
    norms = np.linalg.norm(dense(gradients, 0).reshape(4, -1), axis=1)
    np.testing.assert_allclose(example_norms([by_rows]), norms)
    total = tf.convert_to_tensor(gradients.sum()[0])
    np.testing.assert_allclose(total, dense(gradients, 0).sum(axis=0), atol=1e-12)


def test_a_look_up_within_another_function_is_differentiated_by_the_whole_table() -> None:
    rng = np.random.default_rng(1)
    table, ids = tf.Variable(rng.standard_normal((7, 2))), rng.integers(0, 7, (3, 4))

    @tf.function
    def within(ids: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(gather_rows(table, ids) ** 2, axis=(1, 2))

    gradients = example_gradients(within, (ids,), [table])
    assert gradients.rows == [None]
    expected = np.zeros((3, 7, 2))
    for i in range(3):
        np.add.at(expected[i], ids[i], 2 * table.numpy()[ids[i]])
    np.testing.assert_allclose(gradients.values[0], expected)


def test_rows_of_single_examples_are_added_up_once() -> None:
    values = tf.constant(np.arange(12.0).reshape(2, 3, 2))
    rows = tf.constant([[4, 1, 0], [1, 4, 2]], tf.int64)
    table = tf.Variable(np.zeros((6, 2)))
    gradients = ExampleGradients(tf.ones(2), [table], [values], [rows])
    total = gradients.sum()[0]
    assert sorted(total.indices.numpy()) == [0, 1, 2, 4]
    np.testing.assert_allclose(tf.convert_to_tensor(total), dense(gradients, 0).sum(axis=0))


def test_keras_embeddings_work_as_before_afterwards() -> None:
    layer = keras.layers.Embedding(5, 2)
    layer.build()
    call = layer.call
    gradients = example_gradients(
        lambda ids: tf.reduce_sum(layer(ids), axis=(1, 2)),
        (np.array([[1, 1], [3, 4]]),),
        [layer.embeddings],
        layer,
    )
    assert layer.call == call and "call" not in layer.__dict__
    np.testing.assert_allclose(
        dense(gradients, 0)[:, :, 0], [[0, 2, 0, 0, 0], [0, 0, 0, 1, 1]], atol=0
    )


def test_losses_that_are_already_reduced_are_refused() -> None:
    variable = tf.Variable([1.0, 2.0])
    with pytest.raises(ConfigError, match=r"the shape \(\).*one value for each example"):
        example_gradients(lambda x: tf.reduce_sum(variable * x), (tf.ones((3, 2)),), [variable])


@pytest.mark.parametrize("size", [1, 4, 7, 8])
def test_sums_over_parts_collect_slices_and_leave_gaps(size: int) -> None:
    """Eagerly and in a graph; a part is a range of numbers, and as slices each at its row."""

    def part(start: Any) -> list[Any]:
        numbers = tf.range(start, tf.minimum(start + 4, size))
        slices = tf.IndexedSlices(tf.ones_like(numbers), numbers % 3, tf.constant([3]))
        return [tf.reduce_sum(numbers), None, slices]

    for run in (sum_over_parts, tf.function(sum_over_parts)):
        total, gap, slices = run(part, tf.constant(size), 4)
        assert int(total) == size * (size - 1) // 2 and gap is None
        assert len(set(slices.indices.numpy())) == len(slices.indices)
        expected = np.bincount(np.arange(size) % 3, minlength=3)
        assert np.array_equal(tf.convert_to_tensor(slices), expected)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from Linux")
def test_a_step_takes_memory_for_the_rows_that_are_read_and_not_for_the_table() -> None:
    """46,787 × 50 numbers, 512 examples: held densely, their gradients would take 4.6 GB."""
    script = Path(__file__).parents[2] / "benchmarks" / "bench_per_example.py"
    done = subprocess.run(
        [sys.executable, str(script), "--peak", "rows"], capture_output=True, text=True, check=True
    )
    assert 0 < float(done.stdout.split()[-1]) < 300
