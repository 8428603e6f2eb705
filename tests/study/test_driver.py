"""The driver, on workers that are played: they die, lose records and stop without a word."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.errors import StudyError
from rnnparse.study.driver import Driver
from rnnparse.study.pool import WorkerDied, open_pool
from rnnparse.study.search_space import Space, Trial
from rnnparse.study.worker import Task

DEADLY = -1


class Played:
    """A pool whose trials take turns by chance. Those with a negative setting kill their worker.

    Args:
        jobs: trials at once.
        seed: of what happens.
        losses: probability that a record waits to be read, and is lost if a worker dies meanwhile,
            and of a stop without an error; there are at most two of these.
    """

    local = True

    def __init__(self, jobs: int, seed: int = 0, losses: float = 0.0) -> None:
        self.jobs, self.losses, self.random = jobs, losses, random.Random(seed)
        self.began: Counter[int] = Counter()
        self.at_once = self.silent_stops = 0

    def run(self, tasks: Iterable[Task], *, alone: bool = False) -> Iterator[dict[str, Any]]:
        source, running, unread = iter(tasks), [], []
        while True:
            while len(running) < (1 if alone else self.jobs):
                task = next(source, None)
                if task is None:
                    break
                running.append(task)
                self.began[task.trial.config["x"]] += 1
                if task.sign is not None:
                    Path(task.sign).touch()
            self.at_once = max(self.at_once, len(running))
            if not running:
                yield from unread
                return
            task = running.pop(self.random.randrange(len(running)))
            if task.trial.config["x"] <= DEADLY:
                if self.silent_stops == 2 or self.random.random() >= self.losses:
                    raise WorkerDied("failed", {"type": "EXIT", "message": "died"})
                self.silent_stops += 1
                return
            if task.sign is not None:
                Path(task.sign).unlink()
            unread.append({"id": task.trial.id, "status": "finished"})
            if self.random.random() >= self.losses:
                yield from unread
                unread = []


def drive(pool: Any, values: list[int], signs: Path | None) -> list[tuple[int, str]]:
    """Setting and status of the records, in the order in which they were kept."""
    trials = {trial.id: trial for trial in Space({"x": values}).trials()}

    def make_task(trial: Trial) -> Task:
        return Task(trial, b"", sign=None if signs is None else str(signs / trial.id))

    kept: list[tuple[int, str]] = []
    Driver(pool, make_task, lambda r: kept.append((trials[r["id"]].config["x"], r["status"]))).run(
        list(trials.values())
    )
    return kept


@given(
    st.lists(st.integers(-4, 12), unique=True, min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(0, 1 << 20),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
)
def test_each_trial_gets_the_one_record_that_is_due_to_it(
    values: list[int], jobs: int, seed: int, losses: float, signed: bool
) -> None:
    pool = Played(jobs, seed, losses)
    with tempfile.TemporaryDirectory() as folder:
        kept = drive(pool, values, Path(folder) if signed else None)
        assert not list(Path(folder).iterdir())
    assert sorted(kept) == sorted((x, "failed" if x <= DEADLY else "finished") for x in values)
    assert pool.at_once <= jobs
    if losses == 0 and jobs == 1 and signed:  # the only one that runs is to blame: none runs twice
        assert all(count == 1 for count in pool.began.values())


def test_who_dies_beside_others_is_tried_again_alone(tmp_path: Path) -> None:
    class Together(Played):
        """All that run die with the first, whoever that is."""

        def run(self, tasks: Iterable[Task], *, alone: bool = False) -> Iterator[dict[str, Any]]:
            taken = [task for task, _ in zip(tasks, range(1 if alone else 2), strict=False)]
            for task in taken:
                Path(str(task.sign)).touch()
                self.began[task.trial.config["x"]] += 1
            if any(task.trial.config["x"] <= DEADLY for task in taken):
                raise WorkerDied("out of memory", {"type": "SIGKILL", "message": "died"})
            for task in taken:
                Path(str(task.sign)).unlink()
                yield {"id": task.trial.id, "status": "finished"}

    pool = Together(2)
    kept = drive(pool, [-1, 5], tmp_path)
    assert sorted(kept) == [(-1, "out of memory"), (5, "finished")]
    assert pool.began == {-1: 2, 5: 2}


def test_workers_that_never_begin_a_trial_end_the_study(tmp_path: Path) -> None:
    class Stillborn(Played):
        def run(self, tasks: Iterable[Task], *, alone: bool = False) -> Iterator[dict[str, Any]]:
            next(iter(tasks))
            raise WorkerDied("failed", {"type": "EXIT", "message": "no such library"})
            yield {}

    with pytest.raises(StudyError, match="workers die before they begin a trial: no such library"):
        drive(Stillborn(2), [1, 2], tmp_path)

    class Silent(Played):
        def run(self, tasks: Iterable[Task], *, alone: bool = False) -> Iterator[dict[str, Any]]:
            next(iter(tasks))
            yield from ()

    with pytest.raises(StudyError, match="workers die before they begin a trial: without a word"):
        drive(Silent(2), [1], tmp_path)


def test_who_stops_to_read_records_is_not_warned_of_those_that_are_lost(
    recwarn: pytest.WarningsRecorder,
) -> None:
    def run(config: dict[str, Any], seed: int) -> Iterator[float]:
        yield 1.0
        time.sleep(0.3 * config["x"])

    function = cloudpickle.dumps(run)
    tasks = (Task(trial, function, driver=os.getpid()) for trial in Space({"x": [0, 1]}).trials())
    with open_pool("processes", 2, None) as pool, closing(pool.run(tasks)) as records:
        assert next(records)["status"] == "finished"
    assert [str(warning.message) for warning in recwarn] == []
