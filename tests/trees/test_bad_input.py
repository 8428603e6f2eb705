"""Every malformed or unreadable source gives a clear error with its place, or a counted warning."""

from __future__ import annotations

import gzip
import io
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rnnparse.errors import ConfigError, TreebankError
from rnnparse.trees.brackets import format_tree, load_trees, read_trees
from rnnparse.trees.style import TreebankStyle
from tests.trees.strategies import trees

STRICT = TreebankStyle(strict=True)


def fail(text: str) -> TreebankError:
    with pytest.raises(TreebankError) as caught:
        list(read_trees(io.StringIO(text), style=STRICT))
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("(A a)\n  b (C c)", 2, 3, "expected '(' to begin a tree, found 'b'"),
        ("(A a))", 1, 6, "')' closes nothing"),
        ("(A a)\n)", 2, 1, "')' closes nothing"),
        ("(S (A a) b)", 1, 10, "expected '(' or ')' among the children of (S, found the word 'b'"),
        ("(A b c)", 1, 6, "expected ')' after the word 'b' of (A, found a second word 'c'"),
        ("(N x(y))", 1, 5, "expected ')' after the word 'x' of (N, found '('"),
        ("(S (NP (A a)) ((B b)))", 1, 15, "expected a label after '('"),
        ("(S (A a)", 1, 1, "the tree that begins here is not closed: 1 bracket is missing at the"),
        ("(A a)\n (S\n (B (C c)\n", 2, 2, "not closed: 2 brackets are missing"),
        ("(", 1, 1, "not closed"),
        ("(A a)\n(N a\0b)", 2, 5, "NUL"),
    ],
)
def test_malformed_text(text, line, column, words):
    error = fail(text)
    assert (error.line, error.column) == (line, column)
    assert words in str(error)
    assert str(error).startswith(f"<text>:{line}:{column}: ")


def test_an_open_tree_is_found_where_the_next_begins():
    text = "( (S (A a)) )\n( (S (B b)) \n( (S (C c)) )\n( (S (D d)) )\n"
    error = fail(text)
    assert (error.line, error.column) == (3, 1)
    assert (
        "a new tree begins here, but 1 bracket is missing in the tree that begins on line 2, col"
        in (str(error))
    )


def test_an_open_tree_with_a_root_label_is_found_where_the_next_begins():
    error = fail("(TOP (S (A a)))\n(TOP (S (NP (B b)\n(TOP (S (C c)))\n")
    assert (error.line, error.column) == (3, 1)
    assert "3 brackets are missing in the tree that begins on line 2" in str(error)


def test_an_open_tree_without_a_telling_label_is_found_at_the_end():
    error = fail("(S (A a))\n(S (B b)\n(S (C c))\n(S (D d))\n")
    assert (error.line, error.column) == (2, 1)
    assert "the '(' on line 3, column 1 may begin the next tree" in str(error)


def test_errors_inside_a_tree_say_where_it_began():
    assert "(the tree that begins on line 1, column 2)" in str(fail(" (S\n (A a) b)"))


def test_trees_before_an_error_are_read():
    reader = read_trees(io.StringIO("(A a) (B b) c"), style=STRICT)
    assert next(reader)[0] == "a" and next(reader)[0] == "b"
    with pytest.raises(TreebankError):
        next(reader)


@given(st.lists(trees(), min_size=1, max_size=3), st.data())
def test_a_bracket_too_many_or_too_few_is_always_an_error(forest, data):
    text = "\n".join(f"( {format_tree(tree)} )" for tree in forest)
    brackets = [i for i, sign in enumerate(text) if sign in "()"]
    at = data.draw(st.sampled_from(brackets))
    added = data.draw(st.sampled_from("()"))
    for broken in (text[:at] + text[at + 1 :], text[:at] + added + text[at:]):
        # A bracket beside -RRB- can turn into a word; that is another text, not a broken one.
        if "-RRB-" not in text:
            with pytest.raises(TreebankError):
                load_trees(io.StringIO(broken), style=STRICT)


@given(st.text("()ab-LRB \n", max_size=40))
@example("(()B)")
def test_any_text_gives_trees_or_an_error(text):
    try:
        trees_read = list(read_trees(io.StringIO(text)))
    except TreebankError as error:
        assert error.line is not None
    else:
        assert list(read_trees(io.StringIO("\n".join(map(format_tree, trees_read))))) == trees_read


# Files


