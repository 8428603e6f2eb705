"""Downsampling keeps the extremes and the means of long curves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.study.diagnosis.statistics import bin_edges, downsample

NUMBERS = st.one_of(st.none(), st.floats(-1e6, 1e6))


@given(st.integers(0, 5000), st.integers(2, 200))
@settings(max_examples=200, deadline=None)
def test_bins_cover_a_curve_without_overlap(length: int, most: int) -> None:
    edges = bin_edges(length, most)
    assert edges[0] == 0 and edges[-1] == length
    assert all(a < b for a, b in pairwise(edges))
    assert len(edges) - 1 <= max(most, min(length, most))


def test_short_curves_have_a_bin_for_each_value() -> None:
    assert bin_edges(3, 10) == [0, 1, 2, 3]
    assert downsample([1.23456789, None, 2], [0, 1, 2, 3]) == [1.2346, None, 2.0]


def test_the_beginning_of_a_long_curve_has_narrow_bins() -> None:
    edges = bin_edges(100_000, 100)
    assert edges[1] == 1
    assert sum(edge <= 100 for edge in edges) >= 10  # for a logarithmic axis
    assert max(np.diff(edges)) <= 2000 + 1  # for a linear one


@given(st.lists(NUMBERS, min_size=30, max_size=300), st.integers(4, 20))
@settings(max_examples=100, deadline=None)
def test_extremes_and_means_of_a_long_curve_are_kept(values: list[float | None], most: int) -> None:
    edges = bin_edges(len(values), most)
    drawn = downsample(values, edges)
    for i, (low, high) in enumerate(pairwise(edges)):
        part = [value for value in values[low:high] if value is not None]
        bins = [drawn[name][i] for name in ("low", "mean", "high")]
        if not part:
            assert bins == [None, None, None]
        else:
            expected = [min(part), float(np.mean(part)), max(part)]
            assert bins == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_a_curve_that_ended_early_has_fewer_bins() -> None:
    edges = bin_edges(1000, 10)
    drawn = downsample([1.0] * 70, edges)
    assert len(drawn["mean"]) == len([edge for edge in edges[:-1] if edge < 70])
    assert downsample([], edges) == {"mean": [], "low": [], "high": []}


def test_a_single_spike_in_a_long_curve_is_kept() -> None:
    values = [1.0] * 10_000
    values[4321] = 99.0
    assert max(downsample(values, bin_edges(10_000, 40))["high"]) == 99.0
