"""`rnnparse study`: grids and settings reach the study, mistakes are named, dry runs are short."""

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

import numpy as np
import pytest

from rnnparse.cli import main
from rnnparse.parser_study import lr_range_test
from rnnparse.parser_study.grid import Grid
from rnnparse.parser_study.study import ParserStudy
from rnnparse.study import range_result
from rnnparse.study.lr_range_test import sweep
from tests.study import made_up
from tests.training.runs import write_treebank

SMALL = ["--candidates", "10", "--dim", "5", "--batch-size", "10"]
GRID = [*SMALL, "--optimizer", "sgd,adagrad", "--lr", "0.1,0.001", "--epochs", "2", "--jobs", "2"]


# -- from arguments to studies -------------------------------------------------------------------


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> list[ParserStudy]:
    """The studies that would have run; each is interrupted at once."""
    result: list[ParserStudy] = []

    def run(self: ParserStudy, progress: bool, note: Any) -> None:
        result.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(ParserStudy, "run", run)
    return result


def test_every_axis_has_an_option(studies: list[ParserStudy]) -> None:
    axes = {
        "optimizer": "adam,sgd",
        "learning_rate": "log:1e-4:1:9",
        "batch_size": "256,512",
        "l2": "0.1,0",
        "kappa": "0.1",
        "dim": "5,10",
        "objective": "hinge,mmi",
        "tie": "uniform",
        "epochs": "3",
        "seeds": "0,7",
    }
    words = [word for name, text in axes.items() for word in (f"--{name.replace('_', '-')}", text)]
    assert main(["study", "run", *words]) == 130
    assert studies[0].grid == Grid.from_options(axes)
    assert main(["study", "run", "--preset", "question", "--lr", "1"]) == 130
    assert studies[1].grid == Grid.from_options({"learning_rate": 1.0}, preset="question")


def test_shared_settings_and_ways_to_run_reach_the_study(studies: list[ParserStudy]) -> None:
    shared = [
        "t.mrg",
        "--dev",
        "d.mrg",
        "--vectors",
        "v",
        "--candidates",
        "9",
        "--head-rules",
        "left",
    ]
    shared += ["--jackknife", "3", "--patience", "4", "--freeze", "W", "--freeze", "vectors"]
    running = ["--out", "o", "--cache", "c", "--jobs", "3", "--backend", "dask", "--address", "a:1"]
    assert main(["study", "run", *shared, *running]) == 130
    result = studies[0]
    assert result.grid.fixed == {
        "treebank": "t.mrg",
        "dev": "d.mrg",
        "vectors": "v",
        "candidates": 9,
        "heads": "left",
        "jackknife": 3,
        "patience": 4,
        "freeze": ["W", "vectors"],
    }
    assert (result.folder, result.cache, result.n_jobs) == ("o", "c", 3)
    assert (result.backend, result.address, result.retry) == ("dask", "a:1", False)
    assert result.command == f"rnnparse study run {shlex.join([*shared, *running])}"
    assert main(["study", "run", "--retry-failed"]) == 130
    assert studies[1].retry


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
    path.write_text('[grid]\nl2 = [0.1, 1]\ndim = 7\n[training]\ntreebank = "a"\ncandidates = 5\n')
    assert main(["study", "run", "--grid", str(path), "--l2", "0.5", "--candidates", "6"]) == 130
    fixed = {"treebank": "a", "candidates": 6}
    assert studies[0].grid == Grid.from_options({"l2": 0.5, "dim": 7}, fixed=fixed)


def test_an_interruption_says_how_to_go_on(
    studies: list[ParserStudy],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["study", "run", "my bank.mrg"]) == 130
    expected = "rnnparse: interrupted; to continue, run:\n  rnnparse study run 'my bank.mrg'\n"
    assert capsys.readouterr().err.endswith(expected)

    def run(self: ParserStudy, progress: bool, note: Any) -> None:
        raise KeyboardInterrupt("3 of 9 trials are kept")

    monkeypatch.setattr(ParserStudy, "run", run)
    assert main(["study", "run"]) == 130
    assert capsys.readouterr().err.endswith("interrupted; 3 of 9 trials are kept\n")


