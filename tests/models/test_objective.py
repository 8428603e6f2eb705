from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnnparse._tensorflow import tf
from rnnparse.losses.score_gradients import TIES
from rnnparse.losses.structured import structured_hinge
from rnnparse.models.batch import LevelBatch
from rnnparse.models.cvg import CVG
from rnnparse.models.objective import (
    danskin_batch,
    loss_gradients,
    loss_of_scores,
)
from rnnparse.models.parameters import Gradients, Parameters
from rnnparse.models.scorer import Scorer
from rnnparse.optim.adagrad import AdaGrad
from tests.models.conftest import World, make_world, zeros_like

KAPPA = 0.1


def dense(gradients: Gradients, like: Parameters) -> Parameters:
    out = zeros_like(like)
    out.vectors[gradients.words] = gradients.vectors
    out.W[gradients.rows] = gradients.W
    out.v[gradients.rows] = gradients.v
    return out


def objective(batch: LevelBatch, weights: Parameters) -> float:
    """(1/B) Σ r, candidate by candidate."""
    scores = Scorer(weights).scores(batch)
    violations = []
    for b, gold in enumerate(batch.gold):
        candidates = batch.candidates[b][batch.mask[b]]
        augmented = [scores[t] + KAPPA * batch.cost[t] for t in candidates]
        violations.append(max(augmented) - scores[candidates[gold]])
    return float(np.mean(violations)) if violations else 0.0


def tied_world(seed: int) -> World:
    """A world in which v = 0, so that all candidates with the same margin tie exactly."""
    world = make_world(seed)
    world.parameters = world.parameters._replace(v=np.zeros_like(world.parameters.v))
    return world


@pytest.mark.parametrize("engine", ["numba", "tensorflow"])
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("tied", [False, True])
def test_two_trees_give_what_differentiating_all_candidates_gives(
    engine: str, tie: str, tied: bool
) -> None:
    world = (tied_world if tied else make_world)(1)
    batch = world.batch()
    violation, gradients = loss_gradients(batch, world.parameters, "hinge", KAPPA, tie)
    model = CVG(world.parameters, engine)
    with tf.GradientTape() as tape:
        scores = model(batch)
        loss = structured_hinge(
            tf.gather(scores, batch.candidates),
            tf.gather(KAPPA * batch.cost, batch.candidates),
            batch.gold,
            batch.mask,
            tie,
        )
        mean = tf.reduce_mean(loss)
    expected = tape.gradient(mean, [v.value for v in model.trainable_variables])
    np.testing.assert_allclose(violation, loss, atol=1e-10)
    assert violation.max() > 0.01
    for a, b in zip(dense(gradients, world.parameters), expected, strict=True):
        np.testing.assert_allclose(a, np.asarray(tf.convert_to_tensor(b)), atol=1e-10)


def test_the_subgradient_is_tensorflows_own_where_there_is_a_gradient() -> None:
    world = make_world(2)
    batch = world.batch()
    model = CVG(world.parameters, "tensorflow")
    with tf.GradientTape() as tape:
        scores = tf.gather(model(batch), batch.candidates)
        augmented = tf.where(batch.mask, scores + KAPPA * batch.cost[batch.candidates], -1e30)
        target = tf.gather(scores, batch.gold, batch_dims=1)
        mean = tf.reduce_mean(tf.reduce_max(augmented, axis=1) - target)
    expected = tape.gradient(mean, [v.value for v in model.trainable_variables])
    got = dense(loss_gradients(batch, world.parameters, "hinge", KAPPA)[1], world.parameters)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, np.asarray(tf.convert_to_tensor(b)), atol=1e-10)


