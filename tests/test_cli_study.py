"""`rnnparse study`: grids reach the study, studies go on, what they found is printed."""

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

from rnnparse.cli import main
from rnnparse.study.grid import Grid
from rnnparse.study.parser_study import ParserStudy
from rnnparse.study.records import RecordFile, read_study
from tests.study.made_up import QUICK, study_folder
from tests.training.runs import write_treebank

PROGRAM = [sys.executable, "-m", "rnnparse"]
SMALL = ["--kbest", "10", "--dim", "5", "--batch-size", "10"]
GRID = [*SMALL, "--optimizer", "sgd,adagrad", "--lr", "0.1,0.001", "--epochs", "2", "--jobs", "2"]


# -- from arguments to studies -------------------------------------------------------------------


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> list[ParserStudy]:
    """The studies that would have run; each is interrupted at once."""
    found: list[ParserStudy] = []

    def run(self: ParserStudy, progress: bool, note: Any) -> None:
        found.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(ParserStudy, "run", run)
    return found


def test_every_axis_has_an_option(studies: list[ParserStudy]) -> None:
    axes = {
        "optimizer": "adam,levenberg-marquardt",
        "learning_rate": "log:1e-4:1:9",
        "batch_size": "256,512",
        "l2": "0.1,0",
        "kappa": "0.1",
        "dim": "5,10",
        "objective": "hinge,mmi",
        "tie": "uniform",
        "epochs": "3",
        "damping": "1,10",
        "seeds": "0,7",
    }
    words = [word for name, text in axes.items() for word in (f"--{name.replace('_', '-')}", text)]
    assert main(["study", "run", *words]) == 130
    assert studies[0].grid == Grid.from_options(axes)
    assert main(["study", "run", "--preset", "question", "--lr", "1"]) == 130
    assert studies[1].grid == Grid.from_options({"learning_rate": 1.0}, preset="question")


def test_shared_settings_and_ways_to_run_reach_the_study(studies: list[ParserStudy]) -> None:
    shared = ["t.mrg", "--dev", "d.mrg", "--vectors", "v", "--kbest", "9", "--head-rules", "left"]
    shared += ["--jackknife", "3", "--patience", "4", "--freeze", "W", "--freeze", "vectors"]
    running = ["--out", "o", "--cache", "c", "--jobs", "3", "--backend", "dask", "--address", "a:1"]
    assert main(["study", "run", *shared, *running]) == 130
    found = studies[0]
    assert found.grid.fixed == {
        "treebank": "t.mrg",
        "dev": "d.mrg",
        "vectors": "v",
        "kbest": 9,
        "heads": "left",
        "jackknife": 3,
        "patience": 4,
        "freeze": ["W", "vectors"],
    }
    assert (found.folder, found.cache, found.jobs) == ("o", "c", 3)
    assert (found.backend, found.address) == ("dask", "a:1")
    assert found.command == f"rnnparse study run {shlex.join([*shared, *running])}"


def test_without_a_grid_the_quick_one_is_run(studies: list[ParserStudy]) -> None:
    assert main(["study", "run"]) == 130
    assert studies[0].grid == Grid.from_options({}, preset="quick")
    assert main(["study", "run", "--l2", "0"]) == 130
    assert studies[1].grid == Grid.from_options({"l2": 0})


def test_the_question_ends_with_plateaus(studies: list[ParserStudy]) -> None:
    for arguments, expected in (
        (["--preset", "question"], 40),
        (["--preset", "question", "--no-plateau"], 0),
        (["--preset", "quick"], 0),
        (["--plateau", "--plateau-epochs", "7"], 7),
    ):
        assert main(["study", "run", *arguments]) == 130
        assert studies[-1].plateau == expected


