"""The bracket reader's state machine: pieces of text in, finished trees out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rnnparse.errors import TreebankError

if TYPE_CHECKING:
    from nltk.tree import Tree

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
_LABEL = 1  # the label of the bracket just opened, which may be missing
_CLOSE = 2  # the end of a preterminal after its word
_LEMMA = 3  # the same, or the lemma of the word

_COMMENT = "#"
_LICENCE = "*x*"
_OPENING, _CLOSING = "-LRB-", "-RRB-"

Position = tuple[int, int]
"""Line and column, both from 1."""


class TreeScanner:
    """Reads the trees of one file from pieces of text that end between words.

    Args:
        path: name of the file in messages.
        tree_type: type of the trees, `Node` or NLTK's `Tree`.
        lemmas: whether to skip a lemma after a word.
        keep_empty: whether trees without words are returned as `tree_type("", [])`.

    Attributes:
        empty_trees: positions of trees without words, which are skipped.
        empty_nodes: end positions of nodes without words, which are removed from their trees.
        comments: positions of lines between trees that begin with `#`.
        bracketed: positions of trees with brackets around each word, `(NN (dog))`.
    """

    def __init__(
        self, path: str, tree_type: type, *, lemmas: bool = False, keep_empty: bool = False
    ) -> None:
        self.path = path
        self._tree = tree_type
        self.empty_trees: list[Position] = []
        self.empty_nodes: list[Position] = []
        self.comments: list[Position] = []
        self.bracketed: list[Position] = []
        self._after_word = _LEMMA if lemmas else _CLOSE
        self._keep_empty = keep_empty
        self._line, self._offset = 1, 0
        self._in_comment = False
        self.reset()

    def reset(self) -> None:
        """Discard the open tree."""
        self._open: list[Tree] = []
        self._state = _ANY
        self._start = (1, 1)  # start of the open tree
        self._bracket = (1, 1)  # start of the bracket whose label is next
        self._second_start: Position | None = None
        self._pruned: list[Position] = []
        self._bare: list[tuple[Tree, Tree, Position]] = []  # parent, (x) without a word, its end
        self._unpaired = 0  # opening minus closing round brackets among the words

    @property
    def between_trees(self) -> bool:
        """Whether no tree is open."""
        return not self._open

    def feed(self, line: int, offset: int, text: str) -> Iterator[Tree]:
        """Yield the trees that end in the piece `text`, which begins `offset` columns into `line`.

        Raises:
            TreebankError: the text is malformed; names the position and what was expected.
        """
        self._line, self._offset = line, offset
        if offset == 0:
            self._in_comment = not self._open and text.startswith((_COMMENT, _LICENCE))
            if self._in_comment and text.startswith(_COMMENT):
                self.comments.append((line, 1))
            elif self._open and text[0] == "(":
                self._note_second_start(text)
        if self._in_comment:
            return
        stack = self._open
        for item in _ITEM.finditer(text):
            kind = item.lastindex
            if kind == 2 and self._state == _ANY and stack:
                stack[-1].append(self._tree(item[1], [item[2]]))
            elif kind == 4:
                tree = self._close(item.start(), text)
                if tree is not None:
                    yield tree
            elif kind is None:
                self._read_word(item[0], item.start())
            else:
                self._open_bracket(item[1] or item[3], item.start(), text)
                if kind == 2:
                    stack[-1].append(item[2])
                    tree = self._close(item.end() - 1, text)
                    if tree is not None:
                        yield tree

    def finish(self) -> None:
        """Declare the end of the file.

        Raises:
            TreebankError: a tree is still open; the position is its start.
        """
        if self._open:
            raise self.unclosed("at the end of the file")

    def unclosed(self, where: str) -> TreebankError:
        """The error that the open tree is not closed; the position is its start."""
        message = (
            f"the tree that begins here is not closed: {_brackets(len(self._open))} "
            f"missing {where}; expected ')'"
        )
        if self._second_start:
            line, column = self._second_start
            message += f"; the '(' on line {line}, column {column} may begin the next tree"
        return TreebankError(message, self.path, *self._start)

    def _position(self, index: int) -> Position:
        return self._line, self._offset + index + 1

    def _open_bracket(self, label: str, index: int, text: str) -> None:
        if self._state >= _CLOSE:
            word, tag = self._open[-1][0], self._open[-1].label()
            raise self._error(
                index,
                f"expected ')' after the word {word!r} of ({tag}, found '('; "
                "a bracket inside a word is written -LRB- or -RRB-",
            )
        if self._state == _LABEL and not self._may_lack_label():
            if text[index - 1 : index + 2] == "(()":  # a round bracket without a tag
                self._read_bracket(_OPENING, self._open[-1])
                return
            raise self._missing_label()
        if not self._open:
            self._start, self._second_start, self._unpaired = self._position(index), None, 0
            self._pruned, self._bare = [], []
        if label:
            self._state = _ANY
        else:
            self._state, self._bracket = _LABEL, self._position(index)
        self._open.append(self._tree(label, []))

    def _read_word(self, word: str, index: int) -> None:
        if not self._open:
            raise self._error(index, f"expected '(' to begin a tree, found {word[:60]!r}")
        node = self._open[-1]
        if self._state == _LABEL:
            node.set_label(word)
            self._state = _ANY
        elif self._state == _LEMMA:
            self._state = _CLOSE
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
            self._state = self._after_word

    def _read_bracket(self, word: str, node: Tree) -> None:
        """Read a round bracket as the word of a node, and as its tag if the node has none.

        The next bracket closes the node.
        """
        if not node.label():
            node.set_label(word)
        node.append(word)
        self._unpaired += 1 if word == _OPENING else -1
        self._state = _CLOSE

    def _close(self, index: int, text: str) -> Tree | None:
        """Close the innermost bracket; the tree if it was the outermost and holds words."""
        stack = self._open
        if not stack:
            raise self._error(index, "')' closes nothing; expected '(' to begin a tree")
        if not stack[-1]:
            if self._closes_opening_bracket():
                stack.pop()
                self._read_bracket(_OPENING, stack[-1])
            elif self._is_closing_bracket(index, text):
                self._read_bracket(_CLOSING, stack[-1])
                return None
        self._state = _ANY
        node = stack.pop()
        if not stack:
            return self._finished(node)
        if node:
            stack[-1].append(node)
        elif node.label() and index and not text[index - 1].isspace():
            stack[-1].append(node)
            self._bare.append((stack[-1], node, self._position(index)))
        else:
            self._pruned.append(self._position(index))
        return None

    def _closes_opening_bracket(self) -> bool:
        """Whether the brackets just opened and closed are `(TAG ()`, a round bracket as a word.

        Under the root of a tree, `(TOP ())`, they are a node without a word.
        """
        if self._state != _LABEL or len(self._open) < 2:
            return False
        parent = self._open[-2]
        is_root = len(self._open) == 2 and parent.label() != _OPENING
        return bool(parent.label()) and not parent and not is_root

    def _is_closing_bracket(self, index: int, text: str) -> bool:
        """Whether `)` is a word, `(TAG ))`: the tag says so, or an opening bracket is unpaired."""
        if text[index + 1 : index + 2] != ")":
            return False
        node = self._open[-1]
        if not node.label():
            return self._unpaired > 0 and text[index - 1 : index] == "("
        is_apart = index == 0 or text[index - 1].isspace()
        return is_apart and (node.label() == _CLOSING or self._unpaired > 0)

    def _finished(self, tree: Tree) -> Tree | None:
        """The tree that has ended, unless it holds no words."""
        if tree and self._bare:
            self._settle_bare_nodes(tree)
        if tree:
            self.empty_nodes += sorted(self._pruned)
            return tree
        if self._keep_empty:
            return self._tree("", [])
        self.empty_trees.append(self._start)
        return None

    def _settle_bare_nodes(self, tree: Tree) -> None:
        """Interpret nodes with only a label, such as `(dog)`.

        If the tree has no other words and each such node is the only child of a tag, they are
        words. Otherwise `(.)` is the punctuation `(. .)`, and `(dog)` is a node without a word.
        """
        if not _has_words(tree) and all(
            len(parent) == 1 and parent.label() for parent, _, _ in self._bare
        ):
            for parent, node, _ in self._bare:
                parent[:] = [node.label()]
            self.bracketed.append(self._start)
            return
        for _, node, position in self._bare:
            if any(map(str.isalnum, node.label())):
                self._pruned.append(position)
            else:
                node.append(node.label())
        _remove_empty_nodes(tree)

    def _may_lack_label(self) -> bool:
        """Whether the bracket just opened may lack a label: around a tree, but not inside one."""
        # The brackets further out were checked when this one was opened.
        outer = self._open[-2:-1]
        return not outer or (not outer[0].label() and not outer[0])

    def _missing_label(self) -> TreebankError:
        line, column = self._bracket
        if column == 1:
            return self._second_start_error(line)
        return TreebankError(
            "expected a label after '('; only the outermost bracket of a tree may lack one "
            f"({self._context()})",
            self.path,
            line,
            column,
        )

    def _note_second_start(self, text: str) -> None:
        """Watch for a tree that begins in column 1 while another is open.

        Lines may be broken anywhere, so this is an error only if the label is a root label.
        Otherwise the position is kept for the message at the end of the file.
        """
        if self._second_start is None:
            self._second_start = (self._line, 1)
        match = _FIRST_LABEL.match(text)
        label = match[1] if match else ""
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


def _has_words(tree: Tree) -> bool:
    pending = [tree]
    while pending:
        for child in pending.pop():
            if isinstance(child, str):
                return True
            pending.append(child)
    return False


def _remove_empty_nodes(tree: Tree) -> None:
    """Take out nodes without a word, and with them every node that they leave empty."""
    parents_first, pending = [], [tree]
    while pending:
        node = pending.pop()
        parents_first.append(node)
        pending.extend(child for child in node if not isinstance(child, str))
    for node in reversed(parents_first):
        node[:] = [child for child in node if child]


def _brackets(count: int) -> str:
    return "1 bracket is" if count == 1 else f"{count} brackets are"
