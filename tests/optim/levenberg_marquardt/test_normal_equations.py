"""Damped normal equations against the stacked least-squares problem that they stand for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.errors import ConfigError
from rnnparse.optim.levenberg_marquardt.normal_equations import (
    NormalEquations,
    ParameterSpace,
    ResidualSpace,
    TriangularSpace,
    memory_needed,
    normal_equations,
)

SPACES = (TriangularSpace, ParameterSpace, ResidualSpace)


def random_problem(seed: int, residuals: int, parameters: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "blocks": rng.standard_normal((residuals, parameters)),
        "residuals": rng.standard_normal(residuals),
        "parameters": rng.standard_normal(parameters),
        "l2": rng.uniform(0.1, 1.0, parameters) * rng.integers(0, 2, parameters),
        "before": np.zeros(parameters),
    }


def stacked(problem: dict[str, np.ndarray], damping: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose squares the step minimises: residuals, √l (θ + δ) and √(μ D) δ."""
    J, l2 = problem["blocks"], problem["l2"]
    scale = np.maximum(np.square(J).sum(axis=0) + l2, problem["before"])
    rows = np.concatenate([J, np.diag(np.sqrt(l2)), np.diag(np.sqrt(damping * scale))])
    right = np.concatenate(
        [problem["residuals"], np.sqrt(l2) * problem["parameters"], np.zeros(len(l2))]
    )
    return rows, right


def costs(rows: np.ndarray, right: np.ndarray, step: np.ndarray) -> float:
    return 0.5 * float(np.square(rows @ step + right).sum())


@pytest.mark.parametrize("space", SPACES)
@given(
    seed=st.integers(0, 10**6),
    residuals=st.integers(1, 12),
    parameters=st.integers(1, 12),
    damping=st.sampled_from([1e-4, 1e-2, 1.0, 1e3]),
)
@settings(max_examples=60, deadline=None)
def test_the_step_is_the_least_squares_solution_of_the_stacked_rows(
    space: Any, seed: int, residuals: int, parameters: int, damping: float
) -> None:
    problem = random_problem(seed, residuals, parameters)
    equations: NormalEquations = space(**problem)
    step = equations.solve(damping)
    rows, right = stacked(problem, damping)
    np.testing.assert_allclose(step, -np.linalg.lstsq(rows, right)[0], rtol=1e-6, atol=1e-8)
    undamped = len(rows) - parameters
    fall = costs(rows[:undamped], right[:undamped], 0 * step) - costs(
        rows[:undamped], right[:undamped], step
    )
    assert equations.predicted(step, damping) == pytest.approx(fall, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(equations.gradient, rows[:undamped].T @ right[:undamped], atol=1e-12)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30), (13, 13)])
def test_all_spaces_give_the_same_step(shape: tuple[int, int]) -> None:
    problem = random_problem(0, *shape)
    problem["before"] = np.random.default_rng(1).uniform(0, 2 * shape[0], shape[1])
    for damping in (1e-3, 1.0, 1e4):
        one, *others = (space(**problem).solve(damping) for space in SPACES)
        for other in others:
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(one).max())


def test_a_space_that_suits_the_sizes_is_taken() -> None:
    assert isinstance(normal_equations(**random_problem(0, 4, 3)), TriangularSpace)
    assert isinstance(normal_equations(**random_problem(0, 3, 4)), TriangularSpace)
    assert isinstance(normal_equations(**random_problem(0, 300, 200)), ParameterSpace)
    assert isinstance(normal_equations(**random_problem(0, 150, 200)), ResidualSpace)


