"""Least squares within bounds, against SciPy and the conditions of an optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rnnparse.optim.levenberg_marquardt.bounds import Bounds
from rnnparse.optim.levenberg_marquardt.minimizer import LevenbergMarquardt
from tests.optim.levenberg_marquardt.nist import PROBLEMS
from tests.optim.levenberg_marquardt.problems import ROSENBROCK, rosenbrock, variable


@example(seed=377545, residuals=2, parameters=3, share=0.75)  # a step of length 0
@example(seed=1, residuals=3, parameters=4, share=1.0)  # bounds leave fewer than the residuals
@example(seed=1, residuals=120, parameters=158, share=0.88)
@given(
    seed=st.integers(0, 10**6),
    residuals=st.integers(2, 8),
    parameters=st.integers(1, 5),
    share=st.floats(0.0, 1.5),
)
@settings(max_examples=40, deadline=None)
def test_linear_problems_end_at_the_bounded_optimum(
    seed: int, residuals: int, parameters: int, share: float
) -> None:
    """As `scipy.optimize.lsq_linear` finds it, with more parameters than residuals too."""
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((residuals, parameters)), rng.standard_normal(residuals)
    free = np.abs(np.linalg.lstsq(A, y)[0]) * share
    least, greatest = -free * rng.uniform(0, 1, parameters) - 0.01, free + 0.01
    expected = scipy.optimize.lsq_linear(A, y, (least, greatest), tol=1e-14)
    x = variable(rng.uniform(least, greatest))
    optimizer = LevenbergMarquardt([x], bounds=[(least, greatest)])
    result = optimizer.minimize(lambda: A @ x.numpy() - y, lambda: A)
    assert np.all((x.numpy() >= least) & (x.numpy() <= greatest))
    assert result.cost <= expected.cost + 1e-7 * (1 + expected.cost)


@pytest.mark.parametrize(
    ("least", "greatest"),
    [((-2, -2), (0.5, 2)), ((-2, 1.5), (2, 2)), ((-1.5, 0.5), (-0.5, 2)), ((0, 0), (0.9, 0.5))],
)
def test_rosenbrock_within_a_box_ends_where_scipy_ends(
    least: tuple[float, float], greatest: tuple[float, float]
) -> None:
    start = np.clip(ROSENBROCK, least, greatest)
    expected = scipy.optimize.least_squares(
        lambda x: [10 * (x[1] - x[0] ** 2), 1 - x[0]],
        0.5 * start + 0.25 * np.add(least, greatest),
        bounds=(least, greatest),
        **dict.fromkeys(("xtol", "ftol", "gtol"), 1e-14),
    )
    x = variable(ROSENBROCK)  # outside, mostly
    result = LevenbergMarquardt([x], bounds=[(least, greatest)]).minimize(*rosenbrock(x))
    assert np.all((x.numpy() >= least) & (x.numpy() <= greatest))
    assert result.cost == pytest.approx(expected.cost, rel=1e-6)
    np.testing.assert_allclose(x.numpy(), expected.x, rtol=1e-5, atol=1e-6)
    assert result.reason in ("gradient", "step", "cost")


def test_bounds_that_hold_nothing_change_nothing() -> None:
    problem = PROBLEMS["Thurber"]
    results = []
    for bounds in (None, [(-1e9, 1e9)], [None]):
        b = variable(problem.starts[1])
        LevenbergMarquardt([b], bounds=bounds).minimize(
            lambda b=b: problem.residuals(b.numpy()), lambda b=b: problem.jacobian(b.numpy())
        )
        results.append(b.numpy().tobytes())
    assert len(set(results)) == 1


def test_a_bound_of_a_nonlinear_problem_is_kept_at_every_evaluation() -> None:
    """sqrt(x) has no value below 0; the optimum is at the bound."""
    x = variable([4.0, 1.0])
    seen = []

    def residuals() -> Any:
        seen.append(x.numpy())
        return tf.stack([tf.sqrt(x[0]) + 1 + x[1], x[1] - 3])

    result = LevenbergMarquardt([x], bounds=[([1e-3, -9], np.inf)], acceleration=False).minimize(
        lambda: np.asarray(residuals()),
        lambda: np.array([[0.5 / np.sqrt(x.numpy()[0]), 1], [0, 1]]),
    )
    assert np.min(seen, axis=0)[0] >= 1e-3 and x.numpy()[0] == 1e-3
    assert result.reason in ("gradient", "step", "cost")


def test_float32_variables_stay_within_bounds_that_they_cannot_hold() -> None:
    x = variable([0.05, 0.25], "float32")
    LevenbergMarquardt([x], bounds=[(0.1, 0.3)]).minimize(lambda: x - np.float32([0.0, 1.0]))
    values = x.numpy().astype(np.float64)
    assert 0.1 <= values[0] < 0.1 + 1e-7 and 0.3 - 1e-7 < values[1] <= 0.3


def test_each_variable_has_its_own_bounds() -> None:
    x, y = variable([1.0, 1.0]), variable(1.0)
    bounds = [None, (0.5, np.inf)]
    LevenbergMarquardt([x, y], bounds=bounds).minimize(lambda: tf.concat([x, [y]], 0))
    np.testing.assert_allclose(x.numpy(), 0, atol=1e-7)
    assert y.numpy() == 0.5


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([(1.0, 0.0)], "lower bound must not be above"),
        ([(np.nan, 1.0)], "NaN"),
        ([([0, 0, 0], 1.0)], r"broadcast to its shape \(2,\)"),
        ([5.0], "pair"),
        ([("a", 1)], "pair"),
        ([None, None], "2 entries for 1 variables"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(bounds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bounds(bounds, ["x"], [(2,)], [np.float64])
