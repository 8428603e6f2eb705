"""One trial, in the process of a worker: whatever becomes of it, there is a record."""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import signal
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from rnnparse.errors import StudyError
from rnnparse.json_text import to_json
from rnnparse.study.curve import Curve
from rnnparse.study.records import make_record
from rnnparse.study.search_space import Trial
from rnnparse.version import __version__

_SIGN_SECONDS = 0.5  # how often a trial tells how far it is
_ORPHAN_SECONDS = 0.5  # how often a worker looks whether its driver is still there
_LONGEST_MESSAGE = 500
_SINGLE_THREADED = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


class Task(NamedTuple):
    """What a worker is sent.

    Attributes:
        trial: what to run.
        function: the trial function, pickled by itself: it is loaded, and TensorFlow with it, when
            the process has been prepared.
        data: hash of the data.
        sign: file for signs of life, or None.
        driver: the process whose end is the end of this one; None where others see to that.
    """

    trial: Trial
    function: bytes
    data: str | None = None
    sign: str | None = None
    driver: int | None = None


def run_task(task: Task) -> dict[str, Any]:
    """Run a trial and return its record.

    Raises:
        StudyError: the trial function cannot be loaded here.
    """
    prepare_process(task.driver)
    function = _load(task.function)
    curve, error, status = Curve(), None, "finished"
    sign = _Sign(task.sign)
    began = time.perf_counter()
    try:
        curve = _collect(function(deepcopy(task.trial.config), task.trial.seed), curve, sign)
        if curve.diverged():
            status = "diverged"
    except (Exception, SystemExit) as caught:
        status = "out of memory" if _is_out_of_memory(caught) else "failed"
        error = describe(caught)
    finally:
        sign.remove()
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
    """An error as records have it; its message on one line."""
    message = " ".join(str(error).split())
    # What a program may raise, UTF-8 may not be able to say.
    message = message.encode("utf-8", "replace").decode("utf-8")
    return {"type": type(error).__name__, "message": message[:_LONGEST_MESSAGE]}


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of what the numbers of a trial depend on; absent packages are left out."""
    found = {"rnnparse": __version__}
    for package in ("tensorflow", "keras", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return {**found, "python": platform.python_version()}


def _collect(result: Any, curve: Curve, sign: _Sign) -> Curve:
    """The curve that a trial function returns, or yields entry by entry, which are added."""
    if isinstance(result, Curve):
        return Curve(result.updates, result.epochs, result.convex)
    history = getattr(result, "history", None)
    if isinstance(history, Mapping):
        return Curve.from_history(history)
    if not isinstance(result, Iterable) or isinstance(result, (str, Mapping)):
        raise TypeError(
            f"the trial function gave {result!r}; expected a Curve, what Keras's fit returns, or "
            "entries for Curve.add, one after another"
        )
    began = time.perf_counter()
    for entry in result:
        epochs = len(curve.epochs)
        curve.add(entry)
        if len(curve.epochs) > epochs:
            now = time.perf_counter()
            curve.epochs[-1].setdefault("seconds", round(now - began, 3))
            began = now
        sign.give(curve)
        if curve.diverged(last=1):
            break
    if hasattr(result, "close"):
        result.close()
    return curve


class _Sign:
    """A file that is there as long as a trial runs, with its latest numbers."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        self._due = 0.0
        self.give(Curve())

    def give(self, curve: Curve) -> None:
        """Write how far the trial is, but not too often."""
        now = time.monotonic()
        if self.path is None or now < self._due:
            return
        self._due = now + _SIGN_SECONDS
        numbers = {name: series[-1] for name, series in curve.updates.items()}
        for name, value in (curve.epochs[-1] if curve.epochs else {}).items():
            if isinstance(value, (int, float)):
                numbers[name] = value
        updates = max(map(len, curve.updates.values()), default=0)
        with contextlib.suppress(OSError):
            self.path.write_text(to_json({**numbers, "updates": updates}), encoding="utf-8")

    def remove(self) -> None:
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()


@lru_cache(maxsize=1)
def _load(function: bytes) -> Any:
    if b"tensorflow" in function or b"keras" in function:
        with contextlib.suppress(ImportError):
            import rnnparse._tensorflow  # noqa: F401  first, as it imports TensorFlow quietly
    try:
        return pickle.loads(function)
    except Exception as error:
        raise StudyError(
            f"workers cannot load the trial function: {type(error).__name__}: {error}"
        ) from None


@lru_cache(maxsize=1)
def prepare_process(driver: int | None) -> None:
    """Let TensorFlow have one thread, and in processes of our own leave Ctrl-C to the driver."""
    for name in _SINGLE_THREADED:
        os.environ.setdefault(name, "1")
    if driver is not None:
        # The lock that tqdm would make is for several processes. Who keeps track of those says,
        # when this process is ended, that it has leaked.
        tqdm.set_lock(threading.RLock())
        with contextlib.suppress(ValueError):  # not on the main thread
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with, args=(driver,), daemon=True).start()


def _end_with(driver: int) -> None:
    """End this process soon after the driver, which may be killed without a chance to say so."""
    while os.getppid() == driver:
        time.sleep(_ORPHAN_SECONDS)
    os._exit(1)


def _is_out_of_memory(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"MemoryError", "ResourceExhaustedError"})  # the latter is TensorFlow's
