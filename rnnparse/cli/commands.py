"""Declare commands and subcommands."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from types import ModuleType


def add_commands(parser: argparse.ArgumentParser, modules: Iterable[ModuleType], name: str) -> None:
    """Add commands to an argument parser.

    Args:
        parser: the program's, or that of a command with subcommands.
        modules: one per command, with NAME, HELP, DESCRIPTION, EPILOG, `add_arguments` and `run`;
            the parsed arguments have `run` as an attribute.
        name: attribute of the parsed arguments for the name of the command.
    """
    debug = argparse.ArgumentParser(add_help=False)
    debug.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the traceback of errors",
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
