"""The examples of the README do what it says.

Commands of ```console blocks are run in order, in one folder that holds a trained `model` and the
`treebanks`; their output must be that of the README, where `...` stands for any lines and numbers
may be others (they differ a little from machine to machine). ```pycon blocks run as doctests.
"""

from __future__ import annotations

import doctest
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from rnnparse.cli import main
from tests.shell import run_shell

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"(?:^<!-- (.*) -->\n)?^```(\w+)\n((?s:.*?))^```$", re.MULTILINE)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]\d+)?")


@dataclass(frozen=True)
class Example:
    """A command and its output."""

    command: str
    output: str
    status: int


def blocks(language: str, page: str = README) -> list[tuple[str, str]]:
    """(text, comment before it) of the blocks in a language."""
    return [(m[3], m[1] or "") for m in _BLOCK.finditer(page) if m[2] == language]


def examples(page: str = README) -> list[Example]:
    commands = []
    for text, comment in blocks("console", page):
        if comment.startswith("not run"):
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            commands.append(Example(command, output, 2 if comment == "status 2" else 0))
    return commands


@pytest.fixture(scope="session")
def folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples run."""
    path = tmp_path_factory.mktemp("readme")
    (path / "model").symlink_to(trained)
    (path / "treebanks").symlink_to(ROOT / "treebanks")
    return path


def same(printed: str, expected: str) -> bool:
    """Whether outputs agree but for numbers, the width of columns, and what `...` stands for."""
    lines = ["...." if line == "..." else line for line in expected.splitlines()]
    pattern = "\n".join(map(loosened, lines)).replace(r"\.\.\.\.", "(?:.*\n)*?.*")
    return re.fullmatch(pattern, "\n".join(map(plain, printed.splitlines()))) is not None


def plain(line: str) -> str:
    return " ".join(_NUMBER.sub("0", line).split())


def loosened(line: str) -> str:
    return re.escape(plain(line))


def test_comparison_sees_differences() -> None:
    assert same("F1 97.5\nx\ny\nend\n", "F1   9.25\n...\nend\n")
    assert same("a\nend\n", "a\nend\n")
    for other in ("F2 97\nend\n", "F1 97\nend\nmore\n", "F1\nend\n", ""):
        assert not same(other, "F1 97\n...\nend\n")


def test_console_examples(folder: Path) -> None:
    assert len(examples()) >= 8
    run_examples(examples(), folder)


def run_examples(commands: list[Example], folder: Path) -> None:
    # A study starts a worker for each core; one is enough here.
    variables = {"XDG_CACHE_HOME": str(folder / "cache"), "LOKY_MAX_CPU_COUNT": "1"}
    variables["COLUMNS"] = "120"
    for example in commands:
        done = run_shell(example.command, folder, variables)
        assert done.returncode == example.status, done.stderr
        assert same(done.stdout, example.output), f"$ {example.command}\n{done.stdout}"


def test_python_examples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    text = "\n".join(block for block, _ in blocks("pycon"))
    assert text.count(">>>") >= 15
    test = doctest.DocTestParser().get_doctest(text, {}, "README.md", "README.md", 0)
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=printed.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(printed)


@pytest.mark.slow
def test_the_defaults_give_the_scores_of_the_readme(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = re.findall(r"^\| (base PCFG|CVG) .*\| ([\d.]+) \| [\d.]+ \| (\d+) of", README, re.M)
    assert [name for name, *_ in rows] == ["base PCFG", "CVG"]
    model, test = str(tmp_path / "model"), str(ROOT / "treebanks" / "test.mrg")
    assert main(["train", "--out", model, "--cache", str(tmp_path / "cache")]) == 0
    for (_, f1, attached), scorer in zip(rows, ("pcfg", "cvg"), strict=True):
        capsys.readouterr()
        arguments = ["evaluate", model, test, "--scorer", scorer, "--attachments", "--json"]
        assert main(arguments) == 0
        scores = json.loads(capsys.readouterr().out)
        assert scores["f1"] == pytest.approx(float(f1), abs=0.5)
        assert scores["attachments"]["all"]["correct"] == pytest.approx(int(attached), abs=6)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target.partition("#")[0]).exists(), target


def test_every_option_in_the_text_exists(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("train", "parse", "evaluate", "evalb", "info", "study run", "study range"):
        with pytest.raises(SystemExit):
            main([*command.split(), "--help"])
    known = capsys.readouterr().out
    for option in set(re.findall(r"--[a-z][a-z-]+", README)) - {"--help"}:
        assert option in known, option


def test_the_readme_can_be_searched_for_common_terms() -> None:
    for term in ("Jacobian", "per-example", "momentum", "train_step", "stop_gradient"):
        assert term in README
