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
from rnnparse.trees.style import TreebankStyle


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """A place for NLTK data with one small corpus in it, `pets`."""
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    folder = tmp_path / "corpora" / "pets"
    folder.mkdir(parents=True)
    (folder / "1.mrg").write_text("( (S (N dogs)) )\n( (S (N cats)) )\n")
    (folder / "2.mrg").write_text("(S (N fish))\n")

    def define(name, reader, **options):
        loader = LazyCorpusLoader(name, reader, r".*\.mrg", **options)
        monkeypatch.setattr(sys.modules["nltk.corpus"], name, loader, raising=False)

    return define


def test_a_corpus_by_name(corpora):
    corpora("pets", BracketParseCorpusReader)
    dogs, cats, fish = (Tree("S", [Tree("N", [w])]) for w in ("dogs", "cats", "fish"))
    assert load_trees("nltk:pets") == [Tree("", [dogs]), Tree("", [cats]), fish]


def test_bytes_that_do_not_fit_the_encoding_of_a_corpus(corpora, tmp_path):
    corpora("pets", BracketParseCorpusReader)
    file = tmp_path / "corpora" / "pets" / "2.mrg"
    file.write_bytes(b"(S (N \xff))\n")
    reader = read_trees("nltk:pets")
    assert next(reader)[0] == Tree("S", [Tree("N", ["dogs"])])
    with pytest.raises(TreebankError, match=f"{file}:1:7: the byte 0xFF does not fit"):
        list(reader)
    assert load_trees("nltk:pets", encoding="latin-1")[2] == Tree("S", [Tree("N", ["ÿ"])])


def test_a_corpus_with_its_own_encoding_lemmas_and_malformed_trees(corpora, tmp_path, caplog):
    corpora("pets", BracketParseCorpusReader, encoding="iso-8859-15")
    file = tmp_path / "corpora" / "pets" / "2.mrg"
    text = "# a comment\n(S (N peces pez) (,) (N «)\n(S (N cats cat))\n(S (N aña aña))\n"
    file.write_text(text, encoding="iso-8859-15")
    assert [tree.leaves() for tree in read_trees("nltk:pets")] == [
        ["dogs"], ["cats"], ["cats"], ["aña"]
    ]  # fmt: skip
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        f"{file}:2:1: the tree that begins here is not closed: 1 bracket is missing at the end of "
        "the file; expected ')'; the '(' on line 3, column 1 may begin the next tree",
        "skipped 1 malformed tree(s); --strict stops at the first",
        f"skipped 1 comment line(s), the first at {file}:1:1",
    ]


def test_alpino_is_xml():
    with pytest.raises(TreebankError, match=r"nltk:alpino: this NLTK corpus is not.* but XML"):
        read_trees("nltk:alpino")


@pytest.mark.slow
def test_cess_esp(shared, monkeypatch, caplog):
    """NLTK reads 6,000 of 6,030 blocks; of the others 26 are the halves of 13 trees."""
    monkeypatch.setattr(nltk.data, "path", [str(shared / "nltk_data")])
    forest = load_trees("nltk:cess_esp")
    assert len(forest) == 6013
    folder = f"{shared}/nltk_data/corpora/cess_esp.zip/cess_esp"
    places = [record.getMessage().removeprefix(folder)[:30] for record in caplog.records]
    assert places == [
        "/10585_20000313.tbf:1046:1: a ",
        "/14827_20000719_3.tbf:72:14: '",
        "/16563_20001121.tbf:1041:1: th",
        "skipped 4 malformed tree(s), t",
    ]
    with pytest.raises(TreebankError, match=r"10585_20000313\.tbf:1046:1"):
        load_trees("nltk:cess_esp", style=TreebankStyle(strict=True))


def test_errors(corpora, tmp_path):
    corpora("pets", PlaintextCorpusReader)
    corpora("absent", BracketParseCorpusReader)
    corpora("empty", BracketParseCorpusReader)
    (tmp_path / "corpora" / "empty").mkdir()
    for name, words in [
        ("nltk:pets", "is not in bracket format"),
        ("nltk:absent", "not installed: python -m nltk.downloader absent"),
        ("nltk:empty", "NLTK finds no files of this corpus"),
        ("nltk:nosuch", "NLTK has no corpus of this name"),
        ("nltk:reader", "NLTK has no corpus of this name"),
        ("nltk:", "NLTK has no corpus of this name"),
    ]:
        with pytest.raises(TreebankError, match=words):
            read_trees(name)
