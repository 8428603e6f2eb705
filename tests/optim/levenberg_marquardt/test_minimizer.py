"""Steps of Levenberg–Marquardt: what they solve, accept, restore, report and refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.levenberg_marquardt.minimizer import LevenbergMarquardt
from rnnparse.optim.levenberg_marquardt.results import StepResult, Tolerances
from tests.optim.levenberg_marquardt.nist import PROBLEMS
from tests.optim.levenberg_marquardt.problems import (
    EXPONENTIAL,
    ROSENBROCK,
    exponential,
    rosenbrock,
    variable,
)

# -- one step ----------------------------------------------------------------------------------


def test_a_step_is_that_of_the_damped_equations() -> None:
    """Two variables of different shapes, each with its own L2 weight."""
    rng = np.random.default_rng(2)
    W, c = variable(rng.standard_normal((2, 3))), variable(0.3)
    x, y = rng.standard_normal((9, 2)), rng.standard_normal((9, 3))
    theta = np.append(W.numpy().ravel(), 0.3)

    def residuals() -> Any:
        return tf.tanh(x @ W + c) - y

    with tf.GradientTape() as tape:
        r = tf.reshape(residuals(), [-1])
    J = np.concatenate([np.reshape(part, (27, -1)) for part in tape.jacobian(r, [W, c])], axis=1)
    r = r.numpy()
    l2 = np.repeat([0.5, 0.25], [6, 1])
    damping = 0.7
    A = J.T @ J + np.diag(l2)
    expected = theta - np.linalg.solve(A + damping * np.diag(np.diag(A)), J.T @ r + l2 * theta)
    optimizer = LevenbergMarquardt(
        [W, c], damping=damping, l2=[0.5, 0.25], chunk=4, acceleration=False
    )
    result = optimizer.step(residuals)
    assert result.accepted and result.tries == 1 and result.damping == damping
    np.testing.assert_allclose(np.append(W.numpy().ravel(), c.numpy()), expected, rtol=1e-10)
    assert result.step_norm == pytest.approx(np.linalg.norm(expected - theta))
    assert result.gradient_norm == pytest.approx(np.linalg.norm(J.T @ r + l2 * theta))
    cost = 0.5 * (np.square(r).sum() + l2 @ theta**2)
    assert result.cost_before == pytest.approx(cost)
    after = 0.5 * (np.square(residuals()).sum() + l2 @ expected**2)
    assert result.cost == pytest.approx(after)
    assert result.cost == optimizer.cost(residuals)
    assert result.gain_ratio == pytest.approx((cost - after) / result.predicted)
    assert optimizer.damping == damping and result.evaluations == 1


@pytest.mark.parametrize("count", [3, 50])
def test_an_l2_term_acts_as_residuals_of_its_own(count: int) -> None:
    """In residual space (3 residuals, 6 parameters) and in parameter space."""
    rng = np.random.default_rng(3)
    x, y, start = (rng.standard_normal(shape) for shape in ((count, 6), count, 6))
    implicit, explicit = variable(start), variable(start)

    def residuals(b: Any) -> Any:
        return tf.sin(tf.linalg.matvec(x, b)) - y

    without = tf.function(lambda: residuals(implicit))
    with_rows = tf.function(lambda: tf.concat([residuals(explicit), 0.2 * explicit], 0))
    one = LevenbergMarquardt([implicit], l2=0.04)
    other = LevenbergMarquardt([explicit])
    for _ in range(6):
        a, b = one.step(without), other.step(with_rows)
        assert a.cost == pytest.approx(b.cost, rel=1e-10)
        assert (a.damping, a.tries) == (pytest.approx(b.damping, rel=1e-8), b.tries)
        np.testing.assert_allclose(implicit.numpy(), explicit.numpy(), rtol=1e-9)


def lengths(optimizer: LevenbergMarquardt, count: int) -> tuple[list[StepResult], list[float]]:
    """Steps on Rosenbrock's problem, and the radius after each."""
    problem = rosenbrock(optimizer._variables[0])
    results, radii = [], []
    for _ in range(count):
        results.append(optimizer.step(*problem))
        radii.append(float(optimizer.state()[0]))
    return results, radii


