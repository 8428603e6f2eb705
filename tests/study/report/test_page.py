"""Reports of studies: what the page says, that it is whole, and that nothing breaks out of it."""

from __future__ import annotations

import csv
import html.parser
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rnnparse.errors import MissingExtraError, StudyError
from rnnparse.parser_study.train_command import train_command
from rnnparse.study.curve import Curve
from rnnparse.study.diagnosis import LABELS
from rnnparse.study.records import (
    RECORDS,
    RecordFile,
)
from rnnparse.study.report.csv_table import write_csv
from rnnparse.study.report.page import write_report
from rnnparse.study.report.results import load_results
from tests.study.made_up import QUESTION, QUICK, study_folder
from tests.study.report.studies import plain_study

EVIL = '</script><script>alert(1)</script><!--<b>"&'


class Page(html.parser.HTMLParser):
    """The elements of a page, and the text within each."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[list[str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in ("meta", "input", "use", "path"):
            self.open.append(self.elements[-1][2])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for texts in self.open:
            texts.append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """The texts of the elements with a tag and attributes; `class_` stands for class."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            re.sub(r"\s+", " ", "".join(texts)).strip()
            for name, attributes, texts in self.elements
            if name == tag and wanted.items() <= attributes.items()
        ]

    def study(self) -> dict[str, Any]:
        """What the scripts read when the page opens."""
        return dict(json.loads(self.texts("script", id="study")[0]))

    def details(self) -> list[dict[str, Any]]:
        """What the scripts read of each trial."""
        (texts,) = [t for tag, attributes, t in self.elements if attributes.get("id") == "details"]
        return [json.loads(line) for line in "".join(texts).strip().split("\n")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 18 trials with two seeds each, one of the settings failing."""
    failing = {"failed": {"optimizer": "adam", "learning_rate": 0.001}}
    path = tmp_path_factory.mktemp("study")
    return study_folder(path, QUICK, seeds=(0, 1), examples=1000, failing=failing)


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page(write_report(folder))


def test_the_report_is_one_file_that_asks_for_nothing(folder: Path, page: Page) -> None:
    assert (folder / "report.html").stat().st_size > 10_000
    addresses = [
        value
        for _, attributes, _ in page.elements
        for name, value in attributes.items()
        if name in ("src", "href", "action", "srcset", "data")
    ]
    assert all(address and address.startswith("#") for address in addresses)
    (policy,) = [
        f["content"] for t, f, _ in page.elements if "Content-Security-Policy" in f.values()
    ]
    assert policy is not None and policy.startswith("default-src 'none'")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "@import" not in text and "url(http" not in text


def test_the_report_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    folder = study_folder(tmp_path, {"learning_rate": (0.1,)}, examples=500)
    write_report(folder)
    (folder / "report.html").write_text((folder / "report.html").read_text()[:9999])
    assert write_report(folder) == folder / "report.html"
    assert Page(folder / "report.html").texts("h1") == ["made up"]
    assert {path.name for path in folder.iterdir()} == {
        "records.jsonl",
        "study.json",
        "report.html",
    }


@pytest.mark.parametrize(
    ("name", "write"), [("report.html", write_report), ("report.csv", write_csv)]
)
def test_no_report_replaces_a_file_of_something_else(
    tmp_path: Path, name: str, write: Callable[[Path], Path]
) -> None:
    folder = study_folder(tmp_path, {"learning_rate": (0.1,)}, examples=500)
    (folder / name).write_text("mine")
    with pytest.raises(StudyError, match=f"{name}: rnnparse did not write this file"):
        write(folder)
    assert (folder / name).read_text() == "mine"
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(StudyError, match=f"{name} is not a regular file; move it away"):
        write(folder)


def test_the_page_has_the_numbers_of_the_records(folder: Path, page: Page) -> None:
    study, details = page.study(), page.details()
    records = RecordFile(folder).load()
    assert study["trials"]["id"] == [record["id"] for record in records]
    for trial, record in enumerate(records):
        setting = study["trials"]["setting"][trial]
        for axis, places in zip(study["axes"], study["settings"]["config"], strict=True):
            assert axis["values"][places[setting]] == record["config"][axis["name"]]
        drawn = details[trial]["updates"]
        assert set(drawn) == set(record["updates"])
        for name, values in record["updates"].items():
            assert drawn[name] == pytest.approx(values, rel=1e-4)
        f1 = [epoch["dev_f1"] for epoch in record["epochs"]]
        assert details[trial]["epochs"].get("dev_f1", []) == f1


def test_the_diagnoses_are_those_of_the_rules(folder: Path, page: Page) -> None:
    study, results = page.study(), load_results(folder)
    labels = [LABELS[place] for place in study["trials"]["label"]]
    assert labels == [diagnosis.label for diagnosis in results.diagnoses]
    assert "failed" in labels and len(set(labels)) >= 3
    for diagnosis, line in zip(results.diagnoses, page.details(), strict=True):
        assert line["advice"] == diagnosis.advice
        assert set(line["evidence"]) == set(diagnosis.evidence)
    for label, rule in study["rules"].items():
        assert f"{rule}" in page.texts("dd"), label


def test_the_best_setting_comes_with_the_command_that_trains_it(folder: Path, page: Page) -> None:
    results = load_results(folder)
    assert results.best is not None
    best = max(one.mean for one in results.settings if one.mean is not None)
    assert results.best.mean == best
    seed = results.records[results.best.trials[0]]["seed"]
    expected = train_command(results.best.config, seed=seed, fixed={})
    assert page.texts("code")[0] == expected
    assert f"dev F1 {best:.2f}" in page.texts("div", class_="best-setting")[0]


def test_the_data_of_the_page_has_the_means_of_all_configurations(folder: Path, page: Page) -> None:
    results = load_results(folder)
    for i, shown in enumerate(page.study()["settings"]["metrics"]):
        assert shown["mean"] == [one.scores[i].mean for one in results.settings]
        assert shown["text"] == [results.score(one, i) for one in results.settings]


def test_failures_are_listed_with_their_errors(page: Page) -> None:
    (section,) = page.texts("section", id="failures")
    assert "failed: ValueError: no adam <b>today</b>" in section
    assert "adam, learning rate 0.001" in section
    assert set(page.study()["errors"].values()) == {"ValueError: no adam <b>today</b>"}


def test_the_edge_of_the_grid_is_pointed_out(page: Page) -> None:
    warnings = page.texts("ul", class_="notes")[0]
    assert "The best learning rate, 0.1, is the highest that was tried. Try 1 too." in warnings


def test_differences_within_noise_are_flagged(tmp_path: Path) -> None:
    # Two rates so near to each other that their trials hardly differ, and one far away.
    axes = {"optimizer": ("adam",), "learning_rate": (0.1, 0.10001, 1e-4), "batch_size": (100,)}
    folder = study_folder(tmp_path, axes, examples=1500, sentences=100)
    results, page = load_results(folder), Page(write_report(folder))
    assert results.best is not None and results.best.config["learning_rate"] > 0.05
    near = {setting.config["learning_rate"] for setting in results.near}
    assert near == {0.1, 0.10001} - {results.best.config["learning_rate"]}
    alike = [int(setting in results.near) for setting in results.settings]
    assert page.study()["settings"]["alike"] == alike
    (card,) = page.texts("div", class_="best-setting")
    assert "1 other configuration is within noise of the best" in card
    (notes,) = page.texts("ul", class_="notes")
    assert "Each configuration has a single trial (one seed)." in notes


def test_the_lead_counts_the_diagnoses(tmp_path: Path, page: Page) -> None:
    (lead,) = page.texts("p", class_="lead")
    counts = {
        attributes["data-label"]: int("".join(texts).split()[-1])
        for tag, attributes, texts in page.elements
        if tag == "button" and "data-label" in attributes
    }
    assert sum(counts.values()) == 9 and lead.startswith("Of 9 configurations, ")
    assert f"{counts['failed']} failed" in lead
    only = study_folder(tmp_path, QUICK, failing={"out of memory": {}})
    assert Page(write_report(only)).texts("p", class_="lead") == ["All 9 configurations failed."]


def test_a_study_without_records_says_so(tmp_path: Path) -> None:
    folder = plain_study(tmp_path, {"rate": [1, 2]}, lambda config, seed: Curve())
    (folder / RECORDS).unlink()
    page = Page(write_report(folder))
    assert page.texts("p", class_="lead") == ["No trial has ended yet."]
    assert "0 of 2 trials" in page.texts("p", class_="facts")[0]
    assert not page.texts("script")


def test_trials_that_are_missing_are_counted(tmp_path: Path) -> None:
    folder = study_folder(tmp_path, QUICK, examples=500)
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    (folder / RECORDS).write_bytes(b"".join(lines[:4]) + lines[4][:50])
    page = Page(write_report(folder))
    assert "4 of 9 trials" in page.texts("p", class_="facts")[0]
    assert "5 trials have not ended yet." in page.texts("ul", class_="notes")[0]


def test_names_and_errors_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    def run(config: Mapping[str, Any], seed: int) -> Curve:
        return Curve({"objective": [2.0, 1.5, 1.2, 1.1, 1.0], f"x{EVIL}": [1.0] * 5})

    axes = {f"axis{EVIL}": [EVIL, "b\u2028c"], "n": [1, 2]}
    folder = plain_study(tmp_path, axes, run, name=EVIL, command=EVIL, data={EVIL: EVIL})
    scripts = len(Page(write_report(folder)).texts("script"))
    page = Page(write_report(folder))
    assert page.texts("h1") == [EVIL]
    assert scripts == 11 and not page.texts("b", onerror="")
    assert not any("alert" in text for text in page.texts("script")[2:])
    study = page.study()
    assert study["axes"][0] == {
        "name": f"axis{EVIL}",
        "values": [EVIL, "b\u2028c"],
        "numeric": False,
    }
    assert f"x{EVIL}" in study["updates"]


def test_any_axes_and_any_quantities_will_do(tmp_path: Path) -> None:
    def run(config: Mapping[str, Any], seed: int) -> Curve:
        end = 0.5 + (0.3 if config["act"] == "relu" else 0.1) + 0.01 * seed
        history = {"loss": [1.0, 0.5, 0.4], "val_accuracy": [0.1, 0.3, end]}
        return Curve.from_history(history)

    axes = {"act": ["relu", None, "tanh"], "layers": [[8], [8, 8]]}
    metric = {"name": "val_accuracy", "maximize": True}
    folder = plain_study(tmp_path, axes, run, metric=metric, seeds=(0, 1, 2))
    study = Page(write_report(folder)).study()
    assert [metric["title"] for metric in study["metrics"]] == ["val accuracy", "loss"]
    assert study["metrics"][0]["higher"] and not study["metrics"][1]["higher"]
    best = study["settings"]["config"][0][study["best"]]
    assert study["axes"][0]["values"][best] == "relu"
    assert study["updates"] == [] and study["epochs"] == ["loss", "val_accuracy"]
    assert {study["map"]["rows"], study["map"]["columns"]} == {0, 1}


def test_the_bound_of_a_convex_trial_stands_beside_its_gap(tmp_path: Path) -> None:
    gaps, bounds = [0.5, 0.25, 0.2, 0.18, 0.17], [2.0, 1.4, 1.2, 1.0, 0.9]

    def run(config: Mapping[str, Any], seed: int) -> Curve:
        epochs = [{"objective": 1.0 + gap} for gap in gaps]
        return Curve({}, epochs, {"optimum": 1.0, "gap": gaps, "bound": bounds})

    page = Page(write_report(plain_study(tmp_path, {"x": [1]}, run)))
    assert page.study()["bounds"] == {"gap": "bound"}
    (line,) = page.details()
    assert (line["epochs"]["gap"], line["epochs"]["bound"]) == (gaps, bounds)
    assert any("Dotted lines are theoretical upper bounds." in text for text in page.texts("p"))


def test_long_curves_are_drawn_with_few_points(tmp_path: Path) -> None:
    folder = plain_study(
        tmp_path, {"x": [1]}, lambda config, seed: Curve({"objective": [1.0, 2.0] * 50_000})
    )
    (line,) = Page(write_report(folder)).details()
    assert len(line["updates"]["objective"]["mean"]) <= 100
    assert line["updates"]["objective"]["low"][-1] == 1.0
    assert line["updates"]["objective"]["high"][-1] == 2.0


def test_reports_need_jinja(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"jinja2.*pip install 'rnnparse\[study\]'"):
        write_report(folder)


def test_a_folder_without_a_study_is_an_error_of_one_line(tmp_path: Path) -> None:
    for write in (write_report, write_csv):
        with pytest.raises(StudyError, match="not a study"):
            write(tmp_path)


def test_the_table_has_a_line_for_each_trial(folder: Path) -> None:
    path = write_csv(folder)
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    results = load_results(folder)
    assert [line["id"] for line in lines] == [record["id"] for record in results.records]
    for line, record, diagnosis in zip(lines, results.records, results.diagnoses, strict=True):
        assert line["optimizer"] == record["config"]["optimizer"]
        assert float(line["learning_rate"]) == record["config"]["learning_rate"]
        assert (line["status"], line["diagnosis"]) == (record["status"], diagnosis.label)
        assert line["advice"] == diagnosis.advice
        if "slope" in diagnosis.evidence:
            assert float(line["evidence_slope"]) == diagnosis.evidence["slope"]
        finished = record["status"] == "finished"
        peak = str(max(e["dev_f1"] for e in record["epochs"])) if finished else ""
        assert line["final_dev_f1"] == peak
    failed = [line["error"] for line in lines if line["status"] == "failed"]
    assert failed == ["ValueError: no adam <b>today</b>"] * 2


def test_the_table_of_no_trial_has_its_columns(tmp_path: Path) -> None:
    folder = plain_study(tmp_path, {"rate": [1]}, lambda config, seed: Curve())
    (folder / RECORDS).unlink()
    (line,) = write_csv(folder).read_text().splitlines()
    assert line.startswith("id,rate,seed,status,diagnosis,")


def test_the_best_of_each_optimizer_is_drawn_at_first(tmp_path: Path) -> None:
    folder = study_folder(tmp_path, QUESTION, examples=600, sentences=20)
    results, study = load_results(folder), Page(write_report(folder)).study()
    shown = [results.settings[i] for i in study["shown"]]
    assert [one.config["optimizer"] for one in shown] == ["sgd", "adagrad", "adam"]
    for one in shown:
        of_row = [x for x in results.ranking if x.config["optimizer"] == one.config["optimizer"]]
        assert one is of_row[0]


def test_of_many_rows_the_best_six_are_drawn_at_first(tmp_path: Path) -> None:
    ends = [0.5, 0.1, 0.9, 0.2, 0.8, 0.3, 0.4, 0.6]
    folder = plain_study(
        tmp_path,
        {"kind": [str(end) for end in ends], "rate": [1, 2]},
        lambda config, seed: Curve(
            {"objective": [2.0, float(config["kind"]) * config["rate"]]},
            [{"loss": float(config["kind"]) * config["rate"]}],
        ),
    )
    results, study = load_results(folder), Page(write_report(folder)).study()
    configs = [results.settings[i].config for i in study["shown"]]
    assert [config["kind"] for config in configs] == ["0.5", "0.1", "0.2", "0.3", "0.4", "0.6"]
    assert all(config["rate"] == 1 for config in configs)


def test_seconds_leave_out_the_start_of_a_process(tmp_path: Path) -> None:
    epochs = [{"loss": 1.0, "seconds": 1.5}, {"loss": 0.5, "seconds": 1.25}]
    folder = plain_study(
        tmp_path,
        {"timed": [True, False]},
        lambda config, seed: Curve({}, epochs if config["timed"] else [{"loss": 1.0}]),
        seconds=9.0,
    )
    assert Page(write_report(folder)).study()["trials"]["seconds"] == [2.75, 9.0]


def test_the_marks_of_the_table_are_explained_beside_it(page: Page, tmp_path: Path) -> None:
    (section,) = page.texts("section", id="settings")
    assert "★ best configuration, ≈ within noise of the best" in section
    plain = plain_study(tmp_path, {"x": [1, 2]}, lambda c, s: Curve({"objective": [2.0, c["x"]]}))
    (section,) = Page(write_report(plain)).texts("section", id="settings")
    assert "★ best configuration" in section and "≈" not in section
