"""`rnnparse info`: show a model's size, settings and scores."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from rnnparse.cli.console_text import print_json

NAME = "info"
HELP = "show the size, settings and scores of a model"
DESCRIPTION = "Show the size of a model, its training settings and its development scores."
EPILOG = """\
example:
  rnnparse info model --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL", help="a model folder from rnnparse train")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print what `Parser.info` gives."""
    from rnnparse.model_folder import load_model, model_info

    about = model_info(load_model(args.model))
    if args.json:
        print_json(about)
    else:
        rows = [("model", args.model), *_rows(about)]
        width = max(len(name) for name, _ in rows)
        print("\n".join(f"{name:<{width}}  {value}" for name, value in rows))
    return 0


def _rows(about: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in about.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{prefix}{name}.")
        elif isinstance(value, float):
            yield prefix + name, f"{value:.4g}"
        else:
            yield prefix + name, "-" if value is None else str(value)
