"""Commands of the program, and commands of commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from types import ModuleType


def add_commands(parser: argparse.ArgumentParser, modules: Iterable[ModuleType], name: str) -> None:
    """Give a parser commands.

    Args:
        parser: of the program, or of a command.
        modules: with NAME, HELP, DESCRIPTION, EPILOG, `add_arguments` and `run` each; `run` is kept
            among the arguments.
        name: of the argument that tells which command was given.
    """
    debug = argparse.ArgumentParser(add_help=False)
    debug.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the traceback of an error",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest=name)
    for module in modules:
        command = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            parents=[debug],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=module.run)
        module.add_arguments(command)
