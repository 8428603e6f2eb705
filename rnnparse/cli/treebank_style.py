"""The options for the conventions of a treebank, which every command that reads one has."""

from __future__ import annotations

import argparse
from typing import Any

from rnnparse.trees.style import DROP, STYLES, TreebankStyle

_FIELDS = ("encoding", "strict", "traces", "drop", "separators", "lemmas")


def add_style(parser: argparse.ArgumentParser) -> None:
    """Declare the options; each is absent unless it is given."""
    group = parser.add_argument_group(
        "conventions of the treebank",
        "Entries of lists are separated by commas; 'default' stands for the usual entries,\n"
        "which treebanks/README.md lists, and an empty text for none.",
    )
    group.add_argument(
        "--treebank-style",
        choices=sorted(STYLES),
        metavar="NAME",
        default=argparse.SUPPRESS,
        help=f"the conventions of a known treebank: {', '.join(sorted(STYLES))}; the options below "
        "replace single ones",
    )
    add_encoding(
        group,
        "encoding of the treebank, such as latin-1 (default: utf-8, or as NLTK says); what "
        "rnnparse writes is in UTF-8",
    )
    group.add_argument(
        "--strict",
        action="store_true",
        default=argparse.SUPPRESS,
        help="stop at the first malformed tree; otherwise malformed trees are skipped and counted",
    )
    _add_list(
        group,
        "--traces",
        "PATTERN,…",
        "words that are traces: regular expressions for a word, or for a tag, a space and a word, "
        "as in '(C|WNP) 0' (default: -NONE-, *T*-1, *con* and others)",
    )
    _add_list(
        group,
        "--drop",
        "LABEL,…",
        f"labels of nodes that are no part of the sentence (default: {','.join(DROP)})",
    )
    _add_list(
        group,
        "--label-separators",
        "TEXT,…",
        "where functional parts of labels begin, as in --label-separators='default,*,##'",
        dest="separators",
    )
    group.add_argument(
        "--lemmas",
        action="store_true",
        default=argparse.SUPPRESS,
        help="words may be followed by their lemmas, (NN dogs dog), which are left out",
    )


def add_encoding(group: Any, help: str) -> None:
    """Declare --encoding alone."""
    group.add_argument("--encoding", metavar="NAME", default=argparse.SUPPRESS, help=help)


def given_style(args: argparse.Namespace) -> dict[str, Any]:
    """The setting `style` of `TrainingConfig`, or nothing where no option was given.

    Raises:
        ConfigError: a value is wrong.
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
