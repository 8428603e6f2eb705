"""Workers on this machine or on a cluster of Ray or Dask, as `concurrent.futures.Executor`s.

Parsing and making candidate lists choose among `BACKENDS`; studies use all of them but threads.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import re
import secrets
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from tqdm import tqdm

from rnnparse.config import BACKENDS, check_address
from rnnparse.errors import ConfigError, MissingExtraError, WorkersError
from rnnparse.threads import Abandoned, apart, job_count, stop_flag

Item = TypeVar("Item")
Result = TypeVar("Result")

SINGLE_THREADED = tuple(
    f"{name}_THREADS"
    for name in (
        *("TF_NUM_INTRAOP", "TF_NUM_INTEROP", "OMP_NUM", "OPENBLAS_NUM", "MKL_NUM"),
        *("BLIS_NUM", "NUMBA_NUM", "NUMEXPR_NUM"),
    )
)
"""Environment variables that limit a worker to one thread: workers share the cores already."""

DEATHS = {"TerminatedWorkerError", "WorkerCrashedError", "NodeDiedError", "KilledWorker"}
"""Errors of tasks whose worker died, by name, as the packages may be absent."""

_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 300.0  # after which idle processes exit; a new one takes seconds to load TensorFlow
_ORPHAN_SECONDS = 0.5  # between two checks that the driver is alive
_STOP_SECONDS = 0.1  # between two checks that a result is still needed
_AHEAD = 2  # tasks per worker that are sent before their results are needed


@dataclass(frozen=True)
class Workers:
    """Workers that run tasks.

    Attributes:
        n_jobs: how many tasks run at once.
        local: whether the workers are child processes.
        executor: returns the executor; after a worker has died, one that works again.
        share: makes bytes available to all workers and returns what tasks are given instead, which
            `_fetch` turns into the bytes. They are sent to a worker at most once.
    """

    n_jobs: int
    local: bool
    executor: Callable[[], Executor]
    share: Callable[[bytes], Any] = bytes

    def remote(self, function: Callable[[Item], Result]) -> Callable[[Item], Result]:
        """A function that runs another on the workers, and waits for it.

        The function is sent to each worker once. Several threads may call the result at once.

        Args:
            function: can be pickled, as must its arguments and results.

        Raises:
            Exceptions of the function.
            Abandoned: the result is no longer needed; see `rnnparse.threads.stop_flag`.
            WorkersError: a worker has died.
        """
        executor, key = self.executor(), secrets.token_hex(8)
        source = self.share(pickle.dumps(function))

        def call(item: Item) -> Result:
            stop = stop_flag()
            future = submit(executor, _call, key, source, item)
            while not wait([future], timeout=_STOP_SECONDS).done:
                if stop[0]:
                    future.cancel()
                    raise Abandoned
            return _result(future)

        return call


@contextmanager
def open_remote(
    function: Callable[[Item], Result], n_jobs: int, backend: str, address: str | None
) -> Iterator[tuple[Callable[[Item], Result], int]]:
    """Provide a function that runs another on workers, and how many threads should call it.

    `rnnparse.threads.in_order` then gives the results in order. Where the block raises, tasks that
    run are abandoned.

    Args:
        function: as for `Workers.remote`; with threads, any function, which is called as it is.
        n_jobs: workers; 0 or -1 for one per core of this machine or of the cluster.
        backend: one of `BACKENDS`.
        address: of a cluster; None starts one on this machine.

    Raises:
        ConfigError: unknown backend, or an address for one that has none.
        As `open_workers`.
    """
    check_backend(backend, n_jobs, address)
    if backend == "threads":
        yield function, n_jobs
        return
    with open_workers(backend, n_jobs, address) as workers:
        yield workers.remote(function), max(2, _AHEAD * workers.n_jobs)


def check_backend(
    backend: str, n_jobs: int, address: str | None, names: Iterable[str] = BACKENDS
) -> None:
    """Raise ConfigError for an unknown backend, or options that do not fit it.

    Args:
        backend, n_jobs, address: as for `open_remote`.
        names: the known backends.
    """
    names = tuple(names)
    if backend not in names:
        raise ConfigError(f"backend must be one of {', '.join(names)}, not {backend!r}")
    if n_jobs < -1:
        raise ConfigError(f"n_jobs must be at least -1, not {n_jobs}")
    check_address(backend, address)


def open_workers(backend: str, n_jobs: int, address: str | None) -> AbstractContextManager[Workers]:
    """Provide the workers of a backend. Where the block raises, tasks that run are killed.

    Args:
        backend: `loky` for processes, `ray` or `dask`.
        n_jobs: tasks at once; 0 or -1 for one per core of this machine or of the cluster.
        address: of a cluster; None starts one on this machine.

    Raises:
        MissingExtraError: the package of the backend is not installed.
        WorkersError: the cluster does not answer.
    """
    return _OPENERS[backend](max(n_jobs, 0), address)


def submit(executor: Executor, function: Callable[..., Any], *args: Any) -> Future[Any]:
    """`Executor.submit`, during which Ctrl-C is delayed; errors are those of the future."""
    try:
        with _without_interrupts():
            return executor.submit(function, *args)
    except RuntimeError as error:  # an idle worker has died
        failed: Future[Any] = Future()
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


def _result(future: Future[Result]) -> Result:
    """The result of a task; WorkersError if its worker died."""
    error = future.exception()
    if error is None:
        return future.result()
    cause = getattr(error, "cause", None)  # Ray wraps errors of tasks
    if isinstance(cause, Exception):
        raise cause from None
    if {kind.__name__ for kind in type(error).__mro__} & DEATHS:
        raise WorkersError(
            "a worker died, as happens when memory runs out; try fewer with --jobs"
        ) from None
    raise error


# -- backends ----------------------------------------------------------------------------------


@contextmanager
def _loky(n_jobs: int, address: str | None) -> Iterator[Workers]:
    from loky import get_reusable_executor

    # loky replaces a worker whose memory has grown, which needs no message.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    n_jobs = job_count(n_jobs)
    resource_tracker.ensure_running()  # where that starts later, it admits Ctrl-C again
    _start_tracker_of_semaphores()

    def executor() -> Executor:
        # The initializer runs when a worker starts, as the driver may die before its first task.
        return get_reusable_executor(
            max_workers=n_jobs,
            timeout=_IDLE_SECONDS,
            initializer=prepare_process,
            initargs=(os.getpid(),),
            env=dict.fromkeys(SINGLE_THREADED, "1"),
        )

    with TemporaryDirectory(prefix="rnnparse-", ignore_cleanup_errors=True) as folder:

        def share(content: bytes) -> Path:
            path = Path(folder, secrets.token_hex(8))
            path.write_bytes(content)
            return path

        try:
            yield Workers(n_jobs, True, executor, share)
        except BaseException:
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
            raise


def _start_tracker_of_semaphores() -> None:
    """Start the process that removes loky's semaphores after this one has ended, without warnings.

    A process that a signal ends may leave some to it.
    """
    from loky.backend import resource_tracker as tracker_of_loky

    sys.warnoptions.append("ignore:resource_tracker:UserWarning")  # the tracker gets them all
    try:
        tracker_of_loky.ensure_running()
    finally:
        sys.warnoptions.pop()


class _RayExecutor(Executor):
    """Tasks of Ray as futures."""

    def __init__(self, ray: Any) -> None:
        self._remote = lru_cache(ray.remote(num_cpus=1, max_retries=0))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `concurrent.futures.Executor.submit`."""
        future: Future[Any] = self._remote(fn).remote(*args, **kwargs).future()
        return future


