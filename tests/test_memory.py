"""Too little memory: success, or one line and status 2."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rnnparse.cli import main, memory
from rnnparse.errors import OutOfMemoryError
from rnnparse.inference import decoder
from tests.small_parser import small_parser

resource = pytest.importorskip("resource")
linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems count otherwise")
PROGRAM = [sys.executable, "-m", "rnnparse"]
LINE = r"rnnparse: error: out of memory[^\n]*\n"


def limited(
    megabytes: int, command: list[str], lines: str = "", **options: object
) -> tuple[int, str, str]:
    done = subprocess.run(
        command,
        input=lines,
        text=True,
        capture_output=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2),
        **options,  # type: ignore[call-overload]
    )
    return done.returncode, done.stdout, done.stderr


def check(megabytes: int, command: list[str], lines: str = "") -> bool:
    """Whether a command succeeds; fail unless it does, or says in a line that memory lacks."""
    status, _, error = limited(megabytes, command, lines)
    if status != 0:
        assert (status, bool(re.fullmatch(LINE, error))) == (2, True), (megabytes, status, error)
    return status == 0


@linux
@pytest.mark.parametrize("megabytes", [pytest.param(400, marks=pytest.mark.slow), 620])
def test_parse_with_little_memory(model: Path, megabytes: int) -> None:
    check(megabytes, [*PROGRAM, "parse", str(model)], "They ate.\n")


@linux
@pytest.mark.slow
def test_parse_and_evaluate_at_many_limits(model: Path, tmp_path: Path) -> None:
    (tmp_path / "gold.mrg").write_text("(TOP (S (NP (PRP They)) (VP (VBD ate)) (. .)))\n" * 20)
    for command in (["parse", str(model)], ["evaluate", str(model), str(tmp_path / "gold.mrg")]):
        outcomes = [check(m, [*PROGRAM, *command], "They ate.\n") for m in range(250, 1300, 50)]
        assert not outcomes[0] and outcomes[-1]


@linux
@pytest.mark.slow
def test_train_at_many_limits(tmp_path: Path) -> None:
    tree = "(TOP (S (NP (PRP They)) (VP (VBD ate)) (. .)))\n"
    (tmp_path / "bank.mrg").write_text(tree * 20)
    command = [*PROGRAM, "train", str(tmp_path / "bank.mrg"), "--candidates", "5", "--epochs", "1"]
    command += ["--dim", "5", "--cache", str(tmp_path / "c"), "--out"]
    outcomes = [check(m, [*command, str(tmp_path / f"m{m}")]) for m in range(300, 6000, 300)]
    assert not outcomes[0] and outcomes[-1]


@pytest.mark.slow
@linux
def test_a_limit_changes_neither_output_nor_status_nor_signals(model: Path) -> None:
    command = [*PROGRAM, "parse", str(model), "--tokenized"]
    free = subprocess.run(command, input="They ate .\n", capture_output=True, text=True)
    assert limited(8000, command, "They ate .\n") == (0, free.stdout, free.stderr)
    status, _, error = limited(8000, [*PROGRAM, "parse", "no-model"])
    assert status == 2 and error.startswith("rnnparse: error: no-model: ")
    status, _, error = limited(8000, [*PROGRAM, "parse", "no-model", "--debug"])
    assert status == 1 and error.startswith("Traceback ")


ENDS = {
    "aborts": "os.write(2, b'LLVM ERROR: out of memory'); os.abort()",
    "ends": "os.write(2, b'OpenBLAS error: Memory allocation failed'); os._exit(1)",
    "does not load": "os._exit(127)",
}


@linux
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_compiled_code_that_ends_the_process_is_put_into_words(end: str) -> None:
    code = (
        "import os, sys\nfrom rnnparse.cli import app, info\n"
        f"def run(args):\n    {end}\ninfo.run = run\n"
        "sys.argv = ['rnnparse', 'info', 'model']; sys.exit(app.main())"
    )
    status, out, error = limited(4000, [sys.executable, "-c", code])
    assert (status, out) == (2, "") and re.fullmatch(LINE, error)


@linux
def test_an_error_without_an_exception_is_lack_of_memory_if_that_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = SystemError("error return without exception set")
    assert not memory.is_out_of_memory(error)
    monkeypatch.setattr(memory, "limit", lambda: 1 << 30)
    assert memory.is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        ImportError("libtensorflow_cc.so.2: failed to map segment from shared object"),
        OSError("Could not find/load shared object file 'libllvmlite.so' from resource location"),
    ],
)
def test_lack_of_memory_has_many_faces(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rnnparse.cli import info

    def run(args: object) -> int:
        raise error

    monkeypatch.setattr(info, "run", run)
    assert main(["info", "model"]) == 2
    assert capsys.readouterr().err == "rnnparse: error: out of memory\n"
    assert not memory.is_out_of_memory(RuntimeError("something else"))


def test_the_sentence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise MemoryError("Allocation failed (probably too large).")

    monkeypatch.setattr(decoder, "best_trees", full)
    with pytest.raises(OutOfMemoryError, match="3 tokens that begins with: They ate \\."):
        small_parser().parse(["They", "ate", "."])
