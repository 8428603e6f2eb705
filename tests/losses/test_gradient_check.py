"""`check_external`: what it finds, what it lets pass, and what it says."""

from __future__ import annotations

import doctest
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from rnnparse.losses import gradient_check
from rnnparse.losses.external import check_external

Result = tuple[Any, Any]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def quartic(a: np.ndarray) -> Result:
    return np.sum(a**4, axis=1), 4 * a**3


def altered(a: np.ndarray, place: tuple[int, int], change: float, fn: Any = quartic) -> Result:
    """A function whose derivative is wrong at one place."""
    loss, derivative = fn(a)
    derivative[place] += change
    return loss, derivative


def total(a: np.ndarray) -> Result:
    loss, derivative = quartic(a)
    return loss.sum(), derivative


def of_neighbours(a: np.ndarray) -> Result:
    """Losses that depend on the row before, with the derivative of their sum."""
    return np.sum(a**2, axis=1) + np.roll(a[:, 0], 1), 2 * a + np.eye(a.shape[1])[0]


def absolute(a: np.ndarray, at_zero: float = 0.0) -> Result:
    return np.abs(a).sum(), np.where(a == 0, at_zero, np.sign(a))


def log_likelihood(a: np.ndarray) -> Result:
    """Of two scores, the first one's."""
    total = np.logaddexp(*a)
    return total - a[0], np.exp(a - total) - [1, 0]


@pytest.mark.parametrize("fn", [quartic, total])
def test_a_right_derivative_passes_with_tiny_errors(fn: Any) -> None:
    report = check_external(fn, normal(4, 3))
    assert report.checked == 12 and not report.kinks
    assert report.absolute_error < 1e-9 and report.relative_error < 1e-9
    assert re.fullmatch(r"x\[\d, \d\]", report.where)


@pytest.mark.parametrize("fn", [quartic, total])
@pytest.mark.parametrize("change", [1.0, -1e-3, 1e-4])
@pytest.mark.parametrize("place", [(0, 0), (3, 1), (2, 2)])
def test_a_wrong_component_is_found_and_named(
    fn: Any, change: float, place: tuple[int, int]
) -> None:
    x = normal(4, 3) + np.sign(normal(4, 3))
    given, right = 4 * x[place] ** 3 + change, 4 * x[place] ** 3
    with pytest.raises(ValueError) as error:
        check_external(partial(altered, place=place, change=change, fn=fn), x)
    message = str(error.value)
    assert f"altered: the derivative is wrong at x[{place[0]}, {place[1]}]" in message
    match = re.search(r"given (\S+), by finite differences (\S+) \(1 of 12", message)
    assert match and float(match[1]) == pytest.approx(given, rel=1e-6)
    assert float(match[2]) == pytest.approx(right, rel=1e-6)


@pytest.mark.parametrize("fn", [quartic, pytest.param(total, marks=pytest.mark.slow)])
def test_a_wrong_component_among_many_is_found_by_bisection(fn: Any) -> None:
    x = normal(40, 50)
    report = check_external(fn, x)
    assert report.checked == 100 and report.where.startswith("direction ")
    for place in np.ndindex(3, 3):
        with pytest.raises(ValueError) as error:
            check_external(partial(altered, place=place, change=-0.1, fn=fn), x)
        match = re.search(r"wrong at x\[(\d), (\d)\]: given (\S+), by finite", str(error.value))
        assert match and (int(match[1]), int(match[2])) == place
        assert float(match[3]) == pytest.approx(4 * x[place] ** 3 - 0.1)


def test_directions_can_be_asked_for() -> None:
    assert check_external(quartic, normal(4, 3), directions=5).checked == 5
    with pytest.raises(ValueError, match=r"wrong at x\[1, 2\].*of 5 checks fail"):
        check_external(partial(altered, place=(1, 2), change=1), normal(4, 3), directions=5)


@pytest.mark.parametrize("shape", [(4, 3), (40, 50)])
def test_a_loss_that_depends_on_another_row_is_found(shape: tuple[int, int]) -> None:
    x = normal(*shape)
    check_external(lambda a: (of_neighbours(a)[0].sum(), of_neighbours(a)[1]), x)
    with pytest.raises(ValueError) as error:
        check_external(of_neighbours, x)
    match = re.search(r"loss of example (\d+) depends on x\[(\d+), 0\]", str(error.value))
    assert match and int(match[1]) == (int(match[2]) + 1) % shape[0]


@pytest.mark.parametrize("at_zero", [-1, -0.3, 0, 1])
def test_a_subgradient_at_a_kink_passes_and_is_reported(at_zero: float) -> None:
    report = check_external(partial(absolute, at_zero=at_zero), np.array([[0.5], [0.0], [-2.0]]))
    assert report.kinks == ("x[1, 0]",)
    assert report.relative_error < 1e-9