def test_the_trust_region_follows_the_gain_ratio() -> None:
    """It grows after good steps, shrinks after poor ones, and is kept in between."""
    x = variable(ROSENBROCK)
    results, radii = lengths(LevenbergMarquardt([x], acceleration=False), 12)
    seen = set()
    for before, after, result in zip(radii, radii[1:], results[1:], strict=False):
        assert result.gain_ratio == pytest.approx(
            (result.cost_before - result.cost) / result.predicted
        )
        if result.tries > 1:
            assert after < before
            seen.add("rejected")
        elif result.gain_ratio > 0.75:
            assert after >= before or result.damping == 1e-16
            seen.add("good")
        elif result.gain_ratio < 0.25:
            assert after <= before / 2
            seen.add("poor")
    assert {"rejected", "good"} <= seen


def test_the_first_step_is_no_longer_than_the_parameters() -> None:
    """In the norm of D; the undamped step would be 20 times as long."""
    x = variable([1.0])
    result = LevenbergMarquardt([x]).step(lambda: 3 * x - 63)
    assert result.relative_step == pytest.approx(1, rel=0.1)
    for start, damping in ((0.0, None), (1.0, 1e-12)):  # where that says nothing, and by order
        x = variable([start])
        LevenbergMarquardt([x], damping=damping).step(lambda x=x: 3 * x - 63)
        np.testing.assert_allclose(x.numpy(), 21, rtol=1e-9)


@pytest.mark.parametrize("damping", [1e10, 1e14])
def test_steps_that_only_the_damping_keeps_short_are_no_convergence(damping: float) -> None:
    x = variable(ROSENBROCK)
    optimizer = LevenbergMarquardt([x], damping=damping)
    result = optimizer.minimize(*rosenbrock(x))
    assert len(result.history) > 10
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-6)


def test_acceleration_saves_steps_in_a_curved_valley() -> None:
    counts, problem = [], PROBLEMS["MGH10"]
    for acceleration in (False, True):
        b = variable(problem.starts[1])
        result = LevenbergMarquardt([b], acceleration=acceleration).minimize(
            lambda b=b: problem.residuals(b.numpy()),
            lambda b=b: problem.jacobian(b.numpy()),
        )
        assert problem.digits(b.numpy()) > 6
        counts.append(len(result.history))
    assert counts[1] < 0.5 * counts[0]


def test_acceleration_is_half_the_second_order_term_along_the_step() -> None:
    """Of r = d + d² / 5 − 1 at d = 0, where r' = 1 and r'' = 0.4."""
    errors = []
    for acceleration in (False, True):
        b = variable([20.0])  # far enough for a step of a tenth of it
        optimizer = LevenbergMarquardt([b], acceleration=acceleration)
        optimizer.step(lambda b=b: (b - 20) + (b - 20) ** 2 / 5 - 1)
        errors.append(float(b[0]) - 20)
    np.testing.assert_allclose(errors, [1, 0.8], rtol=1e-6)


def test_acceleration_needs_memory_for_the_jacobian() -> None:
    x = np.random.default_rng(0).standard_normal((400, 3))
    y = np.exp(0.3 * x @ [1.0, 0.5, -1.0])
    counts = []
    for limit in (1e9, 3000):
        b = variable([1.0, 1.0, 1.0])
        optimizer = LevenbergMarquardt([b], memory_limit=limit)
        function = tf.function(lambda b=b: tf.exp(0.3 * tf.linalg.matvec(x, b)) - y)
        steps = [optimizer.step(function) for _ in range(5)]
        counts.append(sum(step.evaluations - step.tries for step in steps))
        np.testing.assert_allclose(b.numpy(), [1.0, 0.5, -1.0], rtol=1e-4)
    assert counts[0] > 0 == counts[1]


def test_the_damping_stays_within_its_range() -> None:
    x = variable(ROSENBROCK)
    optimizer, problem = LevenbergMarquardt([x], damping_range=(1e-3, 1e2)), rosenbrock(x)
    used = [optimizer.step(*problem).damping for _ in range(20)]
    assert min(used) == 1e-3 and max(used) <= 1e2


def nowhere_better(x: tf.Variable, bad: float) -> Callable[[], Any]:
    """Residuals that get worse, or are lost, wherever one goes."""
    start = tf.constant(x.numpy())
    return lambda: tf.where(x == start, x, tf.constant(bad, x.dtype)) + 1.0


