"""Levenberg–Marquardt on the parser: the squared hinge by v, against a quadratic program."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import cvxpy
import numpy as np
import pytest

from rnnparse.errors import ConfigError
from rnnparse.models.cvg import CVG
from rnnparse.models.frozen_weights import NOTHING, Frozen
from rnnparse.models.objective import loss_of_scores
from rnnparse.models.parameters import Parameters
from rnnparse.training.checkpoint import TrainingState, load_state, save_state
from rnnparse.training.lm_step import LM, LevenbergMarquardtStep
from rnnparse.training.prepare import Problem
from rnnparse.training.steps import GradientStep
from rnnparse.training.trainer import check_optimizer
from tests.training.convex import ConvexProblem
from tests.training.problems import small_config, small_problem, train_network

FROZEN = ("W", "vectors")
L2 = 3e-3


@lru_cache(maxsize=1)
def problem() -> Problem:
    return small_problem(30, kbest=10)


def config(**settings: Any) -> Any:
    base = {"objective": "squared-hinge", "freeze": FROZEN, "l2": L2, "learning_rate": 1e-3}
    return small_config(**(base | settings))


def exact() -> Parameters:
    return Parameters(*(array.astype(np.float64) for array in problem().initial))


def objective(model: CVG, settings: Any) -> float:
    """J by the scores of all candidates, without the step's own code."""
    batch = problem().store.batch(range(len(problem().store)))
    scores = np.asarray(model(batch))
    losses = loss_of_scores(batch, scores, "squared-hinge", settings.kappa, settings.tie)[0]
    return float(losses.mean()) + model.penalty(settings.l2)


def passes(
    kind: type, settings: Any, initial: Parameters, count: int, frozen: Frozen | None = None
) -> tuple[list[float], CVG]:
    """J before each pass over the data in minibatches, and after the last."""
    model = CVG(initial)
    step = kind(model, settings, problem().frozen(FROZEN) if frozen is None else frozen)
    found = []
    for epoch in range(count):
        found.append(objective(model, settings))
        order = np.random.default_rng(epoch).permutation(len(problem().store))
        for start in range(0, len(order), settings.batch_size):
            step(problem().store.batch(order[start : start + settings.batch_size]))
    return [*found, objective(model, settings)], model


def test_full_batches_lower_the_objective_with_every_step() -> None:
    settings = config(batch_size=100)
    costs, _ = passes(LevenbergMarquardtStep, settings, problem().initial, 12)
    assert all(after < before for before, after in pairwise(costs))


def test_after_ten_passes_it_is_lower_than_adagrad_at_its_best_rate() -> None:
    costs, _ = passes(LevenbergMarquardtStep, config(batch_size=100), problem().initial, 10)
    for rate in (0.05, 0.1, 0.2):
        for size in (10, 100):
            settings = config(learning_rate=rate, batch_size=size)
            others, _ = passes(GradientStep, settings, problem().initial, 10)
            assert costs[-1] < others[-1]


@pytest.mark.parametrize("l2", [L2, 3e-2])
def test_it_comes_within_two_per_cent_of_the_optimum(l2: float) -> None:
    """Which a quadratic program finds; at a kink the method may stop short of it."""
    convex = ConvexProblem.of(problem(), l2)
    count, v = len(convex.batch.gold), cvxpy.Variable(convex.parameters.v.size)
    slack = cvxpy.Variable(count)
    value = cvxpy.sum_squares(slack) / count + l2 / 2 * cvxpy.sum_squares(v)
    reached = convex.differences @ v + convex.margins <= slack[convex.owner]
    optimum = cvxpy.Problem(cvxpy.Minimize(value), [reached]).solve(solver=cvxpy.CLARABEL)
    costs, _ = passes(LevenbergMarquardtStep, config(batch_size=100, l2=l2), exact(), 30)
    assert optimum * (1 - 1e-6) < costs[-1] < 1.02 * optimum < 0.9 * costs[0]


def test_a_step_is_the_damped_gauss_newton_step_on_v() -> None:
    """By the features that the backward pass gives, and dense algebra."""
    convex = ConvexProblem.of(problem(), L2)
    rng = np.random.default_rng(0)
    v = rng.normal(0, 0.3, convex.parameters.v.shape)
    damping = 1e5  # far enough from zero for the first try to be accepted
    settings = config(learning_rate=damping)
    model = CVG(convex.parameters._replace(v=v))
    losses = LevenbergMarquardtStep(model, settings, problem().frozen(FROZEN))(convex.batch)
    scores = convex.scores(v)
    violations, weights = loss_of_scores(convex.batch, scores, "hinge", settings.kappa)
    np.testing.assert_allclose(losses, violations**2, rtol=1e-10)
    count = len(violations)
    choose = np.zeros((count, len(scores)))
    choose[convex.owner, np.arange(len(scores))] = weights
    J = np.sqrt(2 / count) * (choose @ convex.features.toarray())
    A = J.T @ J + L2 * np.eye(v.size)
    right = J.T @ (np.sqrt(2 / count) * violations) + L2 * v.ravel()
    expected = v.ravel() - np.linalg.solve(A + damping * np.diag(np.diag(A)), right)
    np.testing.assert_allclose(model.v.numpy().ravel(), expected, rtol=1e-9, atol=1e-12)


