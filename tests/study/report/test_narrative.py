"""What a study has found, in sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rnnparse.parser_study.grid import Grid
from rnnparse.study.curve import Curve
from rnnparse.study.diagnosis import diagnose_all
from rnnparse.study.records import make_record
from rnnparse.study.report.narrative import basis, lead, warnings
from rnnparse.study.report.results import Results
from rnnparse.study.report.summary import whole_batches
from rnnparse.study.search_space import Space


def results(records: list[dict[str, Any]], axes: dict[str, Any], **about: Any) -> Results:
    whole = {"name": "made up", "gold": None, "space": Space(axes).to_dict(), **about}
    return Results(Path(), whole, records, diagnose_all(records))


def trial(config: dict[str, Any], *objective: float, **epoch: Any) -> dict[str, Any]:
    series = {"objective": objective or [0.5**t for t in range(20)]}
    epochs = [{"epoch": 1, "dev_f1": 80.0, **epoch}]
    return make_record(config, 0, "finished", Curve(series, epochs))


def test_settings_beyond_the_grid_are_counted_apart() -> None:
    grid = Grid({"dim": [1, 2]})
    added = {**grid.configs()[0], "dim": 3}
    records = [trial(config) for config in grid.configs()] + [trial(added, *[1.0] * 20)]

    def said(grid: Grid) -> str:
        about = {"name": "made up", "gold": None, "space": grid.to_dict()}
        return lead(Results(Path(), about, records, diagnose_all(records)))

    assert said(grid).startswith("Of 3 settings, 2 ")
    found = said(replace(grid, further=[added]))
    assert found.startswith("Of 3 settings, 1 of them beyond the grid, 2 ")


def test_the_size_of_the_data_and_what_comes_without_training_are_told() -> None:
    about = {
        "sizes": {"train": 3253, "dev": 316},
        "baselines": {"the grammar alone": 84.2701, "the best of the candidates": 94.4},
    }
    assert basis(results([trial({"a": 1})], {"a": [1]}, **about)) == (
        "Examples: 3,253 for train and 316 for dev. Without training, dev F1 is 84.27 for the "
        "grammar alone and 94.4 for the best of the candidates."
    )
    assert basis(results([trial({"a": 1})], {"a": [1]})) == ""


def test_the_diagnosis_of_a_setting_is_that_of_a_trial_with_its_label() -> None:
    steady = [5.0 * 0.99**t for t in range(40)]
    courses = [[5.0 + t for t in range(40)], steady, steady]
    records = [trial({"a": 1}, *course) | {"seed": i} for i, course in enumerate(courses)]
    found = results(records, {"a": [1]})
    assert [one.label for one in found.diagnoses] == ["diverged", "improving", "improving"]
    assert found.diagnosis(0) is found.diagnoses[1]


def test_a_study_that_gains_nothing_says_so() -> None:
    def said(best: float) -> list[str]:
        records = [trial({"a": a}, dev_f1=best - a) for a in (0, 1)]
        baselines = {"the grammar alone": 84.0, "the best of the candidates": 94.0}
        found = warnings(results(records, {"a": [0, 1]}, baselines=baselines))
        return [warning for warning in found if warning.startswith("No setting is better")]

    told = "No setting is better than the grammar alone, which has dev F1 84."
    assert said(84.5) == [] and said(84.0) == said(83.0) == [told]
    # Of losses the greatest is the least that is to be had.
    records = [trial({"a": a}, loss=1.0 + a) for a in (0, 1)]
    about = {"metric": {"name": "loss", "maximize": False}, "baselines": {"the mean": 0.9}}
    found = warnings(results(records, {"a": [0, 1]}, **about))
    assert found[0] == "No setting is better than the mean, which has loss 0.9."


def test_batches_of_all_examples_are_warned_of() -> None:
    assert whole_batches([64, 284], 285) is whole_batches([64, 285], 285) is None
    assert whole_batches([285, 512], 285) == (
        "Batches of 285 and 512 are all 285 examples at once: one update an epoch."
    )
    records = [trial({"batch_size": size}) for size in (256, 512)]
    found = results(records, {"batch_size": [256, 512]}, sizes={"train": 300})
    assert warnings(found)[0] == "Batches of 512 are all 300 examples at once: one update an epoch."
    named = results([trial({"batch_size": "all"})], {"batch_size": ["all"]}, sizes={"train": 300})
    assert not any("Batches" in warning for warning in warnings(named))


def test_a_dev_set_tells_which_differences_it_can_tell() -> None:
    gold = [10] * 100
    axes = {"a": [1, 2, 3]}

    def scored(a: int, missed: int) -> dict[str, Any]:
        counts = [[9 if (7 * i + a) % 100 < missed else 10, 10] for i in range(100)]
        return trial({"a": a}, dev_f1=100 - missed / 10, dev_counts=counts)

    found = results([scored(a, 20) for a in axes["a"]], axes, gold=gold)
    [sentence] = [x for x in warnings(found) if "cannot be told" in x]
    half = float(sentence.split("below about ")[1].split()[0])
    # Sentences that one setting misses and the other does not differ by a bracket of ten.
    differing = [
        sum(((7 * i + 1) % 100 < 20) != ((7 * i + a) % 100 < 20) for i in range(100))
        for a in (2, 3)
    ]
    quantile = 2.24  # 97.5 %, as Bonferroni has it for two comparisons
    expected = [quantile * count**0.5 / 10 for count in differing]
    assert half == pytest.approx(sum(expected) / 2, rel=0.15)
    assert sentence.startswith("On 100 dev sentences, differences in dev F1 below about ")


def test_no_higher_rate_is_advised_where_steps_are_too_long() -> None:
    axes = {"learning_rate": [0.1, 1.0]}
    swinging = [5.0 + 2.0 * (-1) ** t for t in range(40)]
    steady = [5.0 * 0.99**t for t in range(40)]
    for course, edge in ((swinging, False), (steady, True)):
        records = [
            trial({"learning_rate": 0.1}, *[5.0] * 40),
            trial({"learning_rate": 1.0}, *course, dev_f1=85.0),
        ]
        found = results(records, axes)
        assert found.best == 1
        assert any("highest that was tried" in x for x in warnings(found)) == edge
