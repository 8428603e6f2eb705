"""Sentences, names and numbers as people read them."""

from __future__ import annotations

import pytest

from rnnparse.study.report.formatting import duration, score_text, title, value_text, with_title
from rnnparse.study.report.narrative import outcomes
from rnnparse.study.report.significance import Comparison

_ALL = {"converged": 3, "improving": 49, "too few updates": 24, "overfitting": 1, "failed": 4}
_REST = {"oscillating": 5, "stalled": 1, "diverged": 2}


@pytest.mark.parametrize(
    ("counts", "beyond", "words"),
    [
        ({}, 0, "No trial has ended yet."),
        ({"converged": 1}, 0, "The only configuration converged."),
        ({"diverged": 2}, 0, "Both configurations diverged."),
        ({"failed": 9}, 0, "All 9 configurations failed."),
        (
            _ALL,
            3,
            "Of 81 configurations (3 beyond the grid), 3 converged, 49 improved until the end, 24 "
            "made too few updates, 1 overfitted and 4 failed.",
        ),
        (
            _REST,
            0,
            "Of 8 configurations, none converged, 5 oscillated, 1 stalled and 2 diverged.",
        ),
    ],
)
def test_configurations_are_counted_by_outcome(
    counts: dict[str, int], beyond: int, words: str
) -> None:
    assert outcomes(counts, beyond) == words


def test_a_difference_is_given_from_the_best_on() -> None:
    difference = Comparison(1.73, -2.6, 5.99, 0.4, 100, (1, 1))
    assert difference.text == "−1.73 (−5.99 to +2.60), within noise"
    clear = Comparison(3.0, 1.0, 5.0, 0.0123, 100, (1, 1))
    assert clear.text == "−3.00 (−5.00 to −1.00), p = 0.012"


def test_names_and_values_are_as_people_read_them() -> None:
    names = ("dev_f1", "l2", "learning_rate")
    assert [title(name) for name in names] == ["dev F1", "L2", "learning rate"]
    values = (1.0, 1e-06, None, [8, 8], "a\udcffb")
    assert [value_text(value) for value in values] == ["1", "1e-06", "null", "[8,8]", "a\ufffdb"]
    assert with_title("l2", 0.1) == "L2 0.1" and with_title("l2", "none") == "none"
    times = [duration(seconds) for seconds in (5.4, 119, 3600 * 2.5)]
    assert times == ["5 s", "2 min", "2 h 30 min"]


@pytest.mark.parametrize(
    ("mean", "half", "digits", "shown"),
    [
        (None, None, None, "–"),
        (87.488, None, 2, "87.49"),
        (87.488, 0.0, 2, "87.49 ± 0"),
        (87.5, 0.312, 2, "87.50 ± 0.31"),
        (0.4375, 0.0, None, "0.4375 ± 0"),
        (0.81234, 0.0123, None, "0.812 ± 0.012"),
        (1234.56, 0.0123, None, "1234.6 ± 0.0"),
        (6e9, 2.5e8, None, "6e9 ± 2.5e8"),
        (3e-9, 1e-10, None, "3e-9 ± 1e-10"),
    ],
)
def test_scores_have_the_digits_that_their_interval_justifies(
    mean: float | None, half: float | None, digits: int | None, shown: str
) -> None:
    assert score_text(mean, half, digits) == shown