def test_nothing_but_v_is_changed_and_frozen_rows_of_it_are_not() -> None:
    frozen = problem().frozen((*FROZEN, "v:NP,*"))
    rows = frozen.rows["v"]
    assert 0 < len(rows) < len(problem().keys)
    settings = config(batch_size=100, freeze=(*FROZEN, "v:NP,*"))
    costs, model = passes(LevenbergMarquardtStep, settings, problem().initial, 4, frozen)
    after, before = model.parameters(), problem().initial
    assert after.W.tobytes() == before.W.tobytes()
    assert after.vectors.tobytes() == before.vectors.tobytes()
    assert after.v[rows].tobytes() == before.v[rows].tobytes()
    others = np.setdiff1d(np.arange(len(after.v)), rows)
    assert np.all(np.any(after.v[others] != before.v[others], axis=1))
    assert costs[-1] < costs[0]


def test_a_batch_without_violations_only_shrinks_v() -> None:
    settings = config(kappa=0.0, l2=0.5, learning_rate=1.0)
    start = exact()._replace(v=np.full_like(problem().initial.v, 0.1, np.float64))
    model = CVG(start)
    batch = problem().store.batch([0])
    one = batch.candidates[0, batch.gold[0]]
    alone = batch._replace(
        root=batch.root[[one]],
        cost=np.zeros(1),
        logp=batch.logp[[one]],
        candidates=np.zeros((1, 1), np.int32),
        mask=np.ones((1, 1), bool),
        gold=np.zeros(1, np.int32),
    )
    losses = LevenbergMarquardtStep(model, settings, problem().frozen(FROZEN))(alone)
    np.testing.assert_array_equal(losses, [0.0])
    # (λ + μ λ) δ = −λ v with μ = 1.
    np.testing.assert_allclose(model.v.numpy(), 0.05, rtol=1e-12)


def train(settings: Any, **more: Any) -> TrainingState:
    start, store = problem().initial, problem().store
    frozen = problem().frozen(settings.freeze)
    return train_network(start, store, None, settings, frozen=frozen, **more)


def test_training_by_name_goes_on_from_a_checkpoint_to_the_same_bytes(tmp_path: Any) -> None:
    settings = config(optimizer=LM, learning_rate=3.0, averaging=False)
    whole = train(settings, epochs=4)
    save_state(tmp_path / "state.npz", train(settings, epochs=2), "key")
    state = load_state(tmp_path / "state.npz", "key", problem().initial)
    again = train(settings, epochs=4, state=state)
    assert whole.parameters.v.tobytes() == again.parameters.v.tobytes()
    for one, other in zip(whole.optimizer, again.optimizer, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert whole.history[-1]["objective"] < whole.history[0]["objective"]
    assert whole.parameters.W.tobytes() == problem().initial.W.tobytes()


def test_telemetry_observes_its_steps_and_changes_none() -> None:
    settings = {"optimizer": LM, "learning_rate": 3.0, "freeze": (*FROZEN, "v:NP,*")}
    plain = train(config(**settings), epochs=2)
    state = train(config(**settings, telemetry=True), epochs=2)
    assert state.parameters.v.tobytes() == plain.parameters.v.tobytes()
    first = state.telemetry[0]
    assert list(first["groups"]) == ["v"] and len(state.telemetry) == 2
    norm = first["groups"]["v"]["updates"]["weight_norm"][0]
    assert norm == pytest.approx(np.linalg.norm(problem().initial.v), rel=1e-4)
    moved = np.linalg.norm(state.parameters.v - problem().initial.v)
    assert 0 < moved <= sum(r["groups"]["v"]["update_norm"]["mean"] * 3 for r in state.telemetry)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "hinge"}, "squared-hinge, not hinge"),
        ({"freeze": ("W",)}, "freeze W and vectors"),
        ({"freeze": ()}, "freeze W and vectors"),
        ({"freeze_epochs": 2}, "for all epochs"),
        ({"learning_rate": 1e20}, r"damping, at most 1e\+15, not 1e\+20"),
    ],
)
def test_other_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    wrong = config(optimizer=LM, **settings)
    with pytest.raises(ConfigError, match=message):
        train(wrong, epochs=1)
    with pytest.raises(ConfigError, match=message):
        check_optimizer(wrong)


def test_the_right_settings_are_known_before_any_list_is_made() -> None:
    for freeze in (FROZEN, ("vectors", "W:*"), ("vec*", "W", "v:NP,*")):
        check_optimizer(config(optimizer="Levenberg-Marquardt", freeze=freeze))
    with pytest.raises(ConfigError, match="freeze W and vectors"):
        check_optimizer(config(optimizer=LM, freeze=("vectors", "W:NP,*")))


def test_nothing_can_be_thawed() -> None:
    step = LevenbergMarquardtStep(CVG(problem().initial), config(), problem().frozen(FROZEN))
    with pytest.raises(ConfigError, match="stay frozen"):
        step.freeze(NOTHING)
