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
from rnnparse.optim.convergence import StepResult, Tolerances
from rnnparse.optim.levenberg_marquardt import LevenbergMarquardt
from tests.optim.problems import ROSENBROCK, exponential, rosenbrock, variable

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
    optimizer = LevenbergMarquardt([W, c], damping=damping, l2=[0.5, 0.25], chunk=4)
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
    fall = max(1 / 3, 1 - (2 * result.gain_ratio - 1) ** 3)
    assert optimizer.damping == pytest.approx(damping * fall)


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


def test_the_damping_rises_until_the_cost_falls() -> None:
    """μ is multiplied by 2, 4, 8 …, and D stays the same."""
    x = variable(ROSENBROCK)
    optimizer, residuals = LevenbergMarquardt([x], damping=1e-6), rosenbrock(x)
    for _ in range(30):
        before = optimizer.damping
        result = optimizer.step(residuals)
        growth = 2.0 ** (result.tries * (result.tries - 1) / 2)
        assert result.damping == pytest.approx(before * growth)
        if result.tries > 1:
            return
    pytest.fail("no step was ever rejected")


def test_the_damping_follows_the_gain_ratio() -> None:
    """By the formula of Nielsen, after good steps, after poor ones and between."""
    x = variable(ROSENBROCK)
    optimizer, residuals = LevenbergMarquardt([x]), rosenbrock(x)
    factors = []
    for _ in range(15):
        result = optimizer.step(residuals)
        assert result.gain_ratio == pytest.approx(
            (result.cost_before - result.cost) / result.predicted
        )
        factors.append(optimizer.damping / result.damping)
        expected = max(1 / 3, 1 - (2 * result.gain_ratio - 1) ** 3)
        assert factors[-1] == pytest.approx(expected)
    assert min(factors) == pytest.approx(1 / 3) and max(factors) > 1
    assert any(0.4 < factor < 0.95 for factor in factors)


def test_the_damping_stays_within_its_range() -> None:
    x = variable(ROSENBROCK)
    optimizer, residuals = LevenbergMarquardt([x], damping_range=(1e-3, 1e2)), rosenbrock(x)
    used = [optimizer.step(residuals).damping for _ in range(20)]
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
    optimizer = LevenbergMarquardt([x], damping_range=(1e-15, 1e3))
    result = optimizer.step(nowhere_better(x, bad))
    assert not result.accepted and result.tries > 3
    assert result.cost == result.cost_before
    assert x.numpy().tobytes() == before
    assert optimizer.damping == 1e-3
    assert Tolerances().reached(result) == "stalled"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_step_restores_every_byte(error: type[BaseException]) -> None:
    x = variable(ROSENBROCK)
    before = x.numpy().tobytes()
    inner = rosenbrock(x)

    def residuals() -> Any:
        if not np.array_equal(x.numpy(), ROSENBROCK):
            raise error
        return np.asarray(inner())

    with pytest.raises(error):
        LevenbergMarquardt([x]).step(residuals, lambda: np.array([[24.0, 10.0], [-1.0, 0.0]]))
    assert x.numpy().tobytes() == before


def test_residuals_that_are_lost_on_the_way_are_gone_around() -> None:
    """log(x) is NaN where the undamped step would land."""
    x = variable([5.0])
    result = LevenbergMarquardt([x], damping=1e-9).minimize(lambda: tf.math.log(x) * 2)
    assert result.history[0].tries > 1
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-9)


def test_float32_variables_are_judged_as_they_are_stored() -> None:
    x = variable(ROSENBROCK, "float32")
    residuals, l2 = rosenbrock(x), np.float64(0.3)
    optimizer = LevenbergMarquardt([x], l2=l2)
    for _ in range(10):
        result = optimizer.step(residuals)
        r, theta = (np.asarray(values, np.float64) for values in (residuals(), x))
        cost = 0.5 * (np.sum(r**2) + np.sum((np.sqrt(l2) * theta) ** 2))
        assert result.cost == optimizer.cost(residuals) == cost


def test_float32_variables_reach_what_they_can_hold() -> None:
    x = variable(ROSENBROCK, "float32")
    assert LevenbergMarquardt([x]).minimize(rosenbrock(x)).reason != "steps"
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
    taped = LevenbergMarquardt([twin]).minimize(rosenbrock(twin))
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-9)
    assert [s.cost for s in ours.history] == pytest.approx([s.cost for s in taped.history])


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
        residuals = rosenbrock(x)
        return [optimizer.step(residuals) for _ in range(steps)]

    x = variable(ROSENBROCK)
    optimizer = LevenbergMarquardt([x])
    run(x, optimizer, 4)
    y = variable(x.numpy())
    again = LevenbergMarquardt([y])
    again.restore(optimizer.state())
    assert run(x, optimizer, 4) == run(y, again, 4)
    assert x.numpy().tobytes() == y.numpy().tobytes()
    with pytest.raises(ValueError, match="other variables"):
        LevenbergMarquardt([variable([1.0])]).restore(optimizer.state())


# -- when to stop ------------------------------------------------------------------------------


def test_each_reason_to_stop_is_given() -> None:
    never = Tolerances(0.0, 0.0, 0.0)

    def ended(tolerances: Tolerances, steps: int = 100) -> str:
        residuals, start = exponential()
        b = variable(start)
        optimizer = LevenbergMarquardt([b])
        return optimizer.minimize(lambda: residuals(b), steps=steps, tolerances=tolerances).reason

    assert ended(never._replace(gradient=1e-3)) == "gradient"
    assert ended(never._replace(step=1e-3)) == "step"
    assert ended(never._replace(cost=1e-3)) == "cost"
    assert ended(never, steps=2) == "steps"
    assert ended(never) == "stalled"


def test_a_problem_that_is_solved_already_stops_at_once() -> None:
    x = variable([1.0, 1.0])
    result = LevenbergMarquardt([x]).minimize(rosenbrock(x))
    assert result.reason == "gradient" and len(result.history) == 1
    np.testing.assert_array_equal(x.numpy(), [1.0, 1.0])


def test_the_cosine_does_not_depend_on_units() -> None:
    def cosine(unit: float) -> float:
        x = variable(np.array(ROSENBROCK) / unit)
        return LevenbergMarquardt([x]).step(lambda: rosenbrock(x * unit)() * 1e4).cosine

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
    with pytest.raises(ValueError, match="depend on none of the variables"):
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
    found = []
    for l2 in (0.5, np.array(0.5), tf.constant(0.5)):
        x = variable([1.0, 2.0])
        LevenbergMarquardt([x], l2=l2).minimize(lambda x=x: x - 3.0)
        found.append(x.numpy())
    np.testing.assert_allclose(found, 2.0, rtol=1e-6)


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
