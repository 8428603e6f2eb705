"""Ctrl-C and the signal to end, sent for real: one line and a status within two seconds."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rnnparse.trees.embedded import embedded_treebank

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no signals")
PROGRAM = [sys.executable, "-m", "rnnparse"]
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
LONG = "They ate udon with forks and saw the man with a telescope " * 80
WHOLE = ["--exact", "--max-length", "5000", "--max-memory", "100000"]  # seconds in one kernel
SECONDS = 2.0


def start(command: list[str], lines: str = "") -> subprocess.Popen[str]:
    """Start a program that reads these lines from standard input."""
    # Shells let programs in the background ignore Ctrl-C, and so might what runs these tests.
    with tempfile.TemporaryFile("w+") as file:
        file.write(lines)
        file.seek(0)
        return subprocess.Popen(
            command,
            text=True,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def interrupt(run: subprocess.Popen[str], number: signal.Signals) -> tuple[float, str]:
    """Send a signal; the seconds until the end, and what is on standard error."""
    assert run.poll() is None
    run.send_signal(number)
    began = time.monotonic()
    error = run.communicate(timeout=60)[1]
    return time.monotonic() - began, error


def check(
    run: subprocess.Popen[str],
    number: signal.Signals,
    last_words: str = "",
    most: float = SECONDS,
) -> None:
    seconds, error = interrupt(run, number)
    assert (run.returncode, error) == (STATUS[number], f"\nrnnparse: interrupted{last_words}\n")
    assert seconds < 1.5 * most  # this machine may have other things to do


def interrupt_between_answers(model: Path, number: signal.Signals, wait: float) -> None:
    lines = "They ate udon with forks .\n" * 5000
    run = start([*PROGRAM, "parse", str(model), "--tokenized"], lines)
    assert run.stdout is not None
    for _ in range(3):
        assert run.stdout.readline().startswith("(TOP ")
    time.sleep(wait)
    check(run, number)


def interrupt_in_a_long_sentence(
    model: Path, number: signal.Signals, wait: float, options: list[str], copies: int = 1
) -> None:
    """Send a signal while sentences of 960 tokens are parsed, or of a multiple."""
    lines = "They ate .\n" + 50 * f"{LONG * copies}\n"
    run = start([*PROGRAM, "parse", str(model), "--tokenized", *options], lines)
    assert run.stdout is not None and run.stdout.readline().startswith("(TOP ")
    time.sleep(wait)
    check(run, number, most=1.0)


def test_between_answers(model: Path) -> None:
    interrupt_between_answers(model, signal.SIGINT, 0.1)


def test_inside_a_kernel_that_lasts(model: Path) -> None:
    interrupt_in_a_long_sentence(model, signal.SIGTERM, 0.3, WHOLE, 3)


def test_inside_a_sentence_that_is_divided(model: Path) -> None:
    interrupt_in_a_long_sentence(model, signal.SIGINT, 0.3, [], 3)


@pytest.mark.slow
def test_at_many_moments(model: Path) -> None:
    for seed in range(40):
        wait = random.Random(seed).uniform(0, 1.5)
        number = (signal.SIGINT, signal.SIGTERM)[seed % 2]
        interrupt_between_answers(model, number, wait / 4)
        interrupt_in_a_long_sentence(model, number, wait, WHOLE if seed % 3 else [], 1 + seed % 5)


def write_treebank(folder: Path, copies: int) -> Path:
    trees = embedded_treebank("train").read_text(encoding="utf-8")
    (folder / "bank.mrg").write_text(trees * copies, encoding="utf-8")
    return folder / "bank.mrg"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_evaluate_at_many_moments(model: Path, tmp_path: Path, seed: int) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[seed % 2]
    jobs = str(seed % 3)
    command = [*PROGRAM, "evaluate", str(model), str(write_treebank(tmp_path, 10)), "--jobs", jobs]
    run = start(command)
    time.sleep(random.Random(seed).uniform(2, 5))
    check(run, number)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_train_while_lists_are_made(tmp_path: Path, seed: int) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[seed % 2]
    bank, out = str(write_treebank(tmp_path, 5)), str(tmp_path / "m")
    options = [bank, "--out", out, "--cache", str(tmp_path / "c"), "--jobs", str(seed % 3)]
    run = start([*PROGRAM, "train", *options])
    while not (tmp_path / "c").exists():
        time.sleep(0.02)
    time.sleep(random.Random(seed).uniform(0, 2))
    again = " ".join(["rnnparse train", *options, "--resume"])
    check(run, number, f"; to continue, run:\n  {again}")


AT_START = """
import importlib.abc, os, signal, sys
number, module = getattr(signal, sys.argv[1]), sys.argv[2]
sys.argv[1:] = ["--version"]
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Finder())
from rnnparse.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("module", ["argparse", "rnnparse.cli.app", "rnnparse.cli.study"])
def test_while_the_program_starts(number: signal.Signals, module: str) -> None:
    run = start([sys.executable, "-c", AT_START, number.name, module])
    out, error = run.communicate(timeout=60)
    assert (run.returncode, out, error) == (STATUS[number], "", "\nrnnparse: interrupted\n")


