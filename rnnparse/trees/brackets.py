"""Penn bracket format: streaming reader and writer.

Trees may be separated by white space or nothing, and may take one line or many. An unlabelled
bracket around a tree, `( (S ...) )`, gives `Tree("", [...])`, also if it has several children.
White space is ASCII white space: a no-break or thin space is part of a word.

Round brackets as words are `-LRB-` and `-RRB-`. The reader also accepts unescaped ones:
`(PUNCT ()`, and `(PUNCT ))` if its tag is -RRB- or an opening bracket precedes it in the tree.

Words may have their own brackets, `(NN (dog))`, if all words of the tree have. In other trees a
node with only a label is punctuation, `(.)` for `(. .)`, if the label has no letter or digit;
otherwise it is a node without a word.

The reader skips malformed trees (see `rnnparse.trees.bracket_recovery`), trees without words such
as `(())`, nodes without words such as `(HYPH )`, and comments: lines between trees that begin with
`#`. A warning to the logger `rnnparse` counts them. It silently skips lines between trees that
begin with `*x*`, the licence headers of Penn's Switchboard and Brown files.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from rnnparse.errors import TreebankError
from rnnparse.trees.bracket_recovery import Recovery
from rnnparse.trees.node import is_tree
from rnnparse.trees.scanner import TreeScanner
from rnnparse.trees.skipped_text import SkippedText
from rnnparse.trees.sources import decoded, find_files, open_text, read_lines
from rnnparse.trees.style import DEFAULT_STYLE, TreebankStyle

if TYPE_CHECKING:
    from nltk.tree import Tree

Source = str | os.PathLike[str] | TextIO
"""A source of trees; see `read_trees`."""

EMPTY = "(())"
"""Output for a sentence without a tree."""

_CORPUS = "nltk:"  # begins the name of a corpus of NLTK
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
"""Escapes of characters. All treebanks escape round brackets; some also escape others."""

_UNESCAPED = {escape: character for character, escape in ESCAPES.items()}
_ESCAPED = re.compile(r"-[LR][RSC]B-|\\[/*]")
_ESCAPED_OR_NOT = re.compile(rf"{_ESCAPED.pattern}|[()\[\]{{}}/*]")


def read_trees(
    source: Source,
    *,
    encoding: str | None = None,
    style: TreebankStyle = DEFAULT_STYLE,
    keep_empty: bool = False,
) -> Iterator[Tree]:
    """Read trees one by one; only a few are in memory at a time.

    Args:
        source: a file (gzip is recognised), a folder (its files that end in .mrg, .ptb, .tree,
            .trees, .psd or .parse, each also with .gz, in sorted order, subfolders included), a
            glob pattern, "-" for standard input, "nltk:NAME" for a bracket corpus of NLTK
            ("nltk:treebank", "nltk:cess_esp"), or an open text file.
        encoding: encoding of files and standard input; overrides that of the style. A UTF-8
            byte-order mark is skipped.
        style: conventions of the treebank. The reader uses `encoding`, `strict` and `lemmas`;
            `rnnparse.trees.clean` uses the others.
        keep_empty: whether trees without words are returned as `Tree("", [])`.

    Returns:
        An iterator over the trees as the file has them: leaves are escaped words (`-LRB-`), and
        traces and function tags are kept. Malformed trees are skipped; a warning counts them.

    Raises:
        TreebankError: at once if `source` has no files; while iterating, after the trees before
            it, if text cannot be read. Malformed trees raise it, with line and column, if the
            style is strict or the source has no well-formed tree.
    """
    from nltk.tree import Tree

    return read_as(Tree, source, _with_encoding(style, encoding), keep_empty)


def read_as(
    tree_type: type, source: Source, style: TreebankStyle, keep_empty: bool = False
) -> Iterator[Any]:
    """`read_trees` for trees of one type, `Node` or NLTK's `Tree`."""
    return _read_all(_open_all(source, style), tree_type, style, keep_empty)


