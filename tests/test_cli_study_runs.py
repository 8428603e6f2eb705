"""`rnnparse study`, end to end: studies run and resume, and their results are printed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rnnparse.cli import main, study_show
from rnnparse.parser_study import lr_range_test
from rnnparse.study.manifest import read_study
from rnnparse.study.records import RecordFile
from tests.shell import run_shell
from tests.study.made_up import QUICK, study_folder
from tests.training.runs import write_treebank

PROGRAM = [sys.executable, "-m", "rnnparse"]
SMALL = ["--candidates", "10", "--dim", "5", "--batch-size", "10"]
GRID = [*SMALL, "--optimizer", "sgd,adagrad", "--lr", "0.1,0.001", "--epochs", "2", "--jobs", "1"]


# -- what is printed -----------------------------------------------------------------------------


def test_findings_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(study_folder(tmp_path / "made up", QUICK, seeds=(0, 1)))
    assert main(["study", "show", folder, "--rows", "4"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("made up: 18 of 18 trials have ended; total time ")
    assert "\nOf 9 configurations, " in printed and "... and 5 more configurations" in printed
    header = next(line for line in printed.splitlines() if line.startswith("optimizer  "))
    expected = "optimizer learning rate dev F1 objective diagnosis against the best"
    assert " ".join(header.split()) == expected
    assert "\nOf the variance in dev F1 between configurations, the axes" in printed
    assert "Best configuration by dev F1: optimizer " in printed
    assert main(["study", "show", folder, "--rows", "8"]) == 0
    assert "... and 1 more configuration\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["study", "show", folder, "--rows", "-1"])
    text = printed.split("to train it:")[0]
    assert max(map(len, text.splitlines())) <= 88


def test_no_line_breaks_between_a_number_and_its_sign() -> None:
    text = " ".join(["a share of 12 % of"] * 20)
    for width in range(12, 40):
        lines = study_show._wrapped(text, width).splitlines()
        assert " ".join(lines) == text and max(map(len, lines)) <= width
        assert not any(line.startswith("%") for line in lines)


def test_advice_is_printed_for_each_setting_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(study_folder(tmp_path / "made up", QUICK))
    assert main(["study", "show", folder, "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert main(["study", "show", folder, "--rows", "5", "--advice"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for i, setting in enumerate(settings):
        config = setting["config"]
        name = f"{config['optimizer']}, learning rate {config['learning_rate']}"
        told = f"{name}: {setting['diagnosis']}. {setting['advice']}"
        assert (told in printed) == (i < 5)


def test_findings_as_json_are_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failing = {"failed": {"optimizer": "adam", "learning_rate": 0.1}}
    folder = str(study_folder(tmp_path / "made up", QUICK, failing=failing))
    assert main(["study", "show", folder, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["trials"] == {"expected": 9, "ended": 9, "finished": 8, "failed": 1}
    assert sum(result["diagnoses"].values()) == len(result["settings"]) == 9
    scores = [setting.get("dev_f1") for setting in result["settings"]]
    assert scores[:8] == sorted(scores[:8], reverse=True) and scores[8] is None
    assert result["best"] == result["settings"][0] and result["best"]["within_noise"]
    assert result["failures"][0]["count"] == 1
    assert result["causes"] and all(cause.endswith(".") for cause in result["causes"])
    assert all(setting["advice"] for setting in result["settings"])


def test_a_study_without_a_record_has_findings_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = study_folder(tmp_path / "empty", QUICK)
    (folder / "records.jsonl").write_text("")
    assert main(["study", "show", str(folder)]) == 0
    assert "0 of 9 trials have ended" in capsys.readouterr().out
    assert main(["study", "show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] is None


def test_reports_are_written_and_absent_packages_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = study_folder(tmp_path / "made up", QUICK)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert main(["study", "report", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(folder / "report.html"), str(folder / "report.csv")]
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["study", "report", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(folder / "report.csv")]
    assert "pip install 'rnnparse[study]'" in err and "pip install 'rnnparse[tensorboard]'" in err
    assert (folder / "report.html").stat().st_size > 10_000


def test_a_range_test_names_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = write_treebank(tmp_path / "train.mrg", 60)
    cache = ["--cache", str(tmp_path / "cache")]
    command = ["study", "range", bank, *SMALL, *cache, "--batch-size", "30"]
    kept, sweep = [], lr_range_test.parser_range_test
    monkeypatch.setattr(
        lr_range_test,
        "parser_range_test",
        lambda *args, **settings: kept.append(sweep(*args, **settings)) or kept[0],
    )
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "suggested" in printed and "\n  rnnparse train " in printed
    assert f"rnnparse train {bank}" in printed and "--learning-rate 0.0" in printed
    monkeypatch.setattr(lr_range_test, "parser_range_test", lambda *_, **__: kept[0])
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["interval"][0] > 0


# -- in earnest ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a treebank, in which a study with plateaus has been run."""
    folder = tmp_path_factory.mktemp("studies")
    write_treebank(folder / "train.mrg", 60)
    command = f"rnnparse {shlex.join(_command(folder))}"
    done = run_shell(command, folder, {"XDG_CACHE_HOME": str(folder / "cache")})
    assert done.returncode == 0, done.stderr
    (folder / "printed.txt").write_text(done.stdout)
    (folder / "messages.txt").write_text(done.stderr)
    return folder


