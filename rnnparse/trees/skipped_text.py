"""What the reader of bracketed trees skips, for warnings."""

from __future__ import annotations

import logging
from collections import Counter

from rnnparse.errors import TreebankError
from rnnparse.trees.scanner import TreeScanner

_log = logging.getLogger("rnnparse")
_SHOWN = 3  # most malformed trees in warnings
_BRACKETED = "tree(s) with brackets around each word"


class SkippedText:
    """Counts skipped text over all files of one source, with the place of its first occurrence.

    Attributes:
        errors: one list per file, filled while the file is read.
    """

    def __init__(self) -> None:
        self.errors: list[list[TreebankError]] = []
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, scanner: TreeScanner) -> None:
        """Add the counts of one file."""
        skipped = {
            "empty tree(s)": scanner.empty_trees,
            "node(s) without a word": scanner.empty_nodes,
            "comment line(s)": scanner.comments,
            _BRACKETED: scanner.bracketed,
        }
        for what, places in skipped.items():
            if places:
                self._counts[what] += len(places)
                line, column = places[0]
                self._first.setdefault(what, f"{scanner.path}:{line}:{column}")

    def malformed(self) -> list[TreebankError]:
        """The errors of all files."""
        return [error for errors in self.errors for error in errors]

    def log(self) -> None:
        """Write the warnings."""
        errors = self.malformed()
        for error in errors[:_SHOWN]:
            _log.warning("%s", error)
        if errors:
            _log.warning(
                "skipped %d malformed tree(s)%s; --strict stops at the first",
                len(errors),
                f", the first {_SHOWN} as above" if len(errors) > _SHOWN else "",
            )
        parts = {
            what: f"{n} {what}, the first at {self._first[what]}"
            for what, n in self._counts.items()
        }
        bracketed = parts.pop(_BRACKETED, None)
        if parts:
            _log.warning("skipped %s", "; ".join(parts.values()))
        if bracketed:
            _log.warning("read %s", bracketed)
