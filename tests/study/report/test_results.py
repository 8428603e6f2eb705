"""Settings of a study: their trials pooled over seeds, their metrics, what tells them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnparse.errors import StudyError
from rnnparse.files import write_json
from rnnparse.parser_study.grid import Grid
from rnnparse.study.curve import Curve
from rnnparse.study.manifest import STUDY, read_study, write_study
from rnnparse.study.records import RECORDS
from rnnparse.study.report.layout import map_axes
from rnnparse.study.report.results import load_results
from tests.study.made_up import QUESTION, QUICK, study_folder
from tests.study.report.studies import further_settings, plain_study, results, trial


def test_seeds_are_pooled() -> None:
    study = results(
        [
            trial({"a": 1}, f1=[50, 90, 50]),
            trial({"a": 2}, f1=[50]),
            trial({"a": 1}, seed=1, f1=[80, 50]),
            trial({"a": 1}, *[5.0 + t for t in range(20)], seed=2, f1=[99], status="diverged"),
        ]
    )
    first, second = study.settings
    assert (first.config, first.trials) == ({"a": 1}, (0, 2, 3))
    assert [metric.name for metric in study.metrics] == ["dev_f1", "objective"]
    assert first.scores[0].mean == 85.0
    # Two values: half their distance, times Student's quantile of one degree of freedom.
    assert first.scores[0].half == pytest.approx(12.706 * 5, rel=1e-4)
    assert study.score(first, 0) == "85.00 ± 63.53"
    assert first.best_epoch == 1.5
    assert (second.scores[0].mean, second.scores[0].half) == (50.0, None)
    assert study.best is first and study.ranking == [first, second]


def test_the_diagnosis_of_a_setting_is_the_most_frequent_and_then_the_worst() -> None:
    growing = [5.0 + t for t in range(40)]
    steady = [5.0 * 0.99**t for t in range(40)]
    records = [trial({"a": 1}, *y, seed=i) for i, y in enumerate([growing, steady, steady])]
    study = results(records)
    assert [one.label for one in study.diagnoses] == ["diverged", "improving", "improving"]
    assert study.settings[0].diagnosis is study.diagnoses[1]
    assert results(records[:2]).settings[0].label == "diverged"


def test_a_setting_without_a_finished_trial_has_no_score() -> None:
    study = results([trial({"a": 1}, f1=[80]), trial({"a": 2}, f1=[90], status="failed")])
    assert study.settings[1].mean is None and study.settings[1].best_epoch is None
    assert study.best is study.settings[0]
    assert results([trial({"a": 1}, status="failed")]).best is None


def test_the_metric_of_the_study_comes_first_and_names_tell_which_way_is_better() -> None:
    records = [trial({"a": a}, val_accuracy=0.1 * a, val_loss=2.0 - a) for a in (1, 2)]
    study = results(records, metric={"name": "val_loss", "maximize": False})
    assert [(m.name, m.maximize) for m in study.metrics] == [
        ("val_loss", False),
        ("objective", False),
        ("val_accuracy", True),
    ]
    assert study.best is study.settings[1]


def test_settings_within_noise_of_the_best_are_named() -> None:
    gold = [10] * 100

    def scored(a: int, missed: int) -> dict[str, object]:
        pairs = [[9 if (7 * i + a) % 100 < missed else 10, 10] for i in range(100)]
        return trial({"a": a}, f1=[100 - missed / 10], dev_counts=pairs)

    study = results([scored(1, 20), scored(2, 21), scored(3, 90)], gold=gold)
    assert [study.verdict(one) for one in study.settings] == ["best", "within noise", ""]
    assert study.near == [study.settings[1]]
    assert study.settings[2].comparison is not None
    assert study.settings[2].comparison.difference == pytest.approx(7.0)


def test_settings_that_do_the_same_are_known() -> None:
    records = [trial({"batch_size": size}) for size in (100, 256, 512)]
    study = results(records, sizes={"train": 200})
    assert study.same(study.settings[1]) == [study.settings[2]]
    assert study.same(study.settings[0]) == []


def test_an_axis_that_varies_with_another_tells_nothing_more() -> None:
    budgets = [{"epochs": epochs, "patience": 3 - epochs, "x": 1} for epochs in (1, 2)]
    study = results([trial({**budget, "rate": rate}) for budget in budgets for rate in (3, 4)])
    assert [study.axes[i].name for i in study.varying] == ["epochs", "rate"]
    assert study.name(study.settings[0]) == "epochs 1, rate 3"


def test_the_few_settings_beyond_the_grid_are_told_apart(tmp_path: Path) -> None:
    further = further_settings(3)
    within = {**further[0], "epochs": 5, "patience": 5}
    folder = study_folder(
        tmp_path, QUESTION, examples=600, further=[*further, within], sentences=20
    )
    study = load_results(folder)
    names = [study.axes[i].name for i in study.varying]
    assert names == ["optimizer", "learning_rate", "batch_size", "l2", "epochs"]  # not patience
    assert len(study.settings) == 84
    assert [setting.config for setting in study.beyond] == sorted(
        further, key=lambda config: config["learning_rate"]
    )


def test_many_settings_beyond_the_grid_belong_to_its_map(tmp_path: Path) -> None:
    further = further_settings(13)
    folder = study_folder(tmp_path, QUESTION, examples=600, further=further, sentences=20)
    assert load_results(folder).beyond == []


def test_the_map_has_rates_by_optimisers(tmp_path: Path) -> None:
    axes = {**QUICK, "learning_rate": (0.01,)}
    first = {name: values[0] for name, values in Grid(axes).axes.items()}
    further = [{**first, "epochs": 9, "patience": 4}]
    study = load_results(study_folder(tmp_path / "one", axes, examples=600, further=further))
    rows, columns = map_axes(study)
    assert [one.config["epochs"] for one in study.beyond] == [9]  # no column of the map
    assert rows == -1 and study.axes[columns].name == "optimizer"
    study = load_results(study_folder(tmp_path / "three", QUICK, examples=600))
    assert [study.axes[i].name for i in map_axes(study)] == ["optimizer", "learning_rate"]


def test_of_several_records_of_a_trial_the_last_counts(tmp_path: Path) -> None:
    folder = study_folder(tmp_path, QUICK)
    lines = (folder / RECORDS).read_text().splitlines(keepends=True)
    (folder / RECORDS).write_text("".join([lines[0].replace("made-up", "earlier"), *lines]))
    assert [record["host"] for record in load_results(folder).records] == ["made-up"] * 9


def test_records_of_other_data_are_not_mixed_with_those_of_the_study(tmp_path: Path) -> None:
    folder = study_folder(tmp_path, QUICK)
    about = read_study(folder)
    write_study(folder, {**about, "data": {"train.mrg": "0"}})
    with pytest.raises(StudyError, match=r"[0-9a-f]{16} does not belong .*: it is of other data"):
        load_results(folder)


def test_missing_trials_are_those_that_the_study_lists(tmp_path: Path) -> None:
    folder = plain_study(tmp_path, {"x": [1, 2, 3]}, lambda c, s: Curve({"loss": [2.0, c["x"]]}))
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    (folder / RECORDS).write_bytes(lines[0])
    assert load_results(folder).missing == 2
    assert results([trial({"a": 1})]).missing == 0  # it lists none


def test_studies_that_list_no_trials_and_commands_still_load(tmp_path: Path) -> None:
    further = further_settings(1)
    folder = study_folder(tmp_path, QUESTION, examples=600, further=further, sentences=20)
    about = read_study(folder)
    del about["trials"], about["commands"]
    about["measure"] = {"name": "dev_f1", "maximize": True}  # as version 0.1 called it
    write_json(folder / STUDY, about)
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    (folder / RECORDS).write_bytes(b"".join(lines[2:]))
    study = load_results(folder)
    assert (len(study.records), study.missing, study.command(0)) == (80, 0, None)
    assert study.metrics[0].name == "dev_f1" and len(study.beyond) == 1
