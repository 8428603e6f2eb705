"""The bracket reader and writer on well-formed text."""

from __future__ import annotations

import gzip
import io
import logging
import os
import re
import sys
import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees.brackets import (
    escape_token,
    format_tree,
    load_trees,
    read_trees,
    unescape_token,
    write_trees,
)
from rnnparse.trees.style import TreebankStyle
from tests.trees.strategies import any_text, trees

STRICT = TreebankStyle(strict=True)
DOG = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"


def read(text: str) -> list[Tree]:
    return list(read_trees(io.StringIO(text)))


def test_tree_structure():
    (tree,) = read(DOG)
    expected = Tree(
        "S",
        [
            Tree("NP", [Tree("DT", ["the"]), Tree("NN", ["dog"])]),
            Tree("VP", [Tree("VBZ", ["barks"])]),
        ],
    )
    assert tree == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(A a)(B b) (C c)", [Tree("A", ["a"]), Tree("B", ["b"]), Tree("C", ["c"])]),
        ("\n\n(A\n\ta\n)\n", [Tree("A", ["a"])]),
        ("(A\r\n  (B b)\r\n)\r\n", [Tree("A", [Tree("B", ["b"])])]),
        ("(\nA (B b))", [Tree("A", [Tree("B", ["b"])])]),
        ("( A a )", [Tree("A", ["a"])]),
        ("( (S (A a)) )", [Tree("", [Tree("S", [Tree("A", ["a"])])])]),
        ("((S (A a)) (. .))", [Tree("", [Tree("S", [Tree("A", ["a"])]), Tree(".", ["."])])]),
        ("( (A a) )", [Tree("", [Tree("A", ["a"])])]),
        ("( ( (A a)))", [Tree("", [Tree("", [Tree("A", ["a"])])])]),
        ("(S(A(B b)(C c)))", [Tree("S", [Tree("A", [Tree("B", ["b"]), Tree("C", ["c"])])])]),
        ("(ADJ schön) (NN 猫)", [Tree("ADJ", ["schön"]), Tree("NN", ["猫"])]),
        ("(NN a\u2009b\u00a0)", [Tree("NN", ["a\u2009b\u00a0"])]),
        ("(NN \u2009)", [Tree("NN", ["\u2009"])]),
        ("\ufeff(A a)", [Tree("A", ["a"])]),
    ],
)
def test_layouts(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "(P (-LRB- -LRB-) (N x) (-RRB- -RRB-))",
        "(P (-LRB- () (N x) (-RRB- )))",
        "(P (-LRB- ( ) (N x) (-RRB- -RRB-))",
        "(P\n(-LRB-\n()\n(N x)\n(-RRB-\n)))",
    ],
)
def test_round_brackets_as_words(text):
    assert read(text) == [
        Tree("P", [Tree("-LRB-", ["-LRB-"]), Tree("N", ["x"]), Tree("-RRB-", ["-RRB-"])])
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(S (P (PU () (N x) (PU ))) (. .))", "(S (P (PU -LRB-) (N x) (PU -RRB-)) (. .))"),
        ("(S (Fpa () (N x) (Fpt )) (N y))", "(S (Fpa -LRB-) (N x) (Fpt -RRB-) (N y))"),
        ("(S (PU ( )\n(N x) (PU\n)) (N y))", "(S (PU -LRB-) (N x) (PU -RRB-) (N y))"),
        ("(S (P (PU () (P (PU () (N x) (PU ))) (PU ))))",
         "(S (P (PU -LRB-) (P (PU -LRB-) (N x) (PU -RRB-)) (PU -RRB-)))"),
        ("(S (() (N x) ()) (. .))", "(S (-LRB- -LRB-) (N x) (-RRB- -RRB-) (. .))"),
        ("(TOP (S (NP (PRP They)) (PRN (PUNCT () (NP (NNP Ontario)) (PUNCT ))) (. .)))",
         "(TOP (S (NP (PRP They)) (PRN (PUNCT -LRB-) (NP (NNP Ontario)) (PUNCT -RRB-)) (. .)))"),
    ],
)  # fmt: skip
def test_round_brackets_as_words_under_any_tag(text, expected):
    assert [format_tree(tree) for tree in read_trees(io.StringIO(text), style=STRICT)] == [expected]


