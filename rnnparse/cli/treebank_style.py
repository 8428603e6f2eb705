"""Options for the conventions of a treebank, shared by the commands that read one."""

from __future__ import annotations

import argparse
from typing import Any

from rnnparse.trees.style import DROP, STYLES, TreebankStyle

_FIELDS = ("encoding", "strict", "traces", "drop", "separators", "lemmas")


def add_style(parser: argparse.ArgumentParser) -> None:
    """Declare the options; each is absent unless given."""
    group = parser.add_argument_group(
        "conventions of the treebank",
        "Separate the entries of a list by commas. 'default' inserts the default entries (see\n"
        "treebanks/README.md); an empty string gives an empty list.",
    )
    group.add_argument(
        "--treebank-style",
        choices=sorted(STYLES),
        metavar="NAME",
        default=argparse.SUPPRESS,
        help=f"conventions of a known treebank: {', '.join(sorted(STYLES))}; the options below "
        "override single ones",
    )
    add_encoding(
        group,
        "encoding of the treebank, such as latin-1 (default: utf-8, or that of the NLTK corpus); "
        "output is always in UTF-8",
    )
    group.add_argument(
        "--strict",
        action="store_true",
        default=argparse.SUPPRESS,
        help="stop at the first malformed tree instead of skipping it",
    )
    _add_list(
        group,
        "--traces",
        "PATTERN,…",
        "traces to remove: regular expressions for a word, or for a tag, a space and a word, as in "
        "'(C|WNP) 0' (default: -NONE-, *T*-1, *con* and others)",
    )
    _add_list(
        group,
        "--drop",
        "LABEL,…",
        f"labels of nodes to remove, such as IDs and codes (default: {','.join(DROP)})",
    )
    _add_list(
        group,
        "--label-separators",
        "TEXT,…",
        "characters before a function tag, such as - in NP-SBJ; 'default,*' adds one (default: "
        "-,=,|)",
        dest="separators",
    )
    group.add_argument(
        "--lemmas",
        action="store_true",
        default=argparse.SUPPRESS,
        help="remove lemmas that follow words, as in (NN dogs dog)",
    )


def add_encoding(group: Any, help: str) -> None:
    """Declare --encoding alone."""
    group.add_argument("--encoding", metavar="NAME", default=argparse.SUPPRESS, help=help)


def given_style(args: argparse.Namespace) -> dict[str, Any]:
    """The setting `style` of `TrainingConfig`; empty if no option was given.

    Raises:
        ConfigError: a value is invalid.
    """
    given = vars(args)
    values = {name: given[name] for name in _FIELDS if name in given}
    preset = STYLES[given["treebank_style"]].to_dict() if "treebank_style" in given else {}
    settings = TreebankStyle.from_dict({**preset, **values}).to_dict()
    return {"style": settings} if settings else {}


def _add_list(group: Any, flag: str, metavar: str, help: str, **more: Any) -> None:
    group.add_argument(
        flag, metavar=metavar, type=_parts, default=argparse.SUPPRESS, help=help, **more
    )


def _parts(text: str) -> list[str]:
    return text.split(",") if text else []
