"""Shell commands whose `rnnparse` is run by the process of the tests.

That process has loaded TensorFlow already, which takes seconds of every other. The program
`rnnparse` that the shell finds hands its arguments, folder and standard streams over.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from rnnparse.cli import main

_CLIENT = """
import json, os, socket, sys
tests = socket.socket(fileno=int(os.environ["RNNPARSE_TESTS"]))
socket.send_fds(tests, [json.dumps([os.getcwd(), *sys.argv[1:]]).encode()], [0, 1, 2])
sys.exit(int(tests.recv(16)))
"""


def run_shell(
    command: str, folder: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, in which the file of the program is left.

    Args:
        command: for bash. Each `rnnparse` in it must end before the next begins.
        folder: where to run it.
        variables: what the environment has besides that of the tests.
    """
    program = folder / "bin" / "rnnparse"
    program.parent.mkdir(exist_ok=True)
    program.with_suffix(".py").write_text(_CLIENT)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -ISE "{program}.py" "$@"\n')
    program.chmod(0o755)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
        own = {
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "RNNPARSE_TESTS": str(there.fileno()),
        }
        with there:
            shell = subprocess.Popen(
                ["bash", "-c", command],
                cwd=folder,
                env={**os.environ, **variables, **own},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=[there.fileno()],
            )
        with patch.dict(os.environ, variables):
            while True:
                message, streams, _, _ = socket.recv_fds(here, 1 << 16, 3)
                if not message:  # the shell has ended, and with it all that it began
                    break
                place, *arguments = json.loads(message)
                with _process(place, streams):
                    status = _status(arguments)
                here.send(str(status).encode())
        shell.wait()
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(command, shell.returncode, out.read(), err.read())


def _status(arguments: Sequence[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as stop:  # argparse's
        return int(stop.code or 0)


@contextmanager
def _process(folder: str, streams: Sequence[int]) -> Iterator[None]:
    """Be in a folder, with other standard streams."""
    before, place = [os.dup(number) for number in range(3)], os.getcwd()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.chdir(folder)
        _place(streams)
        with (
            open(0, closefd=False) as stdin,
            open(1, "w", closefd=False) as stdout,
            open(2, "w", closefd=False) as stderr,
            patch.object(sys, "stdin", stdin),
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            yield
    finally:
        _place(before)
        os.chdir(place)


def _place(streams: Sequence[int]) -> None:
    """Let the numbers of the standard streams stand for others, which are closed."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
