"""Losses over forests refuse what is no forest, no score and no target."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from rnnparse.losses.forest import (
    conditional_log_likelihood,
    expected_risk,
    node_posteriors,
    tree_scores,
)
from tests.losses.test_forest_losses import random_dag


def changed(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(random_dag(0)), **fields})


def replaced(name: str, place: Any, value: Any) -> np.ndarray:
    array = getattr(random_dag(0), name).copy()
    array[place] = value
    return array


BAD = [
    (dict(left=replaced("left", 6, 6)), "children of a node must come before it"),
    (dict(right=replaced("right", 6, 10**6)), "children of a node must come before it"),
    (dict(root=replaced("root", 3, 16)), "roots must be node numbers from 0 to 15"),
    (dict(root=replaced("root", 3, -1)), "roots must be node numbers"),
    (dict(candidates=replaced("candidates", (1, 2), 10)), "positions among the 10 roots"),
    (dict(candidates=replaced("candidates", (1, 2), -1)), "positions among the 10 roots"),
    (dict(right=random_dag(0).right[:-1]), r"\(16,\), \(16,\) and \(15,\)"),
    (dict(mask=random_dag(0).mask[:, :-1]), r"candidates \(6, 5\) and mask \(6, 4\)"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_arrays_that_are_no_forest_are_errors(fields: dict[str, Any], message: str) -> None:
    bad, scores = changed(**fields), np.ones(16)
    for function in (conditional_log_likelihood, tree_scores, node_posteriors):
        with pytest.raises(ValueError, match=message):
            function(scores, bad)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.function(lambda: conditional_log_likelihood(scores, bad))()


@pytest.mark.parametrize("column", [1, -1, -3, 5])
def test_a_target_that_is_no_candidate_is_an_error(column: int) -> None:
    bad = changed(gold=replaced("gold", 1, column))
    with pytest.raises(ValueError, match="gold column of sentence 1 is not a candidate"):
        conditional_log_likelihood(np.ones(16), bad)


def test_scores_and_costs_have_to_fit_and_be_finite() -> None:
    forest, scores = random_dag(0), np.ones(16)
    with pytest.raises(ValueError, match=r"there are \(3,\), \(16,\)"):
        conditional_log_likelihood(scores[:3], forest)
    with pytest.raises(ValueError, match=r"costs must have the shape \(10,\), not \(9,\)"):
        expected_risk(scores, forest, forest.cost[:-1])
    for bad in (np.nan, np.inf, 1e308):
        with pytest.raises(ValueError, match=r"the trees of sentence \d are not all finite"):
            conditional_log_likelihood(np.full(16, bad), forest)
        with pytest.raises(ValueError, match=r"the trees of sentence \d are not all finite"):
            expected_risk(np.full(16, bad), forest, forest.cost)


def test_whole_numbers_are_no_scores() -> None:
    """The loss would be rounded to the dtype of the scores."""
    forest, scores = random_dag(0), np.ones(16, np.int32)
    with pytest.raises(ValueError, match="must be float, not int32"):
        conditional_log_likelihood(scores, forest)
    with pytest.raises(ValueError, match="must be float, not int32"):
        expected_risk(scores, forest, forest.cost)


@pytest.mark.parametrize("gold", [0, [0], [0] * 7, [[0] * 6], [0.0] * 6])
def test_targets_are_a_column_for_each_sentence(gold: Any) -> None:
    with pytest.raises(ValueError, match="for each of 6 sentences"):
        conditional_log_likelihood(np.ones(16), changed(gold=np.array(gold)))
