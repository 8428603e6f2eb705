"""Run work on threads with results in order, and keep the main thread free for signals.

Python handles signals such as Ctrl-C only on the main thread, between two Python instructions.
Compiled code delays them, and a signal that arrives while compiled code returns a result may crash
the process. Therefore compiled code never runs on the main thread: `in_order` always uses other
threads, and `apart` moves a function to one. Signals interrupt the waiting main thread. Long
kernels check `stop_flag` and stop soon after it is set.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

AHEAD = 2  # items per thread that are taken before the oldest result is awaited
PATIENCE = 1.0  # seconds for abandoned work to end

_LOCAL = threading.local()
_NEVER = np.zeros(1, np.uint8)


class Abandoned(Exception):
    """Work was abandoned because its result is no longer needed."""


def stop_flag() -> np.ndarray:
    """uint8 [1] for kernels of this thread: nonzero when the result is no longer needed."""
    flag: np.ndarray = getattr(_LOCAL, "stop", _NEVER)
    return flag


def job_count(n_jobs: int) -> int:
    """`n_jobs`; for 0 or -1, the number of processor cores that this process may use."""
    if n_jobs > 0:
        return n_jobs
    from loky import cpu_count  # loky takes 60 ms to load

    count: int = cpu_count()
    return count


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int
) -> Iterator[Result]:
    """Yield the function's results in the order of the items, each as soon as it is ready.

    When the caller stops iterating, unfinished work is abandoned.

    Args:
        function: called on other threads.
        items: taken as threads become free.
        n_jobs: threads; 0 or -1 for one per processor core that this process may use.

    Raises:
        Exceptions of the function and of `items`, after the results before them.
        MemoryError: no thread can be started.
    """
    threads = job_count(n_jobs)
    ahead = 1 if threads == 1 else AHEAD * threads
    team, finished = _Team(threads), False
    pending: deque[Future[Result]] = deque()
    failure: list[Exception] = []
    try:
        for item in _until_failure(items, failure):
            pending.append(team.submit(function, item))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        if failure:
            raise failure[0]
        finished = True
    finally:
        team.dismiss(0.0 if finished else PATIENCE)


def _until_failure(items: Iterable[Item], failure: list[Exception]) -> Iterator[Item]:
    """The items; an exception of theirs is added to a list and ends them."""
    try:
        yield from items
    except Exception as error:
        failure.append(error)


def apart(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function that calls compiled code run on a thread other than the main one."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        return next(in_order(lambda _: function(*args, **kwargs), (None,), 1))

    return call


class _Team:
    """Threads that take tasks from one queue; never more than there were tasks."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._workers: list[threading.Thread] = []
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._stop = np.zeros(1, np.uint8)

    def submit(self, function: Callable[[Item], Result], item: Item) -> Future[Result]:
        future: Future[Result] = Future()

        def task() -> None:
            try:
                future.set_result(function(item))
            except BaseException as error:
                future.set_exception(error)

        if len(self._workers) < self._most:
            self._hire()
        self._tasks.put(task)
        return future

    def _hire(self) -> None:
        worker = threading.Thread(target=self._work, name="rnnparse", daemon=True)
        try:
            worker.start()
        except RuntimeError:  # the system has no thread or no memory left
            if not self._workers:
                raise MemoryError("no thread can be started") from None
            self._most = len(self._workers)
        else:
            self._workers.append(worker)

    def _work(self) -> None:
        _LOCAL.stop = self._stop
        while (task := self._tasks.get()) is not None:
            if not self._stop[0]:
                task()

    def dismiss(self, patience: float) -> None:
        """Tell the threads to end, and wait for them at most the given seconds."""
        self._stop[0] = 1
        for _ in self._workers:
            self._tasks.put(None)
        deadline = time.monotonic() + patience
        for worker in self._workers:
            worker.join(max(0.0, deadline - time.monotonic()))