def test_a_closing_round_bracket_alone_is_an_error_with_its_place():
    with pytest.raises(TreebankError, match=r"<text>:1:32: '.' closes nothing"):
        load_trees(io.StringIO("(S (NP (N a) (PU ))) (VP (V b)))"), style=STRICT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(S (NP-SBJ (PRP (Dia))) (VP (VB (makan)) (NP (NN (nasi)))) (Z (.)))",
         "(S (NP-SBJ (PRP Dia)) (VP (VB makan) (NP (NN nasi))) (Z .))"),
        ("(STA+fcl (SUBJ+np (>N+art O)(«)(H+n artista)(»))(P+v-fin é)(.))",
         "(STA+fcl (SUBJ+np (>N+art O) (« «) (H+n artista) (» »)) (P+v-fin é) (. .))"),
        ("(S (NP (HYPH)) (N (N)) (V x))", "(S (V x))"),
    ],
)  # fmt: skip
def test_words_in_brackets_of_their_own(text, expected, caplog):
    assert [format_tree(tree) for tree in read_trees(io.StringIO(text), style=STRICT)] == [expected]
    messages = [record.getMessage() for record in caplog.records]
    if "Dia" in text:
        assert messages == [
            "read 1 tree(s) with brackets around each word, the first at <text>:1:1"
        ]
    elif "HYPH" in text:
        assert messages == ["skipped 2 node(s) without a word, the first at <text>:1:13"]
    else:
        assert not messages


def test_lemmas():
    style = TreebankStyle(lemmas=True, strict=True)
    trees = read_trees(io.StringIO("(S (N dogs dog) (V bark\n bark) (. .))"), style=style)
    assert read("(S (N dogs) (V bark) (. .))") == list(trees)
    with pytest.raises(TreebankError, match="found a second word 'x'"):
        load_trees(io.StringIO("(S (N dogs dog x))"), style=style)


def test_trees_without_a_word_can_stay_in_their_place(caplog):
    text = "(A a)\n(())\n(S (HYPH ))\n( )\n(B b)\n"
    trees_read = load_trees(io.StringIO(text), keep_empty=True)
    assert list(map(format_tree, trees_read)) == ["(A a)", "(())", "(())", "(())", "(B b)"]
    assert not caplog.records


def test_licence_lines_are_passed_over():
    text = "*x*x*x*x*\n*x*  Copyright (C) 1995 University of Pennsylvania *x*\n(A a)\n"
    assert read(text) == [Tree("A", ["a"])]
    assert read("(A\n*x*y)") == [Tree("A", ["*x*y"])]


def test_empty_trees_and_nodes_are_counted_in_one_warning(caplog, tmp_path):
    first = tmp_path / "1.mrg"
    first.write_text("(())\n( )\n(A a) (S (HYPH ))\n(S (NP (HYPH )) (N n))\n")
    (tmp_path / "2.mrg").write_text("(TOP ())\n(S () (N n))\n")
    with caplog.at_level(logging.WARNING, "rnnparse"):
        trees_read = list(read_trees(tmp_path))
    assert trees_read == [
        Tree("A", ["a"]),
        Tree("S", [Tree("N", ["n"])]),
        Tree("S", [Tree("N", ["n"])]),
    ]
    (record,) = caplog.records
    assert record.getMessage() == (
        f"skipped 4 empty tree(s), the first at {first}:1:1; "
        f"3 node(s) without a word, the first at {first}:4:14"
    )


def test_no_warning_where_nothing_is_left_out(caplog):
    read(DOG)
    assert not caplog.records


@given(st.lists(trees(any_text, any_text), max_size=4))
def test_what_is_written_reads_back(forest):
    # No word is empty, so the reading of (-RRB- )) has no part in this.
    assert read("\n".join(map(format_tree, forest))) == forest