@pytest.mark.parametrize("at_zero", [-1.01, 1.01, 3])
def test_no_subgradient_at_a_kink_is_an_error_that_says_kink(at_zero: float) -> None:
    with pytest.raises(ValueError, match=r"a kink at x\[1\], with slopes -1 and 1 .*, is not betw"):
        check_external(partial(absolute, at_zero=at_zero), np.array([0.5, 0.0, -2.0]))


def test_a_kink_within_a_step_but_not_at_the_point_does_no_harm() -> None:
    report = check_external(absolute, np.array([0.5, 2e-6, -2e-6]))
    assert not report.kinks and report.absolute_error < 1e-8


def test_a_wrong_derivative_beside_a_kink_is_still_found() -> None:
    def fn(a: np.ndarray) -> Result:
        loss, derivative = absolute(a)
        return loss + np.sum(a[1:] ** 2), derivative + np.append(0, a[1:])

    with pytest.raises(ValueError, match=r"derivative is wrong at x\[1\]"):
        check_external(fn, np.array([0.0, 2.0]))


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (lambda a: (np.sin(1e3 * a).sum(), 1e3 * np.cos(1e3 * a)), normal(3)),
        (lambda a: (np.exp(50 * a).sum(), 50 * np.exp(50 * a)), normal(3)),
        (lambda a: (1e-8 * np.sum(a**2), 2e-8 * a), normal(3)),
        (lambda a: (1e8 * np.sum(a**2), 2e8 * a), normal(3)),
        (lambda a: (np.sum(a**2), 2 * a), 1e4 * normal(3)),
        (lambda a: (1e4 + np.sum(a**2), 2 * a), normal(3)),
        (lambda a: (a**3, 3 * a**2), np.array(0.0)),
        (lambda a: (0.0, np.zeros_like(a)), normal(3)),
        (log_likelihood, np.array([1e4, -1e4])),
        (log_likelihood, np.array([1e4, 1e4 - 25.7])),
        (log_likelihood, np.array([3.3, 3.3 - 22.1])),
        (log_likelihood, np.array([3.3, 3.3 - 24.9])),
    ],
)
def test_curvature_and_rounding_are_no_errors(fn: Any, x: np.ndarray) -> None:
    assert not check_external(fn, x).kinks


def test_nothing_to_check() -> None:
    assert check_external(quartic, np.zeros((0, 3))).checked == 0


def test_nests_and_further_arguments() -> None:
    def fn(a: Any, power: int, factor: float) -> Result:
        first, second = a["first"], a["second"]
        loss = np.sum(first**power, axis=1) + second**2
        return loss, {"first": power * first ** (power - 1), "second": factor * second}

    x = {"first": normal(4, 3), "second": normal(4, seed=1)}
    assert check_external(fn, x, 3, 2).checked == 16
    with pytest.raises(ValueError, match=r"wrong at array 1 of x\[\d\]"):
        check_external(fn, x, 3, 2.1)


def test_activations_are_turned_into_float64() -> None:
    def fn(a: np.ndarray) -> Result:
        assert a.dtype == np.float64
        return quartic(a)

    check_external(fn, normal(4, 3).astype(np.float32))
    check_external(fn, np.arange(6).reshape(2, 3))
    assert check_external(fn, [[1, 2, 3], [4, 5, 6]]).checked == 6


def test_single_precision_needs_larger_steps() -> None:
    def single(a: np.ndarray) -> Result:
        loss, derivative = quartic(a)
        return loss.astype(np.float32), derivative

    with pytest.raises(ValueError, match="derivative is wrong"):
        check_external(single, normal(4, 3))
    check_external(single, normal(4, 3), step=1e-2, tolerance=1e-2)


def test_what_fails_only_near_the_point_is_said_to() -> None:
    x = np.array([1e-6, 1.0])

    def logarithm(a: np.ndarray) -> Result:
        with np.errstate(invalid="ignore"):
            return np.sum(np.log(a)), 1 / a

    with pytest.raises(ValueError, match=r"not finite in float64: nan; .* a smaller step"):
        check_external(logarithm, x)
    assert check_external(logarithm, x, step=1e-10, tolerance=1e-4).checked == 2


@pytest.mark.parametrize(
    "settings",
    [{"step": 0.0}, {"step": -1e-6}, {"step": np.inf}, {"tolerance": -1.0}, {"directions": 0}],
)
def test_settings_with_which_nothing_is_checked_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="step must be positive"):
        check_external(lambda a: (np.sum(a**2), a), normal(4, 3), **settings)


def test_a_function_of_more_than_its_activations_is_found() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="different losses for the same activations"):
        check_external(lambda a: (np.sum(a) + rng.random(), np.ones_like(a)), normal(3))


def test_results_of_a_wrong_form_are_errors_here_too() -> None:
    with pytest.raises(ValueError, match=r"derivative of shape \(3, 4\)"):
        check_external(lambda a: (np.sum(a), a.T), normal(4, 3))


def test_the_examples_of_the_docstring() -> None:
    result = doctest.testmod(gradient_check, optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed
