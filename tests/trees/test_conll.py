"""Columns of CoNLL-2005: other programs read them."""

from __future__ import annotations

from pathlib import Path

import nltk.data
import pytest
from hypothesis import HealthCheck, given, settings
from nltk.corpus.reader.conll import ConllCorpusReader
from nltk.tree import Tree

from rnnparse.trees.brackets import load_trees
from rnnparse.trees.cleaning import clean
from rnnparse.trees.conll import conll_lines
from rnnparse.trees.embedded import embedded_treebank
from tests.trees.strategies import trees


@pytest.fixture(autouse=True)
def allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK reads files of its own folders alone."""
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])


def read_back(folder: Path, text: str) -> list[Tree]:
    """The trees as NLTK reads the columns."""
    (folder / "trees.conll").write_text(text, encoding="utf-8")
    columns = ("ignore", "words", "pos", "tree")
    reader = ConllCorpusReader(str(folder), "trees.conll", columns, root_label="TOP")
    return list(reader.parsed_sents(pos_in_tree=True))


def test_the_columns_of_a_tree() -> None:
    tree = Tree.fromstring("(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN udon))) (. .)))")
    assert conll_lines(tree) == (
        "1\tThey\tPRP\t(TOP(S(NP*)\n2\tate\tVBD\t(VP*\n3\tudon\tNN\t(NP*))\n4\t.\t.\t*))\n"
    )
    assert conll_lines(Tree("", [])) == ""


def test_nltk_reads_the_trees_of_a_treebank(tmp_path: Path) -> None:
    gold = [tree for tree in map(clean, load_trees(embedded_treebank("test"))) if tree is not None]
    text = "\n".join(map(conll_lines, gold)) + "\n"
    assert read_back(tmp_path, text) == gold


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("(", "-LRB-"), ("a)b", "a-RRB-b"), ("*", "*"), ("a\u00a0b", "a_b"), ("😀", "😀"),
        ("-LRB-", "-LRB-"), ("1\\/2", "1\\/2"), ("#", "#"),
    ],
)  # fmt: skip
def test_words_of_all_kinds_stay_in_their_column(tmp_path: Path, word: str, shown: str) -> None:
    tree = Tree("TOP", [Tree("NP", [Tree("NN", [word]), Tree("(", ["x"])])])
    (back,) = read_back(tmp_path, conll_lines(tree) + "\n")
    assert back.leaves() == [shown, "x"]
    assert [node.label() for node in back.subtrees()] == ["TOP", "NP", "NN", "-LRB-"]


def test_labels_have_no_asterisks_or_white_space() -> None:
    tree = Tree("TOP", [Tree("N*\u00a0P", [Tree("", ["x"])])])
    assert conll_lines(tree) == "1\tx\t_\t(TOP(N__P*))\n"


def test_a_word_with_siblings_is_refused() -> None:
    with pytest.raises(ValueError, match="'b' has siblings"):
        conll_lines(Tree("TOP", [Tree("NP", [Tree("NN", ["a"]), "b"])]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees())
def test_brackets_balance_and_every_token_has_a_line(tree: Tree) -> None:
    lines = conll_lines(tree).splitlines()
    columns = [line.split("\t") for line in lines]
    assert [int(row[0]) for row in columns] == list(range(1, len(tree.leaves()) + 1))
    brackets = "".join(row[3] for row in columns)
    assert (
        brackets.count("(")
        == brackets.count(")")
        == sum(1 for node in tree.subtrees() if not (len(node) == 1 and isinstance(node[0], str)))
    )
    assert all(row[3].count("*") == 1 for row in columns)
