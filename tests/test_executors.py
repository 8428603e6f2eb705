"""Workers of all backends: what they run, what they are sent, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rnnparse import executors
from rnnparse.cli import main
from rnnparse.config import BACKENDS, TrainingConfig
from rnnparse.errors import ConfigError, MissingExtraError, WorkersError
from rnnparse.executors import Workers, open_remote, open_workers
from rnnparse.parser import Parser
from rnnparse.threads import Abandoned, in_order
from rnnparse.trees.cleaning import words
from tests.grammar.small import trees
from tests.small_parser import small_parser

PROGRAM = [sys.executable, "-m", "rnnparse"]
# Ends without waiting for its workers, which leaves their semaphores behind.
IMPATIENT = [sys.executable, "-c", "from rnnparse.cli import app, main; app.GRACE = 0.0; main()"]
PACKAGES = {"ray": "ray", "dask": "distributed"}
needs_processes = pytest.mark.skipif(os.name != "posix", reason="there are no signals")


class Squares:
    """Squares numbers; notes in a folder each process that unpickles it, once for each time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        (self.folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()

    def __call__(self, x: int) -> int:
        if x < 0:
            raise ValueError(f"{x} is negative")
        return x * x


def die(x: int) -> int:
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def test_the_backends_are_those_of_the_settings() -> None:
    assert ("threads", *executors._OPENERS) == BACKENDS


def test_processes_are_sent_a_function_once(tmp_path: Path) -> None:
    with open_remote(Squares(tmp_path), 2, "loky", None) as (call, threads):
        assert list(in_order(call, range(40), threads)) == [x * x for x in range(40)]
    processes = [path.name.split("-")[0] for path in tmp_path.iterdir()]
    assert 1 <= len(processes) <= 2 and len(set(processes)) == len(processes)
    assert str(os.getpid()) not in processes


def test_an_error_in_a_process_comes_in_its_turn(tmp_path: Path) -> None:
    with open_remote(Squares(tmp_path), 2, "loky", None) as (call, threads):
        results = in_order(call, [3, 2, -1, 5], threads)
        assert [next(results), next(results)] == [9, 4]
        with pytest.raises(ValueError, match="-1 is negative"):
            next(results)


def test_a_function_is_fetched_once_by_a_worker_with_several_threads(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as executor:
        workers = Workers(3, False, lambda: executor)
        call = workers.remote(Squares(tmp_path))
        assert list(in_order(call, range(20), 3)) == [x * x for x in range(20)]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("backend", PACKAGES)
def test_a_missing_package_is_named(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[backend], None)
    install = rf"pip install 'rnnparse\[{backend}\]'"
    with pytest.raises(MissingExtraError, match=install), open_workers(backend, 1, None):
        pass


@pytest.mark.parametrize("backend", ["threads", "loky"])
def test_an_address_is_for_clusters(backend: str) -> None:
    message = f"an address is for --backend ray or dask, not for {backend}"
    with pytest.raises(ConfigError, match=message):
        small_parser().parse_many([], backend=backend, address="a:1")
    with pytest.raises(ConfigError, match=message):
        TrainingConfig(backend=backend, address="a:1")
    with pytest.raises(ConfigError, match="backend must be one of threads, loky, ray, dask"):
        small_parser().parse_many([], backend="processes")


# -- parsing -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parser() -> Parser:
    return small_parser()


def items() -> list[Any]:
    """Sentences, and what is none."""
    sentences = [words(tree) for tree in trees(40, "dev")]
    return [*sentences, "", "Anna ate (all) the udon.", None, ["with", "with"], *sentences[:3]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_give_what_threads_give(parser: Parser, jobs: int) -> None:
    options: dict[str, Any]
    for options in ({}, {"n_best": 3}, {"n_best": 2, "scorer": "pcfg"}, {"candidates": 2}):
        expected = list(parser.parse_many(items(), **options))
        found = list(parser.parse_many(items(), backend="loky", n_jobs=jobs, **options))
        assert found == expected
        assert any(result.error for result in found) and any(result.glued for result in found)


def test_errors_of_processes_come_in_their_turn(parser: Parser) -> None:
    sentences: Iterator[Any] = iter([["Anna"]] * 20 + [[]] + [["Anna"]] * 20)
    results = parser.parse_many(sentences, n_jobs=2, backend="loky", errors="raise")
    for _ in range(20):
        next(results)
    with pytest.raises(ValueError, match="at least one token"):
        next(results)


def test_sentences_may_be_what_no_process_could_be_sent(parser: Parser) -> None:
    (result,) = parser.parse_many([(word for word in ["Anna", "ate"])], backend="loky")
    assert result.tokens == ("Anna", "ate")


def printed(*arguments: object) -> bytes:
    command = [*PROGRAM, "parse", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout


def printed_here(capture: pytest.CaptureFixture[bytes], *arguments: object) -> bytes:
    """As `printed`, by the process of the tests."""
    assert main(["parse", *map(str, arguments)]) == 0
    out, err = capture.readouterr()
    assert err == b""
    return out


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines"
    file.write_text("".join(f"They ate udon{x} with forks.\n\n" for x in range(60)))
    return file


@pytest.mark.parametrize("form", ["json", "penn"])
def test_the_command_prints_the_same_bytes(
    model: Path, lines: Path, form: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    options = ("--n-best", "2", "--format", form)
    expected = printed_here(capfdbinary, model, lines, "--jobs", "1", *options)
    assert expected.count(b"\n") >= 120
    processes = (model, lines, "--backend", "loky", *options)
    if form == "json":  # one run is by a process that ends with its worker
        assert printed(*processes, "--jobs", "1") == expected
    else:
        assert printed_here(capfdbinary, *processes, "--jobs", "2") == expected


def test_the_command_refuses_an_address_of_threads(
    model: Path, lines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parse", str(model), str(lines), "--address", "a:1"]) == 2
    assert "an address is for --backend ray or dask" in capsys.readouterr().err


def processes_with(text: str) -> set[int]:
    """Running processes whose environment has a text."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if text.encode() in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are not files here")
@pytest.mark.parametrize(
    ("number", "program"),
    [
        (signal.SIGINT, PROGRAM),
        pytest.param(signal.SIGTERM, PROGRAM, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, IMPATIENT, marks=pytest.mark.slow),
    ],
    ids=["interrupted", "terminated", "out of time"],
)
def test_an_interrupted_command_ends_its_processes(
    model: Path, tmp_path: Path, number: signal.Signals, program: list[str]
) -> None:
    (tmp_path / "many").write_text("They ate udon with forks.\n" * 50000)
    mark = f"RNNPARSE_TEST={tmp_path}"
    run = subprocess.Popen(
        [*program, "parse", model, tmp_path / "many", "--backend", "loky", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RNNPARSE_TEST": str(tmp_path)},
    )
    assert run.stdout is not None
    for _ in range(40):
        assert run.stdout.readline().startswith("(TOP ")
    assert len(processes_with(mark)) >= 3
    run.send_signal(number)
    began = time.monotonic()
    error = run.communicate(timeout=60)[1]
    assert (run.returncode, error) == (128 + number, "\nrnnparse: interrupted\n")
    assert time.monotonic() - began < 3
    while processes_with(mark) and time.monotonic() - began < 20:
        time.sleep(0.1)
    assert not processes_with(mark)


# -- ends of processes, which those of other tests survive -------------------------------------


@needs_processes
def test_a_process_that_dies_is_an_error_which_says_so() -> None:
    message = "a worker died"
    with (
        pytest.raises(WorkersError, match=message),
        open_remote(die, 2, "loky", None) as (call, threads),
    ):
        list(in_order(call, range(9), threads))
    with open_remote(die, 1, "loky", None) as (call, threads):  # the next workers work
        assert list(in_order(call, range(3), threads)) == [0, 1, 2]


def test_a_result_that_is_not_needed_is_abandoned_at_once() -> None:
    begun, ended = threading.Event(), threading.Event()

    def wait(call: Any) -> None:
        begun.set()
        try:
            call(60.0)
        except Abandoned:
            ended.set()

    with pytest.raises(KeyboardInterrupt), open_remote(sleep, 2, "loky", None) as (call, _):
        call(0.0)  # by now the processes run
        results = in_order(lambda x: wait(call) if x else x, range(2), 2)
        assert next(results) == 0 and begun.wait(10) and not ended.is_set()
        results.close()  # type: ignore[attr-defined]
        assert ended.wait(10)
        began = time.monotonic()
        raise KeyboardInterrupt  # ends the processes
    assert time.monotonic() - began < 10


# -- clusters ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("backend", PACKAGES)
def test_a_cluster_gives_what_threads_give(
    parser: Parser, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    pytest.importorskip(PACKAGES[backend], reason=f"pip install 'rnnparse[{backend}]'")
    expected = list(parser.parse_many(items(), n_best=2))
    assert list(parser.parse_many(items(), n_best=2, n_jobs=2, backend=backend)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("backend", PACKAGES)
def test_the_command_prints_the_same_bytes_on_a_cluster(
    model: Path, lines: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    pytest.importorskip(PACKAGES[backend], reason=f"pip install 'rnnparse[{backend}]'")
    expected = printed(model, lines, "--jobs", "1")
    assert printed(model, lines, "--jobs", "2", "--backend", backend) == expected
