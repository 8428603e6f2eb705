"""Scores as linear functions of v, against the network's own forward and backward pass."""

from __future__ import annotations

import numpy as np
import pytest

from rnnparse.losses.score_gradients import TIES
from rnnparse.models import kernels
from rnnparse.models.objective import loss_of_scores
from rnnparse.models.score_vectors import linear_jacobian, linear_scores
from rnnparse.models.scorer import Scorer
from tests.models.conftest import World, make_world

KAPPA = 0.4


def node_vectors(world: World) -> np.ndarray:
    return Scorer(world.parameters).node_vectors(world.batch())


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_network_for_any_v(seed: int) -> None:
    world = make_world(seed)
    vectors = node_vectors(world)
    for v in (
        world.parameters.v,
        np.random.default_rng(seed).standard_normal((len(world.keys), 5)),
    ):
        expected = Scorer(world.parameters._replace(v=v)).scores(world.batch())
        np.testing.assert_allclose(linear_scores(world.batch(), vectors, v), expected, rtol=1e-12)


def test_float32_vectors_give_float64_scores() -> None:
    world = make_world(0, "float32")
    scores = linear_scores(world.batch(), node_vectors(world), world.parameters.v.astype(float))
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, Scorer(world.parameters).scores(world.batch()), rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_the_derivatives_of_each_example(seed: int) -> None:
    """Each row is what the backward pass gives for that example alone."""
    world = make_world(seed)
    batch, vectors = world.batch(), node_vectors(world)
    upstream = np.random.default_rng(seed).standard_normal(len(batch.root))
    owner = np.nonzero(batch.mask)[0]
    rows = linear_jacobian(batch, vectors, upstream, np.arange(4), len(world.keys))
    structure = (batch.rows, batch.key, batch.left, batch.right)
    for example in range(4):
        one = np.where(owner == example, upstream, 0.0)
        _, W, v = world.parameters
        used, _, expected, _ = kernels.backward(
            W, v, *structure, batch.root, vectors, len(batch.words), one, True, True, True
        )
        at = batch.rows[used]
        np.testing.assert_allclose(rows[example, at], expected, rtol=1e-12, atol=1e-14)
        assert np.count_nonzero(rows[example]) == np.count_nonzero(rows[example, at])


@pytest.mark.parametrize("tie", TIES)
def test_rows_are_the_derivatives_of_the_violations(tie: str) -> None:
    """Within a piece of the piecewise linear hinge the first order is exact."""
    world = make_world(1)
    batch, vectors, v = world.batch(), node_vectors(world), world.parameters.v
    losses, weights = loss_of_scores(batch, linear_scores(batch, vectors, v), "hinge", KAPPA, tie)
    assert np.count_nonzero(losses) >= 2
    rows = linear_jacobian(batch, vectors, weights, np.arange(4), len(v))
    step = 1e-6 * np.random.default_rng(0).standard_normal(v.shape)
    moved = linear_scores(batch, vectors, v + step)
    found = loss_of_scores(batch, moved, "hinge", KAPPA, tie)[0]
    np.testing.assert_allclose(found - losses, np.tensordot(rows, step, 2), atol=1e-14)


def test_only_the_wanted_examples_have_rows() -> None:
    world = make_world(2)
    batch, vectors = world.batch(), node_vectors(world)
    upstream = np.arange(1.0, len(batch.root) + 1)
    rows = linear_jacobian(batch, vectors, upstream, np.arange(4), len(world.keys))
    for wanted in ([], [2], [0, 3]):
        some = linear_jacobian(batch, vectors, upstream, np.array(wanted, int), len(world.keys))
        np.testing.assert_array_equal(some, rows[wanted])
