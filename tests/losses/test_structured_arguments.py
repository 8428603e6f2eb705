"""What the structured losses do with arguments at the edge of sense, and beyond."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from rnnparse.losses import structured
from rnnparse.losses.score_gradients import WEIGHTS
from rnnparse.losses.structured import structured_hinge
from tests.losses.test_structured import (
    LOSSES,
    compiled,
    every_loss,
    random_case,
    with_gradient,
)


@pytest.mark.parametrize("of_costs", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_nan_among_the_candidates_is_not_hidden(mode: str, of_costs: bool) -> None:
    scores, costs, gold, mask = random_case(4, B=8, K=4)
    row = 5
    (costs if of_costs else scores)[row, np.flatnonzero(mask[row])[0]] = np.nan

    def every(*case: Any) -> Any:
        names = set(LOSSES) - ({"perceptron"} if of_costs else set())
        return [with_gradient(name, case, "first")[:2] for name in names]

    for loss, by_scores in compiled(every, mode)(scores, costs, gold, mask):
        assert np.flatnonzero(np.isnan(loss)).tolist() == [row]
        assert np.flatnonzero(np.isnan(by_scores).all(axis=1)).tolist() == [row]
        assert np.isnan(by_scores).sum() == 4


GOLD_ASTRAY = np.array([0, -1, 1, 3])
NO_GOLD = np.array([[True, False, True]] * 4)


@every_loss
@pytest.mark.parametrize("row", [1, 2, 3])
def test_a_gold_column_that_is_no_candidate_is_an_error_eagerly(row: int, name: str) -> None:
    scores, gold, mask = np.zeros((2, 3)), GOLD_ASTRAY[[0, row]], NO_GOLD[:2].copy()
    message = rf"gold\[1\] is {gold[1]}, which is not a candidate of row 1"
    with pytest.raises(ValueError, match=message):
        with_gradient(name, (scores, scores, gold, mask), "gold")
    mask[1] = False  # no candidates, no target
    loss, by_scores, _ = with_gradient(name, (scores, scores, gold, mask), "gold")
    assert not np.any(loss) and not np.any(by_scores)


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_a_gold_column_that_is_no_candidate_gives_nan_in_graphs(mode: str) -> None:
    def every(*case: Any) -> Any:
        return [with_gradient(name, case, "gold")[:2] for name in LOSSES]

    scores = np.zeros((4, 3))
    for loss, by_scores in compiled(every, mode)(scores, scores, GOLD_ASTRAY, NO_GOLD):
        assert np.isnan(loss).tolist() == [False, True, True, True]
        assert np.isnan(by_scores).tolist() == [[k > 0] * 3 for k in range(4)]


@every_loss
def test_an_empty_batch_and_a_batch_without_candidates(name: str) -> None:
    for shape in ((0, 0), (0, 3), (2, 0), (2, 1)):
        scores = np.zeros(shape)
        gold, mask = np.zeros(shape[0], np.int32), np.zeros(shape, bool)
        loss, by_scores, _ = with_gradient(name, (scores, scores, gold, mask), "first")
        assert loss.shape == (shape[0],) and not np.any(loss) and not np.any(by_scores)
        assert WEIGHTS[name](scores, scores, gold, mask)[0].shape == (shape[0],)


@every_loss
def test_an_unknown_tie_rule_is_refused(name: str) -> None:
    case = random_case(0)
    for function in (LOSSES[name], WEIGHTS[name]):
        with pytest.raises(ValueError, match="first, uniform, gold"):
            function(*case, tie="last")


S, GOLD, MASK = np.zeros((2, 3)), np.zeros(2, int), np.ones((2, 3), bool)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ((S[0], S[0], GOLD, MASK), r"scores must be float \[B, K\], not float64 \(3,\)"),
        ((S.astype(int), S, GOLD, MASK), r"scores must be float \[B, K\], not int64 \(2, 3\)"),
        ((S, S[:1], GOLD, MASK), r"costs must have the shape \(2, 3\), not \(1, 3\)"),
        ((S, S, GOLD[:1], MASK), r"gold must have the shape \(2,\), not \(1,\)"),
        ((S, S, GOLD[:, None], MASK), r"gold must have the shape \(2,\), not \(2, 1\)"),
        ((S, S, GOLD.astype(float), MASK), "gold must be integers, not float64"),
        ((S, S, GOLD, MASK[0]), r"mask must have the shape \(2, 3\), not \(3,\)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(case: Any, message: str, mode: str) -> None:
    with pytest.raises(ValueError, match=message):
        compiled(structured_hinge, mode)(*case)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64"])
def test_gold_may_be_integers_of_any_size(dtype: str) -> None:
    loss = structured_hinge(
        [[3.0, 1.0], [3.0, 1.0]], S[:, :2], np.array([0, 1], dtype), MASK[:, :2]
    )
    assert np.array(loss).tolist() == [0, 2]


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_sizes_known_only_when_a_graph_runs_are_not_broadcast(wrong: int) -> None:
    kinds = (tf.float64, tf.float64, tf.int64, tf.bool)
    ranks = (2, 2, 1, 2)
    signature = [tf.TensorSpec([None] * r, k) for r, k in zip(ranks, kinds, strict=True)]
    run = tf.function(structured_hinge, input_signature=signature)
    case = [S, S, GOLD, MASK]
    assert run(*case).shape == (2,)
    case[wrong] = case[wrong][:1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must fit the scores"):
        run(*case)
    signature[wrong] = tf.TensorSpec(None, kinds[wrong])
    with pytest.raises(ValueError, match=r"must have the shape .* not <unknown>"):
        tf.function(structured_hinge, input_signature=signature)(S, S, GOLD, MASK)


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(structured) == (0, 6)
