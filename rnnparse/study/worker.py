"""Run one trial in a worker process. Every trial gets a record, however it ends."""

from __future__ import annotations

import contextlib
import pickle
import platform
import socket
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any, NamedTuple

from rnnparse.errors import StudyError
from rnnparse.executors import prepare_process
from rnnparse.json_text import to_json
from rnnparse.study.curve import Curve, count_updates, latest_values
from rnnparse.study.records import make_record
from rnnparse.study.search_space import Trial
from rnnparse.version import __version__

_HEARTBEAT_SECONDS = 0.5  # between two heartbeats of a trial
_LONGEST_MESSAGE = 500
_OUT_OF_MEMORY = {"MemoryError", "ResourceExhaustedError"}  # the latter is TensorFlow's


class Task(NamedTuple):
    """What a worker needs to run a trial.

    Attributes:
        trial: the trial.
        function: the pickled trial function. The worker unpickles it, which may import TensorFlow,
            only after it has set its number of threads.
        data: hash of the data.
        heartbeat: path of the heartbeat file, or None.
        driver: id of the parent process; the worker exits when it dies. None on clusters.
    """

    trial: Trial
    function: bytes
    data: str | None = None
    heartbeat: str | None = None
    driver: int | None = None


def run_task(task: Task) -> dict[str, Any]:
    """Run a trial and return its record.

    Raises:
        StudyError: the worker cannot load the trial function.
    """
    prepare_process(task.driver)
    function = _load(task.function)
    curve, error, status = Curve(), None, "finished"
    heartbeat = _Heartbeat(task.heartbeat)
    began = time.perf_counter()
    try:
        curve = _collect(function(deepcopy(task.trial.config), task.trial.seed), curve, heartbeat)
        if curve.diverged():
            status = "diverged"
    except (Exception, SystemExit) as caught:
        names = {kind.__name__ for kind in type(caught).__mro__}
        status = "out of memory" if names & _OUT_OF_MEMORY else "failed"
        error = describe(caught)
    finally:
        heartbeat.stop()
    return make_record(
        task.trial.config,
        task.trial.seed,
        status,
        curve,
        error=error,
        data=task.data,
        versions=versions(),
        seconds=time.perf_counter() - began,
        host=socket.gethostname(),
    )


def describe(error: BaseException) -> dict[str, str]:
    """Type and message of an error, as records store them; the message is on one line."""
    message = " ".join(str(error).split())
    message = message.encode("utf-8", "replace").decode("utf-8")  # it may have lone surrogates
    return {"type": type(error).__name__, "message": message[:_LONGEST_MESSAGE]}


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on, if they are installed."""
    known = {"rnnparse": __version__}
    for package in ("tensorflow", "keras", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            known[package] = package_version(package)
    return {**known, "python": platform.python_version()}


def _collect(result: Any, curve: Curve, heartbeat: _Heartbeat) -> Curve:
    """The curve that a trial function returns, or `curve` with all entries that it yields."""
    if isinstance(result, Curve):
        return Curve(result.updates, result.epochs, result.convex)
    history = getattr(result, "history", None)
    if isinstance(history, Mapping):
        return Curve.from_history(history)
    if not isinstance(result, Iterable) or isinstance(result, (str, Mapping)):
        raise TypeError(
            f"the trial function returned {result!r}; expected a Curve, a Keras History, or an "
            "iterable of entries for Curve.add"
        )
    began = time.perf_counter()
    for entry in result:
        epochs = len(curve.epochs)
        curve.add(entry)
        if len(curve.epochs) > epochs:
            now = time.perf_counter()
            curve.epochs[-1].setdefault("seconds", round(now - began, 3))
            began = now
        heartbeat.beat(curve)
        if curve.diverged(last=1):
            break
    if hasattr(result, "close"):
        result.close()
    return curve


class _Heartbeat:
    """A file with the latest numbers of a trial; it exists while the trial runs."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._due = 0.0
        self.beat(Curve())

    def beat(self, curve: Curve) -> None:
        """Write the latest numbers, unless that was done less than half a second ago."""
        now = time.monotonic()
        if self._path is None or now < self._due:
            return
        self._due = now + _HEARTBEAT_SECONDS
        updates, latest = count_updates(curve.updates), latest_values(curve.updates, curve.epochs)
        with contextlib.suppress(OSError):
            self._path.write_text(to_json({**latest, "updates": updates}), encoding="utf-8")

    def stop(self) -> None:
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()


@lru_cache(maxsize=1)
def _load(function: bytes) -> Any:
    if b"tensorflow" in function or b"keras" in function:
        with contextlib.suppress(ImportError):
            import rnnparse._tensorflow  # noqa: F401  first, as it imports TensorFlow quietly
    try:
        return pickle.loads(function)  # which the driver's `Study` pickled
    except Exception as error:
        raise StudyError(
            f"workers cannot load the trial function: {type(error).__name__}: {error}"
        ) from None
