"""Runs a command in this process and judges it as a user would."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from typing import Any

from rnnparse.cli import main
from rnnparse.errors import RnnparseError


class Refusal(RnnparseError):
    """A command ended with status 2 and one line that says why."""


def command(arguments: Sequence[str], statuses: Sequence[int] = (0,)) -> str:
    """What a command prints.

    Raises:
        Refusal: it ended with status 2 and one line that names an error.
        AssertionError: any other ending but with one of `statuses`.
    """
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(arguments)
        except SystemExit as stop:  # argparse
            status = stop.code if isinstance(stop.code, int) else 1
    message = err.getvalue()
    for sign in ("Traceback", "internal error", "out of memory"):
        assert sign not in message, message[-2000:]
    if status == 2:
        errors = [line for line in message.splitlines() if ": error: " in line]
        assert len(errors) == 1, f"expected one line with an error: {message[-2000:]}"
        raise Refusal(errors[0])
    assert status in statuses, f"status {status}: {message[-2000:]}"
    return out.getvalue()


def strict_json(text: str) -> Any:
    """A value from JSON by the standard: no NaN or Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)
