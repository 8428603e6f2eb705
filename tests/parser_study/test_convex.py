"""The optimum by cutting planes against a quadratic program, and the bound on descents."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.errors import ConfigError
from rnnparse.parser_study.convex import (
    CONVEX,
    Optimum,
    ScoreVectorProblem,
    descent_bound,
    minimize_convex,
)
from rnnparse.training.prepare import Problem
from tests.training.convex import ConvexProblem
from tests.training.problems import small_problem

L2 = 3e-3


@lru_cache(maxsize=1)
def problem() -> Problem:
    return small_problem(30, jackknife=3)


def of(objective: str = "hinge", l2: float = L2) -> ScoreVectorProblem:
    return ScoreVectorProblem(problem().store, problem().initial, objective, 0.1, l2)


@lru_cache(maxsize=1)
def optimum() -> Optimum:
    return of().optimum(tolerance=1e-5)


def test_the_optimum_is_that_of_a_quadratic_program() -> None:
    result = of().optimum(tolerance=1e-6)
    reference = ConvexProblem.of(problem(), L2)
    point, bound = reference.optimum
    exact = reference.evaluate(point)[0]
    assert result.lower_bound <= exact * (1 + 1e-9) and bound <= result.value * (1 + 1e-9)
    assert result.value == pytest.approx(exact, rel=1e-5)
    assert result.value - result.lower_bound <= 1e-6 * result.value
    assert of().value(result.point) == pytest.approx(result.value, rel=1e-12)


@pytest.mark.parametrize("objective", CONVEX)
def test_nothing_lies_below_the_bound(objective: str) -> None:
    task = of(objective, 0.01)
    result = task.optimum(tolerance=1e-4)
    # The perceptron's optimum is 0, at v = 0.
    scale = max(result.value, 1e-6 * task.value(task.parameters.v))
    assert 0 <= result.value - result.lower_bound <= 1e-4 * scale
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(5):
            nearby = result.point + size * rng.standard_normal(result.point.shape)
            assert task.value(nearby) >= result.lower_bound


def test_risk_goes_through_all_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    import rnnparse.parser_study.convex as module

    v = np.random.default_rng(0).standard_normal(problem().initial.v.shape)
    whole, slope = of().risk(v)
    monkeypatch.setattr(module, "_BATCH", 7)
    parts, same = of().risk(v)
    assert parts == pytest.approx(whole, rel=1e-12)
    np.testing.assert_allclose(same, slope, atol=1e-12)
    expected, gradient = ConvexProblem.of(problem(), L2).evaluate(v)
    assert of().value(v) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slope + L2 * v, gradient, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 5.0))
def test_piecewise_linear_functions(seed: int, l2: float) -> None:
    """max of random planes in three dimensions, against many random points and the optimality."""
    rng = np.random.default_rng(seed)
    slopes, heights = rng.standard_normal((6, 3)), rng.standard_normal(6)

    def risk(v: np.ndarray) -> tuple[float, np.ndarray]:
        k = int(np.argmax(slopes @ v + heights))
        return float(slopes[k] @ v + heights[k]), slopes[k]

    result = minimize_convex(risk, np.ones(3), l2, tolerance=1e-9)
    assert result.value - result.lower_bound <= 1e-7 * (1 + abs(result.value))
    points = result.point + 0.1 * rng.standard_normal((200, 3))
    values = (points @ slopes.T + heights).max(axis=1) + l2 / 2 * (points**2).sum(axis=1)
    assert values.min() >= result.lower_bound - 1e-9


def test_few_planes_leave_a_wide_but_valid_gap() -> None:
    exact = optimum()
    early = of().optimum(limit=3)
    assert early.planes == 3 and early.value > exact.value
    assert early.lower_bound <= exact.value


def test_the_bound_holds_along_a_descent() -> None:
    task = of()
    best = optimum()
    v = task.parameters.v.copy()
    distance = float(np.linalg.norm(v - best.point))
    values, norms, rates = [], [], []
    for t in range(1, 60):
        loss, slope = task.risk(v)
        gradient = slope + L2 * v
        values.append(loss + L2 / 2 * np.sum(v * v))
        norms.append(np.linalg.norm(gradient))
        rates.append(5 / np.sqrt(t))
        v = v - rates[-1] * gradient
    gaps = np.minimum.accumulate(values) - best.lower_bound
    bound = descent_bound(distance, np.array(norms), np.array(rates))
    assert (gaps <= bound).all()
    assert bound[-1] < bound[0] / 2
    # By hand: (2² + (1·3)² + (½·2)²) / (2·(1 + ½)).
    assert descent_bound(2.0, np.array([3.0, 2.0]), np.array([1.0, 0.5]))[1] == pytest.approx(
        14 / 3
    )


def test_what_is_not_convex_is_refused() -> None:
    with pytest.raises(ConfigError, match="risk is not convex"):
        of("risk")
    with pytest.raises(ValueError, match="above 0"):
        of(l2=0.0).optimum()