@pytest.mark.parametrize("name", ["vectors", "W", "v"])
def test_the_subgradient_agrees_with_finite_differences(name: str) -> None:
    world = make_world(3)
    batch = world.batch()
    gradients = loss_gradients(batch, world.parameters, "hinge", KAPPA)[1]
    got = getattr(dense(gradients, world.parameters), name)
    array = getattr(world.parameters, name)
    rng = np.random.default_rng(0)
    checked = 0
    for place in zip(*(rng.integers(0, size, 80) for size in array.shape), strict=True):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[place] += sign * 1e-5
            ends.append(objective(batch, world.parameters._replace(**{name: moved})))
        numeric = (ends[0] - ends[1]) / 2e-5
        assert got[place] == pytest.approx(numeric, rel=1e-6, abs=1e-9)
        checked += numeric != 0
    assert checked > 10


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("seed", range(3))
def test_the_subgradient_inequality_holds_in_v_at_exact_ties(seed: int, tie: str) -> None:
    """J is convex in v: J(v') ≥ J(v) + g · (v' − v), here at a kink."""
    world = tied_world(seed)
    batch, weights = world.batch(), world.parameters
    scores = Scorer(weights).scores(batch)
    violation, _ = loss_of_scores(batch, scores, "hinge", KAPPA)
    tied = [
        int(np.sum(KAPPA * batch.cost[batch.candidates[b]][batch.mask[b]] == violation[b]))
        for b in range(len(batch.gold))
    ]
    assert max(tied) > 1, "no tie in this world"
    gradient = dense(loss_gradients(batch, weights, "hinge", KAPPA, tie)[1], weights).v
    here = objective(batch, weights)
    rng = np.random.default_rng(seed)
    for scale in (1e-6, 1e-2, 1.0, 100.0):
        for _ in range(50):
            step = scale * rng.standard_normal(weights.v.shape)
            there = objective(batch, weights._replace(v=weights.v + step))
            assert there >= here + float(np.sum(gradient * step)) - 1e-12 * max(1.0, scale)


def test_tie_rules_differ_at_ties_and_gold_gives_zero_where_gold_ties() -> None:
    world = tied_world(0)
    batch = world.batch()._replace(cost=np.zeros_like(world.batch().cost))
    weights = world.parameters
    by_rule = {
        tie: dense(loss_gradients(batch, weights, "hinge", KAPPA, tie)[1], weights).v
        for tie in TIES
    }
    assert not by_rule["gold"].any()
    assert by_rule["first"].any() and by_rule["uniform"].any()
    assert not np.allclose(by_rule["first"], by_rule["uniform"])


@pytest.mark.parametrize("engine", ["numba", "tensorflow"])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_the_models_own_two_tree_path_with_l2(engine: str, l2: float) -> None:
    world = make_world(1)
    batch = world.batch()
    model = CVG(world.parameters, engine)
    violation, derivatives = model.loss_gradients(batch, "hinge", KAPPA, l2=l2)
    expected_violation, gradients = loss_gradients(batch, world.parameters, "hinge", KAPPA)
    np.testing.assert_allclose(violation, expected_violation, atol=1e-12)
    expected = dense(gradients, world.parameters)
    expected = expected._replace(
        W=expected.W + l2 * world.parameters.W, v=expected.v + l2 * world.parameters.v
    )
    for a, b in zip(derivatives, expected, strict=True):
        np.testing.assert_allclose(np.asarray(tf.convert_to_tensor(a)), b, atol=1e-12)
    assert isinstance(derivatives[0], tf.IndexedSlices)


def test_training_learns_to_prefer_the_target() -> None:
    world = make_world(0)
    model, optimizer = CVG(world.parameters), AdaGrad(0.05)
    batch = world.batch()
    first = model.loss_gradients(batch, "hinge", KAPPA)[0].mean()
    for _ in range(200):
        violation, gradients = model.loss_gradients(batch, "hinge", KAPPA)
        optimizer.apply(gradients, model.trainable_variables)
    assert violation.mean() < 0.02 * first


def test_examples_without_violation_are_not_differentiated(world: World) -> None:
    batch = world.batch()
    scores = np.zeros(len(batch.root))
    for b, gold in enumerate(batch.gold):
        scores[batch.candidates[b, gold]] = 100.0
    violation, weights = loss_of_scores(batch, scores, "hinge", KAPPA)
    assert not violation.any() and not weights.any()
    part, _ = danskin_batch(batch, weights)
    assert len(part.key) == 0


def test_an_empty_batch_has_no_gradient(world: World) -> None:
    violation, gradients = loss_gradients(world.store.batch([]), world.parameters)
    assert violation.shape == (0,) and len(gradients.rows) == len(gradients.words) == 0


def test_an_empty_batch_leaves_the_model_as_it_is(world: World) -> None:
    for engine in ("numba", "tensorflow"):
        violation, derivatives = CVG(world.parameters, engine).loss_gradients(
            world.store.batch([]), l2=0.1
        )
        assert violation.shape == (0,)
        step: Any = np.asarray(derivatives[1])
        np.testing.assert_allclose(step, 0.1 * world.parameters.W)
