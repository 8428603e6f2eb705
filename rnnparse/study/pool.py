"""Run trials on workers: processes on this machine, or a cluster of Ray or Dask.

Each backend is a `concurrent.futures.Executor`. When a process dies, an executor may fail all
trials that run at that time, so `Runner` runs these again, one at a time, to find the culprit.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

from rnnparse.errors import ConfigError, MissingExtraError, StudyError
from rnnparse.study.curve import Curve
from rnnparse.study.records import make_record
from rnnparse.study.search_space import Trial
from rnnparse.study.worker import (
    SINGLE_THREADED,
    Task,
    describe,
    prepare_process,
    run_task,
    versions,
)
from rnnparse.threads import job_count

# By name, as the packages may be absent.
_DEATHS = {"TerminatedWorkerError", "WorkerCrashedError", "NodeDiedError", "KilledWorker"}
_OUT_OF_MEMORY = "OutOfMemoryError"  # Ray's
_ATTEMPTS = 3
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 300.0  # after which idle processes exit; a new one takes seconds to load TensorFlow


@dataclass(frozen=True)
class Pool:
    """Workers for trials.

    Attributes:
        n_jobs: how many trials run at once.
        local: whether the workers are child processes, whose trials have heartbeat files.
        executor: returns the executor; after a worker has died, one that works again.
    """

    n_jobs: int
    local: bool
    executor: Callable[[], Executor]


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
        pool: Pool,
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
                running[_submit(executor, self.make_task(trial))] = trial
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


def _submit(executor: Executor, task: Task) -> Future[dict[str, Any]]:
    try:
        with _without_interrupts():
            return executor.submit(run_task, task)
    except RuntimeError as error:  # an idle worker has died
        failed: Future[dict[str, Any]] = Future()
        failed.set_exception(error)
        return failed


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C. Processes that start meanwhile never see it, not even while they load."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def check_backend(backend: str, n_jobs: int, address: str | None) -> None:
    """Raise ConfigError for an unknown backend, or options that do not fit it."""
    if backend not in _BACKENDS:
        raise ConfigError(f"backend must be one of {', '.join(_BACKENDS)}, not {backend!r}")
    if n_jobs < -1:
        raise ConfigError(f"n_jobs must be at least -1, not {n_jobs}")
    if backend == "processes" and address is not None:
        raise ConfigError("an address is for --backend ray or dask; processes run on this machine")


def open_pool(backend: str, n_jobs: int, address: str | None) -> AbstractContextManager[Pool]:
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
    check_backend(backend, n_jobs, address)
    return _BACKENDS[backend](max(n_jobs, 0), address)


@contextmanager
def _processes(n_jobs: int, address: str | None) -> Iterator[Pool]:
    from loky import get_reusable_executor

    # loky replaces a worker whose memory has grown, which needs no message.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    n_jobs = job_count(n_jobs)
    resource_tracker.ensure_running()  # where that starts later, it admits Ctrl-C again

    def executor() -> Executor:
        # The initializer runs when a worker starts, as the driver may die before its first trial.
        return get_reusable_executor(
            max_workers=n_jobs,
            timeout=_IDLE_SECONDS,
            initializer=prepare_process,
            initargs=(os.getpid(),),
            env=dict.fromkeys(SINGLE_THREADED, "1"),
        )

    try:
        yield Pool(n_jobs, True, executor)
    except BaseException:
        get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
        raise


class _RayExecutor(Executor):
    """Tasks of Ray as futures."""

    def __init__(self, ray: Any) -> None:
        self._remote = lru_cache(ray.remote(num_cpus=1, max_retries=0))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `concurrent.futures.Executor.submit`."""
        future: Future[Any] = self._remote(fn).remote(*args, **kwargs).future()
        return future


@contextmanager
def _ray(n_jobs: int, address: str | None) -> Iterator[Pool]:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray") from None
    with ExitStack() as stack:
        if not ray.is_initialized():
            options = {} if address else {"num_cpus": job_count(n_jobs)}
            with _connecting("Ray", address):
                ray.init(address=address, include_dashboard=False, log_to_driver=False, **options)
            stack.callback(ray.shutdown)
        cores = max(1, int(ray.cluster_resources().get("CPU", 0)))
        executor = _RayExecutor(ray)
        yield Pool(min(n_jobs or cores, cores), False, lambda: executor)


@contextmanager
def _dask(n_jobs: int, address: str | None) -> Iterator[Pool]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtraError("distributed", "dask") from None
    with ExitStack() as stack:
        source: Any = address
        if address is None:
            cluster = LocalCluster(
                n_workers=job_count(n_jobs), threads_per_worker=1, dashboard_address=None
            )
            source = stack.enter_context(cluster)
        with _connecting("Dask", address):
            client = stack.enter_context(Client(source))
        executor = client.get_executor()
        stack.callback(executor.shutdown, wait=False)
        yield Pool(n_jobs or max(1, sum(client.ncores().values())), False, lambda: executor)


@contextmanager
def _connecting(name: str, address: str | None) -> Iterator[None]:
    """Raise StudyError within seconds if no cluster answers at an address."""
    try:
        port = re.search(r"([^/:]+):(\d+)$", address or "")
        if port:  # Ray alone would try for minutes
            socket.create_connection((port[1], int(port[2])), _CONNECT_SECONDS).close()
        yield
    except (OSError, RuntimeError, ValueError, OverflowError) as error:
        raise StudyError(f"no {name} cluster answers at {address}: {error}") from None


_BACKENDS: dict[str, Callable[[int, str | None], AbstractContextManager[Pool]]] = {
    "processes": _processes,
    "ray": _ray,
    "dask": _dask,
}


def _death(error: BaseException) -> Death | None:
    """How a worker died, from the error of a future; None for errors of another kind."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if _OUT_OF_MEMORY in names:
        return Death("out of memory", describe(error))
    if not names & _DEATHS:
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
