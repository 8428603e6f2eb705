"""Numbers, tables, warnings and lines of text for the command line."""

from __future__ import annotations

import argparse
import io
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from rnnparse.config import LIMITS, shown_number
from rnnparse.errors import TreebankError
from rnnparse.json_text import to_json
from rnnparse.trees.sources import open_text

_BAD = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_SHOWN = 10  # most numbers in a message
_LONGEST = 40  # most characters of a value in a message


def number_type(low: float, high: float) -> Callable[[str], float]:
    """The `type` of a numeric option; it takes whole numbers if the limits are ints."""
    convert, kind = (int, "a whole number") if isinstance(low, int) else (float, "a number")

    def read(text: str) -> float:
        try:
            value: float = convert(text)
        except ValueError:  # Python also refuses a whole number of thousands of digits
            value = math.nan
        if not low <= value <= high:
            given = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
            limits = f"from {shown_number(low)} to {shown_number(high)}"
            raise argparse.ArgumentTypeError(f"expected {kind} {limits}, not {given!r}")
        return value

    return read


def setting(name: str) -> Callable[[str], float]:
    """The `type` of the option for a numeric setting, with its limits in `LIMITS`."""
    return number_type(*LIMITS[name])


whole = number_type(0, 10**9)
"""The `type` of an option that takes a whole number from 0."""
positive = number_type(1, 10**9)
"""The `type` of an option that takes a whole number from 1."""


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(to_json(value, indent=2))


def warn(message: str) -> None:
    """Print a message on standard error, after the program's name."""
    print(f"rnnparse: {message}", file=sys.stderr)


class Numbers:
    """Numbers of sentences or lines for a message: how many there are, and the first few.

    Its memory does not grow, however many are added. As text it has the first few, and an
    ellipsis if there are more.

    Args:
        values: the first numbers to add.
    """

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._count = 0
        self._first: list[int] = []
        for value in values:
            self.add(value)

    def add(self, value: int) -> None:
        """Count one more number."""
        self._count += 1
        if len(self._first) < _SHOWN:
            self._first.append(value)

    def __len__(self) -> int:
        return self._count

    def __str__(self) -> str:
        shown = ", ".join(map(str, self._first))
        return f"{shown}, …" if self._count > len(self._first) else shown


def warn_of_partial(glued: Numbers, divided: Numbers) -> None:
    """Count the sentences whose trees join partial trees, by reason.

    Args:
        glued: the sentences that the grammar cannot span.
        divided: the sentences that exceeded the budget.
    """
    if glued:
        warn(
            f"the grammar cannot span {len(glued)} sentence(s); their trees are glued from "
            f"partial trees: {glued}"
        )
    if divided:
        warn(
            f"{len(divided)} sentence(s) exceeded the budget and were parsed in parts: {divided}"
        )


def warn_of_failed(sentences: Numbers, first_reason: str, what: str) -> None:
    """Count the sentences that could not be parsed.

    Args:
        sentences: their numbers.
        first_reason: why the first could not be parsed.
        what: for example `line(s) of FILE`.
    """
    if sentences:
        warn(
            f"warning: {len(sentences)} {what} could not be parsed; their output is (()): "
            f"{sentences}; the first: {first_reason}"
        )


def number(value: float | None, digits: int = 2) -> str:
    """A number for a table; a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"


def columns(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with its first column flush left and the others flush right."""
    cells = [list(map(str, header)), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def read_lines(path: str, longest: int) -> Iterator[str]:
    """The lines of a UTF-8 file (also gzip), without line ends; "-" reads standard input.

    Of a line of more than `longest` characters only the first `longest` + 1 are kept. Bytes that
    are not UTF-8 and NUL characters become U+FFFD; one warning at the end counts these lines.

    Raises:
        TreebankError: the file cannot be read, or its first line shows that it is not text.
    """
    bad = Numbers()
    with open_text(None if path == "-" else Path(path), "utf-8") as stream:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(newline="\n")
        lines = enumerate(_guarded(stream, path, longest), start=1)
        for line_number, line in lines:
            line = line.removesuffix("\n").removesuffix("\r")
            if not line.isascii() or "\0" in line:
                if line_number == 1 and "\0" in line:
                    raise TreebankError(
                        "NUL character: this is a binary file, or text in UTF-16", path, 1
                    )
                line, replaced = _BAD.subn(_REPLACEMENT, line)
                if replaced:
                    bad.add(line_number)
            yield line
    if bad:
        where = f"{len(bad)} line(s) of {path}: {bad}"
        warn(f"warning: bytes that are not UTF-8 were read as {_REPLACEMENT} on {where}")


def _guarded(stream: TextIO, path: str, longest: int) -> Iterator[str]:
    """The lines of a stream, cut after `longest` + 1 characters; TreebankError for read errors."""
    while True:
        try:
            line = stream.readline(longest + 1)
            end = line
            while end and not end.endswith("\n"):
                end = stream.readline(longest + 1)
        except (OSError, EOFError, zlib.error) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise TreebankError(f"cannot read: {reason}", path) from error
        if not line:
            return
        yield line
