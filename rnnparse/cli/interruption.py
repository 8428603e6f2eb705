"""Handle Ctrl-C and SIGTERM: print one line and end within two seconds.

The first signal raises KeyboardInterrupt on the main thread, so that commands clean up; later ones
are ignored. If the main thread does not return in time from code that cannot be interrupted, a
watcher thread ends the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

GRACE = 1.5  # seconds from the signal to the end of the process at the latest
STUDY_GRACE = 30.0  # the same for studies, which end their workers first


class Interruption:
    """The signals so far.

    Attributes:
        signal: the number of the first signal, or None.
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def status(self) -> int:
        """The exit status that shells report for a program that this signal ended."""
        return 128 + (self.signal or signal.SIGINT)

    def interrupt(self, number: int, frame: object) -> None:
        """The signals' handler."""
        if self.signal is None:
            self.signal = number
            raise KeyboardInterrupt

    def end_process(self) -> None:
        """End the process without waiting for threads that are still in compiled code."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(self.status)


@contextlib.contextmanager
def interruptible(
    interruption: Interruption, last_words: Callable[[], str], grace: float
) -> Iterator[None]:
    """Handle the signals while a command runs, unless they are ignored.

    Args:
        interruption: records the signals.
        last_words: what to print on standard error if the process is ended after `grace`.
        grace: seconds.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone has signals
        yield
        return
    with handling(interruption.interrupt), _watch(interruption, last_words, grace):
        yield


@contextlib.contextmanager
def handling(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Let a handler take the signals, except ignored ones; then restore what took them before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, usual in before.items():
        if usual is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


@contextlib.contextmanager
def _watch(
    interruption: Interruption, last_words: Callable[[], str], grace: float
) -> Iterator[None]:
    """End the process some time after a signal, unless the block has ended by then.

    Python writes the number of a signal to a pipe at once, whatever the main thread does.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    over, shown = threading.Event(), 2
    with contextlib.suppress(OSError, ValueError, AttributeError):
        shown = sys.stderr.fileno()

    def wait() -> None:
        while number := os.read(reading, 1):
            if number[0] in (signal.SIGINT, signal.SIGTERM):
                break
        if number and not over.wait(grace):
            interruption.signal = number[0]
            os.write(shown, f"\nrnnparse: {last_words()}\n".encode())
            os._exit(interruption.status)
        os.close(reading)

    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=wait, name="rnnparse signals", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(wakeup)
        os.close(writing)
