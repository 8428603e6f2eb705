"""The bracket reader's state machine: pieces of text in, finished trees out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nltk.tree import Tree

from rnnparse.errors import TreebankError

ROOT_LABELS = frozenset({"", "TOP", "ROOT", "S1", "VROOT"})
"""Labels that treebanks and parsers give to the bracket around a whole sentence."""

# Only ASCII white space separates (re.ASCII): real treebanks have words that hold thin or
# no-break spaces. The alternatives: (tag word) · ( with its label if it follows · ) · word.
_ITEM = re.compile(
    r"\(([^()\s]+)\s+([^()\s]+)\s*\)|\(([^()\s]*)|(\))|[^()\s]+",
    re.ASCII,
)
_FIRST_LABEL = re.compile(r"\(\s*([^()\s]*)", re.ASCII)

# What the next item may be.
_ANY = 0  # a bracket of either kind
_LABEL = 1  # the label of the bracket just opened; none makes it an unlabelled one
_CLOSE = 2  # the end of a preterminal, whose word has been read


class TreeScanner:
    """Reads the trees of one file from pieces that cut no word apart.

    Attributes:
        empty_trees: positions (line, column) of brackets without any word, which are skipped.
        empty_nodes: positions (line, column), where they end, of nodes without a word inside
            trees that have words; they are left out of their tree.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.empty_trees: list[tuple[int, int]] = []
        self.empty_nodes: list[tuple[int, int]] = []
        self._open: list[Tree] = []
        self._state = _ANY
        self._line, self._offset = 1, 0
        self._start = (1, 1)  # where the tree that is open began
        self._bracket = (1, 1)  # where the bracket began whose label is awaited
        self._second_start: tuple[int, int] | None = None
        self._pruned: list[tuple[int, int]] = []

    @property
    def between_trees(self) -> bool:
        """Whether no tree is open."""
        return not self._open

    def feed(self, line: int, offset: int, text: str) -> Iterator[Tree]:
        """Trees that end within the piece `text`, which stands `offset` columns into `line`.

        Raises:
            TreebankError: malformed text, with the position and what was expected.
        """
        self._line, self._offset = line, offset
        if self._open and offset == 0 and text[0] == "(":
            self._note_second_start(text)
        stack = self._open
        for item in _ITEM.finditer(text):
            kind = item.lastindex
            if kind == 2 and self._state == _ANY and stack:
                stack[-1].append(Tree(item[1], [item[2]]))
            elif kind == 4:
                tree = self._close(item.start(), text[item.end() : item.end() + 1])
                if tree is not None:
                    yield tree
            elif kind is None:
                self._read_word(item[0], item.start())
            else:
                self._open_bracket(item[1] or item[3], item.start())
                if kind == 2:
                    stack[-1].append(item[2])
                    tree = self._close(item.end() - 1, "")
                    if tree is not None:
                        yield tree

    def finish(self) -> None:
        """Declare the end of the file.

        Raises:
            TreebankError: a tree is still open; the position is its start.
        """
        if not self._open:
            return
        count = len(self._open)
        message = (
            f"the tree that begins here is not closed: {_brackets(count)} "
            f"missing at the end of the file; expected ')'"
        )
        if self._second_start:
            line, column = self._second_start
            message += f"; the '(' on line {line}, column {column} may begin the next tree"
        raise TreebankError(message, self.path, *self._start)

    def _position(self, index: int) -> tuple[int, int]:
        return self._line, self._offset + index + 1

    def _open_bracket(self, label: str, index: int) -> None:
        if self._state == _CLOSE:
            word, tag = self._open[-1][0], self._open[-1].label()
            raise self._error(
                index,
                f"expected ')' after the word {word!r} of ({tag}, found '('; "
                "a bracket inside a word is written -LRB- or -RRB-",
            )
        if self._state == _LABEL:
            self._accept_unlabelled()
        if not self._open:
            self._start, self._second_start, self._pruned = self._position(index), None, []
        if label:
            self._state = _ANY
        else:
            self._state, self._bracket = _LABEL, self._position(index)
        self._open.append(Tree(label, []))

    def _read_word(self, word: str, index: int) -> None:
        if not self._open:
            raise self._error(index, f"expected '(' to begin a tree, found {word[:60]!r}")
        node = self._open[-1]
        if self._state == _LABEL:
            node.set_label(word)
            self._state = _ANY
        elif self._state == _CLOSE:
            raise self._error(
                index,
                f"expected ')' after the word {node[0][:60]!r} of ({node.label()}, "
                f"found a second word {word[:60]!r}",
            )
        elif len(node) or not node.label():
            raise self._error(
                index,
                f"expected '(' or ')' among the children of ({node.label()}, found the "
                f"word {word[:60]!r}; each word needs a bracket with its tag",
            )
        else:
            node.append(word)
            self._state = _CLOSE

    def _close(self, index: int, following: str) -> Tree | None:
        """Close the innermost bracket; the tree if it was the outermost and holds words."""
        stack = self._open
        if not stack:
            raise self._error(index, "')' closes nothing; expected '(' to begin a tree")
        state, self._state = self._state, _ANY
        node = stack[-1]
        if not node:
            if state == _LABEL and len(stack) > 1 and _awaits(stack[-2], "-LRB-"):
                # (-LRB- () is a round bracket as a word: the tag leaves no other reading.
                stack.pop()
                stack[-1].append("-LRB-")
                node = stack[-1]
            elif following == ")" and _awaits(node, "-RRB-"):
                node.append("-RRB-")  # (-RRB- )): the next one closes it
                self._state = _CLOSE
                return None
        stack.pop()
        if stack:
            if node:
                stack[-1].append(node)
            else:
                self._pruned.append(self._position(index))
            return None
        if node:
            self.empty_nodes += self._pruned
            return node
        self.empty_trees.append(self._start)
        return None

    def _accept_unlabelled(self) -> None:
        """Let a bracket without a label stand around a tree, but not inside one."""
        # That its own outer brackets, too, lack labels was checked when it was opened.
        outer = self._open[-2:-1]
        if not outer or (not outer[0].label() and not outer[0]):
            return
        line, column = self._bracket
        if column == 1:
            raise self._second_start_error(line)
        raise TreebankError(
            "expected a label after '('; only the outermost bracket of a tree may lack one "
            f"({self._context()})",
            self.path,
            line,
            column,
        )

    def _note_second_start(self, text: str) -> None:
        """Watch for a tree that begins in column 1, as trees do, while another is open.

        Any text that balances is read, however its lines are broken. So this is an error only
        where the label, too, can stand nowhere but at the top; else it is kept as a hint for the
        end of the file.
        """
        if self._second_start is None:
            self._second_start = (self._line, 1)
        found = _FIRST_LABEL.match(text)
        label = found[1] if found else ""
        if label and label in ROOT_LABELS and label == self._open[0].label():
            raise self._second_start_error(self._line)

    def _second_start_error(self, line: int) -> TreebankError:
        count = len(self._open) - (self._state == _LABEL)
        return TreebankError(
            f"a new tree begins here, but {_brackets(count)} missing in {self._context()}; "
            "expected ')'",
            self.path,
            line,
            1,
        )

    def _context(self) -> str:
        return f"the tree that begins on line {self._start[0]}, column {self._start[1]}"

    def _error(self, index: int, message: str) -> TreebankError:
        line, column = self._position(index)
        if self._open and (line, column) != self._start:
            message += f" ({self._context()})"
        return TreebankError(message, self.path, line, column)


def _awaits(node: Tree, tag: str) -> bool:
    return node.label() == tag and not node


def _brackets(count: int) -> str:
    return "1 bracket is" if count == 1 else f"{count} brackets are"
