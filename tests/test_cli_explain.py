"""`rnnparse explain`, `compare` and `draw`: what they print and write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from nltk.tree import Tree

from rnnparse.cli import main
from rnnparse.cli.explain import _beside
from rnnparse.evaluation import evaluate
from rnnparse.parser import Parser, load
from rnnparse.trees.brackets import write_trees
from rnnparse.trees.cleaning import words
from tests.grammar.small import trees

SENTENCE = "They ate udon with the man."
SVG = "{http://www.w3.org/2000/svg}"


def run(capsys: Any, *arguments: str | Path, status: int = 0) -> Any:
    assert main([*map(str, arguments)]) == status
    return capsys.readouterr()


# -- explain -----------------------------------------------------------------------------------


def test_the_nodes_of_both_trees_stand_side_by_side(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    wide = run(capsys, "explain", model, SENTENCE).out
    best, second = load(model).parse_n_best(SENTENCE, 2)
    head = wide.splitlines()[0]
    assert f"tree 1, score {best.score:.3f}" in head and f"tree 2, score {second.score:.3f}" in head
    lead = re.search(r"Tree 1 leads tree 2 by ([\d.]+): network ([+-][\d.]+), grammar", wide)
    assert lead is not None
    assert float(lead[1]) == pytest.approx(best.score - second.score, abs=1e-3)
    assert float(lead[2]) == pytest.approx(best.rnn_score - second.rnn_score, abs=1e-3)
    monkeypatch.setenv("COLUMNS", "60")
    narrow = run(capsys, "explain", model, SENTENCE).out
    assert "tree 2" not in narrow.splitlines()[0]
    assert sorted(wide.split()) == sorted(narrow.split())


def test_marks_are_the_nodes_that_the_other_tree_lacks(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = json.loads(run(capsys, "explain", model, SENTENCE, "--json").out)
    first, second = (tree["constituents"] for tree in shown["trees"])
    nodes = [{(n["label"], *n["span"]) for n in tree} for tree in (first, second)]
    for tree, others in ((first, nodes[1]), (second, nodes[0])):
        for node in tree:
            assert node["differs"] == ((node["label"], *node["span"]) not in others)
    assert any(node["differs"] for node in [*first, *second])
    assert shown["trees"][0]["margin"] == 0 < shown["trees"][1]["margin"]
    for tree in shown["trees"]:
        parts = [
            n["rnn_score"] + shown["beta"] * n["log_probability"] for n in tree["constituents"]
        ]
        assert sum(parts) == pytest.approx(tree["score"], abs=1e-5)
    printed = run(capsys, "explain", model, SENTENCE).out
    assert printed.count("* ") == sum(n["differs"] for n in [*first, *second])
    assert re.search("^only in tree [12]:\n", printed, re.MULTILINE)


def test_sentences_of_all_kinds_are_explained(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "tree 3, score" in run(capsys, "explain", model, SENTENCE, "--n-best", "3").out
    assert (
        "The parser found no other tree."
        in run(capsys, "explain", model, "They/PRP ate/VBD", "--tagged", "--n-best", "1").out
    )
    glued = run(capsys, "explain", model, "with (with) “ 😀 a/b").out
    assert "the root joins partial trees" in glued and "😀" in glued
    long = run(capsys, "explain", model, " ".join([SENTENCE] * 60), "--max-length", "20").out
    assert "exceeded the budget" in long
    assert "at least one token" in run(capsys, "explain", model, " ", status=2).err
    assert "is not word/TAG" in run(capsys, "explain", model, "x", "--tagged", status=2).err
    assert "ends in .html" in run(capsys, "explain", model, "x", "--html", "x.txt", status=2).err


def test_blocks_fill_rows() -> None:
    blocks = [["ab", "cd"], ["ef"], ["gh"]]
    assert _beside(blocks, 100) == "ab    ef    gh\ncd"
    assert _beside(blocks, 8) == "ab    ef\ncd\n\ngh"
    assert _beside(blocks, 1) == "ab\ncd\n\nef\n\ngh"


def test_the_page_has_drawings_and_scores(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("svgling")
    page = tmp_path / "why.html"
    for _ in range(2):  # the second replaces the first
        assert run(capsys, "explain", model, "They ate <b> udon.", "--html", page).out == ""
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg class=") == 2 and "&lt;" in text and "<b>" not in text
    assert text.count("<table>") == 2 and "below tree 1" in text
    assert run(
        capsys, "explain", model, "x", "--html", "/dev/null/x.html", status=2
    ).err.startswith("rnnparse: error: /dev/null/x.html: not a directory")


# -- compare -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, except that the network alone ranks the trees."""
    folder = tmp_path_factory.mktemp("other") / "model"
    Parser(**load(model).__getstate__() | {"beta": 0.0}).save(folder)
    return folder