def load_trees(
    source: Source,
    *,
    encoding: str | None = None,
    style: TreebankStyle = DEFAULT_STYLE,
    keep_empty: bool = False,
) -> list[Tree]:
    """All trees of `source` as a list; arguments and errors as for `read_trees`.

    Raises:
        TreebankError: as `read_trees`, or there are no trees.
    """
    from nltk.tree import Tree

    return load_as(Tree, source, _with_encoding(style, encoding), keep_empty)


def load_as(
    tree_type: type, source: Source, style: TreebankStyle, keep_empty: bool = False
) -> list[Any]:
    """`load_trees` for trees of one type, `Node` or NLTK's `Tree`."""
    trees = list(read_as(tree_type, source, style, keep_empty))
    if not trees:
        raise TreebankError(
            "no trees in this file; expected trees in brackets", source_name(source)
        )
    return trees


def format_tree(tree: Tree) -> str:
    """The tree in Penn brackets on one line; round brackets in words and labels are escaped.

    The empty tree `Tree("", [])` (a sentence without a tree) is `(())`. A node may lack a label
    where the reader allows it: at the root, and as the first child of a node without a label.

    Raises:
        ValueError: another node has no children or no label, a word has siblings, or
            `escape_token` rejects a word or label.
    """
    return EMPTY if not tree and not tree.label() else _format(tree)


