"""Penn bracket format: streaming reader and writer.

What is read: trees separated by anything or nothing, on one line or over many; an unlabelled
bracket around a tree, `( (S ...) )`, gives `Tree("", [...])`, also when it branches. White space
is ASCII white space: a no-break or thin space belongs to its word. Round brackets as words are
`-LRB-` and `-RRB-`; written as they are, `(-LRB- ()` and `(-RRB- ))`, they are read too, because
the tag leaves no other reading. Lines that begin with `*x*` outside trees (the licence heads of
Penn's Switchboard and Brown files) are passed over.

What is left out, with one warning to the logger `rnnparse` that counts: trees without a word,
`(())`, and nodes without a word, `(HYPH )`, inside trees.
"""

from __future__ import annotations

import gzip
import io
import logging
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees.nltk_corpora import PREFIX, read_corpus
from rnnparse.trees.scanner import TreeScanner
from rnnparse.trees.sources import find_files, open_text, read_lines

Source = str | os.PathLike[str] | TextIO
"""What trees are read from; see `read_trees`."""

_log = logging.getLogger("rnnparse")
_LICENCE_LINE = "*x*"
_NOT_IN_TOKEN = re.compile("[ \t\n\r\f\v\0\ud800-\udfff]")
_SPECIAL = re.compile("[() \t\n\r\f\v\0\ud800-\udfff]")
ESCAPES = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
    "/": "\\/",
    "*": "\\*",
}
"""What treebanks write in place of a character: all of them for round brackets, some for others."""

_UNESCAPED = {escape: character for character, escape in ESCAPES.items()}
_ESCAPED = re.compile(r"-[LR][RSC]B-|\\[/*]")
_ESCAPED_OR_PLAIN = re.compile(rf"{_ESCAPED.pattern}|[()\[\]{{}}/*]")


def read_trees(source: Source, *, encoding: str = "utf-8") -> Iterator[Tree]:
    """Read trees one by one; memory holds one tree at a time.

    Args:
        source: a file (gzip is recognised), a folder (its files that end in .mrg, .ptb, .tree,
            .trees, .psd or .parse, each also with .gz, in sorted order, subfolders included), a
            glob pattern, "-" for standard input, "nltk:NAME" for a bracket corpus of NLTK
            ("nltk:treebank"), or an open text file.
        encoding: of files and standard input; a byte-order mark of UTF-8 is passed over.

    Returns:
        Trees as they stand in the file: leaves are words in escaped form (`-LRB-`), traces and
        functional tags are kept.

    Raises:
        TreebankError: at once where nothing is found at `source`; while iterating, after the
            trees before it, for what is malformed or unreadable, with line and column.
    """
    if not isinstance(source, (str, os.PathLike)):
        return _read_all([source], encoding)
    name = os.fspath(source)
    if name.startswith(PREFIX):
        return read_corpus(name.removeprefix(PREFIX))
    if name == "-":
        return _read_all([None], encoding)
    return _read_all(find_files(source), encoding)


def load_trees(source: Source, *, encoding: str = "utf-8") -> list[Tree]:
    """All trees of `source` as a list; arguments and errors as for `read_trees`.

    Raises:
        TreebankError: also where there is no tree.
    """
    trees = list(read_trees(source, encoding=encoding))
    if not trees:
        raise TreebankError("no tree in here; expected trees in brackets", _name(source))
    return trees


def format_tree(tree: Tree) -> str:
    """The tree in Penn brackets on one line; round brackets in words and labels are escaped.

    Raises:
        ValueError: the format cannot hold the tree: a node without children, a label that is
            empty below the root, a word that does not stand alone under its tag, or what
            `escape_token` rejects.
    """
    if not tree.label() and all(isinstance(child, Tree) for child in tree) and len(tree):
        return f"( {' '.join(map(_format_labelled, tree))} )"
    return _format_labelled(tree)


def write_trees(trees: Iterable[Tree], path: str | os.PathLike[str]) -> int:
    """Write trees, one a line; the file appears only when it is complete.

    Args:
        trees: read as they are written; may be a generator.
        path: the file, compressed where its name ends in `.gz`; "-" for standard output.

    Returns:
        How many trees were written.

    Raises:
        TreebankError: the file cannot be written.
        ValueError: a tree cannot be written, see `format_tree`; an old file at `path` stays.
    """
    count = 0
    with open_output(os.fspath(path)) as stream:
        for tree in trees:
            stream.write(format_tree(tree) + "\n")
            count += 1
    return count


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """Open a file for writing as `write_trees` does: it appears only when it is complete.

    Raises:
        TreebankError: the file cannot be written.
    """
    if path == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            # A device or a pipe (/dev/null): renaming a file onto it would destroy it.
            with open(target, "w", encoding="utf-8") as stream:
                yield stream
            return
        partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
        try:
            with _create(partial, compress=path.endswith(".gz")) as stream:
                yield stream
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise TreebankError(
            f"cannot write: {(error.strerror or str(error)).lower()}", path
        ) from error