def test_comparison_has_the_scores_of_both_models(
    model: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = trees(40)
    write_trees(gold, tmp_path / "gold.mrg")
    shown = json.loads(run(capsys, "compare", other, model, tmp_path / "gold.mrg", "--json").out)
    evaluations = [
        evaluate(gold, [load(path).parse(words(tree)) for tree in gold]) for path in (other, model)
    ]
    f1 = [evaluation.summary()["f1"] for evaluation in evaluations]
    assert not any(row.status for e in evaluations for row in e.sentences)  # all are valid
    assert [shown["a"]["f1"], shown["b"]["f1"]] == pytest.approx(f1)
    assert shown["difference"] == pytest.approx(f1[1] - f1[0])
    assert shown["low"] <= shown["difference"] <= shown["high"] and f1[0] != f1[1]
    assert sum(row["sentences"] for row in shown["by_length"]) == 40
    assert sum(row["gold"] for row in shown["by_label"]) == shown["a"]["gold_brackets"]
    for row in shown["by_label"]:
        if row["difference"] is not None:
            assert row["difference"] == pytest.approx(row["b"] - row["a"])
    table = run(capsys, "compare", other, model, tmp_path / "gold.mrg").out
    assert f"F1 {f1[0]:.2f} {f1[1]:.2f} {f1[1] - f1[0]:+.2f}" in re.sub(" +", " ", table)
    assert "sentences 40 of 40" in re.sub(" +", " ", table)
    same = json.loads(run(capsys, "compare", model, model, tmp_path / "gold.mrg", "--json").out)
    assert (same["difference"], same["p_value"]) == (0, 1)


# -- draw --------------------------------------------------------------------------------------


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    pytest.importorskip("svgling")
    path = tmp_path / "bank.mrg"
    path.write_text("(TOP (NN dog))\n(())\n( (S (NP-SBJ (-NONE- *)) (-LRB- -LRB-) (NN <b>)) )\n")
    return path


def test_every_kind_of_file_has_all_trees(
    bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("all.svg", "all.SVG", "all.html"):
        assert run(capsys, "draw", bank, "--out", tmp_path / name) == ("", "")
    picture = ElementTree.parse(tmp_path / "all.svg")
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert texts == [
        "TOP", "NN", "dog", "()", "()", "S", "NP-SBJ", "-NONE-", "*", "-LRB-", "(", "NN", "<b>",
    ]  # fmt: skip
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert page.count("<svg class=") == 3 and "<b>" not in page and "Tree 3" in page
    run(capsys, "draw", bank, "--out", tmp_path / "one.svg", "--sentence", "1")
    assert (tmp_path / "one.svg").stat().st_size < (tmp_path / "all.svg").stat().st_size
    pytest.importorskip("cairocffi", exc_type=OSError)  # the system may lack Cairo
    run(capsys, "draw", bank, "--out", tmp_path / "all.png")
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")


def test_drawing_errors_are_one_line(
    bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / "deep.mrg"
    deep.write_text("(S " * 300 + "(NN x)" + ")" * 300)
    out = tmp_path / "x.svg"
    for arguments, message in (
        ((bank, "--out", tmp_path / "x.gif"), "expected a file name that ends in .svg or .png or"),
        ((bank, "--out", out, "--sentence", "4"), "bank.mrg: has 3 trees, so there is no tree 4"),
        ((tmp_path / "no.mrg", "--out", out), "no.mrg: no such file or folder"),
        ((deep, "--out", out), "deep.mrg: tree 1: the tree has 302 levels; a drawing shows at"),
        ((bank, "--out", "/dev/null/x.svg"), "/dev/null/x.svg: not a directory"),
    ):
        err = run(capsys, "draw", *arguments, status=2).err
        assert message in err and err.count("\n") == 1
    assert not out.exists()
    run(capsys, "draw", deep, "--out", tmp_path / "deep.html")
    assert "<pre>" in (tmp_path / "deep.html").read_text()


def test_a_drawing_of_the_parser_is_its_tree(model: Path) -> None:
    pytest.importorskip("svgling")
    scored = load(model).parse_n_best(SENTENCE, 1)[0]
    texts = ElementTree.fromstring(scored._repr_svg_() or "").iter(f"{SVG}text")
    shown = [node if isinstance(node, str) else node.label() for node in in_order(scored.tree)]
    assert [text.text for text in texts] == shown


def in_order(tree: Tree | str) -> Iterator[Tree | str]:
    yield tree
    if not isinstance(tree, str):
        for child in tree:
            yield from in_order(child)
