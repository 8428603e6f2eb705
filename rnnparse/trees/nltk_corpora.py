"""The files of the bracket corpora that NLTK knows by name."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from typing import Any

from nltk.corpus.reader.api import CorpusReader
from nltk.corpus.reader.bracket_parse import AlpinoCorpusReader, BracketParseCorpusReader
from nltk.corpus.util import LazyCorpusLoader

from rnnparse.errors import TreebankError

PREFIX = "nltk:"
_NO_BRACKETS = "this NLTK corpus does not hold trees in brackets"
_XML = f"{_NO_BRACKETS} but XML; convert it to brackets first, and give the file"

# Not `import nltk.corpus`: as an attribute of nltk this is a lazy stand-in for the module.
_corpora = importlib.import_module("nltk.corpus")


def corpus_files(name: str) -> Iterator[tuple[str, str | None, io.BytesIO]]:
    """Path, encoding and content of each file of an NLTK corpus.

    Args:
        name: the corpus as NLTK calls it: `treebank`, `ptb`, `cess_esp`, `floresta` …

    Raises:
        TreebankError: at once if there is no such corpus, its data is not downloaded, or it is not
            in brackets; while iterating if a file cannot be read.
    """
    source = PREFIX + name
    reader = getattr(_corpora, name, None)
    if not isinstance(reader, (LazyCorpusLoader, CorpusReader)):
        raise TreebankError("NLTK has no corpus of this name; try nltk:treebank", source)
    if name == "alpino":  # known before its data is downloaded
        raise TreebankError(_XML, source)
    try:
        files = reader.fileids()
    except LookupError as error:
        raise TreebankError(
            f"the data of this corpus is not installed: python -m nltk.downloader {name}", source
        ) from error
    except OSError as error:
        raise TreebankError(f"NLTK cannot read this corpus: {error}", source) from error
    if isinstance(reader, AlpinoCorpusReader):
        raise TreebankError(_XML, source)
    if not isinstance(reader, BracketParseCorpusReader):
        raise TreebankError(_NO_BRACKETS, source)
    if not files:
        raise TreebankError(
            f"NLTK finds no file of this corpus; it looks for {reader._fileids} in {reader.root}",
            source,
        )
    return _contents(reader, files, source)


def _contents(
    reader: Any, files: list[str], source: str
) -> Iterator[tuple[str, str | None, io.BytesIO]]:
    for file in files:
        try:
            path = reader.abspath(file)
            with path.open() as stream:
                content = stream.read()
        except (OSError, ValueError) as error:
            raise TreebankError(f"NLTK cannot read {file}: {error}", source) from error
        yield str(path), reader.encoding(file), io.BytesIO(content)