def escape_token(token: str, also: str = "") -> str:
    """A word as trees hold it: `Solano(r)` gives `Solano-LRB-r-RRB-`.

    A word in escaped form stays as it is.

    Args:
        token: the word.
        also: which characters besides round brackets are escaped, out of `[]{}/*`. The format
            needs none of them, and treebanks differ.

    Raises:
        ValueError: the word is empty, or has ASCII white space, NUL or a lone surrogate in it.
    """
    if not token:
        raise ValueError("an empty word cannot stand in a tree")
    found = _NOT_IN_TOKEN.search(token)
    if found:
        raise ValueError(f"a word in a tree cannot hold the character {found[0]!r}: {token!r}")
    if not also:
        return token.replace("(", "-LRB-").replace(")", "-RRB-")
    return escape_characters(token, "()" + also)


def escape_characters(text: str, characters: str) -> str:
    """Any text with these characters, out of those in `ESCAPES`, escaped where they are not yet."""
    return _ESCAPED_OR_PLAIN.sub(
        lambda part: ESCAPES[part[0]] if part[0] in characters else part[0], text
    )


def unescape_token(token: str) -> str:
    """The word as people write it: `-LRB-` gives `(`, `-LSB-` `[`, `-LCB-` `{`, `1\\/2` `1/2`."""
    if "B-" not in token and "\\" not in token:
        return token
    return _ESCAPED.sub(lambda part: _UNESCAPED[part[0]], token)


def _name(source: Source | Path | None) -> str:
    if source is None or source == "-":
        return "<stdin>"
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<text>"


def _read_all(files: Iterable[Path | TextIO | None], encoding: str) -> Iterator[Tree]:
    """Trees of all files in turn; None is standard input."""
    notes = _Notes()
    for file in files:
        scanner = TreeScanner(_name(file))
        if file is None or isinstance(file, Path):
            with open_text(file, encoding) as stream:
                yield from _read_stream(stream, scanner)
        else:
            yield from _read_stream(file, scanner)
        notes.add(scanner)
    notes.log()


def _read_stream(stream: TextIO, scanner: TreeScanner) -> Iterator[Tree]:
    for line, offset, text in read_lines(stream, scanner.path):
        if line == 1 and offset == 0:
            text = text.removeprefix("\ufeff")
        if text.startswith(_LICENCE_LINE) and scanner.between_trees:
            continue
        yield from scanner.feed(line, offset, text)
    scanner.finish()


class _Notes:
    """Counts what was left out and where it first happened, over all files of one source."""

    def __init__(self) -> None:
        self._counts = {"empty tree(s)": 0, "node(s) without a word": 0}
        self._first: dict[str, str] = {}

    def add(self, scanner: TreeScanner) -> None:
        found = (scanner.empty_trees, scanner.empty_nodes)
        for what, places in zip(self._counts, found, strict=True):
            if places:
                self._counts[what] += len(places)
                line, column = places[0]
                self._first.setdefault(what, f"{scanner.path}:{line}:{column}")

    def log(self) -> None:
        parts = [
            f"{count} {what}, the first at {self._first[what]}"
            for what, count in self._counts.items()
            if count
        ]
        if parts:
            _log.warning("left out %s", "; ".join(parts))


def _format_labelled(tree: Tree) -> str:
    pieces: list[str] = []
    pending: list[Tree | None] = [tree]
    while pending:
        node = pending.pop()
        if node is None:
            pieces.append(")")
            continue
        if not node.label():
            raise ValueError("only a root above other nodes can go without a label")
        label = _checked(node.label())
        if len(node) == 1 and isinstance(node[0], str):
            pieces.append(f" ({label} {_checked(node[0])})")
            continue
        if not node or not all(isinstance(child, Tree) for child in node):
            raise ValueError(
                f"the node {label!r} cannot be written in brackets: expected one word, or only "
                f"nodes, below it, found {list(node)!r:.80}"
            )
        pieces.append(f" ({label}")
        pending.append(None)
        pending.extend(reversed(node))
    return "".join(pieces)[1:]


def _checked(text: str) -> str:
    return text if text and not _SPECIAL.search(text) else escape_token(text)


@contextmanager
def _create(path: Path, compress: bool) -> Iterator[TextIO]:
    with open(path, "xb") as file:
        # mtime=0 and no name inside: equal trees give equal bytes.
        binary: Any = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if compress else file
        with io.TextIOWrapper(cast(Any, binary), encoding="utf-8", newline="\n") as stream:
            yield stream
