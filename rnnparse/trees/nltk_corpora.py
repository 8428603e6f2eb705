"""The files of NLTK's bracketed corpora."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from typing import Any

from nltk.corpus.reader.api import CorpusReader
from nltk.corpus.reader.bracket_parse import AlpinoCorpusReader, BracketParseCorpusReader
from nltk.corpus.util import LazyCorpusLoader

from rnnparse.errors import TreebankError

_NO_BRACKETS = "this NLTK corpus is not in bracket format"
_XML = f"{_NO_BRACKETS} but XML; convert it to brackets and pass the file"

# `import nltk.corpus` would give a lazy proxy of the module.
_corpora = importlib.import_module("nltk.corpus")


def corpus_files(source: str) -> Iterator[tuple[str, str | None, io.BytesIO]]:
    """Path, encoding and content of each file of an NLTK corpus.

    Args:
        source: `nltk:` and NLTK's name of the corpus: `treebank`, `ptb`, `cess_esp` …

    Raises:
        TreebankError: at once if the corpus does not exist, is not downloaded, or is not in
            brackets; while iterating if a file cannot be read.
    """
    name = source.partition(":")[2]
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
            f"NLTK finds no files of this corpus; it looks for {reader._fileids} in {reader.root}",
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
