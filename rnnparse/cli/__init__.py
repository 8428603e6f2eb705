"""The command `rnnparse`: `app` has the frame, and each command a module of its own."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Sequence

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Args:
        arguments: the command line without the program's name; None for that of the process,
            which then has nothing else to do.
    """
    if arguments is None:
        _handle_signals()
    from rnnparse.cli import app

    return app.main(arguments)


def _handle_signals() -> None:
    """End the process in one line on Ctrl-C and SIGTERM from now on, and ignore them at its end.

    `app` handles them while a command runs. When Python ends, it restores their default effect,
    which would be to kill a process that has done its work.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    atexit.register(_ignore_signals)


def _end(number: int, frame: object) -> None:
    os.write(2, b"\nrnnparse: interrupted\n")
    os._exit(128 + number)


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