def fail_file(path, **options) -> str:
    with pytest.raises(TreebankError) as caught:
        load_trees(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff", "(())", "*x*x*\n"])
def test_a_file_without_a_tree(tmp_path, text):
    (tmp_path / "a.mrg").write_text(text, encoding="utf-8")
    assert "no trees in this file" in fail_file(tmp_path / "a.mrg")
    assert list(read_trees(tmp_path / "a.mrg")) == []


def test_missing_sources_are_errors_at_once(tmp_path):
    for source, words in [
        (tmp_path / "no.mrg", "no such file or folder"),
        (f"{tmp_path}/*.mrg", "no file matches this pattern"),
        (tmp_path, "no treebank file in this folder; expected names that end in .mrg"),
        ("a\0b", "no such file"),
        ("x" * 5000, "cannot read"),
    ]:
        with pytest.raises(TreebankError, match=words.replace("*", r"\*")):
            read_trees(source)


def test_bytes_that_do_not_fit_the_encoding(tmp_path):
    path = tmp_path / "a.mrg"
    path.write_bytes("(N ok)\n(N naïve)\n".encode("latin-1"))
    assert f"{path}:2:6: the byte 0xEF does not fit the encoding" in fail_file(path)
    path.write_text("(N a)", encoding="utf-16")
    place = f"{path}:1:1"
    assert f"{place}: the byte 0xFF does not fit the encoding; try --enc" in fail_file(path)
    path.write_text("(N a)", encoding="utf-16-le")
    assert f"{path}:1:2: a NUL character" in fail_file(path)
    path.write_bytes("(N a)".encode("utf-16-le") + b" ")
    assert "wrong encoding" in fail_file(path, encoding="utf-16-le")
    with pytest.raises(ConfigError, match="unknown encoding 'utf-9'"):
        load_trees(path, encoding="utf-9")


def test_binary_files(tmp_path):
    path = tmp_path / "a.mrg"
    path.write_bytes(os.urandom(3) + b"\0" * 100_000)
    fail_file(path)


def test_damaged_gzip(tmp_path):
    path = tmp_path / "a.mrg.gz"
    data = gzip.compress("".join(f"(N word{i})\n" for i in range(10_000)).encode())
    path.write_bytes(data[: len(data) // 2])
    assert "the compressed file is cut off before its end" in fail_file(path)
    path.write_bytes(data[:-8] + bytes(8))
    assert "the compressed file is damaged: CRC check failed" in fail_file(path)
    path.write_bytes(data[:5000] + b"\xff" * 50 + data[5050:])
    fail_file(path)
    path.write_bytes(data[:2])
    fail_file(path)


def test_no_permission(tmp_path, monkeypatch):
    # Tests may run as root, whom no permission stops; so the system call is made to fail.
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(tmp_path))

    (tmp_path / "a.mrg").write_text("(A a)")
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        assert "cannot read this folder: permission denied" in fail_file(tmp_path)
    monkeypatch.setattr("builtins.open", refuse)
    assert "cannot read: permission denied" in fail_file(tmp_path / "a.mrg")


def test_a_file_opened_in_binary_mode(tmp_path):
    (tmp_path / "a.mrg").write_text("(A a)")
    with open(tmp_path / "a.mrg", "rb") as file, pytest.raises(TreebankError, match="binary mode"):
        list(read_trees(file))


def test_a_closed_file(tmp_path):
    stream = io.StringIO("(A a)")
    stream.close()
    with pytest.raises(TreebankError, match="closed"):
        load_trees(stream)


def test_input_without_end():
    class Endless(io.StringIO):
        def readline(self, size=-1):
            return "w" * size

    with pytest.raises(TreebankError, match="a word of more than 16 million characters"):
        list(read_trees(Endless()))


@pytest.mark.parametrize("name", ["wsj-sample/dev", "craft/dev"])
def test_a_bracket_missing_in_a_real_treebank_is_placed_in_its_tree(shared, name):
    """The error is in the damaged tree or at the start of the next, never further on."""
    text = (shared / "treebanks" / f"{name}.mrg").read_text(encoding="utf-8")
    text = text[: text.index("\n( (", 60_000) + 1]
    starts = [i for i in range(len(text)) if text.startswith("( (", i) and text[i - 1 : i] in "\n"]
    for at in [i for i, sign in enumerate(text) if sign == ")"][::211]:
        later = [text.count("\n", 0, i) + 1 for i in starts if i > at]
        began = text.count("\n", 0, max(i for i in starts if i < at)) + 1
        error = fail(text[:at] + text[at + 1 :])
        assert error.line is not None
        assert began <= error.line <= (later or [10**9])[0]


def test_deep_nesting_and_a_long_word():
    depth = 20_000
    text = "(X " * depth + "(N " + "w" * 1_000_000 + ")" + ")" * depth
    (tree,) = read_trees(io.StringIO(text))
    assert format_tree(tree) == text
