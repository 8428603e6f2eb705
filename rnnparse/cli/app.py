"""The command line: arguments, messages and exit statuses that all commands share.

Commands import their libraries when they run, so that help and messages appear at once.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Iterator, Sequence

from rnnparse.cli import (
    compare,
    draw,
    evalb,
    evaluate,
    explain,
    info,
    memory,
    parse,
    study,
    train,
)
from rnnparse.cli.commands import add_commands
from rnnparse.cli.interruption import GRACE, STUDY_GRACE, Interruption, interruptible
from rnnparse.errors import OutOfMemoryError, RnnparseError
from rnnparse.version import __version__

COMMANDS = (train, parse, explain, draw, evaluate, compare, evalb, info, study)

ERROR, INTERNAL_ERROR, BROKEN_PIPE = 2, 70, 141
"""Exit statuses: 70 is EX_SOFTWARE of sysexits.h, 141 is what shells report after SIGPIPE. For
other signals see `Interruption.status`."""

_EPILOG = """\
examples:
  rnnparse train --out model                        train on the embedded treebank
  rnnparse train 'wsj/0[2-9]' --dev wsj/22 --out m  train on your own treebank
  echo "They ate udon with forks." | rnnparse parse model
  rnnparse evaluate model test.mrg                  parse a test set and score the trees
  rnnparse study run 'wsj/0[2-9]' --preset quick    find learning rates that work

rnnparse COMMAND --help explains a command and its options.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Args:
        arguments: the command line without the program's name; None for that of the process.
    """
    _prepare_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    args = parser.parse_args(given)
    args.command_line = shlex.join([parser.prog, *given])
    if not hasattr(args, "run"):
        parser.print_help(sys.stderr)
        return ERROR
    own_process = arguments is None

    def run() -> int:
        return _run(args, given, own_process)

    if own_process and memory.limit() is not None:
        return memory.run_watched(run, args.debug)
    return run()


def _run(args: argparse.Namespace, given: list[str], own_process: bool) -> int:
    """Run a command and return its exit status; `own_process` if it has this process for itself."""
    interruption = Interruption()
    with interruptible(interruption, lambda: _last_words(args, given), _grace(args)):
        try:
            with _messages():
                _write_utf8()
                status: int = args.run(args)
                sys.stdout.flush()
                return status
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) or interruption.signal is not None:
                print(f"\nrnnparse: {_last_words(args, given, error)}", file=sys.stderr)
                if own_process and args.command != study.NAME:
                    interruption.end_process()
                return interruption.status
            return _report(error, args.debug)


def _report(error: Exception, debug: bool) -> int:
    """Print an error on one line and return the exit status; raise it again to debug."""
    if isinstance(error, BrokenPipeError):
        _discard_output()
        return BROKEN_PIPE
    if debug:
        raise error
    if isinstance(error, (RnnparseError, OSError)) or memory.is_out_of_memory(error):
        print(f"rnnparse: error: {_describe(error)}", file=sys.stderr)
        return ERROR
    print(
        f"rnnparse: internal error: {type(error).__name__}: {_describe(error)}; please report "
        "this with the traceback that --debug shows",
        file=sys.stderr,
    )
    return INTERNAL_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rnnparse",
        description="Train, run and evaluate constituency parsers. A PCFG lists candidate trees;\n"
        "a recursive neural network over words and phrases ranks them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rnnparse {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of errors")
    add_commands(parser, COMMANDS, "command")
    return parser


def _describe(error: BaseException) -> str:
    """The message of an error on one line."""
    if memory.is_out_of_memory(error):
        return str(error) if isinstance(error, OutOfMemoryError) else "out of memory"
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else "cannot write: "
        return place + error.strerror.lower()
    return " ".join(str(error).split())


def _last_words(
    args: argparse.Namespace, given: list[str], interrupt: BaseException | None = None
) -> str:
    """The message of an interruption, with the command that continues training or a study."""
    if args.command == train.NAME:
        again = given if "--resume" in given else [*given, "--resume"]
        return f"interrupted; to continue, run:\n  rnnparse {shlex.join(again)}"
    if args.command == study.NAME and args.study_command == "run":
        if isinstance(interrupt, KeyboardInterrupt) and str(interrupt):
            return f"interrupted; {interrupt}"
        return f"interrupted; to continue, run:\n  {args.command_line}"
    return "interrupted"


def _grace(args: argparse.Namespace) -> float:
    return STUDY_GRACE if args.command == study.NAME else GRACE


class _Handler(logging.StreamHandler):
    """Warnings on standard error, written around progress bars."""

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        tqdm.write(f"rnnparse: {record.levelname.lower()}: {record.getMessage()}", sys.stderr)


@contextlib.contextmanager
def _messages() -> Iterator[None]:
    """Print the log messages of the package."""
    logger, handler = logging.getLogger("rnnparse"), _Handler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _prepare_streams() -> None:
    """Replace streams that were closed before the program began by the null device.

    Otherwise the first files that are opened would get their numbers, and their output. Letters
    that the terminal cannot show, such as α in the help, become question marks.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def _write_utf8() -> None:
    """Write trees in UTF-8 with line ends `\\n`, whatever the settings of the terminal."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")


def _discard_output() -> None:
    """Send the interpreter's last flush of standard output to the null device."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
