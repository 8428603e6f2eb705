"""Options for the search of the parser and the budget of a sentence."""

from __future__ import annotations

import argparse
from dataclasses import fields

from rnnparse.cli.console_text import number_type
from rnnparse.inference.search import LIMITS, Search

EXACT_HELP = (
    "search the whole chart of the grammar, not a pruned one; takes several times as long, for "
    "long sentences much more"
)
_HELP = {
    "max_length": ("N", "parse sentences of more than N tokens in parts"),
    "max_seconds": ("S", "parse a sentence in short parts once it has taken S seconds"),
    "max_memory": ("MB", "parse a sentence in parts if its chart may need more megabytes"),
}


def add_search(parser: argparse.ArgumentParser) -> None:
    """Declare the fields of `Search` as options."""
    group = parser.add_argument_group("search, for each sentence")
    group.add_argument("--exact", action="store_true", help=EXACT_HELP)
    for name, (metavar, text) in _HELP.items():
        default = getattr(Search(), name)
        shown = "no limit" if default is None else f"{default:g}"
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=number_type(*LIMITS[name]),
            default=default,
            metavar=metavar,
            help=f"{text} (default: {shown})",
        )


def given_search(args: argparse.Namespace) -> Search:
    """The search that the options ask for."""
    return Search(**{field.name: getattr(args, field.name) for field in fields(Search)})
