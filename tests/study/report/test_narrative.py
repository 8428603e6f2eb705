"""What a study has found: codes with values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rnnparse.parser_study.grid import Grid
from rnnparse.study.diagnosis.advice import Finding
from rnnparse.study.report.layout import best_of_each
from rnnparse.study.report.narrative import (
    Trait,
    about_best,
    basis,
    edge,
    failures,
    lead,
    reasons,
    warnings,
    whole_batches,
)
from rnnparse.study.report.results import Results
from tests.study.report.studies import results, trial


def warned(results: Results, code: str) -> list[dict[str, Any]]:
    """The values of the warnings with a code."""
    return [dict(finding.values) for finding in warnings(results) if finding.code == code]


def edges(axis: str, value: float, *tried: float, **more: Any) -> list[tuple[str, Any]]:
    """On which edge a value lies, and the value to try next."""
    findings = edge(axis, value, tried, more.pop("size", None), **more)
    return [(x.values["which"], x.values["next"]) for x in findings]


# -- outcomes ------------------------------------------------------------------------------------


def test_settings_are_counted_by_diagnosis_and_beyond_the_grid() -> None:
    grid = Grid({"dim": [1, 2]})
    added = {**grid.configs()[0], "dim": 3}
    records = [trial(config) for config in grid.configs()] + [trial(added, *[1.0] * 20)]
    counts = {"converged": 2, "stalled": 1}
    assert lead(results(records, space=grid)) == Finding("outcomes", counts=counts, beyond=0)
    more = replace(grid, further=[added])
    assert lead(results(records, space=more)) == Finding("outcomes", counts=counts, beyond=1)


def test_the_size_of_the_data_and_what_comes_without_training_are_reported() -> None:
    sizes, baselines = {"train": 3253, "dev": 316}, {"the grammar alone": 84.27}
    study = results([trial({"a": 1}, f1=[80])], sizes=sizes, baselines=baselines)
    assert list(basis(study)) == [
        Finding("sizes", sizes=sizes),
        Finding("baselines", metric="dev_f1", values=baselines),
    ]
    assert list(basis(results([trial({"a": 1})]))) == []


def test_what_is_typical_of_a_diagnosis_is_found() -> None:
    def course(rate: float) -> list[float]:
        return [(1.5 if rate == 1 else 0.8) ** i for i in range(30)]

    configs = [{"rate": rate, "width": width} for rate in (1, 0.1, 0.01) for width in (1, 2)]
    explained = reasons(results([trial(c, *course(c["rate"])) for c in configs]))
    by_label = {reason.label: reason for reason in explained}
    assert by_label["diverged"].count == 2
    assert by_label["diverged"].traits == [Trait(2, 2, (("rate", 1),))]
    assert by_label["diverged"].example.config == {"rate": 1, "width": 1}


def test_failures_are_counted_with_their_first_trial() -> None:
    lost = [trial({"a": 2}, seed=seed, status="failed") for seed in (4, 5)]
    study = results([trial({"a": 1}), *lost])
    (failure,) = failures(study)
    assert (failure.message, failure.count, failure.seed) == ("failed: ValueError: no", 2, 4)
    assert failure.setting is study.settings[1]


# -- the best setting ----------------------------------------------------------------------------


def test_the_best_setting_comes_with_scores_and_equals() -> None:
    records = [
        trial({"batch_size": size}, f1=[80.0, f1, 70.0])
        for size, f1 in ((64, 81.0), (256, 83.0), (512, 82.0))
    ]
    findings = list(about_best(results(records, sizes={"train": 200})))
    assert [x.code for x in findings] == ["best_scores", "best_diagnosis", "same_in_effect"]
    scores = {"dev_f1": "83.00", "objective": findings[0].values["scores"]["objective"]}
    assert findings[0] == Finding("best_scores", scores=scores, seeds=1, epoch=2.0, epochs=3)
    assert findings[2].values == {"names": ["batch size 512"]}
    seeds = [trial({"a": 1}, f1=[80.0 + seed], seed=seed) for seed in (0, 1)]
    best = next(about_best(results(seeds))).values
    assert (best["seeds"], best["epoch"], best["epochs"]) == (2, 1.0, 1)
    best = next(about_best(results([trial({"a": 1})]))).values
    assert [*best["scores"]] == ["objective"] and best["epoch"] is None


def test_the_best_of_each_optimizer_is_found() -> None:
    configs = [{"optimizer": o, "learning_rate": r} for o in ("sgd", "adam") for r in (1, 2)]
    best = best_of_each(results([trial(c, f1=[80.0 + i]) for i, c in enumerate(configs)]))
    assert best is not None and best.axis.name == "optimizer"
    assert [axis.name for axis in best.others] == ["learning_rate"]
    assert [setting.config for setting in best.settings] == [configs[1], configs[3]]
    assert best_of_each(results([trial({"a": a}) for a in (1, 2)])) is None


# -- what limits the findings --------------------------------------------------------------------


def test_a_study_that_gains_nothing_says_so() -> None:
    def warned_of(best: float) -> list[dict[str, Any]]:
        records = [trial({"a": a}, f1=[best - a]) for a in (0, 1)]
        baselines = {"the grammar alone": 84.0, "the best of the candidates": 94.0}
        return warned(results(records, baselines=baselines), "no_better")

    told = {"metric": "dev_f1", "than": "the grammar alone", "value": 84.0}
    assert warned_of(84.5) == [] and warned_of(84.0) == warned_of(83.0) == [told]
    # Of losses, the highest baseline is the easiest to beat.
    records = [trial({"a": a}, loss=1.0 + a) for a in (0, 1)]
    about = {"metric": {"name": "loss", "maximize": False}, "baselines": {"the mean": 0.9}}
    (told,) = warned(results(records, **about), "no_better")
    assert told == {"metric": "loss", "than": "the mean", "value": 0.9}


def test_batches_of_all_examples_are_reported() -> None:
    assert list(whole_batches([64, 284], 285)) == list(whole_batches([64, 285], 285)) == []
    (finding,) = whole_batches([64, 285, 512], 285)
    assert finding == Finding("whole_batches", sizes=[285, 512], examples=285)
    records = [trial({"batch_size": size}) for size in (256, 512)]
    (told,) = warned(results(records, sizes={"train": 300}), "whole_batches")
    assert told == {"sizes": [512], "examples": 300}
    named = results([trial({"batch_size": "all"})], sizes={"train": 300})
    assert warned(named, "whole_batches") == []


def test_the_smallest_difference_that_a_dev_set_can_show_is_reported() -> None:
    gold = [10] * 100

    def scored(a: int, missed: int) -> dict[str, Any]:
        pairs = [[9 if (7 * i + a) % 100 < missed else 10, 10] for i in range(100)]
        return trial({"a": a}, f1=[100 - missed / 10], dev_counts=pairs)

    study = results([scored(a, 20) for a in (1, 2, 3)], gold=gold)
    (told,) = warned(study, "noise_level")
    # Sentences that one setting misses and the other does not differ by a bracket of ten.
    differing = [
        sum(((7 * i + 1) % 100 < 20) != ((7 * i + a) % 100 < 20) for i in range(100))
        for a in (2, 3)
    ]
    quantile = 2.24  # 97.5 %, by Bonferroni's method for two comparisons
    expected = [quantile * count**0.5 / 10 for count in differing]
    assert told["half"] == pytest.approx(sum(expected) / 2, rel=0.15)
    assert told["sentences"] == 100
    assert warned(study, "one_seed") == [{}]
    for count, names in ((5, 3), (1, 1)):
        others = results([scored(a, 20) for a in range(1, count + 2)], gold=gold)
        (near,) = [x.values for x in about_best(others) if x.code == "within_noise"]
        assert (near["count"], len(near["names"])) == (count, names)
    assert near["names"] == ["a 2"]


def test_objectives_of_other_scales_do_not_compare() -> None:
    records = [trial({"l2": x, "b": 1}) for x in (1, 2)]
    assert warned(results(records), "other_scales") == [{"axes": ["l2"]}]
    scored = [trial({"l2": x, "b": 1}, f1=[80]) for x in (1, 2)]
    assert warned(results(scored), "other_scales") == []


# -- edges of the grid ---------------------------------------------------------------------------


def test_the_best_value_on_an_edge_is_reported_with_the_next_to_try() -> None:
    assert edges("learning_rate", 0.1, 0.1, 0.01, 0.001) == [("highest", 1)]
    assert edges("batch_size", 256, 256, 512, 1024) == [("lowest", 128)]
    assert edges("l2", 0.01, 0.1, 0.01, 0.001) == []
    assert edges("l2", 0.01, 0.01, 0.01) == []
    assert edges("n", 10**99, 5e-324, 10**99)[0][0] == "highest"
    assert edges("n", 5e-324, 5e-324, 10**99) == [("lowest", None)]
    assert edges("shift", -1, -1, 0, 1) == [("lowest", None)]


def test_no_edge_lies_at_zero_or_at_batches_of_all_examples() -> None:
    assert edges("l2", 0, 0, 0.1, 1) == []
    assert edges("l2", 1, 0, 0.1, 1) == [("highest", 10)]
    sizes = (64, 128, 256, 512)
    assert edges("batch_size", 512, *sizes, size=200) == []
    assert edges("batch_size", 256, *sizes, size=200) == []
    assert edges("batch_size", 512, *sizes, size=600) == [("highest", 600)]
    assert edges("batch_size", 256, 256, 512, size=200) == []


def test_edges_are_those_of_settings_that_are_else_equal() -> None:
    rates = {"sgd": (1.0, 0.1), "adam": (0.1, 0.01, 0.001)}
    configs = [{"optimizer": o, "learning_rate": r} for o, own in rates.items() for r in own]

    def edges_of(best: tuple[str, float]) -> list[dict[str, Any]]:
        f1 = [90.0 if tuple(c.values()) == best else 80.0 for c in configs]
        records = [trial(c, f1=[x]) for c, x in zip(configs, f1, strict=True)]
        return warned(results(records), "edge")

    assert edges_of(("adam", 0.01)) == []
    (told,) = edges_of(("adam", 0.1))
    assert told == {"axis": "learning_rate", "value": 0.1, "which": "highest", "next": 1}
    (told,) = edges_of(("sgd", 0.1))
    assert (told["which"], told["next"]) == ("lowest", 0.01)


def test_settings_added_to_a_grid_have_the_edges_of_the_grid() -> None:
    grid = Grid({"learning_rate": [0.1, 0.01], "epochs": [5]})
    best = {**grid.configs()[0], "epochs": 40}
    records = [trial(config, f1=[80]) for config in grid.configs()] + [trial(best, f1=[90])]
    (told,) = warned(results(records, space=replace(grid, further=[best])), "edge")
    assert (told["axis"], told["which"]) == ("learning_rate", "highest")


def test_no_higher_rate_is_advised_where_steps_are_too_long() -> None:
    swinging = [5.0 + 2.0 * (-1) ** t for t in range(40)]
    steady = [5.0 * 0.99**t for t in range(40)]
    for course, expected in ((swinging, []), (steady, ["highest"])):
        records = [
            trial({"learning_rate": 0.1}, *[5.0] * 40, f1=[80]),
            trial({"learning_rate": 1.0}, *course, f1=[85]),
        ]
        study = results(records)
        assert study.best is study.settings[1]
        assert [told["which"] for told in warned(study, "edge")] == expected
