"""Trees of the bracket corpora that NLTK knows by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from nltk.corpus.reader.api import CorpusReader
from nltk.corpus.reader.bracket_parse import BracketParseCorpusReader
from nltk.corpus.util import LazyCorpusLoader
from nltk.tree import Tree

from rnnparse.errors import TreebankError

PREFIX = "nltk:"

# Not `import nltk.corpus`: as an attribute of nltk this is a lazy stand-in for the module.
_corpora = importlib.import_module("nltk.corpus")


def read_corpus(name: str) -> Iterator[Tree]:
    """Trees of an NLTK corpus, file by file, as NLTK's own reader for it makes them.

    Args:
        name: the corpus as NLTK calls it: `treebank`, `ptb`, `cess_esp`, `floresta` …

    Raises:
        TreebankError: no such corpus, its data is not downloaded, or it is not in brackets.
    """
    source = PREFIX + name
    reader = getattr(_corpora, name, None)
    if not isinstance(reader, (LazyCorpusLoader, CorpusReader)):
        raise TreebankError("NLTK has no corpus of this name; try nltk:treebank", source)
    try:
        files = reader.fileids()
    except LookupError as error:
        raise TreebankError(
            f"the data of this corpus is not installed: python -m nltk.downloader {name}", source
        ) from error
    except OSError as error:
        raise TreebankError(f"NLTK cannot read this corpus: {error}", source) from error
    if not isinstance(reader, BracketParseCorpusReader):
        raise TreebankError("this NLTK corpus does not hold trees in brackets", source)
    if not files:
        raise TreebankError(
            f"NLTK finds no file of this corpus; it looks for {reader._fileids} in {reader.root}",
            source,
        )
    return _read_files(reader, files, source)


def _read_files(reader: Any, files: list[str], source: str) -> Iterator[Tree]:
    try:
        for file in files:
            yield from reader.parsed_sents(file)
    except (OSError, ValueError) as error:
        raise TreebankError(f"NLTK cannot read this corpus: {error}", source) from error