def test_options_go_before_those_of_a_file(studies: list[ParserStudy], tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text('[grid]\nl2 = [0.1, 1]\ndim = 7\n[training]\ntreebank = "a"\nkbest = 5\n')
    assert main(["study", "run", "--grid", str(path), "--l2", "0.5", "--kbest", "6"]) == 130
    fixed = {"treebank": "a", "kbest": 6}
    assert studies[0].grid == Grid.from_options({"l2": 0.5, "dim": 7}, fixed=fixed)


def test_an_interruption_says_how_to_go_on(
    studies: list[ParserStudy],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["study", "run", "my bank.mrg"]) == 130
    expected = "rnnparse: interrupted; to go on:\n  rnnparse study run 'my bank.mrg'\n"
    assert capsys.readouterr().err.endswith(expected)

    def run(self: ParserStudy, progress: bool, note: Any) -> None:
        raise KeyboardInterrupt("3 of 9 trials are kept")

    monkeypatch.setattr(ParserStudy, "run", run)
    assert main(["study", "run"]) == 130
    assert capsys.readouterr().err.endswith("interrupted; 3 of 9 trials are kept\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--preset", "all"], "preset must be one of question, quick"),
        (["run", "--lr", "log:1"], "learning_rate: 'log:1' is not a range; expected log:FIRST"),
        (["run", "--optimizer", "adem"], "unknown optimizer 'adem'"),
        (["run", "--grid", "missing.toml"], "missing.toml: no such file"),
        (["run", "missing.mrg"], "missing.mrg: no such file or folder"),
        (["run", "one.mrg"], "give more trees or --dev"),
        (["run", "one.mrg", "--dry-run"], "give more trees or --dev"),
        (["run", "two.mrg", "--address", "a:1"], "an address is for --backend ray or dask"),
        (["run", "two.mrg", "--backend", "cloud"], "backend must be one of processes, ray, dask"),
        (["run", "--grid", "bad.toml"], "bad.toml:2: l2 must not be negative"),
        (["show", "nowhere"], "nowhere: no study is there"),
        (["report", "nowhere"], "nowhere: no study is there"),
        (["range", "missing.mrg"], "missing.mrg: no such file or folder"),
        (["range", "two.mrg", "--low", "1", "--high", "0.1"], "the rates must rise"),
        (["range", "two.mrg", "--updates", "3"], "at least 20 updates"),
        (
            ["range", "two.mrg", "--optimizer", "levenberg-marquardt"],
            "has a damping, no learning rate",
        ),
    ],
)
def test_errors_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = "(TOP (S (NP (NN rain)) (VP (VBZ falls))))\n"
    Path("one.mrg").write_text(tree)
    Path("two.mrg").write_text(tree * 2)
    Path("bad.toml").write_text("[grid]\nl2 = -1\n")
    assert main(["study", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("rnnparse: error: ") and message in last


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["run", "--preset", "quick", "--grid", "g.toml"],
        ["run", "--jobs", "-1"],
        ["run", "--plateau-epochs", "0"],
        ["show"],
        ["range", "--updates", "many"],
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["study", *arguments])
    assert stop.value.code == 2
    assert "usage: rnnparse study" in (message := capsys.readouterr().err) and "error: " in message


@pytest.mark.parametrize("command", ["run", "show", "report", "range"])
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["study", command, "--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert f"rnnparse study {command} " in printed.partition("examples:")[2]
    assert max(map(len, printed.splitlines())) <= 100


def test_the_script_takes_the_same_arguments() -> None:
    script = Path(__file__).parents[1] / "scripts" / "grid_search.py"
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "rnnparse study run" in done.stdout
    assert "--preset" in done.stdout


# -- a dry run -----------------------------------------------------------------------------------


def test_a_dry_run_lists_the_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = write_treebank(tmp_path / "train.mrg", 40)
    command = ["study", "run", bank, *GRID, "--dry-run", "--out", str(tmp_path / "study")]
    assert main([*command, "--plateau"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["optimizer", "learning_rate"]
    assert {tuple(line.split()) for line in lines[1:5]} == {
        (name, rate) for name in ("sgd", "adagrad") for rate in ("0.1", "0.001")
    }
    assert "batch_size 10" in lines[6] and "seed 0" in lines[6]
    assert "4 runs to go, 0 have ended; 2 at once" in lines
    assert any("to its plateau: up to " in line for line in lines)
    assert main([*command, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["trials"]) == 4 and plan["seconds"] > 0 and plan["plateau_seconds"] == 0
    assert not (tmp_path / "study").exists()


def test_a_dry_run_of_a_large_grid_is_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = write_treebank(tmp_path / "train.mrg", 40)
    assert main(["study", "run", bank, "--lr", "log:1e-4:1:500", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "... and 400 more" in printed and len(printed.splitlines()) < 120


# -- what is printed -----------------------------------------------------------------------------


def test_findings_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(study_folder(tmp_path / "made up", QUICK, seeds=(0, 1)))
    assert main(["study", "show", folder, "--rows", "4"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("made up: 18 of 18 runs have ended, ")
    assert "\nOf 9 settings, " in printed and "... and 5 more settings" in printed
    header = next(line for line in printed.splitlines() if line.startswith("optimizer "))
    assert " ".join(header.split()) == "optimizer learning rate dev F1 objective diagnosis"
    assert "Best setting by dev F1: optimizer " in printed
    text = printed.split("to train it:")[0]
    assert max(map(len, text.splitlines())) <= 88


def test_findings_as_json_are_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failing = {"failed": {"optimizer": "adam", "learning_rate": 0.1}}
    folder = str(study_folder(tmp_path / "made up", QUICK, failing=failing))
    assert main(["study", "show", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trials"] == {"expected": 9, "ended": 9, "finished": 8, "failed": 1}
    assert sum(found["diagnoses"].values()) == len(found["settings"]) == 9
    scores = [setting.get("dev_f1") for setting in found["settings"]]
    assert scores[:8] == sorted(scores[:8], reverse=True) and scores[8] is None
    assert found["best"] == found["settings"][0] and found["best"]["within_noise"]
    assert found["failures"][0]["count"] == 1
    assert all(setting["advice"] for setting in found["settings"])


def test_a_study_without_a_record_has_findings_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = study_folder(tmp_path / "empty", QUICK)
    (folder / "records.jsonl").write_text("")
    assert main(["study", "show", str(folder)]) == 0
    assert "0 of 9 runs have ended" in capsys.readouterr().out
    assert main(["study", "show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] is None


def test_reports_are_written_and_absent_packages_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = study_folder(tmp_path / "made up", QUICK)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert main(["study", "report", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(folder / "report.html"), str(folder / "report.csv")]
    assert "pip install 'rnnparse[study]'" in err and "pip install 'rnnparse[tensorboard]'" in err
    assert (folder / "report.html").stat().st_size > 10_000


def test_a_range_test_names_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = write_treebank(tmp_path / "train.mrg", 60)
    cache = ["--cache", str(tmp_path / "cache")]
    command = ["study", "range", bank, *SMALL, *cache, "--batch-size", "30"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "suggested" in printed and "\n  rnnparse train " in printed
    assert f"rnnparse train {bank}" in printed and "--learning-rate 0.0" in printed
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["interval"][0] > 0


# -- in earnest ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a treebank, in which a study with plateaus has been run."""
    folder = tmp_path_factory.mktemp("studies")
    write_treebank(folder / "train.mrg", 60)
    done = subprocess.run(
        [*PROGRAM, *_command(folder)], cwd=folder, capture_output=True, text=True, env=_env(folder)
    )
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
    for name in ("report.html", "report.csv", "map.svg", "curves.svg"):
        assert (place / "s" / name).stat().st_size > 0, name
    printed = (place / "printed.txt").read_text()
    assert printed.startswith("s: 6 of 6 runs have ended") and "to train it:" in printed
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
    assert "0 runs to go" in err


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
    import rnnparse.study.parser_study as module

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
    assert err.splitlines()[-1].startswith("rnnparse: error: every run failed")


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