@pytest.mark.parametrize("rank", [20, 35, 50])
def test_the_floor_bounds_the_rounding_of_rows_that_depend_on_each_other(rank: int) -> None:
    """The least damping still gives the step of the pseudo-inverse."""
    rng = np.random.default_rng(rank)
    J = rng.standard_normal((50, rank)) @ rng.standard_normal((rank, 90))
    residuals, zeros = rng.standard_normal(50), np.zeros(90)
    equations = ResidualSpace(J, residuals, zeros, zeros, zeros)
    root = np.sqrt(equations.scale)
    expected = -np.linalg.pinv(J / root, rcond=1e-10) @ residuals / root
    step = equations.solve(equations.floor)
    np.testing.assert_allclose(step, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert (equations.floor < 1e-10) == (rank == 50)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("shape", [(9, 5), (5, 9)])
def test_other_sides_and_steps_are_those_of_the_whole_matrix(
    space: Any, shape: tuple[int, int]
) -> None:
    problem, rng = random_problem(9, *shape), np.random.default_rng(10)
    J, damping = problem["blocks"].copy(), 0.3
    equations: NormalEquations = space(**problem)
    matrix = J.T @ J + np.diag(problem["l2"])
    damped = matrix + damping * np.diag(equations.scale)
    residuals, step = map(rng.standard_normal, shape)
    right = J.T @ rng.standard_normal(shape[0]) + problem["l2"]
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(
        equations.inverse(damping, right), np.linalg.solve(damped, right), **close
    )
    equations.jacobian = J
    np.testing.assert_allclose(
        equations.correction(damping, residuals), -np.linalg.solve(damped, J.T @ residuals), **close
    )
    assert equations.curvature(step) == pytest.approx(step @ matrix @ step)
    assert equations.length(step) == pytest.approx(np.sqrt(equations.scale @ step**2))
    solved = equations.solve(damping)
    assert equations.reduction(solved) == pytest.approx(equations.predicted(solved, damping))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("shape", [(9, 5), (5, 9)])
def test_held_parameters_are_as_if_they_were_not_there(space: Any, shape: tuple[int, int]) -> None:
    problem = random_problem(11, *shape)
    held = np.arange(shape[1]) % 2 == 0
    free = ~held
    others = {
        "blocks": problem["blocks"][:, free].copy(),
        "residuals": problem["residuals"],
        **{key: problem[key][free] for key in ("parameters", "l2", "before")},
    }
    equations, expected = space(**problem), space(**others)
    equations.hold(held)
    step = equations.solve(0.1)
    np.testing.assert_array_equal(step[held], 0)
    np.testing.assert_allclose(step[free], expected.solve(0.1), rtol=1e-9)
    np.testing.assert_allclose(equations.gradient[free], expected.gradient)
    assert equations.curvature(np.ones(shape[1])) == pytest.approx(
        expected.curvature(np.ones(free.sum()))
    )


def test_reflections_keep_the_digits_that_products_lose() -> None:
    """A condition of 1e7, the square of which leaves two of sixteen digits: Läuchli's matrix."""
    J = np.concatenate([np.ones((1, 3)), 1e-7 * np.eye(3)])
    exact, zeros = np.array([1.0, 2.0, -3.0]), np.zeros(3)
    errors = []
    for space in (TriangularSpace, ParameterSpace):
        # Residuals that no step can lower come on top.
        residuals = np.array([-1e-7, 1, 1, 1]) - J @ exact
        step = space(J, residuals, zeros, zeros, zeros).solve(1e-30)
        errors.append(np.abs(step - exact).max())
    assert errors[0] < 1e-6 and errors[1] > 1e-3


@pytest.mark.parametrize("space", SPACES)
def test_blocks_of_any_size_make_up_the_jacobian(space: Any) -> None:
    problem = random_problem(2, 1300, 7)
    whole = space(**problem).solve(0.1)
    cuts = [0, 1, 1, 40, 600, 1290, 1300]
    problem["blocks"] = iter([problem["blocks"][a:b] for a, b in pairwise(cuts)])
    np.testing.assert_allclose(space(**problem).solve(0.1), whole, rtol=1e-11)


@pytest.mark.parametrize("space", SPACES)
def test_units_of_the_parameters_do_not_matter(space: Any) -> None:
    """Steps are scaled as the parameters are, over forty orders of magnitude."""
    problem = random_problem(3, 9, 6)
    problem["l2"][:] = 0
    units = 10.0 ** np.array([-20, -9, 0, 3, 9, 20])
    expected = space(**problem).solve(0.01)
    problem["blocks"] = problem["blocks"] * units
    problem["parameters"] = problem["parameters"] / units
    np.testing.assert_allclose(space(**problem).solve(0.01) * units, expected, rtol=1e-8)


@pytest.mark.parametrize("space", SPACES)
def test_a_parameter_without_influence_stays_where_it_is(space: Any) -> None:
    problem = random_problem(4, 6, 5)
    problem["blocks"][:, 2] = 0
    problem["l2"][2] = 0
    step = space(**problem).solve(1e-3)
    assert step[2] == 0 and np.all(step[[0, 1, 3, 4]] != 0)


@pytest.mark.parametrize("space", SPACES)
def test_the_scale_never_falls(space: Any) -> None:
    problem = random_problem(5, 6, 5)
    problem["before"] = np.array([0, 100.0, 0, 100.0, 0])
    equations = space(**problem)
    expected = np.maximum(equations.diagonal, problem["before"])
    np.testing.assert_array_equal(equations.largest, expected)
    np.testing.assert_array_equal(equations.scale, expected)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("shape", [(4, 3), (6, 3), (5, 2), (5, 4), (15,)])
def test_a_jacobian_of_another_shape_is_refused(space: Any, shape: tuple[int, ...]) -> None:
    problem = random_problem(6, 5, 3) | {"blocks": np.ones(shape)}
    with pytest.raises(ValueError, match="the Jacobian has"):
        space(**problem)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_jacobian_that_is_not_finite_is_refused(space: Any, bad: float) -> None:
    problem = random_problem(7, 5, 3)
    problem["blocks"][2, 1] = bad
    with pytest.raises(ValueError, match=r"not finite.* 1 of 3 parameters are NaN"):
        space(**problem)


def test_a_matrix_that_is_not_positive_definite_to_working_precision_raises() -> None:
    """Two equal columns, and a damping that vanishes beside them."""
    problem = random_problem(8, 9, 4)
    problem["blocks"][:, 3] = problem["blocks"][:, 0]
    problem["l2"][:] = 0
    with pytest.raises(np.linalg.LinAlgError):
        ParameterSpace(**problem).solve(1e-300)
    assert np.isfinite(ParameterSpace(**problem).solve(1e-8)).all()


def test_the_size_guard_says_how_large_and_what_to_do() -> None:
    memory_needed(1000, 500, 1e8)
    memory_needed(500, 1000, 1e8)
    message = r"50,000 residuals and 1,200,000 .* 480.0 GB, normal equations of 20.0 GB.*minibatch"
    with pytest.raises(ConfigError, match=message):
        memory_needed(50_000, 1_200_000, 4e9)
    with pytest.raises(ConfigError, match="freeze"):
        memory_needed(1_000_000, 20_000, 4e9)