@given(trees(), st.randoms(use_true_random=False))
def test_any_layout_reads_the_same(tree, random):
    def space(space_match: re.Match[str]) -> str:
        gap = "".join(random.choices(" \n\t\r", k=random.randrange(3)))
        between_words = space_match.start() > 0 and not set(
            text[space_match.start() - 1 : space_match.end() + 1]
        ) & set("()")
        return gap or (" " if between_words else "")

    text = f"( {format_tree(tree)})"
    # Column 1 is left alone before a root label that could begin the next tree.
    laid_out = re.sub(r" |(?<=\()|(?=\))", space, text)
    laid_out = re.sub(r"[\r\n](?=\()", " ", laid_out)
    assert read(laid_out) == [Tree("", [tree])]


def test_unindented_continuation_lines():
    assert read("(S\n(A a)\n(S\n(B b)\n)\n)\n(S\n(C c)\n)") == read("(S (A a) (S (B b))) (S (C c))")


@given(trees(any_text, any_text), st.integers(1, 40))
def test_block_borders_cut_no_word(tree, size):
    class Dribble(io.StringIO):
        def readline(self, limit=-1):
            return super().readline(size if limit < 0 else min(limit, size))

    assert list(read_trees(Dribble(format_tree(tree) * 3))) == [tree] * 3


