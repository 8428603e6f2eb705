"""Levenberg–Marquardt on classical problems, against certified solutions and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from rnnparse.optim.levenberg_marquardt.minimizer import LevenbergMarquardt
from rnnparse.optim.levenberg_marquardt.results import MinimizeResult, Tolerances
from tests.optim.levenberg_marquardt.nist import PROBLEMS, NistProblem
from tests.optim.levenberg_marquardt.problems import (
    EXPONENTIAL,
    ROSENBROCK,
    exponential,
    rosenbrock,
    variable,
)

# Each with a trouble of its own: curvature, a plateau, scales, conditioning, no noise.
HARD = [("MGH10", 0), ("MGH09", 0), ("BoxBOD", 0), ("Hahn1", 1), ("Bennett5", 1), ("Lanczos1", 1)]
ALL = [
    pytest.param(name, start, marks=[] if (name, start) in HARD else pytest.mark.slow)
    for name in PROBLEMS
    for start in (0, 1)
]


def minimize_nist(
    problem: NistProblem,
    start: Any,
    tolerances: Tolerances = Tolerances(),  # noqa: B008
) -> tuple[np.ndarray, MinimizeResult]:
    """From one of NIST's starts, 0 or 1, or from another point."""
    b = variable(problem.starts[start] if isinstance(start, int) else start)
    with np.errstate(all="ignore"):
        result = LevenbergMarquardt([b]).minimize(
            lambda: problem.residuals(b.numpy()),
            lambda: problem.jacobian(b.numpy()),
            steps=1000,
            tolerances=tolerances,
        )
    return b.numpy(), result


@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - {"Lanczos1"}))
def test_the_data_of_nist_have_the_certified_sum_of_squares(name: str) -> None:
    """To nine digits and more, so that no number can be mistyped."""
    problem = PROBLEMS[name]
    residuals = problem.residuals(problem.certified)
    assert residuals @ residuals == pytest.approx(problem.sum_of_squares, rel=2e-10)


def test_the_data_of_lanczos1_have_the_certified_sum_of_squares() -> None:
    """It is 1e-25, less than rounding the parameters to eleven digits adds, so that those are
    refined first, by a linear step; float64 then leaves two digits."""
    problem = PROBLEMS["Lanczos1"]
    residuals, jacobian = (f(problem.certified) for f in (problem.residuals, problem.jacobian))
    residuals -= jacobian @ np.linalg.lstsq(jacobian, residuals)[0]
    assert residuals @ residuals == pytest.approx(problem.sum_of_squares, rel=0.02)


def test_there_are_all_problems_of_nist() -> None:
    assert len(PROBLEMS) == 27
    levels = [problem.difficulty for problem in PROBLEMS.values()]
    assert [levels.count(level) for level in ("lower", "average", "higher")] == [8, 11, 8]


@pytest.mark.parametrize(("name", "start"), ALL)
def test_nist_problems_are_solved_to_six_digits(name: str, start: int) -> None:
    problem = PROBLEMS[name]
    b, result = minimize_nist(problem, start)
    assert problem.digits(b) >= 6
    if name != "Lanczos1":
        assert 2 * result.cost == pytest.approx(problem.sum_of_squares, rel=1e-9)
    assert result.reason != "steps"


@pytest.mark.parametrize("name", ["MGH10", "BoxBOD"])
def test_hard_problems_are_solved_from_around_their_starts(name: str) -> None:
    """Not from one point by luck."""
    problem, rng = PROBLEMS[name], np.random.default_rng(0)
    for _ in range(3):
        factors = 1 + 0.02 * rng.standard_normal(len(problem.certified))
        b, _ = minimize_nist(problem, problem.starts[0] * factors)
        assert problem.digits(b) >= 6


@pytest.mark.parametrize("name", ["Misra1a", "Thurber"])
def test_nist_problems_end_where_minpack_ends(name: str) -> None:
    problem = PROBLEMS[name]
    expected = scipy.optimize.least_squares(
        problem.residuals,
        problem.starts[1],
        jac=problem.jacobian,
        method="lm",
        **dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15),
    )
    assert minimize_nist(problem, 1)[1].cost == pytest.approx(expected.cost, rel=1e-8)


def test_derivatives_by_tape_do_as_well() -> None:
    problem = PROBLEMS["Thurber"]
    b, x = variable(problem.starts[1]), tf.constant(problem.x)
    LevenbergMarquardt([b]).minimize(lambda: problem.model(tf, x, *tf.unstack(b)) - problem.y)
    assert problem.digits(b.numpy()) >= 6


def test_rosenbrock_is_solved() -> None:
    x = variable(ROSENBROCK)
    result = LevenbergMarquardt([x]).minimize(rosenbrock(x)[0])
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-9)
    assert result.cost < 1e-20
    assert len(result.history) < 40
    assert all(step.cost <= step.cost_before for step in result.history)


def test_an_exponential_fit_is_that_of_scipy() -> None:
    b = variable(EXPONENTIAL)
    result = LevenbergMarquardt([b]).minimize(*exponential(b))
    expected = scipy.optimize.least_squares(
        lambda b: np.asarray(exponential(b)[0]()), EXPONENTIAL, method="lm", xtol=1e-12, ftol=1e-12
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
    one, again = (minimize_nist(PROBLEMS["MGH09"], 1)[1] for _ in range(2))
    assert again.history == one.history
