"""The two engines against each other, and each under the ways TensorFlow runs functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnnparse._tensorflow import tf
from rnnparse.errors import ConfigError
from rnnparse.models.batch import LevelBatch, pad_batch
from rnnparse.models.cvg import CVG
from rnnparse.models.parameters import Parameters, initial_parameters
from rnnparse.models.su_rnn import _graph
from tests.models.conftest import WORDS, World, make_world


def weighted(model: CVG, batch: LevelBatch, upstream: np.ndarray, width: int | None = None) -> Any:
    scores = model(batch, width=width)
    return tf.reduce_sum(scores * tf.cast(upstream, scores.dtype))


def derivatives(model: CVG, batch: LevelBatch, upstream: np.ndarray) -> list[np.ndarray]:
    variables = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = weighted(model, batch, upstream)
    return [np.asarray(tf.convert_to_tensor(g)) for g in tape.gradient(loss, variables)]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
@pytest.mark.parametrize("seed", range(3))
def test_engines_agree_on_scores_and_derivatives(seed: int, dtype: str, tolerance: float) -> None:
    world = make_world(seed, dtype)
    batch = world.batch()
    upstream = np.random.default_rng(seed).standard_normal(len(batch.root))
    models = [CVG(world.parameters, engine) for engine in ("numba", "tensorflow")]
    scores = [np.asarray(model(batch)) for model in models]
    np.testing.assert_allclose(*scores, atol=tolerance, rtol=tolerance)
    assert scores[0].dtype == dtype
    for a, b in zip(*(derivatives(m, batch, upstream) for m in models), strict=True):
        assert np.abs(a).max() > 0.01
        np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)


def test_models_of_several_sizes_live_side_by_side(world: World) -> None:
    batch = world.batch()
    for dim in (4, 7, 3):
        weights = initial_parameters(world.category_pairs, WORDS, dim, noise=0.4, dtype="float64")
        scores = [CVG(weights, engine)(batch) for engine in ("numba", "tensorflow")]
        np.testing.assert_allclose(*scores, atol=1e-10)


def test_batches_of_all_sizes_share_a_graph() -> None:
    world = make_world(3)
    weights = initial_parameters(world.category_pairs, WORDS, 11, noise=0.4, dtype="float32")
    one, other = (CVG(weights, engine) for engine in ("numba", "tensorflow"))
    for sentences in ([0], [2, 1], [3, 0, 2], [1, 3], [0, 1, 2, 3], [2]):
        batch = world.store.batch(sentences)
        np.testing.assert_allclose(one(batch), other(batch), atol=1e-5)
    assert _graph(tf.float32, 11).experimental_get_tracing_count() == 1


@pytest.mark.parametrize("engine", ["numba", "tensorflow"])
def test_graph_mode_is_eager_mode_without_retracing(engine: str) -> None:
    world = make_world(3)
    model = CVG(world.parameters, engine)
    traces = []

    @tf.function(reduce_retracing=True)
    def step(batch: LevelBatch) -> Any:
        traces.append(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(batch)))
        return loss, tape.gradient(loss, [model.W.value, model.v.value])

    for sentences in ([0], [2, 1], [3, 0, 2], [1, 3], [0, 1, 2, 3], [2]):
        batch = world.store.batch(sentences)
        loss, gradients = step(batch)
        scores = np.asarray(model(batch))
        assert float(loss) == pytest.approx(float(scores @ scores), rel=1e-12)
        expected = derivatives(model, batch, 2 * scores)[1:]
        for a, b in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(np.asarray(tf.convert_to_tensor(a)), b, atol=1e-12)
    assert len(traces) <= 3


@pytest.mark.slow
def test_xla_compiles_the_tensorflow_engine_on_padded_batches() -> None:
    world = make_world(2)
    batch = world.batch()
    padded = pad_batch(batch, 8)
    model = CVG(world.parameters, "tensorflow")
    upstream = np.random.default_rng(0).standard_normal(len(padded.root))
    upstream[len(batch.root) :] = 0.0
    variables = [v.value for v in model.trainable_variables]

    @tf.function(jit_compile=True)
    def step(padded: LevelBatch, upstream: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = weighted(model, padded, upstream, width=8)
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    expected = derivatives(model, batch, upstream[: len(batch.root)])
    for a, b in zip(step(padded, upstream), expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, atol=1e-10)


@pytest.mark.slow
def test_second_derivatives_of_the_tensorflow_engine() -> None:
    """Against differences of first derivatives, along a random direction."""
    world = make_world(6)
    batch = world.store.batch([0])
    direction = np.random.default_rng(1).standard_normal(world.parameters.W.shape)
    upstream = np.ones(len(batch.root))
    model = CVG(world.parameters, "tensorflow")
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = weighted(model, batch, upstream)
        first = tf.convert_to_tensor(inner.gradient(loss, model.W.value))
        along = tf.reduce_sum(first * direction)
    second = np.asarray(tf.convert_to_tensor(outer.gradient(along, model.W.value)))
    step = 1e-5
    ends = [
        derivatives(
            CVG(world.parameters._replace(W=world.parameters.W + sign * step * direction)),
            batch,
            upstream,
        )[1]
        for sign in (1, -1)
    ]
    numeric = (ends[0] - ends[1]) / (2 * step)
    assert np.abs(second).max() > 0.01
    np.testing.assert_allclose(second, numeric, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize(
    ("engine", "graph"),
    [
        ("numba", False),
        *(
            pytest.param(engine, graph, marks=pytest.mark.slow)
            for engine, graph in (("numba", True), ("tensorflow", False), ("tensorflow", True))
        ),
    ],
)
def test_jacobians_hold_one_derivative_a_candidate(engine: str, graph: bool) -> None:
    world = make_world(3)
    batch = world.store.batch([0, 1])
    model = CVG(world.parameters, engine)

    def jacobian() -> Any:
        with tf.GradientTape() as tape:
            scores = model(batch)
        return tape.jacobian(scores, model.v.value)

    rows = np.asarray((tf.function(jacobian) if graph else jacobian)())
    assert rows.shape == (len(batch.root), *world.parameters.v.shape)
    for t, row in enumerate(rows):
        unit = np.eye(len(batch.root))[t]
        np.testing.assert_allclose(row, derivatives(model, batch, unit)[2], atol=1e-12)


@pytest.mark.parametrize("engine", ["numba", "tensorflow"])
def test_an_empty_batch_has_no_scores(engine: str, world: World) -> None:
    model = CVG(world.parameters, engine)
    assert model(world.store.batch([])).shape == (0,)


def test_weights_have_their_names_and_come_back_unchanged(world: World) -> None:
    model = CVG(world.parameters)
    assert [v.name for v in model.trainable_variables] == ["vectors", "W", "v"]
    for a, b in zip(model.parameters(), world.parameters, strict=True):
        assert np.array_equal(a, b)
    again = CVG(Parameters(**model.parameters()._asdict()))
    assert np.array_equal(again(world.batch()), model(world.batch()))


def test_an_unknown_engine_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="numba, tensorflow"):
        CVG(world.parameters, "abacus")
