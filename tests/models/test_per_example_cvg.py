"""Subgradients of single sentences by the network's weights, against batches of one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnnparse._tensorflow import tf
from rnnparse.losses.score_gradients import WEIGHTS
from rnnparse.models.cvg import CVG
from rnnparse.models.frozen_weights import FrozenWeights
from rnnparse.models.parameters import Parameters
from rnnparse.models.per_example import ExampleSubgradients
from rnnparse.optim.adagrad import AdaGrad
from rnnparse.optim.per_example_model import (
    ExampleGradients,
    clip_each,
    normalize_each,
    sign,
    weight_each,
)
from tests.models.conftest import World, make_world

Arrays = list[np.ndarray]
TENSORFLOW = pytest.param("tensorflow", marks=pytest.mark.slow)


def one_by_one(model: CVG, world: World, **options: Any) -> tuple[np.ndarray, list[Arrays]]:
    """Losses and subgradients of batches of one sentence, as arrays of the weights' shapes."""
    losses, gradients = [], []
    for i in range(len(world.store)):
        loss, actual = model.loss_gradients(world.store.batch([i]), **options)
        losses.append(loss[0])
        gradients.append([np.array(tf.convert_to_tensor(g)) for g in actual])
    return np.array(losses), gradients


def dense(part: ExampleGradients) -> list[Arrays]:
    """The same of per-example gradients."""
    actual: list[Arrays] = [[] for _ in range(len(part.losses))]
    for variable, value, rows in zip(part.variables, part.values, part.rows, strict=True):
        assert value is not None
        whole = np.zeros((len(actual), *variable.shape))
        if rows is None:
            whole += value
        else:
            for i, own in enumerate(np.broadcast_to(rows, value.shape[:2])):
                np.add.at(whole[i], own, value[i])
        for arrays, x in zip(actual, whole, strict=True):
            arrays.append(x)
    return actual


def assert_close(actual: Arrays, expected: Arrays) -> None:
    for f, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("engine", "objective"),
    [
        *(("numba", name) for name in WEIGHTS),
        pytest.param("tensorflow", "hinge", marks=pytest.mark.slow),
    ],
)
def test_subgradients_are_those_of_single_sentences(engine: str, objective: str) -> None:
    world = make_world(1)
    model = CVG(world.parameters, engine)
    losses, expected = one_by_one(model, world, objective=objective)
    assert np.any(losses > 0)
    actual: list[Arrays] = []
    for part in ExampleSubgradients(model, objective, chunk=3).chunks(world.batch()):
        assert all(rows is not None for rows in part.rows)
        np.testing.assert_allclose(part.losses, losses[len(actual) : len(actual) + 3])
        actual += dense(part)
    assert len(actual) == len(expected)
    for f, e in zip(actual, expected, strict=True):
        assert_close(f, e)


def manipulated(gradients: list[Arrays], losses: np.ndarray) -> Arrays:
    """The mean of what the chain of the next test makes of them, in NumPy."""
    total = [np.zeros_like(x) for x in gradients[0]]
    for arrays, loss in zip(gradients, losses, strict=True):
        norm = np.sqrt(sum(np.square(x).sum() for x in arrays))
        weight = (loss / losses.max()) * min(1.0, 0.5 / norm) if norm else 0.0
        total = [t + weight * x / len(losses) for t, x in zip(total, arrays, strict=True)]
    return total


@pytest.mark.parametrize(
    ("engine", "chunk"),
    [
        ("numba", 1),
        ("numba", 3),
        ("numba", 32),
        pytest.param("tensorflow", 3, marks=pytest.mark.slow),
    ],
)
def test_the_mean_of_a_chain_does_not_depend_on_the_chunk(engine: str, chunk: int) -> None:
    world = make_world(2)
    model = CVG(world.parameters, engine)
    losses, single = one_by_one(model, world)
    chain = [clip_each(0.5), weight_each(lambda losses: losses / tf.reduce_max(losses))]
    actual_losses, actual = ExampleSubgradients(model, chunk=chunk).mean(world.batch(), chain, 0.01)
    np.testing.assert_allclose(actual_losses, losses)
    expected = manipulated(single, losses)
    expected[1] += 0.01 * world.parameters.W
    expected[2] += 0.01 * world.parameters.v
    assert_close([np.asarray(tf.convert_to_tensor(g)) for g in actual], expected)


def test_without_a_chain_it_is_the_subgradient_of_the_batch() -> None:
    world = make_world(3)
    model = CVG(world.parameters)
    for sentences in (range(4), [1], []):
        batch = world.store.batch(sentences)
        losses, actual = ExampleSubgradients(model, "mmi", chunk=2).mean(batch, l2=0.1)
        expected_losses, expected = model.loss_gradients(batch, "mmi", l2=0.1)
        np.testing.assert_allclose(losses, expected_losses)
        assert_close(
            [np.asarray(tf.convert_to_tensor(g)) for g in actual],
            [np.asarray(tf.convert_to_tensor(g)) for g in expected],
        )


@pytest.mark.parametrize("engine", ["numba", TENSORFLOW])
def test_frozen_weights_do_not_count_in_the_norm(engine: str) -> None:
    world = make_world(1)
    model = CVG(world.parameters, engine)
    rows = np.arange(0, len(world.parameters.W), 2)
    model.freeze(FrozenWeights(frozenset(["vectors"]), {"W": rows}))
    expected: Arrays = [np.zeros_like(x) for x in world.parameters[1:]]
    for W, v in one_by_one(model, world)[1]:
        W[rows] = 0
        norm = np.sqrt(np.square(W).sum() + np.square(v).sum())
        for total, x in zip(expected, (W, v), strict=True):
            total += x / norm / 4 if norm else 0
    _, actual = ExampleSubgradients(model).mean(world.batch(), [normalize_each()])
    assert_close([np.asarray(tf.convert_to_tensor(g)) for g in actual], expected)


@pytest.mark.parametrize("chain", [[], [clip_each(0.5)], [sign()]])
def test_the_network_learns_from_manipulated_subgradients(chain: list[Any]) -> None:
    world = make_world(0)
    start = Parameters(*(x * 0.1 for x in world.parameters))
    model, optimizer = CVG(start), AdaGrad(0.05)
    subgradients = ExampleSubgradients(model)
    losses = []
    for _ in range(15):
        loss, gradients = subgradients.mean(world.batch(), chain, l2=1e-4)
        optimizer.apply(gradients, model.trainable_variables)
        losses.append(loss.mean())
    assert losses[-1] < 0.2 * losses[0]


def test_a_chunk_has_at_least_one_sentence(world: World) -> None:
    with pytest.raises(ValueError, match=r"chunk must be .*, not 0"):
        ExampleSubgradients(CVG(world.parameters), chunk=0)