@pytest.mark.slow
def test_reading_streams_a_line_of_any_length(tmp_path):
    path = tmp_path / "long.mrg"
    path.write_text(DOG * 30_000)  # 1.3 MB on one line
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_trees(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 30_000
    assert peak < 700_000


def test_trees_come_before_the_rest_is_there():
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as source, os.fdopen(writing, "w") as sink:
        sink.write(DOG + "\n")
        sink.flush()
        assert len(list(islice(read_trees(source), 1))) == 1


# Sources


def test_folder_in_order_with_subfolders(tmp_path):
    for name in ("b/2.MRG", "a/x.tree.gz", "a/1.parse", "a-b/3.ptb", "4.trees", "5.psd"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        data = f"(N {path.name})".encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    for name in ("README", "notes.txt", "._1.mrg", ".git/c.mrg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("no trees")
    trees_read = [tree[0] for tree in read_trees(tmp_path)]
    assert trees_read == ["4.trees", "5.psd", "1.parse", "x.tree.gz", "3.ptb", "2.MRG"]


def test_glob_patterns(tmp_path):
    for name in ("w/00/a.mrg", "w/01/b.mrg", "w/23/c.mrg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"(N {name[-5]})")
    assert [t[0] for t in read_trees(f"{tmp_path}/w/0*/*.mrg")] == ["a", "b"]
    assert [t[0] for t in read_trees(f"{tmp_path}/w/0*")] == ["a", "b"]
    assert [t[0] for t in read_trees(f"{tmp_path}/**/*.mrg")] == ["a", "b", "c"]


def test_a_name_with_magic_characters_is_a_file_first(tmp_path):
    (tmp_path / "a[1].mrg").write_text(DOG)
    assert len(load_trees(tmp_path / "a[1].mrg")) == 1


def test_gzip_is_told_by_its_bytes(tmp_path):
    (tmp_path / "plain.mrg").write_bytes(gzip.compress(DOG.encode()))
    assert len(load_trees(tmp_path / "plain.mrg")) == 1


@pytest.mark.parametrize("data", [DOG.encode(), gzip.compress(DOG.encode())], ids=["plain", "gzip"])
def test_standard_input(monkeypatch, data):
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert len(load_trees("-")) == 1
    assert not stdin.closed


def test_encodings(tmp_path):
    path = tmp_path / "a.mrg"
    for encoding in ("latin-1", "utf-16", "utf-8", "utf-8-sig"):
        for pack in (bytes, gzip.compress):
            path.write_bytes(pack("(N naïve)\r\n(N b)\r\n".encode(encoding)))
            given_name = "utf-8" if encoding == "utf-8-sig" else encoding
            expected = [Tree("N", ["naïve"]), Tree("N", ["b"])]
            assert load_trees(path, encoding=given_name) == expected
            assert load_trees(path, style=TreebankStyle(encoding=given_name)) == expected


# Writing


def test_format_of_an_outer_bracket():
    assert format_tree(Tree("", [Tree("A", ["a"]), Tree("B", ["b"])])) == "( (A a) (B b) )"


@pytest.mark.parametrize(
    "text", ["( ( (A a)))", "( ( ( (A a) (B b)) (C c)) (D (E e)))", "( ( (S (A a)) (. .)))"]
)
def test_nested_brackets_without_labels_are_written_as_they_are_read(text):
    (tree,) = read(text)
    assert read(format_tree(tree)) == [tree]


def test_format_escapes_words_and_labels():
    assert format_tree(Tree("(", ["Solano(r)"])) == "(-LRB- Solano-LRB-r-RRB-)"


@pytest.mark.parametrize(
    "tree",
    [
        Tree("S", []),
        Tree("", ["a"]),
        Tree("S", [Tree("", [Tree("A", ["a"])])]),
        Tree("", [Tree("A", ["a"]), Tree("", [Tree("B", ["b"])])]),
        Tree("", [Tree("", [])]),
        Tree("NP", ["the", Tree("NN", ["dog"])]),
        Tree("NP", ["New", "York"]),
        Tree("NP", [""]),
        Tree("NP", ["New York"]),
        Tree("NP", ["a\0"]),
        Tree("NP", ["\ud800"]),
        Tree("N P", ["x"]),
    ],
)
def test_what_the_format_cannot_hold(tree):
    with pytest.raises(ValueError):
        format_tree(tree)


@given(
    st.text(
        st.characters(exclude_characters=" \t\n\r\f\v\0", exclude_categories=["Cs"]), min_size=1
    )
)
def test_escaping(token):
    escaped = escape_token(token)
    assert not set(escaped) & set("()")
    assert escape_token(escaped) == escaped
    if "B-" not in token:
        assert unescape_token(escaped) == token


def test_escape_examples():
    assert escape_token("(713)853-7041") == "-LRB-713-RRB-853-7041"
    assert unescape_token("-LCB--RSB-x-LRB--XRB-") == "{]x(-XRB-"


@pytest.mark.parametrize("name", ["out.mrg", "out.mrg.gz"])
def test_write_and_read_back(tmp_path, name):
    forest = read(DOG + "( (N ñ) )")
    path = tmp_path / name
    assert write_trees(iter(forest), path) == 2
    assert load_trees(path) == forest
    assert [p.name for p in tmp_path.iterdir()] == [name]
    first = path.read_bytes()
    write_trees(forest, path)
    assert path.read_bytes() == first


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.mrg"
    path.write_text("old")
    with pytest.raises(ValueError):
        write_trees([Tree("A", ["a"]), Tree("S", [])], path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.mrg"]


def test_write_through_a_link_and_to_a_pipe(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_trees([Tree("A", ["a"])], link)
    assert link.is_symlink() and target.read_text() == "(A a)\n"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_trees([Tree("A", ["a"])], fifo)
    assert os.read(reader, 100) == b"(A a)\n" and fifo.is_fifo()
    os.close(reader)


def test_write_to_standard_output(capsys):
    write_trees([Tree("A", ["a"])], "-")
    assert capsys.readouterr().out == "(A a)\n"


def test_write_where_it_cannot(tmp_path):
    with pytest.raises(TreebankError, match="cannot write: no such file"):
        write_trees([], tmp_path / "no" / "out.mrg")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param("wsj-sample/train", 3253, marks=pytest.mark.slow),
        ("wsj-sample/dev", 316),
        pytest.param("craft/dev", 2780, marks=pytest.mark.slow),
    ],
)
def test_real_treebanks(shared, name, count, caplog):
    forest = load_trees(shared / "treebanks" / f"{name}.mrg")
    assert len(forest) == count
    assert read("\n".join(map(format_tree, forest))) == forest
    assert not caplog.records


def test_real_trees_are_what_nltk_reads(shared):
    path = shared / "treebanks" / "wsj-sample" / "dev.mrg"
    chunks = path.read_text().split("\n( (")[1:]
    assert list(read_trees(path)) == [Tree.fromstring("( (" + chunk) for chunk in chunks]


@pytest.mark.slow
def test_the_large_real_treebank(shared, caplog):
    assert len(load_trees(shared / "treebanks" / "craft" / "train.mrg")) == 18951
    assert not caplog.records
