"""What a running study shows."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rnnparse.study.curve import Curve
from rnnparse.study.progress import Progress
from rnnparse.study.records import RecordFile, make_record
from rnnparse.study.schema import FAILURES, Entry, Metric
from rnnparse.study.search_space import Space, Trial

TRIALS = Space({"rate": [0.1, 0.01], "size": [3, 4], "same": ["x"]}).trials()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def record(i: int, f1: float | None, status: str = "finished") -> dict[str, Any]:
    epochs = [{"epoch": 1, "f1": 1.0}, {"epoch": 2, "f1": f1}]
    error = {"type": "E", "message": ""} if status in FAILURES else None
    curve = Curve({"objective": [1.0, 2.0]}, epochs)
    return make_record(TRIALS[i].config, 0, status, curve, error=error)


def entry(i: int, f1: float | None, status: str = "finished") -> Entry:
    return msgspec.json.decode(json.dumps(record(i, f1, status)), type=Entry)


def settings(i: int) -> str:
    config = TRIALS[i].config
    return f"{config['rate']} {config['size']}"


def test_the_better_value_is_the_higher_or_the_lower_one_and_the_latest_counts() -> None:
    more, less = Metric("f1", True), Metric("objective", False)
    assert more.rank(2) < more.rank(1) and less.rank(1) < less.rank(2)
    for metric in (more, less):
        assert metric.rank(1) < metric.rank(None)
    assert (entry(0, 70.0).latest("objective"), entry(0, 70.0).latest("f1")) == (2.0, 70.0)
    assert entry(0, None).latest("f1") is None


def test_a_bar_counts_statuses_and_names_the_best() -> None:
    file = io.StringIO()
    with Progress(TRIALS, [], Metric("f1", True), None, file=file) as progress:
        for i, f1, status in ((0, 70.0, "finished"), (1, 80.0, "finished"), (2, 90.0, "diverged")):
            progress.note(entry(i, f1, status))
        progress.note(entry(3, 75.0))
    last = file.getvalue().strip().split("\r")[-1]
    assert "4/4" in last
    assert last.endswith(f"3 finished; 1 diverged; best f1 80: {settings(1)}]")
    assert "running" not in file.getvalue() and "same" not in file.getvalue()


def test_a_study_that_goes_on_counts_what_has_ended_before(tmp_path: Path) -> None:
    with RecordFile(tmp_path) as records:
        records.append(record(0, 85.0))
        records.append(record(1, 99.0, "failed"))
        records.append(record(2, None))
        entries = records.entries()
    assert [one.latest("f1") for one in entries] == [85.0, 99.0, None]
    file = io.StringIO()
    with Progress(TRIALS, entries, Metric("f1", True), None, file=file) as progress:
        progress.note(entry(3, 84.0))
    last = file.getvalue().strip().split("\r")[-1]
    assert "4/4" in last and last.endswith(f"3 finished; 1 failed; best f1 85: {settings(0)}]")


@pytest.mark.parametrize(
    ("updates", "epochs", "value"),
    [
        ({"f1": [1.0, -2.5e-07]}, [], -2.5e-07),
        ({"f1": [3]}, [], 3.0),
        ({"f1": []}, [], None),
        ({"f1": [1.0, float("nan")]}, [], None),
        ({"f1": [1.0], "other": [2.0]}, [{"f1": 5.5}, {"f1": 7}], 7.0),
        ({}, [{"f1": 5.5, "g": [1, 2]}, {"g": [3]}], 5.5),
        ({"other": [2.0]}, [{"g": {"f": 3}}], None),
    ],
)
def test_the_latest_value_is_that_of_the_last_epoch_or_else_update(
    tmp_path: Path, updates: dict[str, Any], epochs: list[dict[str, Any]], value: float | None
) -> None:
    error = {"type": "E", "message": ""}
    with RecordFile(tmp_path) as file:
        file.append(make_record({}, 0, "failed", Curve(updates, epochs), error=error))
        [result] = file.entries()
        assert result.latest("f1") == value


def test_a_terminal_has_a_table_of_running_and_ended_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / TRIALS[1].id).write_text(json.dumps({"updates": 12, "f1": 55.5}))
    (tmp_path / TRIALS[2].id).write_text(json.dumps({"updates": 0}))
    (tmp_path / TRIALS[3].id).write_text("{")  # it is being written
    file = Terminal()
    with Progress(TRIALS, [], Metric("f1", True), tmp_path, file=file) as progress:
        progress.note(entry(0, 70.0, "out of memory"))
        rows = [line.split("  ") for line in progress.table()]
        table = [[cell.strip() for cell in row if cell.strip()] for row in rows]
        assert table[0] == ["rate", "size", "updates", "f1"]
        assert sorted(table[1:3]) == sorted(
            [
                ["running", *settings(1).split(), "12", "55.5"],
                ["running", *settings(2).split(), "0", "-"],
            ]
        )
        assert table[3:] == [["out of memory", *settings(0).split(), "2", "70"]]
        end = time.monotonic() + 60
        while "out of memory" not in file.getvalue() or "running" not in file.getvalue():
            assert time.monotonic() < end
            time.sleep(0.02)


def test_settings_that_not_all_trials_have_are_shown() -> None:
    more = Trial("ab", {**TRIALS[0].config, "patience": 3}, 7)
    with Progress([more, *TRIALS], [], Metric("objective", False), None, show=False) as progress:
        progress.note(replace(entry(0, 1.0), id="ab"))
        progress.note(entry(1, 1.0))
        table = [line.split() for line in progress.table()]
    assert table[0][:4] == ["rate", "size", "patience", "seed"]
    assert table[1][3:5] == ["3", "7"] and table[2][3:5] == ["-", "0"]


def test_nothing_is_shown_where_nobody_wants_it(tmp_path: Path) -> None:
    file = Terminal()
    with Progress(
        TRIALS, [], Metric("objective", False), tmp_path, show=False, file=file
    ) as progress:
        progress.note(entry(0, 70.0))
    assert file.getvalue() == ""
