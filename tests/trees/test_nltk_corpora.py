"""Corpora by their NLTK name; the data is made here, so that none needs to be installed."""

from __future__ import annotations

import sys

import nltk
import pytest
from nltk.corpus.reader import BracketParseCorpusReader, PlaintextCorpusReader
from nltk.corpus.util import LazyCorpusLoader
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees.brackets import load_trees, read_trees


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """A place for NLTK data with one small corpus in it, `pets`."""
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    folder = tmp_path / "corpora" / "pets"
    folder.mkdir(parents=True)
    (folder / "1.mrg").write_text("( (S (N dogs)) )\n( (S (N cats)) )\n")
    (folder / "2.mrg").write_text("(S (N fish))\n")

    def define(name, reader):
        loader = LazyCorpusLoader(name, reader, r".*\.mrg")
        monkeypatch.setattr(sys.modules["nltk.corpus"], name, loader, raising=False)

    return define


def test_a_corpus_by_name(corpora):
    corpora("pets", BracketParseCorpusReader)
    assert load_trees("nltk:pets") == [
        Tree("S", [Tree("N", [w])]) for w in ("dogs", "cats", "fish")
    ]


def test_what_nltk_itself_refuses(corpora, tmp_path):
    corpora("pets", BracketParseCorpusReader)
    (tmp_path / "corpora" / "pets" / "2.mrg").write_bytes(b"(S (N \xff))\n")
    reader = read_trees("nltk:pets")
    assert next(reader) == Tree("S", [Tree("N", ["dogs"])])
    with pytest.raises(TreebankError, match="nltk:pets: NLTK cannot read this corpus"):
        list(reader)


def test_errors(corpora, tmp_path):
    corpora("pets", PlaintextCorpusReader)
    corpora("absent", BracketParseCorpusReader)
    corpora("empty", BracketParseCorpusReader)
    (tmp_path / "corpora" / "empty").mkdir()
    for name, words in [
        ("nltk:pets", "does not hold trees in brackets"),
        ("nltk:absent", "not installed: python -m nltk.downloader absent"),
        ("nltk:empty", "NLTK finds no file of this corpus"),
        ("nltk:nosuch", "NLTK has no corpus of this name"),
        ("nltk:reader", "NLTK has no corpus of this name"),
        ("nltk:", "NLTK has no corpus of this name"),
    ]:
        with pytest.raises(TreebankError, match=words):
            read_trees(name)
