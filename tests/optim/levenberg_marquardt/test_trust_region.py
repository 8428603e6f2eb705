"""Steps within a trust region, against what they must fulfil."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.optim.levenberg_marquardt.normal_equations import (
    NormalEquations,
    ParameterSpace,
    ResidualSpace,
)
from rnnparse.optim.levenberg_marquardt.normal_equations import TriangularSpace as Triangular
from rnnparse.optim.levenberg_marquardt.trust_region import TrustRegion, shrinkage


def equations(seed: int, residuals: int, parameters: int, space: type) -> NormalEquations:
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.integers(-6, 6, parameters)
    blocks = rng.standard_normal((residuals, parameters)) * units
    zeros = np.zeros(parameters)
    made: NormalEquations = space(blocks, rng.standard_normal(residuals), zeros, zeros, zeros)
    return made


@given(
    seed=st.integers(0, 10**6),
    residuals=st.integers(1, 9),
    parameters=st.integers(1, 9),
    space=st.sampled_from([Triangular, ParameterSpace, ResidualSpace]),
    share=st.floats(1e-6, 0.85),
    guess=st.sampled_from([1e-12, 1e-4, 1.0, 1e6]),
)
@settings(max_examples=100, deadline=None)
def test_a_step_is_as_long_as_the_radius_to_a_tenth(
    seed: int, residuals: int, parameters: int, space: type, share: float, guess: float
) -> None:
    problem, least = equations(seed, residuals, parameters, space), 1e-10
    longest = problem.length(problem.solve(least))
    region = TrustRegion(share * longest, guess)
    damping, step = region.step(problem, least)
    assert problem.length(step) == pytest.approx(region.radius, rel=0.11)
    np.testing.assert_array_equal(step, problem.solve(damping))


@given(seed=st.integers(0, 10**6), radius=st.floats(1.0, 1e6))
@settings(max_examples=20, deadline=None)
def test_a_step_within_the_radius_has_the_least_damping(seed: int, radius: float) -> None:
    problem = equations(seed, 8, 3, Triangular)
    region = TrustRegion(radius * problem.length(problem.solve(1e-8)), 1.0)
    damping, step = region.step(problem, 1e-8)
    assert damping == 1e-8
    np.testing.assert_array_equal(step, problem.solve(1e-8))


def test_a_system_that_cannot_be_solved_is_damped_until_it_can() -> None:
    """Two equal columns, whose Cholesky factor needs a damping above rounding."""
    column = np.random.default_rng(0).standard_normal((9, 1))
    zeros = np.zeros(2)
    problem = ParameterSpace(column.repeat(2, axis=1), column[:, 0], zeros, zeros, zeros)
    for radius in (np.inf, 0.1):
        damping, step = TrustRegion(radius, 1e-300).step(problem, 1e-300)
        assert damping > 1e-300 and np.isfinite(step).all()


def test_the_radius_follows_the_gain_ratio() -> None:
    def adapted(gain: float, free: bool = False) -> float:
        region = TrustRegion(1.0, 1.0)
        region.adapt(gain, 0.95, 0.3, free)
        return region.radius

    assert adapted(0.9) == 1.9
    assert adapted(0.5) == 1.0 and adapted(0.5, free=True) == 1.9
    assert adapted(0.2) == adapted(-5.0) == adapted(np.nan) == 0.3


def test_a_radius_shrinks_to_the_minimum_of_a_parabola() -> None:
    """Through a cost of 1, a slope of −1 and the cost after, at 1 / (2 (cost after))."""
    assert shrinkage(1.0, 2.0, -1.0) == pytest.approx(1 / 4)
    assert shrinkage(1.0, 1.5, -1.0) == pytest.approx(1 / 3)
    assert shrinkage(1.0, 0.99, -1.0) == 0.5
    for after in (50.0, 1e9, np.inf, np.nan):
        assert shrinkage(1.0, after, -1.0) == 0.1
