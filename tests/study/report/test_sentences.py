"""The sentences for findings, which `sentences.txt` holds.

To accept new ones: `python -m tests.study.report.test_sentences > tests/study/report/sentences.txt`
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnparse.study.diagnosis.advice import Finding
from rnnparse.study.report.formatting import duration, score_text, title, value_text, with_title
from rnnparse.study.report.narrative import Trait
from rnnparse.study.report.significance import Comparison
from rnnparse.study.report.wording import _SENTENCES, say, say_difference, say_traits

SNAPSHOT = Path(__file__).with_name("sentences.txt")
_TRAITS = [
    Trait(18, 18, (("learning_rate", 0.001), ("optimizer", "sgd"))),
    Trait(15, 18, (("batch_size", "whole batches"),)),
]
_ALL = {"converged": 3, "improving": 49, "too few updates": 24, "overfitting": 1, "failed": 4}
_REST = {"oscillating": 5, "stalled": 1, "diverged": 2}

FINDINGS = [
    Finding("outcomes", counts={}, beyond=0),
    Finding("outcomes", counts={"converged": 1}, beyond=0),
    Finding("outcomes", counts={"diverged": 2}, beyond=0),
    Finding("outcomes", counts={"failed": 9}, beyond=0),
    Finding("outcomes", counts=_ALL, beyond=3),
    Finding("outcomes", counts=_REST, beyond=0),
    Finding("sizes", sizes={"train": 3253, "dev": 316}),
    Finding("baselines", metric="dev_f1", values={"the grammar alone": 84.2701}),
    Finding("updates_made", least=20, most=20),
    Finding("updates_made", least=20, most=65),
    Finding("hardly_moved", share=0.01, count=18, total=81, name=None, traits=_TRAITS),
    Finding("hardly_moved", share=0.01, count=2, total=81, name=None, traits=[]),
    Finding("at_rest", metric="dev_f1", epochs=5, count=1, total=1, name="a 2", traits=[]),
    Finding("at_rest", metric="validation loss", epochs=5, count=2, total=3, name=None, traits=[]),
    Finding("penalty_dominates", parts=[(0.1, 0.998, 0.9)], of_fall=False, judge_by=["loss"]),
    Finding(
        "penalty_dominates",
        parts=[(0.001, 0.863, 0.25), (0.1, 0.9999, 0.9)],
        of_fall=True,
        judge_by=["loss", "dev_f1"],
    ),
    Finding("axes_explain", metric="dev_f1", axes={"learning_rate": 58, "l2": 6}),
    Finding("best_scores", scores={"objective": "0.5"}, seeds=1, epoch=None, epochs=0),
    Finding(
        "best_scores",
        scores={"dev_f1": "87.94 ± 2.10", "objective": "0.50 ± 0.13"},
        seeds=2,
        epoch=3.5,
        epochs=5,
    ),
    Finding("best_diagnosis", label="converged", advice="Nothing to do."),
    Finding("same_in_effect", names=["batch size 512", "batch size 1024"]),
    Finding("within_noise", count=1, names=["adam"]),
    Finding("within_noise", count=28, names=["adam", "sgd", "adagrad"]),
    Finding("missing_trials", count=1),
    Finding("missing_trials", count=5),
    Finding("whole_batches", sizes=[512], examples=300),
    Finding("whole_batches", sizes=[256, 512, 1024], examples=200),
    Finding("no_better", metric="dev_f1", than="the grammar alone", value=84.0),
    Finding("edge", axis="learning_rate", value=0.1, which="highest", next=1),
    Finding("edge", axis="shift", value=-1, which="lowest", next=None),
    Finding("noise_level", sentences=316, half=0.814),
    Finding("one_seed"),
    Finding("other_scales", axes=["kappa", "l2"]),
]


def snapshot() -> Iterator[str]:
    for finding in FINDINGS:
        yield f"{finding.code}: {say(finding)}\n"


def test_the_sentences_are_those_of_the_snapshot() -> None:
    assert "".join(snapshot()) == SNAPSHOT.read_text(encoding="utf-8")


def test_each_code_has_a_sentence_in_the_snapshot() -> None:
    assert {finding.code for finding in FINDINGS} == _SENTENCES.keys()


def test_a_difference_is_given_from_the_best_on() -> None:
    difference = Comparison(1.73, -2.6, 5.99, 0.4, 100, (1, 1))
    assert say_difference(difference) == "−1.73 (−5.99 to +2.60), within noise"
    clear = Comparison(3.0, 1.0, 5.0, 0.0123, 100, (1, 1))
    assert say_difference(clear) == "−3.00 (−5.00 to −1.00), p = 0.012"
    assert say_difference(None) == "–"


def test_both_configurations_are_not_called_all() -> None:
    assert say_traits([Trait(2, 2, (("rate", 1.0),))]) == "both use rate 1"


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


if __name__ == "__main__":
    print(*snapshot(), sep="", end="")
