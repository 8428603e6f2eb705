"""The runner, on simulated workers that die, and on real processes that are interrupted."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.errors import StudyError
from rnnparse.executors import Workers
from rnnparse.study.curve import Curve
from rnnparse.study.pool import Runner, open_pool
from rnnparse.study.records import make_record
from rnnparse.study.search_space import Space, Trial
from rnnparse.study.worker import Task, run_task

DEADLY = -1


class TerminatedWorkerError(RuntimeError):
    """As loky raises it."""


class Simulated(Executor):
    """Workers whose trials end in random order. A negative setting kills its worker.

    Args:
        seed: of the order.
        together: whether all trials fail when a worker dies, as with loky, or only that of the
            worker, as on clusters.
        workers: how many trials run at once; those submitted beyond that have not begun.
    """

    def __init__(self, seed: int = 0, together: bool = True, workers: int = 9) -> None:
        self.together, self.workers = together, workers
        self.random, self.lock = random.Random(seed), threading.Condition()
        self.submitted: list[tuple[Task, Future[Any]]] = []
        self.begun: Counter[int] = Counter()
        self.at_once = 0
        threading.Thread(target=self._work, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        assert fn is run_task
        future: Future[Any] = Future()
        with self.lock:
            self.submitted.append((args[0], future))
            self.at_once = max(self.at_once, len(self.submitted))
            if len(self.submitted) <= self.workers:
                self._begin(args[0])
            self.lock.notify()
        return future

    def _begin(self, task: Task) -> None:
        self.begun[task.trial.config["x"]] += 1
        if task.heartbeat is not None:
            Path(task.heartbeat).touch()

    def _work(self) -> None:
        while True:
            with self.lock:
                while not self.submitted:
                    self.lock.wait()
                running = max(1, min(self.workers, len(self.submitted)))
                task, future = self.submitted.pop(self.random.randrange(running))
                deadly = task.trial.config["x"] <= DEADLY or not self.workers
                failing = [future] if deadly else []
                if deadly and self.together:
                    failing += [other for _, other in self.submitted]
                    self.submitted = []
                elif len(self.submitted) >= running:
                    self._begin(self.submitted[running - 1][0])
            for other in failing:
                other.set_exception(TerminatedWorkerError("no such library"))
            if not deadly:
                if task.heartbeat is not None:
                    Path(task.heartbeat).unlink()
                future.set_result({"id": task.trial.id, "status": "finished"})


def run(
    executor: Executor, jobs: int, values: list[int], heartbeats: Path | None
) -> list[tuple[int, str]]:
    """Setting and status of the records, in the order in which they were kept."""
    trials = {trial.id: trial for trial in Space({"x": values}).trials()}

    def make_task(trial: Trial) -> Task:
        return Task(trial, b"", heartbeat=heartbeats and str(heartbeats / trial.id))

    kept: list[tuple[int, str]] = []
    pool = Workers(jobs, heartbeats is not None, lambda: executor)
    Runner(pool, make_task, lambda r: kept.append((trials[r["id"]].config["x"], r["status"]))).run(
        list(trials.values())
    )
    return kept


@given(
    st.lists(st.integers(-4, 12), unique=True, min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(0, 1 << 20),
    st.booleans(),
    st.booleans(),
)
def test_each_trial_gets_exactly_one_correct_record(
    values: list[int], jobs: int, seed: int, together: bool, with_heartbeats: bool
) -> None:
    executor = Simulated(seed, together)
    with tempfile.TemporaryDirectory() as folder:
        kept = run(executor, jobs, values, Path(folder) if with_heartbeats else None)
        assert not list(Path(folder).iterdir())
    assert sorted(kept) == sorted((x, "failed" if x <= DEADLY else "finished") for x in values)
    assert executor.at_once <= jobs
    if jobs == 1 and with_heartbeats:  # a trial that ran alone is to blame: none runs twice
        assert all(count == 1 for count in executor.begun.values())


def test_trials_that_died_together_run_again_alone(tmp_path: Path) -> None:
    executor = Simulated()
    kept = run(executor, 2, [-1, 5], tmp_path)
    assert sorted(kept) == [(-1, "failed"), (5, "finished")]
    # If 5 ended first, -1 was alone when its worker died.
    assert executor.begun in ({-1: 2, 5: 2}, {-1: 1, 5: 1})


def test_a_trial_that_had_not_begun_keeps_its_place(tmp_path: Path) -> None:
    """The one that had begun is to blame, and the other does not run twice."""
    for seed in range(5):
        executor = Simulated(seed, workers=1)
        kept = run(executor, 2, [-1, 5, 6], tmp_path)
        assert sorted(kept) == [(-1, "failed"), (5, "finished"), (6, "finished")]
        assert executor.begun == {-1: 1, 5: 1, 6: 1}


@pytest.mark.parametrize("values", [[1], [1, 2]])
def test_workers_that_never_begin_a_trial_end_the_study(tmp_path: Path, values: list[int]) -> None:
    with pytest.raises(StudyError, match="workers die before they begin a trial: the worker died"):
        run(Simulated(workers=0), 2, values, tmp_path)


def test_an_executor_that_broke_while_idle_is_replaced() -> None:
    class Broken(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            raise TerminatedWorkerError("broken")

    executors = iter([Broken(), Simulated()])
    latest: list[Executor] = []

    def executor() -> Executor:
        latest.append(next(executors, latest[-1] if latest else Broken()))
        return latest[-1]

    [trial] = Space({"x": [1]}).trials()
    kept: list[dict[str, Any]] = []
    Runner(Workers(1, True, executor), lambda t: Task(t, b""), kept.append).run([trial])
    assert [record["id"] for record in kept] == [trial.id]


def test_an_error_that_is_no_death_is_raised() -> None:
    class Failing(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(StudyError("workers cannot load the trial function"))
            return future

    with pytest.raises(StudyError, match="cannot load"):
        run(Failing(), 2, [1, 2], None)


def test_an_interrupted_study_kills_its_workers_without_a_warning(
    recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    def objective(config: dict[str, Any], seed: int) -> Iterator[float]:
        (tmp_path / str(os.getpid())).touch()
        yield 1.0
        time.sleep(1000 * config["x"])

    function = cloudpickle.dumps(objective)

    def stop(record: dict[str, Any]) -> None:
        assert record["status"] == "finished"
        raise KeyboardInterrupt

    trials = Space({"x": [0, 1]}).trials()
    with pytest.raises(KeyboardInterrupt), open_pool("processes", 2, None) as pool:
        Runner(pool, lambda trial: Task(trial, function, driver=os.getpid()), stop).run(trials)
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)
    assert [str(warning.message) for warning in recwarn] == []


def test_a_blamed_trial_has_a_whole_record(tmp_path: Path) -> None:
    [trial] = Space({"x": [DEADLY]}).trials()
    kept: list[dict[str, Any]] = []
    executor = Simulated()
    pool = Workers(1, False, lambda: executor)
    Runner(pool, lambda t: Task(t, b"", data="0" * 16), kept.append).run([trial])
    [record] = kept
    assert list(record) == list(make_record({}, 0, "failed", Curve(), error=record["error"]))
    assert record["id"] == trial.id and record["data"] == "0" * 16
    assert record["error"]["message"] == "the worker died while it ran the trial"