def test_a_signal_to_end_is_taken_for_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(self: ParserStudy, progress: bool, note: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ParserStudy, "run", run)
    assert main(["study", "run", "bank.mrg"]) == 143
    assert capsys.readouterr().err.endswith(
        "interrupted; to continue, run:\n  rnnparse study run bank.mrg\n"
    )
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.skipif(os.name != "posix", reason="for shells of POSIX")
def test_closed_streams_are_no_error_and_no_place_for_other_files(tmp_path: Path) -> None:
    made_up.study_folder(tmp_path, {"optimizer": ("sgd",), "learning_rate": (0.1, 1.0)})
    before = sorted(tmp_path.iterdir())
    for streams in (">&-", "2>&-", ">&- 2>&-"):
        command = (
            f"{shlex.join([sys.executable, '-m', 'rnnparse', 'study', 'show', str(tmp_path)])}"
        )
        done = subprocess.run(f"{command} {streams}", shell=True, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert bool(done.stdout) == (streams == "2>&-")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--preset", "all"], "preset must be one of question, quick"),
        (["run", "--lr", "log:1"], "learning_rate: 'log:1' is not a range; expected log:FIRST"),
        (["run", "--optimizer", "adem"], "unknown optimizer 'adem'"),
        (["run", "--lr", "log:1e-5:1:1e7"], "a range can have at most 10,000 values"),
        (["run", "--freeze", "nothing"], "no variable matches 'nothing'"),
        (["run", "--grid", "missing.toml"], "missing.toml: no such file"),
        (["run", "two.mrg", "--out", ""], ": not the folder of a study; give a new one with"),
        (["run", "missing.mrg"], "missing.mrg: no such file or folder"),
        (["run", "one.mrg"], "give more trees or --dev"),
        (["run", "one.mrg", "--dry-run"], "give more trees or --dev"),
        (["run", "two.mrg", "--freeze", "W:Q", "--candidates", "5"], "no row of W matches 'Q'"),
        (["run", "two.mrg", "--address", "a:1"], "an address is for --backend ray or dask"),
        (["run", "two.mrg", "--backend", "cloud"], "backend must be one of processes, ray, dask"),
        (["run", "--grid", "bad.toml"], "bad.toml:2: l2 must not be negative"),
        (["show", "nowhere"], "nowhere: not a study"),
        (["report", "nowhere"], "nowhere: not a study"),
        (["range", "missing.mrg"], "missing.mrg: no such file or folder"),
        (["range", "missing.mrg", "--low", "1", "--high", "0.1"], "the rates must rise"),
        (["range", "missing.mrg", "--updates", "3"], "at least 20 updates"),
        (["range", "missing.mrg", "--optimizer", "adem"], "unknown optimizer 'adem'"),
        (["range", "missing.mrg", "--freeze", "*"], "all weights are frozen"),
        (["range", "missing.mrg", "--optimizer", "levenberg-marquardt"], "use adagrad or adam"),
        (["run", "one.mrg", "--out", "two.mrg"], "two.mrg: file exists"),
        (["run", "one.mrg", "--out", "two.mrg/out"], "two.mrg/out: not a directory"),
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


def test_a_range_test_is_printed_even_if_it_cannot_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    losses = iter(np.linspace(1.0, 0.1, 50))
    result = sweep(lambda rate: next(losses), updates=50)
    monkeypatch.setattr(lr_range_test, "parser_range_test", lambda *_, **__: result)
    drawing = tmp_path / "absent" / "range.svg"
    error = f"rnnparse: error: {drawing}: no such file or directory\n"
    assert main(["study", "range", "--svg", str(drawing)]) == 2
    assert capsys.readouterr() == ("", error)  # before the test
    drawing.parent.mkdir()
    check = range_result.check_svg
    monkeypatch.setattr(range_result, "check_svg", lambda path: check(path) or path.parent.rmdir())
    assert main(["study", "range", "--svg", str(drawing)]) == 2
    out, err = capsys.readouterr()
    assert "suggested" in out and err == error


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["run", "--preset", "quick", "--grid", "g.toml"],
        ["run", "--jobs", "-2"],
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
    assert "4 trials to go, 0 have ended; 2 at once" in lines
    assert any("configuration of each optimizer again: up to " in line for line in lines)
    assert main([*command, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["trials"]) == 4 and plan["seconds"] > 0 and plan["plateau_seconds"] == 0
    assert not (tmp_path / "study").exists()


def test_a_dry_run_of_a_single_setting_has_nothing_to_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = write_treebank(tmp_path / "train.mrg", 40)
    command = ["study", "run", bank, "--lr", "0.1", "--dry-run"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert main([*command, "--jobs", "-1"]) == 0
    assert capsys.readouterr().out == printed
    assert printed.startswith("\nall: optimizer adagrad, learning_rate 0.1, ")
    assert "\n1 trial to go, 0 have ended; " in printed


def test_a_dry_run_of_a_large_grid_is_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = write_treebank(tmp_path / "train.mrg", 40)
    assert main(["study", "run", bank, "--lr", "log:1e-4:1:500", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "... and 400 more" in printed and len(printed.splitlines()) < 120