@pytest.mark.parametrize("bad", [1e3, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rejected_step_restores_every_byte(dtype: str, bad: float) -> None:
    x = variable([0.1, 1 / 3, 1e-7, -0.0], dtype)
    before = x.numpy().tobytes()
    optimizer = LevenbergMarquardt([x], damping=1e-3, damping_range=(1e-15, 1e3))
    result = optimizer.step(nowhere_better(x, bad))
    assert not result.accepted and result.tries > 3
    assert result.cost == result.cost_before
    assert x.numpy().tobytes() == before
    assert np.isinf(optimizer.state()[0])  # the trust region, as before
    assert Tolerances().reached(result) == "stalled"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_step_restores_every_byte(error: type[BaseException]) -> None:
    x = variable(ROSENBROCK)
    before = x.numpy().tobytes()
    inner, jacobian = rosenbrock(x)

    def residuals() -> Any:
        if not np.array_equal(x.numpy(), ROSENBROCK):
            raise error
        return np.asarray(inner())

    with pytest.raises(error):
        LevenbergMarquardt([x]).step(residuals, jacobian)
    assert x.numpy().tobytes() == before


def test_residuals_that_are_lost_on_the_way_are_gone_around() -> None:
    """log(x) is NaN where the undamped step would land."""
    x = variable([5.0])
    result = LevenbergMarquardt([x], damping=1e-9).minimize(lambda: tf.math.log(x) * 2)
    assert result.history[0].tries > 1
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-9)


def test_float32_variables_are_judged_as_they_are_stored() -> None:
    x = variable(ROSENBROCK, "float32")
    (residuals, jacobian), l2 = rosenbrock(x), np.float64(0.3)
    optimizer = LevenbergMarquardt([x], l2=l2)
    for _ in range(10):
        result = optimizer.step(residuals, jacobian)
        r, theta = (np.asarray(values, np.float64) for values in (residuals(), x))
        cost = 0.5 * (np.sum(r**2) + np.sum((np.sqrt(l2) * theta) ** 2))
        assert result.cost == optimizer.cost(residuals) == cost


def test_float32_variables_reach_what_they_can_hold() -> None:
    x = variable(ROSENBROCK, "float32")
    assert LevenbergMarquardt([x]).minimize(*rosenbrock(x)).reason != "steps"
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-5)
    mixed = [variable([0.5], "float32"), variable([0.5])]
    LevenbergMarquardt(mixed).minimize(lambda: tf.cast(mixed[0], "float64") * mixed[1] - 2.0)
    assert [v.dtype for v in mixed] == [tf.float32, tf.float64]
    assert float(mixed[0][0]) * float(mixed[1][0]) == pytest.approx(2, rel=1e-7)


def test_keras_variables_are_moved_and_others_are_not() -> None:
    layer = keras.layers.Dense(1, dtype="float64")
    x = np.random.default_rng(4).standard_normal((20, 3))
    y = x @ [[1.0], [2.0], [3.0]] + 4
    layer.build(x.shape)
    kernel = layer.kernel.numpy()
    result = LevenbergMarquardt([layer.bias]).minimize(lambda: layer(x) - y)
    np.testing.assert_array_equal(layer.kernel.numpy(), kernel)
    np.testing.assert_allclose(layer.bias.numpy(), np.mean(y - x @ kernel), rtol=1e-9)
    assert result.reason in ("gradient", "step", "cost")


def test_a_variable_that_is_not_trainable_can_be_given() -> None:
    x = tf.Variable([3.0], dtype="float64", trainable=False)
    LevenbergMarquardt([x]).minimize(lambda: x**2 - 2)
    np.testing.assert_allclose(x.numpy(), math.sqrt(2), rtol=1e-9)


# -- residuals and derivatives from elsewhere --------------------------------------------------


@pytest.mark.parametrize("as_blocks", [False, True])
def test_a_jacobian_of_ones_own_does_as_well(as_blocks: bool) -> None:
    """NumPy alone computes residuals and derivatives."""
    x = variable(ROSENBROCK)

    def residuals() -> np.ndarray:
        a, b = x.numpy()
        return np.array([10 * (b - a * a), 1 - a])

    def jacobian() -> Any:
        rows = np.array([[-20 * x.numpy()[0], 10.0], [-1.0, 0.0]])
        return iter([rows[:1], rows[1:]]) if as_blocks else rows

    ours = LevenbergMarquardt([x]).minimize(residuals, jacobian)
    twin = variable(ROSENBROCK)
    taped = LevenbergMarquardt([twin]).minimize(rosenbrock(twin)[0])
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-9)
    assert [s.cost for s in ours.history] == pytest.approx([s.cost for s in taped.history])


