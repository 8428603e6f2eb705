"""Levenberg–Marquardt on classical problems, against certified solutions and SciPy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from rnnparse.optim.convergence import MinimizeResult
from rnnparse.optim.levenberg_marquardt import LevenbergMarquardt
from tests.optim.nist import PROBLEMS, NistProblem
from tests.optim.problems import ROSENBROCK, exponential, rosenbrock, variable


def minimize_nist(problem: NistProblem, start: int) -> tuple[np.ndarray, MinimizeResult]:
    b = variable(problem.starts[start])
    x, y = tf.constant(problem.x), tf.constant(problem.y)
    optimizer = LevenbergMarquardt([b])
    result = optimizer.minimize(lambda: problem.model(x, tf.exp, *tf.unstack(b)) - y)
    return b.numpy(), result


@lru_cache
def nist_solution(name: str, start: int) -> tuple[np.ndarray, MinimizeResult]:
    return minimize_nist(PROBLEMS[name], start)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_data_of_nist_have_the_certified_sum_of_squares(name: str) -> None:
    """To ten digits, so that no number can be mistyped."""
    problem = PROBLEMS[name]
    residuals = problem.model(problem.x, np.exp, *problem.certified) - problem.y
    assert residuals @ residuals == pytest.approx(problem.sum_of_squares, rel=1e-10)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", PROBLEMS)
def test_nist_problems_are_solved_to_six_digits(name: str, start: int) -> None:
    problem = PROBLEMS[name]
    found, result = nist_solution(name, start)
    np.testing.assert_allclose(found, problem.certified, rtol=1e-6)
    assert 2 * result.cost == pytest.approx(problem.sum_of_squares, rel=1e-9)
    assert result.reason in ("gradient", "step", "cost")


@pytest.mark.parametrize("name", PROBLEMS)
def test_nist_problems_end_where_minpack_ends(name: str) -> None:
    problem = PROBLEMS[name]
    expected = scipy.optimize.least_squares(
        lambda b: problem.model(problem.x, np.exp, *b) - problem.y,
        problem.starts[1],
        jac=lambda b: complex_step(problem, b),
        method="lm",
        **dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15),
    )
    assert nist_solution(name, 1)[1].cost == pytest.approx(expected.cost, rel=1e-8)


def complex_step(problem: NistProblem, b: np.ndarray) -> np.ndarray:
    """Exact derivatives, without TensorFlow."""
    steps = b + 1e-30j * np.eye(len(b))
    return np.stack([problem.model(problem.x, np.exp, *s).imag for s in steps], axis=1) / 1e-30


def test_rosenbrock_is_solved() -> None:
    x = variable(ROSENBROCK)
    result = LevenbergMarquardt([x]).minimize(rosenbrock(x))
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-9)
    assert result.cost < 1e-20
    assert len(result.history) < 40
    assert all(step.cost <= step.cost_before for step in result.history)


def test_an_exponential_fit_is_that_of_scipy() -> None:
    residuals, start = exponential()
    b = variable(start)
    result = LevenbergMarquardt([b]).minimize(lambda: residuals(b))
    expected = scipy.optimize.least_squares(
        lambda b: np.asarray(residuals(b)), start, method="lm", xtol=1e-12, ftol=1e-12
    )
    assert result.cost == pytest.approx(expected.cost, rel=1e-8)
    np.testing.assert_allclose(b.numpy(), expected.x, rtol=1e-6)


def test_a_linear_problem_is_solved_by_the_first_steps() -> None:
    rng = np.random.default_rng(1)
    A, y = rng.standard_normal((20, 5)), rng.standard_normal(20)
    b = variable(np.zeros(5))
    result = LevenbergMarquardt([b], damping=1e-12).minimize(
        lambda: tf.linalg.matvec(A, b) - y, steps=2
    )
    np.testing.assert_allclose(b.numpy(), np.linalg.lstsq(A, y)[0], rtol=1e-9)
    assert result.history[0].gain_ratio == pytest.approx(1)


def test_the_same_problem_has_the_same_steps() -> None:
    again = minimize_nist(PROBLEMS["MGH09"], 1)[1]
    assert again.history == nist_solution("MGH09", 1)[1].history
