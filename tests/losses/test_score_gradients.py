"""The objectives as functions of the scores: values, derivatives, and what they do at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from rnnparse.losses.names import OBJECTIVES
from rnnparse.losses.score_gradients import TIES, WEIGHTS

Case = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def random_case(seed: int, rows: int = 5, columns: int = 6) -> Case:
    """Scores without ties, costs that are 0 for the gold candidate, gaps in the mask."""
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, columns)) < 0.7
    gold = rng.integers(columns, size=rows)
    mask[np.arange(rows), gold] = True
    costs = rng.integers(0, 5, (rows, columns)) * 0.3
    costs[np.arange(rows), gold] = 0
    scores = np.where(mask, rng.normal(size=(rows, columns)), np.nan)
    return scores, np.where(mask, costs, np.nan), gold, mask


@pytest.mark.parametrize("seed", range(20))
def test_values_are_those_of_the_definitions(seed: int) -> None:
    scores, costs, gold, mask = random_case(seed)
    for i in range(len(gold)):
        s, c = scores[i, mask[i]], costs[i, mask[i]]
        reached = scores[i, gold[i]]
        hinge = max(s + c) - reached
        expected = {
            "hinge": hinge,
            "squared-hinge": hinge**2,
            "perceptron": max(s) - reached,
            "mmi": logsumexp(s) - reached,
            "risk": softmax(s) @ c,
        }
        for name, function in WEIGHTS.items():
            loss, _ = function(scores, costs, gold, mask)
            assert loss[i] == pytest.approx(expected[name], rel=1e-12, abs=1e-12), name


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_derivatives(name: str, seed: int) -> None:
    scores, costs, gold, mask = random_case(seed)
    _, weights = WEIGHTS[name](scores, costs, gold, mask)
    step = 1e-5
    for i, k in np.ndindex(scores.shape):
        if not mask[i, k]:
            assert weights[i, k] == 0
            continue
        above, below = scores.copy(), scores.copy()
        above[i, k] += step
        below[i, k] -= step
        slope = (
            WEIGHTS[name](above, costs, gold, mask)[0][i]
            - WEIGHTS[name](below, costs, gold, mask)[0][i]
        ) / (2 * step)
        assert weights[i, k] == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_constant_added_to_all_scores_changes_nothing(name: str) -> None:
    scores, costs, gold, mask = random_case(3)
    loss, weights = WEIGHTS[name](scores, costs, gold, mask)
    shifted, same = WEIGHTS[name](scores + 7.0, costs, gold, mask)
    np.testing.assert_allclose(shifted, loss, atol=1e-12)
    np.testing.assert_allclose(same, weights, atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_without_candidates_and_without_columns_have_no_loss(name: str, dtype: type) -> None:
    scores = np.full((2, 3), np.nan, dtype)
    scores[1] = (1, 2, 3)
    mask = np.array([[False] * 3, [True] * 3])
    loss, weights = WEIGHTS[name](scores, np.zeros((2, 3)), np.array([0, 2]), mask)
    assert loss.dtype == weights.dtype == dtype
    assert loss[0] == 0 and not weights[0].any()
    assert np.isfinite(loss).all() and np.isfinite(weights).all()
    for shape in ((0, 3), (2, 0), (0, 0)):
        none = np.zeros(shape, dtype)
        loss, weights = WEIGHTS[name](none, none, np.zeros(shape[0], int), none > 0)
        assert loss.shape == (shape[0],) and weights.shape == shape


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.filterwarnings("error")
def test_what_is_masked_may_be_anything(name: str) -> None:
    scores, costs, gold, mask = random_case(4)
    expected = WEIGHTS[name](scores, costs, gold, mask)
    for filling in (np.inf, -np.inf, 0.0):
        result = WEIGHTS[name](
            np.where(mask, scores, filling), np.where(mask, costs, -filling), gold, mask
        )
        for one, other in zip(result, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["mmi", "risk"])
def test_huge_scores_do_not_overflow(name: str) -> None:
    scores = np.array([[1e4, -1e4, 0.0]])
    costs = np.array([[1.0, 0.0, 2.0]])
    loss, weights = WEIGHTS[name](scores, costs, np.array([1]), np.ones((1, 3), bool))
    assert loss[0] == {"mmi": 2e4, "risk": 1.0}[name]
    assert np.isfinite(weights).all()


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=6), st.integers(0, 5), st.data())
def test_subgradients_lie_below_the_loss_at_ties_too(
    scores: list[int], gold: int, data: st.DataObject
) -> None:
    """r(t) ≥ r(s) + g · (t − s) for all t; small integers tie often and are exact."""
    size = len(scores)
    costs = np.array([data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))], float)
    others = data.draw(st.lists(st.integers(-4, 4), min_size=size, max_size=size))
    place, mask = np.array([gold % size]), np.ones((1, size), bool)
    costs[0, place] = 0
    here, there = np.array([scores], float), np.array([others], float)
    for name in ("hinge", "squared-hinge", "perceptron", "mmi"):
        for tie in TIES:
            loss, weights = WEIGHTS[name](here, costs, place, mask, tie)
            beyond, _ = WEIGHTS[name](there, costs, place, mask, tie)
            assert beyond[0] >= loss[0] + weights[0] @ (there - here)[0] - 1e-9


@pytest.mark.parametrize("name", WEIGHTS)
def test_unknown_tie_rules_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="unknown tie rule 'last'"):
        WEIGHTS[name](*random_case(0), tie="last")


def test_every_objective_of_the_settings_has_its_function() -> None:
    assert tuple(WEIGHTS) == OBJECTIVES
