"""Studies whose driver is killed or interrupted go on, and end as if nothing had been."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnparse.study.records import RecordFile
from tests.study.equal_records import without_times

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are looked at in /proc"
)

DRIVER = """
import os, pathlib, random, sys, time
from rnnparse.study.study import Study
from rnnparse.study.search_space import Space

folder, pause = sys.argv[1], float(sys.argv[2])

def run(config, seed):
    (pathlib.Path(folder) / "processes" / str(os.getpid())).touch()
    x = random.Random(10 * config["x"] + seed).random()
    for _ in range(4):
        yield {"objective": x, "norm": x / 3}
        time.sleep(pause)
        x *= config["x"] / 2
    yield {"epoch": 1, "objective": x}
    if config["x"] == 5:
        raise ValueError("five")

if __name__ == "__main__":
    os.makedirs(folder + "/processes", exist_ok=True)
    command = "python driver.py"
    study = Study(Space({"x": range(8)}, (0, 1)), run, folder + "/study", n_jobs=2, command=command)
    study.run(progress=False)
"""
TRIALS = 16
PATIENCE = 120  # seconds for what takes few when the machine is not busy


class Driver:
    """The driver of a study as a process of its own."""

    def __init__(self, folder: Path, pause: float = 0.01) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        script = folder / "driver.py"
        script.write_text(DRIVER)
        # A file, not a pipe, which processes that outlive the driver would keep open.
        self.errors = folder / "errors.txt"
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(script), str(folder), str(pause)],
                stderr=errors,
                start_new_session=True,
            )

    def lines(self) -> int:
        """How many records there are."""
        path = self.folder / "study" / "records.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def workers(self) -> list[int]:
        """The processes that have run trials."""
        return [int(path.name) for path in (self.folder / "processes").glob("*")]

    def wait_for_lines(self, count: int) -> None:
        """Wait until so many trials, or more, have ended."""
        lock = self.folder / "study" / ".lock"
        wait_until(lambda: lock.exists() and self.lines() >= count)

    def wait_for_no_worker(self) -> None:
        """Wait until no process is left that has run trials."""
        wait_until(lambda: not any(map(is_alive, self.workers())))

    def end(self) -> tuple[int, str]:
        """Wait for the end: the status, and what was written to standard error."""
        return self.process.wait(timeout=PATIENCE), self.errors.read_text()


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # whose parent has not looked yet


def records(folder: Path) -> list[dict[str, Any]]:
    result = RecordFile(folder / "study").load()
    return sorted(map(without_times, result), key=lambda record: str(record["id"]))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    driver = Driver(tmp_path_factory.mktemp("undisturbed"))
    assert driver.end()[0] == 0
    result = records(driver.folder)
    assert len(result) == TRIALS
    assert {record["status"] for record in result} == {"finished", "failed"}
    return result


def test_a_study_whose_driver_is_killed_thrice_ends_as_an_undisturbed_one(
    tmp_path: Path, undisturbed: list[dict[str, Any]]
) -> None:
    rng = random.Random(time.time_ns())
    path = tmp_path / "study" / "records.jsonl"
    kept = b""
    for at in sorted(rng.sample(range(TRIALS - 2), 3)):
        driver = Driver(tmp_path)
        driver.wait_for_lines(at)
        time.sleep(0.1 * rng.random())
        driver.process.kill()
        assert driver.end()[0] in (-signal.SIGKILL, 0)
        now = path.read_bytes() if path.exists() else b""
        assert now.startswith(kept)  # no trial that has finished is lost, or has changed
        kept = now[: now.rfind(b"\n") + 1]
        driver.wait_for_no_worker()
    assert Driver(tmp_path).end()[0] == 0
    assert path.read_bytes().startswith(kept)
    assert records(tmp_path) == undisturbed


@pytest.mark.parametrize(
    "pause",
    [0.02, *(pytest.param(pause, marks=pytest.mark.slow) for pause in (0.0, 0.01, 0.05))],
)
def test_ctrl_c_twice_ends_it_as_well(tmp_path: Path, pause: float) -> None:
    driver = Driver(tmp_path, pause=1000)
    wait_until(lambda: len(driver.workers()) == 2)
    for _ in range(2):
        os.killpg(driver.process.pid, signal.SIGINT)
        time.sleep(pause)
    assert driver.end()[0] in (-signal.SIGINT, 130)
    driver.wait_for_no_worker()


def is_starting(driver: Driver) -> bool:
    """Whether a worker loads its first modules."""
    process = driver.process.pid
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return any(b"popen_loky" in Path(f"/proc/{one}/cmdline").read_bytes() for one in children)


def test_ctrl_c_while_workers_start_gives_one_message(tmp_path: Path) -> None:
    driver = Driver(tmp_path, pause=1000)
    wait_until(lambda: is_starting(driver))
    time.sleep(0.05)
    os.killpg(driver.process.pid, signal.SIGINT)
    status, errors = driver.end()
    assert status in (-signal.SIGINT, 130)
    assert errors.count("Traceback") == 1, errors


def test_workers_end_soon_after_their_driver_in_the_midst_of_a_trial(tmp_path: Path) -> None:
    driver = Driver(tmp_path, pause=1000)
    wait_until(lambda: len(driver.workers()) == 2)
    assert all(map(is_alive, driver.workers()))
    driver.process.kill()
    driver.end()
    driver.wait_for_no_worker()


def test_ctrl_c_keeps_what_has_ended_and_says_how_to_go_on(
    tmp_path: Path, undisturbed: list[dict[str, Any]]
) -> None:
    driver = Driver(tmp_path, pause=0.2)
    driver.wait_for_lines(3)
    os.killpg(driver.process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    status, errors = driver.end()
    assert status in (-signal.SIGINT, 130)
    kept = driver.lines()
    assert 3 <= kept < TRIALS
    assert errors.strip().split("\n")[-1] == (
        f"KeyboardInterrupt: {kept} of {TRIALS} trials are kept in {tmp_path}/study; "
        "the same command runs the others: python driver.py"
    )
    assert errors.count("Traceback") == 1, errors  # none of workers
    driver.wait_for_no_worker()
    assert Driver(tmp_path).end()[0] == 0
    assert records(tmp_path) == undisturbed