def _command(folder: Path) -> list[str]:
    return ["study", "run", "train.mrg", *GRID, "--plateau", "--plateau-epochs", "3", "--out", "s"]


def _env(folder: Path) -> dict[str, str]:
    root = str(Path(__file__).parents[1])
    return os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": root}


def test_a_study_runs_its_grid_and_the_best_to_their_plateau(place: Path) -> None:
    records = RecordFile(place / "s").load()
    assert [record["status"] for record in records] == ["finished"] * 6
    epochs = [(r["config"]["epochs"], r["config"]["patience"], len(r["epochs"])) for r in records]
    assert epochs == [(2, 2, 2)] * 4 + [(3, 5, 3)] * 2
    assert {r["config"]["optimizer"] for r in records[4:]} == {"sgd", "adagrad"}
    about = read_study(place / "s")
    assert about["command"] == f"rnnparse {shlex.join(_command(place))}"
    for name in ("report.html", "report.csv"):
        assert (place / "s" / name).stat().st_size > 0, name
    printed = (place / "printed.txt").read_text()
    assert printed.startswith("s: 6 of 6 trials have ended") and "to train it:" in printed
    messages = (place / "messages.txt").read_text()
    assert "the report is ready: s/report.html" in messages and "Traceback" not in messages


def test_a_finished_study_runs_nothing_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    before = (place / "s" / "records.jsonl").read_bytes()
    assert main([*_command(place), "--json"]) == 0
    out, err = capsys.readouterr()
    assert (place / "s" / "records.jsonl").read_bytes() == before
    assert json.loads(out)["trials"] == {"expected": 6, "ended": 6, "finished": 6}
    assert "0 trials to go" in err


def test_the_command_for_the_best_setting_trains_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same score on dev as the study reports, and the same epochs."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    assert main(["study", "show", "s", "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert main([*shlex.split(best["command"])[1:], "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cvg_f1"] == pytest.approx(best["dev_f1"])
    assert len(report["history"]) == best["config"]["epochs"]


def test_a_study_whose_runs_all_fail_is_an_error(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import rnnparse.parser_study.study as module

    class Failing:
        def __init__(self, path: Path, base: Any) -> None:
            pass

        def __call__(self, config: dict[str, Any], seed: int) -> None:
            raise ValueError("no such thing")

    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setattr(module, "ParserTrial", Failing)
    assert main(["study", "run", "train.mrg", *GRID, "--out", "failing"]) == 2
    out, err = capsys.readouterr()
    assert "4 × failed: ValueError: no such thing" in out
    assert err.splitlines()[-1].startswith("rnnparse: error: every trial failed")


@pytest.mark.slow
def test_ctrl_c_keeps_what_has_ended_and_the_command_goes_on(place: Path) -> None:
    command = [*PROGRAM, *_command(place)[:-1], "again"]
    run = subprocess.Popen(
        command,
        cwd=place,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_env(place),
    )
    records = place / "again" / "records.jsonl"
    while not (records.exists() and records.stat().st_size):
        assert run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    error = run.communicate(timeout=60)[1]
    assert run.returncode == 130 and "Traceback" not in error
    assert "are kept in again; the same command runs the others" in error
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, env=_env(place))
    assert done.returncode == 0
    assert {r["id"] for r in RecordFile(place / "again").load()} == {
        r["id"] for r in RecordFile(place / "s").load()
    }
