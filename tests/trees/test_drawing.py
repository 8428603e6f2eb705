"""Drawings of trees: every label is there, in its place, and readable by other programs."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from nltk.tree import Tree

from rnnparse.errors import MissingExtraError
from rnnparse.parse_results import ParseResult, ScoredTree
from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.drawing import DEEPEST, MARK, draw_tree, note_drawing, stacked, to_png
from rnnparse.trees.node import Node
from tests.trees.strategies import trees

pytest.importorskip("svgling", reason="needs the extra draw")
SVG = "{http://www.w3.org/2000/svg}"
TREE = Tree.fromstring("(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN 日本) (-LRB- -LRB-)))))")


def labels(svg: str) -> list[str | None]:
    return [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def expected(tree: Tree) -> list[str]:
    """Labels and words in pre-order, as the drawing has them."""
    if isinstance(tree, str):
        return [unescape_token(tree)]
    return [tree.label() or "()", *(label for child in tree for label in expected(child))]


@settings(max_examples=20)
@given(trees())
def test_a_drawing_has_every_label_and_word(tree: Tree) -> None:
    assert labels(draw_tree(tree).svg) == expected(tree)


def test_marked_nodes_have_another_colour() -> None:
    svg = draw_tree(TREE, {2, 10}).svg
    marked = [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}text") if t.get("fill")]
    assert marked == ["NP", "日本"] and svg.count(MARK) == 2


def test_drawings_have_a_background_unless_they_are_for_a_page() -> None:
    assert 'fill="white"' in draw_tree(TREE).svg
    assert "rect" not in draw_tree(TREE, background=None).svg


def test_wide_letters_take_room() -> None:
    narrow, wide = (draw_tree(Tree("NN", [word])).width for word in ("abcd", "日本語文"))
    assert wide > 1.4 * narrow


def test_characters_that_xml_excludes_are_replaced() -> None:
    tree = Tree("TOP", [Tree("N\x0bN", ["a\x01&<\ufffe"])])
    assert labels(draw_tree(tree).svg) == ["TOP", "N\ufffdN", "a\ufffd&<\ufffd"]
    assert labels(note_drawing("\x01<").svg) == ["\ufffd<"]


def chain(levels: int) -> Node:
    tree = Node("NN", ["x"])
    for _ in range(levels - 2):
        tree = Node("NP", [tree])
    return tree


def test_deep_trees_are_drawn_or_refused() -> None:
    assert len(labels(draw_tree(chain(DEEPEST)).svg)) == DEEPEST
    with pytest.raises(ValueError, match=f"has {DEEPEST + 1} levels; a drawing shows at most"):
        draw_tree(chain(DEEPEST + 1))


def test_a_sentence_of_three_hundred_words_is_drawn() -> None:
    tree = Tree("S", [Tree("NP", [Tree("NN", [f"word{n}"])]) for n in range(300)])
    drawing = draw_tree(tree)
    assert len(labels(drawing.svg)) == 901 and drawing.width < 30_000


def test_stacked_drawings_lie_one_below_the_other() -> None:
    one = draw_tree(TREE)
    both = stacked([one, one])
    assert both.width == one.width and both.height > 2 * one.height
    assert labels(both.svg) == 2 * expected(TREE)
    assert re.findall(r"translate\(0,([\d.]+)\)", both.svg) == ["0", f"{one.height + 16:g}"]


def test_png_has_the_size_of_the_drawing() -> None:
    pytest.importorskip("cairocffi", exc_type=OSError)  # the system may lack Cairo
    drawing = draw_tree(TREE)
    png = to_png(drawing)
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG")
    assert (width, height) == (round(2 * drawing.width), round(2 * drawing.height))
    with pytest.raises(ValueError, match="too large for a PNG"):
        to_png(drawing._replace(width=100_000))


@pytest.mark.parametrize("package", ["svgling", "cairosvg"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = draw_tree(TREE)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rnnparse\[draw\]'"):
        to_png(drawing) if package == "cairosvg" else draw_tree(TREE)
    if package == "svgling":
        assert ScoredTree(TREE, 0.0, None, 0.0)._repr_svg_() is None


def test_notebooks_show_results() -> None:
    scored = ScoredTree(TREE, 1.5, None, 0.0)
    assert labels(scored._repr_svg_() or "") == expected(TREE)
    result = ParseResult(("They",), (scored, scored), False)
    assert result._repr_svg_() == scored._repr_svg_()
    html = result._repr_html_() or ""
    assert html.count("<svg class=") == 2 and html.count("score 1.5") == 2
    failed = ParseResult((), (), False, "no")
    assert failed._repr_svg_() is None and failed._repr_html_() is None
    assert ScoredTree(Tree("", []), 0.0, None, 0.0)._repr_svg_() is not None
    assert ScoredTree(chain(300), 0.0, None, 0.0)._repr_svg_() is None


def test_results_load_no_drawing_package() -> None:
    code = "import sys, rnnparse.parse_results; assert 'svgling' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