def write_trees(trees: Iterable[Tree], path: str | os.PathLike[str]) -> int:
    """Write trees, one per line; the file appears only when it is complete.

    Args:
        trees: any iterable; a generator is consumed tree by tree.
        path: the file, compressed if its name ends in `.gz`; "-" for standard output.

    Returns:
        The number of trees.

    Raises:
        TreebankError: the file cannot be written.
        ValueError: a tree cannot be written (see `format_tree`); `path` then keeps its old file.
    """
    count = 0
    with open_output(os.fspath(path)) as stream:
        for tree in trees:
            stream.write(format_tree(tree) + "\n")
            count += 1
    return count


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """Open a file for writing; it appears only when it is complete.

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
    """The escaped form of a word, as trees hold it: `Solano(r)` gives `Solano-LRB-r-RRB-`.

    Escapes that the word already has are kept.

    Args:
        token: the word.
        also: further characters to escape, from `[]{}/*`. The format does not require them;
            treebanks differ.

    Raises:
        ValueError: the word is empty or contains ASCII white space, NUL or a lone surrogate.
    """
    if not token:
        raise ValueError("a word in a tree cannot be empty")
    forbidden = _NOT_IN_TOKEN.search(token)
    if forbidden:
        raise ValueError(
            f"a word in a tree cannot contain the character {forbidden[0]!r}: {token!r}"
        )
    if not also:
        return token.replace("(", "-LRB-").replace(")", "-RRB-")
    return escape_characters(token, "()" + also)


def escape_characters(text: str, characters: str) -> str:
    """Escape the given characters (keys of `ESCAPES`) in a text; existing escapes are kept."""
    return _ESCAPED_OR_NOT.sub(
        lambda part: ESCAPES[part[0]] if part[0] in characters else part[0], text
    )


def unescape_token(token: str) -> str:
    """The unescaped word: `-LRB-` gives `(`, `-LSB-` `[`, `-LCB-` `{`, `1\\/2` `1/2`."""
    if "B-" not in token and "\\" not in token:
        return token
    return _ESCAPED.sub(lambda part: _UNESCAPED[part[0]], token)


def source_name(source: Source | Path | None) -> str:
    """The name of a source in messages."""
    if source is None or source == "-":
        return "<stdin>"
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<text>"


def _with_encoding(style: TreebankStyle, encoding: str | None) -> TreebankStyle:
    return style if encoding is None else replace(style, encoding=encoding)


_File = tuple[str, bool, AbstractContextManager[TextIO]]
"""Name, whether it belongs to an NLTK corpus, and how to open it."""


def _open_all(source: Source, style: TreebankStyle) -> Iterator[_File]:
    """The files of a source; each is opened in its turn.

    Raises:
        TreebankError: at once if there are none.
    """
    encoding = style.encoding or "utf-8"
    if not isinstance(source, (str, os.PathLike)):
        return iter([(source_name(source), False, nullcontext(source))])
    name = os.fspath(source)
    if name.startswith(_CORPUS):
        from rnnparse.trees.nltk_corpora import corpus_files

        return (
            (path, True, closing(decoded(content, style.encoding or usual or encoding, path)))
            for path, usual, content in corpus_files(name)
        )
    files = [None] if name == "-" else find_files(source)
    return ((source_name(file), False, open_text(file, encoding)) for file in files)


def _read_all(
    files: Iterator[_File], tree_type: type, style: TreebankStyle, keep_empty: bool
) -> Iterator[Tree]:
    """Trees of all files in turn."""
    skipped, is_empty = SkippedText(), True
    for name, is_corpus, opening in files:
        # Like NLTK's own reader, skip lemmas.
        lemmas = style.lemmas or is_corpus
        scanner = TreeScanner(name, tree_type, lemmas=lemmas, keep_empty=keep_empty)
        with opening as stream:
            pieces = _pieces(stream, name)
            if style.strict:
                trees = _read_strictly(pieces, scanner)
            else:
                recovery = Recovery(scanner)
                skipped.errors.append(recovery.errors)
                trees = recovery.read(pieces)
            for tree in trees:
                is_empty = False
                yield tree
        skipped.add(scanner)
    errors = skipped.malformed()
    if is_empty and errors:
        raise errors[0]
    skipped.log()


def _pieces(stream: TextIO, path: str) -> Iterator[tuple[int, int, str]]:
    for line, offset, text in read_lines(stream, path):
        if line == 1 and offset == 0:
            text = text.removeprefix("\ufeff")
        if text:
            yield line, offset, text


def _read_strictly(pieces: Iterable[tuple[int, int, str]], scanner: TreeScanner) -> Iterator[Tree]:
    for line, offset, text in pieces:
        yield from scanner.feed(line, offset, text)
    scanner.finish()


def _format(tree: Tree) -> str:
    pieces: list[str] = []
    # Only the root, and the first child of a node without a label, may lack a label.
    pending: list[tuple[Tree | str, bool]] = [(tree, True)]
    while pending:
        node, may_lack_label = pending.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        if not node.label() and not may_lack_label:
            raise ValueError(
                "only the root, and the first child of a root without a label, may lack a label"
            )
        label = _checked(node.label()) if node.label() else ""
        if label and len(node) == 1 and isinstance(node[0], str):
            pieces.append(f" ({label} {_checked(node[0])})")
            continue
        if not node or not all(map(is_tree, node)):
            raise ValueError(
                f"the node {label!r} cannot be written in brackets: expected one word or only "
                f"nodes as its children, found {list(node)!r:.80}"
            )
        pieces.append(f" ({label}")
        pending.append((")" if label else " )", False))
        pending.extend((child, not label and i == 0) for i, child in _last_first(node))
    return "".join(pieces)[1:]


def _last_first(node: Tree) -> Iterator[tuple[int, Tree]]:
    return zip(reversed(range(len(node))), reversed(node), strict=True)


def _checked(text: str) -> str:
    return text if text and not _SPECIAL.search(text) else escape_token(text)


@contextmanager
def _create(path: Path, compress: bool) -> Iterator[TextIO]:
    with open(path, "xb") as file:
        # With mtime=0 and without a name, equal trees give equal bytes.
        binary: Any = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if compress else file
        with io.TextIOWrapper(cast(Any, binary), encoding="utf-8", newline="\n") as stream:
            yield stream
