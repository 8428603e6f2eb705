"""The frame of the command line: help, messages, exit statuses, interruptions; `info`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rnnparse.cli import main
from rnnparse.errors import ModelError
from rnnparse.trees.embedded import embedded_treebank

COMMANDS = [
    "train", "parse", "explain", "draw", "evaluate", "compare", "evalb", "info", "study",
]  # fmt: skip
PROGRAM = [sys.executable, "-m", "rnnparse"]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert f"rnnparse {command} " in printed.partition("example")[2]
    assert max(map(len, printed.splitlines())) <= 100


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and all(f"\n    {command} " in err for command in COMMANDS)


def test_help_takes_no_time() -> None:
    before = os.times()
    subprocess.run([*PROGRAM, "--help"], check=True, capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system
    assert used - before.children_user - before.children_system < 1.0


def test_script_takes_the_same_arguments() -> None:
    script = Path(__file__).parents[1] / "scripts" / "train_parser.py"
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert (
        done.returncode == 0 and "rnnparse train" in done.stdout and "--candidates" in done.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "nowhere"], "nowhere: "),
        (["parse", "nowhere"], "nowhere: "),
        (["evaluate", "nowhere", "missing.mrg"], "missing.mrg: no such file or folder"),
        (["evalb", "missing.mrg", "missing.mrg"], "missing.mrg: "),
        (["evalb", "-p", "missing.prm", "a", "b"], "missing.prm: "),
        (["train", "missing.mrg"], "missing.mrg: no such file or folder"),
        (["train", "empty.mrg"], "empty.mrg: "),
        (["train", "broken.mrg", "--strict"], "broken.mrg:2:14: "),
        (["train", "one.mrg"], "give more trees or --dev"),
        (["train", "two.mrg", "--dev", "broken.mrg", "--strict"], "broken.mrg:2:14: "),
        (["train", "two.mrg", "--head-rules", "missing.heads"], "missing.heads: "),
        (["train", "two.mrg", "--vectors", "two.mrg"], "two.mrg:1: "),
        (["train", "two.mrg", "--optimizer", "nothing"], "nothing"),
        (["train", "two.mrg", "--folds", "2", "--dev", "two.mrg"], "folds"),
        (["train", "two.mrg", "--jackknife", "1"], "jackknife"),
        (["train", "two.mrg", "--out", "two.mrg"], "two.mrg: exists and is not a model"),
        (["train", "two.mrg", "--out", "two.mrg/model"], "two.mrg/model"),
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
    tree = "(TOP (S (NP (NN rain)) (VP (VBZ falls))))\n"
    Path("empty.mrg").write_text("")
    Path("broken.mrg").write_text(tree + "(TOP (NN a)) )\n")
    Path("one.mrg").write_text(tree)
    Path("two.mrg").write_text(tree * 2)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("rnnparse: error: ") and message in last


def test_debug_shows_where_an_error_comes_from() -> None:
    with pytest.raises(ModelError):
        main(["--debug", "info", "x"])
    done = subprocess.run([*PROGRAM, "info", "x", "--debug"], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" in done.stderr and "ModelError" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--candidates", "0"],
        ["train", "--epochs", "many"],
        ["train", "--jobs", "-2"],
        ["train", "--learning-rate", "0"],
        ["train", "--engine", "steam"],
        ["parse", "model", "--format", "xml"],
        ["evalb", "a"],
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: " in (message := capsys.readouterr().err) and "error: " in message


def test_full_disk_is_an_error(trained: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "info", trained], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == "rnnparse: error: cannot write: no space left on device\n"


def test_ctrl_c_says_how_to_go_on_and_the_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = embedded_treebank("train").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "my bank.mrg").write_text("".join(lines[:200]), encoding="utf-8")
    command = ["train", "my bank.mrg", "--out", "m", "--candidates", "5", "--cache", "c"]
    command += ["--epochs", "2", "--dim", "5"]
    run = subprocess.Popen([*PROGRAM, *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "m.partial").exists():
        assert run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    error = run.communicate(timeout=60)[1]
    assert run.returncode == 130 and "Traceback" not in error
    assert error.splitlines()[-2:] == [
        "rnnparse: interrupted; to continue, run:",
        "  rnnparse train 'my bank.mrg' --out m --candidates 5 --cache c --epochs 2 --dim 5 "
        "--resume",
    ]
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--resume"]) == 0 and "CVG F1" in capsys.readouterr().out
    assert not (tmp_path / "m.partial").exists() and (tmp_path / "m").is_dir()


def test_info_for_people_and_for_programs(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(trained), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["dim"] == about["config"]["dim"] == 25
    assert about["dev_scores"]["cvg_f1"] > about["dev_scores"]["base_f1"] > 80
    assert main(["info", str(trained)]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["model"] == str(trained) and rows["config.candidates"] == "100"
    assert rows["dev_scores.cvg_f1"] == f"{about['dev_scores']['cvg_f1']:.4g}"