@pytest.mark.parametrize("by_tape", [True, False])
def test_complex_residuals_count_with_both_their_parts(by_tape: bool) -> None:
    """A decaying oscillation a exp(b t) with complex data, against its stacked parts."""
    t = np.linspace(0, 3, 30)
    y = (2 - 1j) * np.exp((-0.4 + 2j) * t)

    def fitted(stacked: bool) -> np.ndarray:
        x = variable([1.0, 0.1, -0.1, 1.8])

        def residuals() -> Any:
            a, b = tf.complex(x[0], x[1]), tf.complex(x[2], x[3])
            r = a * tf.exp(b * t) - y
            return tf.concat([tf.math.real(r), tf.math.imag(r)], 0) if stacked else r

        def jacobian() -> np.ndarray:
            a, b = complex(*x.numpy()[:2]), complex(*x.numpy()[2:])
            e = np.exp(b * t)
            return np.stack([e, 1j * e, a * t * e, 1j * a * t * e], axis=1)

        by_hand = None if stacked or by_tape else jacobian
        LevenbergMarquardt([x]).minimize(residuals, by_hand)
        return x.numpy()

    complex_fit = fitted(False)
    np.testing.assert_allclose(complex_fit, fitted(True), rtol=1e-7)
    np.testing.assert_allclose(complex_fit, [2, -1, -0.4, 2], rtol=1e-7)


@pytest.mark.parametrize("traced", [False, True])
def test_minibatches_of_different_sizes_take_steps_in_a_loop(traced: bool) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((90, 4))
    y = np.tanh(x @ [1.0, -1.0, 0.5, 0.25])
    b = variable(np.zeros(4))

    def residuals(x: Any, y: Any) -> Any:
        return tf.tanh(tf.linalg.matvec(x, b)) - y

    optimizer = LevenbergMarquardt([b])
    function = tf.function(residuals) if traced else residuals
    for start in range(0, 90, 20):
        part = slice(start, start + 20)
        result = optimizer.step(function, data=(tf.constant(x[part]), tf.constant(y[part])))
        assert result.cost <= result.cost_before
    np.testing.assert_allclose(b.numpy(), [1, -1, 0.5, 0.25], rtol=1e-3)


def test_a_step_that_is_not_fresh_saves_an_evaluation() -> None:
    """And is the same step."""
    histories, calls = [], []
    for fresh in (True, False):
        x, count = variable(ROSENBROCK), 0

        def residuals(x: Any = x) -> np.ndarray:
            nonlocal count
            count += 1
            return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])

        def jacobian(x: Any = x) -> np.ndarray:
            return np.array([[-20 * x.numpy()[0], 10.0], [-1.0, 0.0]])

        optimizer = LevenbergMarquardt([x])
        histories.append([optimizer.step(residuals, jacobian, fresh=fresh) for _ in range(9)])
        calls.append(count)
    assert histories[0] == histories[1]
    assert calls[0] == calls[1] + 8 == sum(step.evaluations + 1 for step in histories[0])


def test_another_function_is_never_mistaken_for_the_one_before() -> None:
    """Graphs are kept for a tf.function, not for what it happens to be called."""
    x = variable([2.0])
    optimizer = LevenbergMarquardt([x])
    for slope in (3.0, 5.0, 7.0):
        function = tf.function(lambda slope=slope: slope * x - 1)
        before = float(x[0])
        result = optimizer.step(function)
        assert result.gradient_norm == pytest.approx(abs(slope * (slope * before - 1)))


def test_a_state_goes_on_to_the_same_bytes() -> None:
    def run(x: tf.Variable, optimizer: LevenbergMarquardt, steps: int) -> list[StepResult]:
        problem = rosenbrock(x)
        return [optimizer.step(*problem) for _ in range(steps)]

    x = variable(ROSENBROCK)
    optimizer = LevenbergMarquardt([x])
    run(x, optimizer, 4)
    y = variable(x.numpy())
    again = LevenbergMarquardt([y])
    again.restore(optimizer.state())
    assert run(x, optimizer, 4) == run(y, again, 4)
    assert x.numpy().tobytes() == y.numpy().tobytes()
    for state in (optimizer.state(), optimizer.state()[1:]):
        with pytest.raises(ValueError, match="other variables"):
            LevenbergMarquardt([variable([1.0])]).restore(state)


# -- when to stop ------------------------------------------------------------------------------


