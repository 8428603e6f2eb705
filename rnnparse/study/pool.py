"""Run trials on workers: processes on this machine, or a cluster of Ray or Dask.

Each backend is a `concurrent.futures.Executor`, see `rnnparse.executors`. When a process dies, an
executor may fail all trials that run at that time, so `Runner` runs these again, one at a time, to
find the culprit.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rnnparse.errors import StudyError, WorkersError
from rnnparse.executors import DEATHS, Workers, check_backend, open_workers, submit
from rnnparse.study.curve import Curve
from rnnparse.study.records import make_record
from rnnparse.study.search_space import Trial
from rnnparse.study.worker import Task, describe, run_task, versions

BACKENDS = {"processes": "loky", "ray": "ray", "dask": "dask"}
"""The workers of a study's backend; see `rnnparse.executors`."""

_OUT_OF_MEMORY = "OutOfMemoryError"  # Ray's
_ATTEMPTS = 3


class Death(NamedTuple):
    """How a worker process died.

    Attributes:
        status: of the trial that caused it.
        error: of the record of that trial.
    """

    status: str
    error: dict[str, str]


class Runner:
    """Runs trials until each has a record.

    Args:
        pool: the workers.
        make_task: makes the task of a trial.
        keep: called with each record as soon as its trial has ended.
    """

    def __init__(
        self,
        pool: Workers,
        make_task: Callable[[Trial], Task],
        keep: Callable[[dict[str, Any]], Any],
    ) -> None:
        self.pool, self.make_task, self.keep = pool, make_task, keep

    def run(self, trials: Sequence[Trial]) -> None:
        """Run trials. They start in their order.

        Raises:
            StudyError: workers die before they begin a trial.
        """
        waiting = deque(trials)
        while waiting:
            lost, death = self._attempt(waiting, self.pool.n_jobs)
            begun = self._begun(lost)
            suspects = begun or lost
            waiting.extendleft(trial for trial in reversed(lost) if trial not in suspects)
            if death and len(begun) == 1 and self.pool.local:
                self._blame(begun[0], death)
            else:
                for trial in suspects:
                    self._run_alone(trial)

    def _run_alone(self, trial: Trial) -> None:
        message = ""
        for _ in range(_ATTEMPTS):
            lost, death = self._attempt(deque([trial]), 1)
            if death is None:
                return
            if self._begun(lost):
                self._blame(trial, death)
                return
            message = death.error["message"]
        raise StudyError(f"workers die before they begin a trial: {message}")

    def _attempt(self, waiting: deque[Trial], n_jobs: int) -> tuple[list[Trial], Death | None]:
        """Run waiting trials until none is left or a worker dies.

        Returns:
            The trials that started and have no record, and how the worker died.
        """
        executor, death = self.pool.executor(), None
        running: dict[Future[dict[str, Any]], Trial] = {}
        lost: list[Trial] = []
        while running or (waiting and death is None):
            while waiting and death is None and len(running) < n_jobs:
                trial = waiting.popleft()
                running[submit(executor, run_task, self.make_task(trial))] = trial
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                trial = running.pop(future)
                error = future.exception()
                if error is None:
                    self.keep(future.result())
                    continue
                death = _death(error)
                if death is None:
                    raise error
                lost.append(trial)
        return lost, death

    def _begun(self, lost: Sequence[Trial]) -> list[Trial]:
        """Those of the trials that a worker has begun, by their heartbeat files, which are removed.

        On clusters, where trials have no such file, any of them may have begun.
        """
        begun = []
        for trial in lost:
            path = self.make_task(trial).heartbeat
            if path is None or Path(path).exists():
                begun.append(trial)
            if path is not None:
                Path(path).unlink(missing_ok=True)
        return begun

    def _blame(self, trial: Trial, death: Death) -> None:
        self.keep(
            make_record(
                trial.config,
                trial.seed,
                death.status,
                Curve(),
                error=death.error,
                data=self.make_task(trial).data,
                versions=versions(),
            )
        )


@contextmanager
def open_pool(backend: str, n_jobs: int, address: str | None) -> Iterator[Workers]:
    """Provide the workers of a backend. Where the block raises, trials that run are killed.

    Args:
        backend: `processes`, `ray` or `dask`.
        n_jobs: trials at once; 0 or -1 for one per core of this machine or of the cluster.
        address: of a cluster; None starts one on this machine.

    Raises:
        ConfigError: unknown backend, or an address for processes.
        MissingExtraError: the package of the backend is not installed.
        StudyError: the cluster does not answer.
    """
    check_backend(backend, n_jobs, address, BACKENDS)
    with ExitStack() as stack:
        try:
            pool = stack.enter_context(open_workers(BACKENDS[backend], n_jobs, address))
        except WorkersError as error:
            raise StudyError(str(error)) from None
        yield pool


def _death(error: BaseException) -> Death | None:
    """How a worker died, from the error of a future; None for errors of another kind."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if _OUT_OF_MEMORY in names:
        return Death("out of memory", describe(error))
    if not names & DEATHS:
        return None
    # Only loky reports exit codes, such as {SIGKILL(-9)}.
    code = re.search(r"exit codes of the workers are \{((\w+)\(-?\d+\))", str(error))
    if code is None:
        message = "the worker died while it ran the trial"
        return Death("failed", {"type": type(error).__name__, "message": message})
    if code[2] == "SIGKILL":
        message = "the process of the trial was killed, as systems do when memory runs out"
        return Death("out of memory", {"type": "SIGKILL", "message": message})
    message = f"the process of the trial ended with {code[1]}"
    return Death("failed", {"type": code[2], "message": message})