AT_END = """
import atexit, os, signal, sys
class Late:
    def __del__(self, kill=os.kill, me=os.getpid(), number=getattr(signal, sys.argv[1])):
        kill(me, number)
sys.late = Late()  # modules are destroyed late
atexit.register(os.kill, os.getpid(), getattr(signal, sys.argv[1]))
sys.argv[1:] = ["info", sys.argv[2]]
from rnnparse.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", STATUS)
def test_after_the_last_answer(number: signal.Signals, model: Path) -> None:
    run = start([sys.executable, "-c", AT_END, number.name, str(model)])
    out, error = run.communicate(timeout=60)
    assert (run.returncode, error) == (0, "") and out.startswith("model")


LIBRARY = """
import sys, time
import rnnparse
search = rnnparse.Search(exact=True, max_length=5000, max_memory=None)
parser = rnnparse.load(sys.argv[1], search=search)
parser.parse(["They", "ate", "."])
for call in (parser.parse, lambda tokens: list(parser.parse_many([tokens] * 3, n_jobs=2))):
    print("ready", flush=True)
    try:
        call(sys.argv[2].split())
    except KeyboardInterrupt:
        print("stopped", parser.parse(["They", "ate", "."]).label(), flush=True)
"""


def test_the_library_raises_keyboard_interrupt_and_works_on(model: Path) -> None:
    run = start([sys.executable, "-c", LIBRARY, str(model), LONG * 3])
    assert run.stdout is not None
    for _ in range(2):
        assert run.stdout.readline() == "ready\n"
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert run.stdout.readline() == "stopped TOP\n"
        assert time.monotonic() - began < SECONDS + 1
    assert run.communicate(timeout=60)[1] == "" and run.returncode == 0


STUCK = """
import ctypes, sys
from rnnparse.cli import app, info
def run(args):
    print("ready", flush=True)
    lock = ctypes.create_string_buffer(64)
    for _ in range(2):  # no signal ends the second
        ctypes.CDLL(None).pthread_mutex_lock(lock)
info.run = run
sys.exit(app.main(["info", "model"]))
"""


def test_a_main_thread_that_does_not_come_back_is_not_waited_for() -> None:
    run = start([sys.executable, "-c", STUCK])
    assert run.stdout is not None and run.stdout.readline() == "ready\n"
    check(run, signal.SIGTERM)


def test_an_interrupt_that_something_swallowed_is_still_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rnnparse.cli import info, main

    def swallow(args: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        except KeyboardInterrupt:
            raise ImportError("cannot be initialised") from None
        return 0

    monkeypatch.setattr(info, "run", swallow)
    assert main(["info", "model"]) == 143
    assert capsys.readouterr().err == "\nrnnparse: interrupted\n"
