"""Skip a malformed tree and read the trees before and after it.

Indentation shows where the next tree may begin: at a line that begins with an opening bracket and
is indented no further than the first line of the malformed tree. A tree is returned only at such a
line, or at the end of its own line. Otherwise an extra bracket early in a tree would yield
fragments of it.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rnnparse.errors import TreebankError
from rnnparse.trees.scanner import ROOT_LABELS, TreeScanner

if TYPE_CHECKING:
    from nltk.tree import Tree

Piece = tuple[int, int, str]
"""Line number, columns before the piece, text; see `rnnparse.trees.sources.read_lines`."""

_HELD = 64  # most trees of one line that are held back
_STARTS = 500  # most lines within a tree that may begin the next one
_FEW_STARTS = 20  # the same in a file with malformed trees whose other trees had no such lines
_FIRST_LABEL = re.compile(r"\s*\(\s*([^()\s]*)", re.ASCII)


class Recovery:
    """Feeds a scanner and continues after errors.

    Attributes:
        errors: one per malformed tree, in order.
    """

    def __init__(self, scanner: TreeScanner) -> None:
        self.errors: list[TreebankError] = []
        self._scanner = scanner
        self._held: deque[Tree] = deque()
        self._again: deque[Piece] = deque()  # pieces to read again
        self._kept: list[Piece] = []  # since the first line that may begin the next tree
        self._starts = 0
        self._skipping = False
        self._after_blank = False
        self._indent = sys.maxsize
        self._line = 0  # first line of the present block
        self._unindented = False  # whether trees of this file have inner lines without indent
        self._roots: set[str] = set()

    def read(self, pieces: Iterator[Piece]) -> Iterator[Tree]:
        """The well-formed trees of a file.

        Raises:
            TreebankError: text cannot be read or decoded.
        """
        while True:
            piece = self._again.popleft() if self._again else next(pieces, None)
            try:
                if piece is None:
                    self._scanner.finish()
                    yield from self._release()
                    return
                yield from self._feed(piece)
            except TreebankError as error:
                self._recover(error)

    def _feed(self, piece: Piece) -> Iterator[Tree]:
        line, offset, text = piece
        starts = offset == 0 and self._may_begin_tree(text)
        if self._skipping and not starts:
            return
        self._skipping = False
        if not self._scanner.between_trees:
            if starts or self._kept:
                self._kept.append(piece)
                self._starts += starts
            if self._starts > self._most_starts():
                raise self._scanner.unclosed("many lines further on")
        elif offset == 0 and self._ends_block(text):
            yield from self._release()
            if starts:
                self._line, self._indent = line, _indent(text)
        for tree in self._scanner.feed(line, offset, text):
            self._held.append(tree)
            self._roots.add(tree.label())
            self._unindented |= self._starts > 0
            self._kept, self._starts = [], 0
            if len(self._held) > _HELD:
                yield self._held.popleft()
        if self._scanner.between_trees and line == self._line and text.endswith("\n"):
            yield from self._release()

    def _release(self) -> Iterator[Tree]:
        while self._held:
            yield self._held.popleft()

    def _most_starts(self) -> int:
        # Lines inside a malformed tree are read again; in files with many, that must stay little.
        return _STARTS if self._unindented or len(self.errors) < 3 else _FEW_STARTS

    def _may_begin_tree(self, text: str) -> bool:
        blank, self._after_blank = self._after_blank, not text.strip()
        label = _FIRST_LABEL.match(text)
        if label is None or (_indent(text) > self._indent and not blank):
            return False
        return not self._unindented or label[1] in self._roots

    def _ends_block(self, text: str) -> bool:
        content = text.strip()
        label = _FIRST_LABEL.match(text)
        is_root = label is not None and label[1] in ROOT_LABELS
        return not content or is_root or (content[0] != ")" and _indent(text) <= self._indent)

    def _recover(self, error: TreebankError) -> None:
        """Skip the present block; continue where the next tree may begin."""
        self.errors.append(error)
        self._held.clear()
        self._scanner.reset()
        self._again.extendleft(reversed(self._kept))
        self._after_blank = bool(self._kept)  # the first of these lines may begin a tree
        self._kept, self._starts = [], 0
        self._skipping = True


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