@contextmanager
def _ray(n_jobs: int, address: str | None) -> Iterator[Workers]:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray") from None
    with ExitStack() as stack:
        if not ray.is_initialized():
            options = {} if address else {"num_cpus": job_count(n_jobs)}
            with _connecting("Ray", address):
                ray.init(
                    address=address,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **options,
                )
            stack.callback(ray.shutdown)
        cores = max(1, int(ray.cluster_resources().get("CPU", 0)))
        executor = _RayExecutor(ray)
        # In a list the reference stays one; Ray would fetch the bytes for each task.
        yield Workers(
            min(n_jobs or cores, cores), False, lambda: executor, lambda content: [ray.put(content)]
        )


@contextmanager
def _dask(n_jobs: int, address: str | None) -> Iterator[Workers]:
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
        cores = max(1, sum(client.ncores().values()))
        yield Workers(
            n_jobs or cores,
            False,
            lambda: executor,
            lambda content: client.scatter(content, broadcast=True),
        )


@contextmanager
def _connecting(name: str, address: str | None) -> Iterator[None]:
    """Raise WorkersError within seconds if no cluster answers at an address."""
    try:
        port = re.search(r"([^/:]+):(\d+)$", address or "")
        if port:  # Ray alone would try for minutes
            socket.create_connection((port[1], int(port[2])), _CONNECT_SECONDS).close()
        yield
    except (OSError, RuntimeError, ValueError, OverflowError) as error:
        raise WorkersError(f"no {name} cluster answers at {address}: {error}") from None


_OPENERS: dict[str, Callable[[int, str | None], AbstractContextManager[Workers]]] = {
    "loky": _loky,
    "ray": _ray,
    "dask": _dask,
}


# -- in a worker -------------------------------------------------------------------------------

_LOADING = threading.Lock()
_loaded: tuple[str, Callable[[Any], Any]] | None = None


def _call(key: str, source: Any, item: Any) -> Any:
    """Call a shared function, which a worker loads once."""
    global _loaded
    with _LOADING:
        if _loaded is None or _loaded[0] != key:
            # The driver sent it. Whoever could send another could run any code here anyway.
            _loaded = key, pickle.loads(_fetch(source))
        function = _loaded[1]
    return apart(function)(item)  # a single thread for all compiled code


def _fetch(source: Any) -> bytes:
    """The bytes behind what `Workers.share` returned. Dask has fetched them already."""
    if isinstance(source, Path):
        return source.read_bytes()
    if isinstance(source, list):
        import ray

        content: bytes = ray.get(source[0])
        return content
    return bytes(source)


@lru_cache(maxsize=1)
def prepare_process(driver: int | None) -> None:
    """Limit this process to one thread; if it has a driver, leave Ctrl-C to that and end with it.

    Args:
        driver: id of the parent process, or None on a cluster.
    """
    for name in SINGLE_THREADED:
        os.environ.setdefault(name, "1")
    if driver is not None:
        # tqdm would make a lock that several processes share. The resource tracker reports it as
        # leaked when this process is killed.
        tqdm.set_lock(threading.RLock())
        with contextlib.suppress(ValueError):  # not on the main thread
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_exit_after, args=(driver,), daemon=True).start()


def _exit_after(driver: int) -> None:
    """Exit when the driver has died, even if it was killed and could not stop its workers."""
    while os.getppid() == driver:
        time.sleep(_ORPHAN_SECONDS)
    os._exit(1)
