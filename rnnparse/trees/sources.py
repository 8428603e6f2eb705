"""Sources of trees: files, folders, glob patterns, standard input, open files.

A source is resolved to a list of files before anything is read, so that a misspelt path is
reported at once.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rnnparse.errors import TreebankError

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees", ".psd", ".parse")
"""Suffixes of treebank files in a folder; each may be followed by `.gz`."""

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 16
_LONGEST_WORD = 1 << 24  # characters; a longer one is not text
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


def find_files(source: str | os.PathLike[str]) -> list[Path]:
    """The treebank files of a path, a folder or a glob pattern, sorted.

    A folder is searched, with its subfolders, for files with the `SUFFIXES`; hidden files and links
    to folders are skipped. A path to a single file may have any name.

    Raises:
        TreebankError: there are no files, or a folder cannot be read.
    """
    name = os.path.expanduser(os.fspath(source))
    path = Path(name)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError) as error:
        raise TreebankError(f"cannot read: {_reason(error)}", name) from error
    if is_folder:
        return _files_in_folder(path)
    if exists:
        return [path]
    if any(sign in name for sign in "*?["):
        return _files_of_pattern(name)
    raise TreebankError("no such file or folder", name)


def _files_of_pattern(pattern: str) -> list[Path]:
    matches = sorted(map(Path, glob.glob(pattern, recursive=True)), key=lambda path: path.parts)
    folders = [path for path in matches if path.is_dir()]
    files = {path: None for path in matches if not path.is_dir()}
    if not files and folders:
        # A pattern such as wsj/0[2-9] names folders; with ** it names them beside their files.
        for folder in folders:
            files.update(dict.fromkeys(_files_in_folder(folder)))
    if not files:
        raise TreebankError("no file matches this pattern", pattern)
    return list(files)


def _files_in_folder(folder: Path) -> list[Path]:
    def fail(error: OSError) -> None:
        place = str(error.filename or folder)
        raise TreebankError(f"cannot read this folder: {_reason(error)}", place) from error

    paths = []
    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            uncompressed = name.lower().removesuffix(".gz")
            if uncompressed.endswith(SUFFIXES) and not name.startswith("."):
                paths.append(Path(parent, name))
    if not paths:
        raise TreebankError(
            f"no treebank file in this folder; expected names that end in {', '.join(SUFFIXES)}, "
            "or these with .gz",
            str(folder),
        )
    return sorted(paths, key=lambda path: path.parts)


@contextmanager
def open_text(path: Path | None, encoding: str) -> Iterator[TextIO]:
    """Open a file, or standard input for None, as text; gzip is recognised by its first bytes.

    Bytes that the encoding cannot decode become lone surrogates (PEP 383), so that the reader can
    report their line and column.
    """
    codec = _codec(encoding, str(path or "<stdin>"))
    if path is None:
        binary: Any = getattr(sys.stdin, "buffer", None)
        if sys.stdin is None:
            raise TreebankError("standard input is closed", "<stdin>")
        if binary is None:
            yield sys.stdin
            return
        text = _decode(binary, codec)
        try:
            yield text
        finally:
            text.detach()  # closing the wrapper would close standard input
        return
    try:
        binary = open(path, "rb")  # noqa: SIM115 (closed below, with the text)
        text = _decode(binary, codec)
    except OSError as error:
        raise TreebankError(f"cannot read: {_reason(error)}", str(path)) from error
    with binary, text:
        yield text


def decoded(content: io.BytesIO, encoding: str, path: str) -> TextIO:
    """The text of a file in memory, decoded as by `open_text`."""
    return _decode(io.BufferedReader(content), _codec(encoding, path))  # type: ignore[arg-type]


def _codec(encoding: str, path: str) -> str:
    try:
        # UTF-8 with a byte-order mark is common in files that Windows programs wrote.
        return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    except LookupError as error:
        raise TreebankError(f"unknown encoding {encoding!r}", path) from error


def _decode(binary: Any, codec: str) -> io.TextIOWrapper:
    if hasattr(binary, "peek") and binary.peek(2)[:2] == _GZIP_MAGIC:
        binary = io.BufferedReader(gzip.GzipFile(fileobj=binary))  # type: ignore[arg-type]
    return io.TextIOWrapper(binary, encoding=codec, errors="surrogateescape")


def read_lines(stream: TextIO, path: str) -> Iterator[tuple[int, int, str]]:
    """Pieces of a text that end between words: (line number, columns before the piece, piece).

    A piece is a line, or a part of about 64 K characters of a very long line. Every piece except
    the last ends in white space.

    Raises:
        TreebankError: the stream cannot be read or decoded, or contains NUL characters.
    """
    number, offset, held = 1, 0, ""
    while True:
        # Reading at least as much as is held back keeps the work linear in a word's length.
        chunk = _read_chunk(stream, max(_BLOCK, len(held)), path, number)
        _check_characters(chunk, path, number, offset + len(held))
        piece, held = held + chunk, ""
        if not piece:
            return
        if chunk and not chunk.endswith("\n"):
            cut = 1 + max(piece.rfind(space) for space in " \n\t\r\f\v")
            piece, held = piece[:cut], piece[cut:]
            if len(held) > _LONGEST_WORD:
                raise TreebankError(
                    "a word of more than 16 million characters: this is not a treebank",
                    path,
                    number,
                )
            if not piece:
                continue
        yield number, offset, piece
        if piece.endswith("\n"):
            number, offset = number + 1, 0
        else:
            offset += len(piece)


def _check_characters(text: str, path: str, line: int, offset: int) -> None:
    if "\0" not in text and text.isascii():
        return
    unreadable = _UNREADABLE.search(text)
    if unreadable is None:
        return
    column = offset + unreadable.start() + 1
    byte = ord(unreadable[0]) & 0xFF
    if unreadable[0] == "\0":
        message = "a NUL character: this is a binary file, or text in UTF-16 (--encoding utf-16)"
    elif (line, column) == (1, 1) and byte in (0xFE, 0xFF):
        message = f"the byte 0x{byte:02X} does not fit the encoding; try --encoding utf-16"
    else:
        message = (
            f"the byte 0x{byte:02X} does not fit the encoding; name the encoding of the file, for "
            "example --encoding latin-1, or convert the file to UTF-8"
        )
    raise TreebankError(message, path, line, column)


def _read_chunk(stream: TextIO, size: int, path: str, number: int) -> str:
    try:
        chunk = stream.readline(size)
    except EOFError as error:
        raise TreebankError("the compressed file is cut off before its end", path) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TreebankError(f"the compressed file is damaged: {error}", path) from error
    except UnicodeError as error:
        raise TreebankError(f"wrong encoding: {error}", path, number) from error
    except (OSError, ValueError) as error:
        raise TreebankError(f"cannot read: {_reason(error)}", path) from error
    if not isinstance(chunk, str):
        raise TreebankError("opened in binary mode; open it in text mode", path)
    return chunk


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
