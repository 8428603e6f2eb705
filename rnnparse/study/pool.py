"""Where trials run: processes on this machine, or a cluster of Ray or Dask, all by joblib."""

from __future__ import annotations

import os
import re
import socket
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from joblib import Parallel, cpu_count, delayed, parallel_config, register_parallel_backend

from rnnparse.errors import ConfigError, MissingExtraError, StudyError
from rnnparse.study.worker import Task, describe, prepare_process, run_task

BACKENDS = ("processes", "ray", "dask")

# By name, as their packages may be absent.
_DEATHS = {"TerminatedWorkerError", "RayActorError", "WorkerCrashedError", "KilledWorker"}
_OUT_OF_MEMORY = "OutOfMemoryError"  # Ray's
_ANSWER_SECONDS = 10.0


class WorkerDied(Exception):
    """The process of a worker ended while it ran a trial.

    Attributes:
        status: of a trial that is to blame.
        error: of its record.
    """

    def __init__(self, status: str, error: dict[str, str]) -> None:
        super().__init__(error["message"])
        self.status, self.error = status, error


class Pool:
    """Workers for trials.

    Attributes:
        jobs: how many trials run at once.
        local: whether the workers are processes that this one started.
    """

    def __init__(self, backend: str, jobs: int, **options: Any) -> None:
        self.jobs, self.local = jobs, backend == "loky"
        self._backend, self._options = backend, options

    def run(
        self, tasks: Iterable[Task], *, alone: bool = False
    ) -> Generator[dict[str, Any], None, None]:
        """Records of the tasks, each as soon as its trial has ended.

        Args:
            tasks: taken some time before they can start.
            alone: one trial at a time.

        Raises:
            WorkerDied: of the tasks taken, those without a record have none, and may be to blame.
        """
        with parallel_config(backend=self._backend, **self._options):
            # With one job joblib would run trials in this process, which is to outlive them.
            run = Parallel(
                n_jobs=max(self.jobs, 2),
                pre_dispatch=1 if alone else self.jobs,
                batch_size=1,
                return_as="generator_unordered",
            )
        results = run(delayed(run_task)(task) for task in tasks)
        try:
            for record in results:  # noqa: UP028  (which would close them before `finally` does)
                yield record
        except Exception as error:
            died = _death(error)
            if died is None:
                raise
            raise died from error
        finally:
            with warnings.catch_warnings():
                # Of results that nobody has read: the reader has been interrupted.
                warnings.simplefilter("ignore", UserWarning)
                results.close()


@contextmanager
def open_pool(backend: str, jobs: int, address: str | None) -> Iterator[Pool]:
    """Workers of a backend, for as long as the context lasts.

    Args:
        backend: one of `BACKENDS`.
        jobs: trials at once; 0 for one a core, of this machine or of the cluster.
        address: of a cluster; None starts one on this machine.

    Raises:
        ConfigError: no such backend, or an address for processes.
        MissingExtraError: the package of the backend is absent.
        StudyError: the cluster does not answer, or is one of Ray's with a single core.
    """
    check_backend(backend, jobs, address)
    with ExitStack() as stack:
        if backend == "ray":
            yield stack.enter_context(_ray(jobs, address))
        elif backend == "dask":
            yield stack.enter_context(_dask(jobs, address))
        else:
            # Workers whose trials leave much memory behind are replaced by new ones in silence.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            # At their start, not with their first trial: the driver may be killed before that.
            yield Pool(
                "loky",
                jobs or cpu_count(),
                inner_max_num_threads=1,
                initializer=prepare_process,
                initargs=(os.getpid(),),
            )


def check_backend(backend: str, jobs: int, address: str | None) -> None:
    """Raise ConfigError where there is no such backend, or the others do not fit it."""
    if backend not in BACKENDS:
        raise ConfigError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if jobs < 0:
        raise ConfigError("jobs must not be negative")
    if backend == "processes" and address is not None:
        raise ConfigError("an address is for --backend ray or dask; processes run on this machine")


@contextmanager
def _ray(jobs: int, address: str | None) -> Iterator[Pool]:
    try:
        import ray
        from ray.util.joblib.ray_backend import RayBackend
    except ImportError:
        raise MissingExtraError("ray", "ray") from None

    class Unordered(RayBackend):
        """Ray's backend says of itself what is true of multiprocessing's, but not of Ray's."""

        supports_return_generator = True

    register_parallel_backend("rnnparse-ray", Unordered)
    with ExitStack() as stack:
        if not ray.is_initialized():
            options = {} if address else {"num_cpus": max(jobs or cpu_count(), 2)}
            with _answer("Ray", address):
                ray.init(address=address, include_dashboard=False, log_to_driver=False, **options)
            stack.callback(ray.shutdown)
        cores = int(ray.cluster_resources().get("CPU", 0))
        if cores < 2:
            raise StudyError("the Ray cluster has a single core; two or more are needed")
        yield Pool("rnnparse-ray", min(jobs or cores, cores))


@contextmanager
def _dask(jobs: int, address: str | None) -> Iterator[Pool]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtraError("distributed", "dask") from None
    from joblib._dask import DaskDistributedBackend

    class Telling(DaskDistributedBackend):
        """Joblib's backend waits for ever for a trial whose worker has died; this one does not."""

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)
            future.add_done_callback(
                lambda done: callback(done.exception()) if done.exception() else None
            )
            return future

        def effective_n_jobs(self, n_jobs: int) -> int:
            # With one worker, and be it while others are started anew, joblib would run trials in
            # this process, which is to outlive them.
            return max(2, super().effective_n_jobs(n_jobs))

    register_parallel_backend("rnnparse-dask", Telling)
    with ExitStack() as stack:
        source: Any = address
        if address is None:
            workers = max(jobs or cpu_count(), 2)
            source = stack.enter_context(
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            )
        with _answer("Dask", address):
            client = stack.enter_context(Client(source))
        yield Pool("rnnparse-dask", jobs or max(1, sum(client.ncores().values())))


@contextmanager
def _answer(name: str, address: str | None) -> Iterator[None]:
    """Turn what says that a cluster does not answer into a StudyError, and soon."""
    try:
        found = re.search(r"([^/:]+):(\d+)$", address or "")
        if found:  # Ray alone would try for minutes
            socket.create_connection((found[1], int(found[2])), _ANSWER_SECONDS).close()
        yield
    except (OSError, RuntimeError, ValueError, OverflowError) as error:
        raise StudyError(f"no {name} cluster answers at {address}: {error}") from None


def _death(error: Exception) -> WorkerDied | None:
    """What an error says of the end of a worker; None if it is about something else."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if _OUT_OF_MEMORY in names:
        return WorkerDied("out of memory", describe(error))
    if not names & _DEATHS:
        return None
    # Only loky tells how its workers ended, as in {SIGKILL(-9)}.
    ends = re.search(r"exit codes of the workers are \{((\w+)\(-?\d+\))", str(error))
    if ends is None:
        message = "the worker died while it ran the trial"
        return WorkerDied("failed", {"type": type(error).__name__, "message": message})
    if ends[2] == "SIGKILL":
        message = "the process of the trial was killed, as systems do when memory runs out"
        return WorkerDied("out of memory", {"type": "SIGKILL", "message": message})
    return WorkerDied(
        "failed", {"type": ends[2], "message": f"the process of the trial ended by {ends[1]}"}
    )
