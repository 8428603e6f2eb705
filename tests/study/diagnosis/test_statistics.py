"""Statistics of curves, checked against definitions, other implementations and simulations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rnnparse.study.diagnosis.statistics import (
    as_curve,
    decay,
    moving_mean,
    noise,
    sign_changes,
    strongest_wave,
    trend,
)
from tests.study.diagnosis.synthetic_curves import Setting, minibatch_noise


def autoregressive(rng: np.random.Generator, n: int, correlation: float) -> np.ndarray:
    """Noise with standard deviation 1 and this correlation between neighbours."""
    shocks = rng.normal(0, np.sqrt(1 - correlation**2), n)
    values = np.empty(n)
    value = rng.normal()
    for i in range(n):
        value = correlation * value + shocks[i]
        values[i] = value
    return values


def test_null_becomes_nan_and_a_missing_series_is_empty() -> None:
    np.testing.assert_array_equal(as_curve([1, None, 2.5]), [1, np.nan, 2.5])
    assert as_curve(None).shape == (0,)


@given(st.integers(4, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_the_line_is_that_of_least_squares(n: int, seed: int) -> None:
    curve = np.random.default_rng(seed).normal(size=n)
    fit = trend(curve, n)
    expected = stats.linregress(np.arange(n), curve)
    assert fit.slope == pytest.approx(expected.slope, abs=1e-9)
    assert fit.level == pytest.approx(expected.intercept + expected.slope * (n - 1), abs=1e-9)
    assert fit.slope_error >= expected.stderr * (1 - 1e-9)


def test_the_error_is_that_of_newey_and_west_if_greater() -> None:
    curve = autoregressive(np.random.default_rng(0), 50, 0.9)
    fit = trend(curve, 50)
    design = np.stack([np.ones(50), np.arange(50)], axis=1)
    residuals = curve - design @ np.linalg.lstsq(design, curve, rcond=None)[0]
    moments = design * residuals[:, None]
    lags = 3  # 4 (50/100)^(2/9), rounded down
    middle = moments.T @ moments
    for lag in range(1, lags + 1):
        part = moments[lag:].T @ moments[:-lag]
        middle += (1 - lag / (lags + 1)) * (part + part.T)
    outside = np.linalg.inv(design.T @ design)
    covariance = outside @ middle @ outside * 50 / 48
    assert fit.slope_error == pytest.approx(np.sqrt(covariance[1, 1]), rel=1e-9)


@pytest.mark.parametrize(("correlation", "least"), [(0.0, 0.93), (-0.5, 0.95), (0.5, 0.8)])
def test_intervals_cover_the_slope(correlation: float, least: float) -> None:
    rng = np.random.default_rng(1)
    line = -0.03 * np.arange(80)
    hits = 0
    for _ in range(400):
        fit = trend(line + autoregressive(rng, 80, correlation), 80)
        hits += fit.low <= -0.03 <= fit.high
    assert hits / 400 >= least


def test_a_trend_is_of_the_last_half() -> None:
    curve = np.concatenate([np.full(10, 50.0), np.arange(10.0)])
    fit = trend(curve)
    assert fit.points == 10
    assert fit.slope == pytest.approx(1.0)
    assert fit.low == pytest.approx(1.0)
    assert fit.level == pytest.approx(9.0)


def test_a_trend_needs_four_points() -> None:
    with pytest.raises(ValueError, match="3 points"):
        trend(np.arange(9.0), 3)
    with pytest.raises(ValueError, match="4 points of a curve that has 2"):
        trend(np.arange(2.0))


@pytest.mark.parametrize("order", [2, 3])
def test_noise_is_estimated_despite_a_bend_and_a_jump(order: int) -> None:
    rng = np.random.default_rng(2)
    curve = 30 * np.exp(-np.linspace(0, 5, 2000)) + rng.normal(0, 0.2, 2000)
    curve[1000:] += 40
    assert noise(curve, order) == pytest.approx(0.2, rel=0.1)


def test_a_line_has_no_noise_and_neither_have_three_points() -> None:
    assert noise(3 - 0.25 * np.arange(20)) == 0
    assert noise(np.square(np.arange(20.0)), order=3) == 0
    assert noise(np.array([0.0, 9.0, -4.0])) == 0


@given(st.lists(st.sampled_from([-1.0, 1.0]), min_size=2, max_size=60))
def test_sign_changes_are_judged_by_the_binomial_distribution(signs: list[float]) -> None:
    result = sign_changes(np.array(signs))
    changes = sum(a != b for a, b in pairwise(signs))
    assert result.share == changes / (len(signs) - 1)
    expected = stats.binom.sf(changes - 1, len(signs) - 1, 0.5)
    assert result.p_value == pytest.approx(expected, rel=1e-9)


def test_thousands_of_sign_changes_do_not_overflow() -> None:
    assert sign_changes((-1.0) ** np.arange(10_000)).p_value == 0
    assert sign_changes(np.ones(10_000)).p_value == pytest.approx(1)
    assert sign_changes(np.zeros(5)).p_value == 1


@pytest.mark.parametrize("batch", [1067, 800, 256])
def test_batches_without_replacement_change_sign_as_often_as_expected(batch: int) -> None:
    setting = Setting(batch=batch, epochs=2000, spread=0.3)
    factors = minibatch_noise(np.random.default_rng(3), setting)
    result = sign_changes(factors - factors.mean(), setting.cycle)
    assert result.expected > 0.51
    assert result.share == pytest.approx(result.expected, abs=0.015)


def test_a_wave_is_found_with_its_period() -> None:
    rng = np.random.default_rng(4)
    residuals = np.sin(2 * np.pi * np.arange(120) / 6) + rng.normal(0, 1, 120)
    result = strongest_wave(residuals)
    assert result.period == pytest.approx(6)
    assert result.p_value < 1e-4


def test_the_shortest_wave_is_found_too() -> None:
    result = strongest_wave((-1.0) ** np.arange(40) + 0.1)
    assert result.period == 2
    assert result.p_value < 1e-6


@pytest.mark.parametrize("n", [40, 41])
def test_noise_is_rarely_mistaken_for_a_wave(n: int) -> None:
    rng = np.random.default_rng(5)
    p_values = [strongest_wave(rng.normal(size=n)).p_value for _ in range(2000)]
    assert np.mean(np.array(p_values) < 0.05) < 0.06
    assert np.mean(np.array(p_values) < 0.05) > 0.03


def test_too_few_points_have_no_wave() -> None:
    assert strongest_wave(np.array([1.0, -1.0, 1.0])).p_value == 1
    assert strongest_wave(np.zeros(40)).p_value == 1


def test_an_exponent_is_found_with_an_interval_that_covers_it() -> None:
    rng = np.random.default_rng(6)
    t = np.arange(1, 41)
    hits = 0
    for _ in range(300):
        _, low, high = decay(2 * t**-0.7 * rng.lognormal(0, 0.1, 40))
        hits += low <= 0.7 <= high
    assert hits / 300 > 0.92


def test_gaps_that_are_not_positive_are_left_out() -> None:
    gaps = np.arange(1, 21) ** -2.0
    gaps[[3, 7]] = 0, np.nan
    assert decay(gaps)[0] == pytest.approx(2)
    assert np.isnan(decay(np.array([1.0, 0.5, 0.0, 0.0, 0.0]))).all()


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30), st.integers(1, 12))
def test_moving_means_are_means_of_neighbours(values: list[float], width: int) -> None:
    result = moving_mean(np.array(values), width)
    for i, mean in enumerate(result):
        part = values[max(0, i - width // 2) : i + (width + 1) // 2]
        assert mean == pytest.approx(sum(part) / len(part), abs=1e-6)