def test_each_reason_to_stop_is_given() -> None:
    never = Tolerances(0.0, 0.0, 0.0)

    def ended(tolerances: Tolerances, steps: int = 100) -> str:
        b = variable(EXPONENTIAL)
        optimizer = LevenbergMarquardt([b])
        return optimizer.minimize(*exponential(b), steps=steps, tolerances=tolerances).reason

    assert ended(never._replace(gradient=1e-3)) == "gradient"
    assert ended(never._replace(step=1e-3)) == "step"
    assert ended(never._replace(cost=1e-3)) == "cost"
    assert ended(never, steps=2) == "steps"
    assert ended(never) == "stalled"


def test_a_problem_that_is_solved_already_stops_at_once() -> None:
    x = variable([1.0, 1.0])
    result = LevenbergMarquardt([x]).minimize(*rosenbrock(x))
    assert result.reason == "gradient" and len(result.history) == 1
    np.testing.assert_array_equal(x.numpy(), [1.0, 1.0])


def test_the_cosine_does_not_depend_on_units() -> None:
    def cosine(unit: float) -> float:
        x = variable(np.array(ROSENBROCK) / unit)

        def derivatives() -> np.ndarray:
            return rosenbrock(x * unit)[1]() * 1e4 * unit

        return LevenbergMarquardt([x]).step(
            lambda: rosenbrock(x * unit)[0]() * 1e4, derivatives
        ).cosine

    assert 0.1 < cosine(1.0) <= 1
    assert cosine(1e8) == pytest.approx(cosine(1.0), rel=1e-9)


# -- what is refused ---------------------------------------------------------------------------


def test_a_start_that_is_not_finite_is_refused() -> None:
    x = variable([-1.0, 2.0])
    with pytest.raises(ValueError, match=r"not finite at the start \(1 of 2 residuals"):
        LevenbergMarquardt([x]).step(lambda: tf.math.log(x))
    with pytest.raises(ValueError, match="Jacobian is not finite"):
        y = variable([0.0, 1.0])
        LevenbergMarquardt([y]).step(lambda: tf.sqrt(y))


def test_residuals_that_depend_on_no_variable_are_refused() -> None:
    x = variable([1.0])
    with pytest.raises(ValueError, match="do not depend on the variables"):
        LevenbergMarquardt([x]).step(lambda: tf.constant(x.numpy()))
    with pytest.raises(ValueError, match="no residuals"):
        LevenbergMarquardt([x]).step(lambda: x[:0])


def test_the_size_guard_comes_before_the_jacobian() -> None:
    x = variable(np.zeros(100_000))
    with pytest.raises(ConfigError, match=r"freeze some of the variables"):
        LevenbergMarquardt([x], memory_limit=1e6).step(lambda: x, lambda: pytest.fail("computed"))


@pytest.mark.parametrize(
    "settings",
    [
        {"damping": 0.0},
        {"damping": 1.0, "damping_range": (1e-5, 0.1)},
        {"damping_range": (0.0, 1.0)},
        {"damping_range": (1e-5, math.inf)},
        {"l2": -1.0},
        {"l2": 1j},
        {"l2": math.nan},
        {"l2": [1.0, 2.0, 3.0]},
        {"chunk": 0},
    ],
)
def test_arguments_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        LevenbergMarquardt([variable([1.0]), variable([2.0])], **settings)


def test_a_minimisation_takes_at_least_a_step() -> None:
    x = variable([1.0])
    with pytest.raises(ValueError, match="steps"):
        LevenbergMarquardt([x]).minimize(lambda: x, steps=0)


def test_an_l2_weight_may_be_an_array_without_axes() -> None:
    solutions = []
    for l2 in (0.5, np.array(0.5), tf.constant(0.5)):
        x = variable([1.0, 2.0])
        LevenbergMarquardt([x], l2=l2).minimize(lambda x=x: x - 3.0)
        solutions.append(x.numpy())
    np.testing.assert_allclose(solutions, 2.0, rtol=1e-6)


def test_variables_must_be_of_a_float_dtype() -> None:
    for variables in ([], [tf.Variable([1, 2])]):
        with pytest.raises(ValueError, match="float"):
            LevenbergMarquardt(variables)


def test_residuals_may_be_typed_where_there_is_no_source(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """As in a console: AutoGraph would fail to read them, or warn at length."""
    names: dict[str, Any] = {}
    exec("def residuals():\n    return x * x - 2.0\n", names)
    names["x"] = variable = keras.Variable([1.0], dtype="float64")
    result = LevenbergMarquardt([variable]).minimize(names["residuals"])
    assert float(variable[0]) == pytest.approx(2**0.5)
    assert result.cost < 1e-20
    assert "AutoGraph" not in capfd.readouterr().err
