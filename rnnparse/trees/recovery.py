"""Going on after a malformed tree: it is lost, and those before and after it are read.

Where does the next tree begin? Lines are compared by where their text begins: a line whose text is
an opening bracket, no further to the right than that of the line where the malformed tree begins,
may begin a tree. Trees come out only when it is clear that they have ended, with the next such line
or with their own: a bracket too many early in a tree would otherwise give pieces of it.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterator

from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees.scanner import ROOT_LABELS, TreeScanner

Piece = tuple[int, int, str]
"""Line number, columns before the piece, text; see `rnnparse.trees.sources.read_lines`."""

_HELD = 64  # trees on one line that are held back at most
_STARTS = 500  # lines within a tree that may begin the next one, at most
_FEW_STARTS = 20  # the same in a file with malformed trees where no tree had such lines
_FIRST_LABEL = re.compile(r"\s*\(\s*([^()\s]*)", re.ASCII)


class Recovery:
    """Feeds a scanner and goes on after errors.

    Attributes:
        errors: of the malformed trees, in order.
    """

    def __init__(self, scanner: TreeScanner) -> None:
        self.errors: list[TreebankError] = []
        self._scanner = scanner
        self._held: deque[Tree] = deque()
        self._again: deque[Piece] = deque()  # to be read again
        self._kept: list[Piece] = []  # from the first line on that may begin the next tree
        self._starts = 0
        self._skipping = False
        self._after_blank = False
        self._indent = sys.maxsize
        self._line = 0  # where the present block of lines begins
        self._unindented = False  # whether trees of this file have lines in column 1 inside them
        self._roots: set[str] = set()

    def read(self, pieces: Iterator[Piece]) -> Iterator[Tree]:
        """The well-formed trees of a file.

        Raises:
            TreebankError: from the pieces, that is, for what cannot be read or decoded.
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
        # What a malformed tree takes in is read again; many of them must not read much each.
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
        """Leave out the present block, and go on where the next tree may begin."""
        self.errors.append(error)
        self._held.clear()
        self._scanner.reset()
        self._again.extendleft(reversed(self._kept))
        self._after_blank = bool(self._kept)  # the first of these lines may begin a tree
        self._kept, self._starts = [], 0
        self._skipping = True


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
