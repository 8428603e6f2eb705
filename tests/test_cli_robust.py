"""Commands end in one line, whatever their surroundings: closed streams, odd encodings, numbers
beyond all bounds, names that are not UTF-8."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rnnparse.cli import app, main
from rnnparse.errors import ConfigError
from rnnparse.trees.sources import open_text
from tests.fuzz.commands import command, strict_json
from tests.training.runs import TINY, run, write_treebank

TREE = "(TOP (S (NP (PRP They)) (VP (VBD ate)) (. .)))\n"
SUBCOMMANDS = [[], ["train"], ["parse"], ["evaluate"], ["evalb"], ["info"], ["study"]]
SUBCOMMANDS += [["explain"], ["draw"], ["compare"]]
SUBCOMMANDS += [["study", name] for name in ("run", "range", "show", "report")]


def refused(
    arguments: Sequence[str | Path], capsys: pytest.CaptureFixture[str], status: int = 2
) -> str:
    """The one line with which a command is refused."""
    assert main([str(argument) for argument in arguments]) == status
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 1 and lines[0].startswith("rnnparse: "), err
    return lines[0]


# -- streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["parse", "{model}"],
        ["parse", "{model}", "-", "--tokenized"],
        ["evaluate", "{model}", "-"],
        ["train", "-", "--out", "{new}"],
        ["train", "{trees}", "--dev", "-", "--out", "{new}"],
        ["study", "range", "-"],
    ],
)
def test_closed_standard_input_is_named(
    arguments: list[str],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it where it was closed
    trees = tmp_path / "trees.mrg"
    trees.write_text(TREE * 3)
    places = {"model": model, "new": tmp_path / "new", "trees": trees}
    given = [argument.format(**places) for argument in arguments]
    assert "<stdin>: standard input is closed" in refused(given, capsys)


def test_a_program_without_standard_input(model: Path) -> None:
    line = f"exec {sys.executable} -m rnnparse parse {model} <&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "rnnparse: error: <stdin>: standard input is closed\n"


def test_text_streams_without_bytes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("They ate.\n"))
    with open_text(None, "utf-8") as stream:
        assert list(stream) == ["They ate.\n"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_every_help_shows_in_every_encoding(encoding: str) -> None:
    program = (
        "import sys; from rnnparse.cli import main\n"
        f"for words in {SUBCOMMANDS!r}:\n"
        "    try: main([*words, '--help'])\n"
        "    except SystemExit as stop: assert stop.code == 0\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert done.returncode == 0 and done.stderr == b""
    shown = done.stdout.decode(encoding)
    assert shown.count("usage: rnnparse") == len(SUBCOMMANDS)
    assert "learning rate α" in shown or (encoding != "utf-8" and "learning rate ?" in shown)


# -- numbers -----------------------------------------------------------------------------------

_NUMERIC = {
    ("train",): "latent-grammars cycles span-epochs candidates dim epochs patience batch-size "
    "learning-rate l2 kappa folds jackknife freeze-epochs seed jobs",
    ("parse", "m"): "n-best jobs max-length max-seconds max-memory",
    ("evaluate", "m", "g"): "jobs seed max-length max-seconds max-memory",
    ("evalb", "g", "t"): "max-error",
    ("study", "run"): "candidates jackknife jobs plateau-epochs patience",
    ("study", "range"): "low high updates batch-size l2 kappa dim candidates jackknife seed jobs",
}


@pytest.mark.parametrize("value", ["9" * 40, "9" * 5000, "-2", "nan", "1e400", "ten"])
@pytest.mark.parametrize("words", _NUMERIC, ids=" ".join)
def test_numbers_beyond_the_limits_are_refused_with_them(
    words: tuple[str, ...], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in _NUMERIC[words].split():
        with pytest.raises(SystemExit) as stop:
            main([*words, f"--{name}={value}"])
        assert stop.value.code == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert re.search(rf"--{name}: expected a (whole )?number from \S+ to \S+, not ", last)
        assert len(last) < 200


def test_all_options_with_numbers_are_among_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Those whose metavar says so, in the help of every command."""
    for words, names in _NUMERIC.items():
        given = [word for word in words if len(word) > 1]
        with pytest.raises(SystemExit):
            main([*given, "--help"])
        printed = capsys.readouterr().out
        numeric = set(re.findall(r"--([a-z0-9-]+) (?:N|K|RATE|WEIGHT|MARGIN|S|MB)\b", printed))
        assert numeric == set(names.split())


