"""Robust losses against SciPy's definitions and its optima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.errors import ConfigError
from rnnparse.optim.levenberg_marquardt.minimizer import LevenbergMarquardt
from rnnparse.optim.levenberg_marquardt.robust_loss import robust
from tests.optim.levenberg_marquardt.problems import variable

LOSSES = ["linear", "huber", "soft_l1", "cauchy"]


def data() -> tuple[np.ndarray, np.ndarray]:
    """2.5 exp(−1.3 t) + 0.5 with noise, and five outliers."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 3, 40)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + rng.normal(0, 0.05, 40)
    y[::8] += 2.0
    return t, y


def by_scipy(loss: str, scale: float) -> Any:
    t, y = data()
    return scipy.optimize.least_squares(
        lambda b: b[0] * np.exp(b[1] * t) + b[2] - y,
        [1.0, -0.5, 0.0],
        loss=loss,
        f_scale=scale,
        **dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15),
    )


@pytest.mark.parametrize("scale", [0.1, pytest.param(0.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_is_that_of_scipy(loss: str, scale: float) -> None:
    t, y = data()
    b, expected = variable([1.0, -0.5, 0.0]), by_scipy(loss, scale)
    result = LevenbergMarquardt([b]).minimize(
        lambda: robust(b[0] * tf.exp(b[1] * t) + b[2] - y, loss, scale)
    )
    assert result.cost == pytest.approx(expected.cost, rel=1e-9)
    np.testing.assert_allclose(b.numpy(), expected.x, rtol=1e-6)


def test_robust_losses_find_what_outliers_hide() -> None:
    errors = [np.abs(by_scipy(loss, 0.1).x - [2.5, -1.3, 0.5]).max() for loss in LOSSES]
    assert errors[0] > 0.3 > 2 * max(errors[1:])


@given(
    r=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9),
    scale=st.floats(1e-2, 1e2),
    loss=st.sampled_from(LOSSES),
)
@settings(max_examples=100, deadline=None)
def test_half_squares_are_the_losses_of_scipy(r: list[float], scale: float, loss: str) -> None:
    values = np.array(r)
    start = scipy.optimize.least_squares(
        lambda _: values, [0.0], loss=loss, f_scale=scale, max_nfev=1, jac=lambda _: values[:, None]
    )
    half = 0.5 * np.sum(np.square(robust(values, loss, scale)))
    assert half == pytest.approx(start.cost, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives_are_those_of_differences(loss: str) -> None:
    """Around zero, within, at the scale and far beyond."""
    r = tf.constant([0.0, 1e-9, -3e-3, 0.5, -0.99, 1.0, 1.01, -40.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(r)
        values = robust(r, loss)
    step = 1e-6
    expected = (robust(r + step, loss) - robust(r - step, loss)) / (2 * step)
    np.testing.assert_allclose(tape.gradient(values, r), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "scale", "message"),
    [("tukey", 1.0, "linear, huber, soft_l1, cauchy, not 'tukey'"), ("huber", 0.0, "positive")],
)
def test_other_losses_and_scales_are_refused(loss: str, scale: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        robust([1.0], loss, scale)
