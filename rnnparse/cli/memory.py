"""Report a lack of memory in one line, with status 2.

Python raises various exceptions; compiled libraries may instead print messages and abort, or fail
to start. Therefore, if memory is limited (`ulimit -v`), a command runs in a child process, and the
parent reports how it ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator

from rnnparse.cli.interruption import handling

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MEGABYTE = 1 << 20
LEAST = 400 * MEGABYTE
"""Address space in which NumPy, SciPy and numba load. OpenBLAS, a part of SciPy, hangs
if it does not get its first 32 MB, and cannot be interrupted."""

_SIGNS = re.compile(
    "can't start new thread|no thread can be started|cannot allocate memory|unable to allocate"
    "|failed to map segment|could not find/load shared object|bad_alloc|out of memory",
    re.IGNORECASE,
)
_KINDS = {"MemoryError", "ResourceExhaustedError"}  # the latter is TensorFlow's
_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_BY_SIGNAL = {*_SIGNALS, *(128 + number for number in _SIGNALS)}


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a lack of memory caused an error, or the error it was raised from."""
    while error is not None:
        if _KINDS & {kind.__name__ for kind in type(error).__mro__}:
            return True
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return True
        if isinstance(error, (RuntimeError, ImportError, OSError)) and _SIGNS.search(str(error)):
            return True
        # Compiled code that could not allocate and set no exception; elsewhere it is a bug.
        if isinstance(error, SystemError) and limit() is not None:
            return True
        error = error.__cause__ or error.__context__
    return False


def limit() -> int | None:
    """The limit of this process's address space in bytes, or None."""
    if resource is None:
        return None
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    limits = [resource.getrlimit(kind)[0] for kind in kinds]
    return min((some for some in limits if some != resource.RLIM_INFINITY), default=None)


def run_watched(run: Callable[[], int], debug: bool) -> int:
    """Run a command in a child process, and report in one line if it lacked memory.

    Messages of compiled code on standard error are shown only with `debug`; those of Python always.

    Args:
        run: the command; returns its exit status.
        debug: whether to show the messages of compiled code.

    Returns:
        The exit status.
    """
    bytes_allowed = limit() or 0
    if bytes_allowed < LEAST:
        return _complain(bytes_allowed, f"the program needs {LEAST // MEGABYTE} MB to start")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as a buffer a thread is much
    with tempfile.TemporaryFile() as noise, tempfile.TemporaryFile() as mark:
        child = os.fork()
        if child == 0:
            if not debug:  # the error itself is enough
                sys.unraisablehook = lambda about: None
                threading.excepthook = lambda about: None
            _run_child(run, noise.fileno(), mark.fileno())
        with _passing_on(child):
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        noise.seek(0)
        if debug:
            sys.stderr.write(noise.read().decode("utf-8", "replace"))
        ended = os.fstat(mark.fileno()).st_size > 0
    if not ended and status not in _BY_SIGNAL and -status not in _BY_SIGNAL:
        return _complain(bytes_allowed, "compiled code ended the process")
    return status if status >= 0 else 128 - status


def _complain(bytes_allowed: int, reason: str) -> int:
    megabytes = bytes_allowed // MEGABYTE
    print(
        f"rnnparse: error: out of memory: {reason}, and it may have {megabytes} MB (ulimit -v)",
        file=sys.stderr,
    )
    return 2


def _run_child(run: Callable[[], int], noise: int, mark: int) -> None:
    """Run the command and end the process.

    Args:
        run: as for `run_watched`.
        noise: target of file descriptor 2.
        mark: gets a byte when the command itself has ended, as opposed to compiled code.
    """
    status = 1
    try:
        with contextlib.suppress(OSError, AttributeError):  # Linux: end when the parent is killed
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        shown = os.dup(2)
        os.dup2(noise, 2)
        sys.stderr = os.fdopen(shown, "w", buffering=1, errors="backslashreplace")
        status = run()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os.write(mark, b"ended")
        os._exit(status)


@contextlib.contextmanager
def _passing_on(child: int) -> Iterator[None]:
    """Leave signals to a child process, except ignored ones."""

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    with handling(pass_on):
        yield