# -- what nobody thought of --------------------------------------------------------------------


def test_an_error_of_ours_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise ZeroDivisionError("of\nours")

    monkeypatch.setattr(app.info, "run", fail)
    line = refused(["info", "model"], capsys, status=70)
    assert line.startswith("rnnparse: internal error: ZeroDivisionError: of ours; please report")
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "info", "model"])


# -- JSON --------------------------------------------------------------------------------------


def test_every_command_prints_json_by_the_standard(tmp_path: Path, model: Path) -> None:
    trees = str(tmp_path / "trees.mrg")
    write_treebank(Path(trees), 6)
    text = tmp_path / "text"
    text.write_text("They ate.\n\nzzz ))) xyz\n")
    options = {name.replace("n_jobs", "jobs").replace("_", "-"): TINY[name] for name in TINY}
    settings = [part for name, v in options.items() for part in (f"--{name}", str(v))]
    cache = ["--cache", str(tmp_path / "cache")]
    new = str(tmp_path / "new")
    for line in command(["parse", str(model), str(text), "--format", "json"]).splitlines():
        strict_json(line)
    everything = ["--by-label", "--by-length", "--attachments", "--against", trees]
    for arguments in (
        ["train", trees, "--out", new, "--json", *settings, *cache],
        ["info", new, "--json"],
        ["evaluate", new, trees, "--json", *everything],
        ["evalb", trees, trees, "--json"],
        ["study", "range", trees, "--json", "--updates", "20", "--candidates", "3", *cache],
    ):
        assert isinstance(strict_json(command(arguments)), dict), arguments
    for file in (Path(new) / "report.json", Path(new) / "config.json"):
        strict_json(file.read_text("utf-8"))


# -- places ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tensorboard", "cache"])
@pytest.mark.parametrize("place", ["model", "model/below/it", "model.partial/x", "link"])
def test_folders_inside_the_model_are_refused_at_once(
    tmp_path: Path, name: str, place: str
) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 4)
    (tmp_path / "link").symlink_to(tmp_path / "model")
    with pytest.raises(ConfigError, match=f"{name} folder .* is inside .*/model"):
        run(tmp_path, treebank=treebank, **{name: str(tmp_path / place)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "train.mrg"]


@pytest.mark.parametrize("name", ["tensorboard", "cache"])
def test_folders_that_cannot_be_written_are_refused_at_once(tmp_path: Path, name: str) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 4)
    with pytest.raises(ConfigError, match=r"cannot write .*train\.mrg"):
        run(tmp_path, treebank=treebank, **{name: treebank})
    assert not (tmp_path / "model.partial").exists()


# -- names -------------------------------------------------------------------------------------


def test_names_that_are_not_utf8_are_carried_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = os.fsdecode(b"\xff\xc3\xa9")
    folder = tmp_path / odd
    folder.mkdir()
    files = {name: str(folder / f"{odd}.{name}") for name in ("mrg", "dev", "txt", "heads")}
    write_treebank(Path(files["mrg"]), 12)
    write_treebank(Path(files["dev"]), 4, "dev")
    Path(files["txt"]).write_text("the 1 2 3 4 5\nof 0 1 2 3 4\n,  1 0 0 1 2\n")
    Path(files["heads"]).write_text("* left\n")
    settings = {"treebank": files["mrg"], "dev": files["dev"], "vectors": files["txt"]}
    run(folder, **settings, heads=files["heads"], telemetry=True)
    report = strict_json((folder / "model" / "report.json").read_text("utf-8"))
    assert report["model"] == str(folder / "model")
    about = strict_json(command(["info", str(folder / "model"), "--json"]))
    assert about["config"]["treebank"] == files["mrg"]
    shutil.rmtree(folder / "model")
    run(folder, resume=True, **settings, heads=files["heads"])
    out = str(folder / "out.mrg")
    command(["evaluate", str(folder / "model"), files["dev"], "--out", out, "--against", out])
    command(["evalb", files["dev"], out])
    capsys.readouterr()


def test_tensorboard_takes_no_name_that_is_not_utf8(tmp_path: Path) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/t\xff")
    treebank = write_treebank(tmp_path / "train.mrg", 4)
    with pytest.raises(ConfigError, match="its name is not UTF-8"):
        run(tmp_path, treebank=treebank, tensorboard=place)
