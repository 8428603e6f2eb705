"""The formats of `rnnparse parse`: every line has its answer in each of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rnnparse.cli import main
from rnnparse.cli.parse_formats import FORMATS, Answer
from rnnparse.parse_results import ParseResult, ScoredTree
from rnnparse.trees.node import Node

DEEP = 500
LINES = [
    "They ate “udon” with chicken.",
    "",
    "Solano(r) & <b>Co</b> \u00a0 😀 * # ] \x01",
    "udon",
]
SVG = "{http://www.w3.org/2000/svg}"
Parse = Callable[..., Any]


@pytest.fixture
def parse(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Parse:
    def run(lines: list[str], *options: str) -> Any:
        file = tmp_path / "in.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        assert main(["parse", str(model), str(file), *options]) == 0
        return capsys.readouterr()

    return run


def test_json_is_a_format_with_a_name_of_its_own(parse: Parse) -> None:
    long, short = (parse(LINES, *options).out for options in (["--format", "json"], ["--json"]))
    assert long == short
    with pytest.raises(SystemExit):
        parse(LINES, "--json", "--format", "pretty")


def test_posteriors_are_added_on_request(parse: Parse, capsys: pytest.CaptureFixture[str]) -> None:
    plain, more = (parse(LINES, "--json", *o).out.splitlines() for o in ([], ["--posteriors"]))
    for before, after in zip(map(json.loads, plain), map(json.loads, more), strict=True):
        for tree in after["trees"]:
            chances = [node.pop("posterior") for node in tree["constituents"]]
            assert chances[0] == 1 and all(0 <= chance <= 1 for chance in chances)
        assert before == after
    assert main(["parse", "model", "--posteriors", "--format", "penn"]) == 2
    assert "--posteriors needs --json" in capsys.readouterr().err


def test_conll_has_a_block_for_each_line(parse: Parse) -> None:
    trees = parse(LINES).out.splitlines()
    blocks = parse(LINES, "--format", "conll").out.split("\n\n")
    assert len(blocks) == 4  # the second line is empty: an empty line more
    assert blocks[1].startswith("\n1\tSolano-LRB-r-RRB-\t")
    brackets = "".join(line.split("\t")[3] for line in blocks[0].splitlines())
    assert brackets.count("(") == trees[0].count("(") - len(blocks[0].splitlines())
    several = parse(LINES[:1], "--format", "conll", "--n-best", "3").out
    assert len(several.removesuffix("\n\n").split("\n\n")) == 3


def test_svg_has_an_element_for_each_line(parse: Parse) -> None:
    pytest.importorskip("svgling")
    pictures = list(map(ElementTree.fromstring, parse(LINES, "--format", "svg").out.splitlines()))
    texts = [[text.text for text in picture.iter(f"{SVG}text")] for picture in pictures]
    assert {"TOP", "ate", "``", "''", "chicken"} <= set(texts[0])
    assert texts[1] == ["(())"] and "Solano(r)" in texts[2] and "\ufffd" not in texts[3]
    assert all(float(picture.get("width", "0")) > 20 for picture in pictures)


class Page(HTMLParser):
    """The headings of a page, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.data.append(data)


def test_html_is_one_page_with_a_section_for_each_line(parse: Parse, tmp_path: Path) -> None:
    pytest.importorskip("svgling")
    out = tmp_path / "trees.html"
    assert parse(LINES, "--format", "html", "--n-best", "2", "--out", str(out)).out == ""
    page = Page(out.read_text(encoding="utf-8"))
    assert page.tags.count("section") == 4 and "b" not in page.tags
    assert [text for text in page.data if text.startswith("Sentence ")] == [
        f"Sentence {number}" for number in range(1, 5)
    ]
    assert any(text.startswith("tree 2: score ") for text in page.data)


def test_a_page_grows_with_the_input() -> None:
    """The first sentence is on the page before the second is needed."""
    pytest.importorskip("svgling")
    asked: list[int] = []

    def answers() -> Iterator[Answer]:
        for number in (1, 2):
            asked.append(number)
            tree = Node("TOP", [Node("NN", [f"word{number}"])])
            result = ParseResult((f"word{number}",), (ScoredTree(tree, 1.0, -1.0, 1.0),), False)
            yield Answer(number, result)

    for piece in FORMATS["html"](answers(), False):
        if ">word1</text>" in piece:
            assert asked == [1]
            return
    pytest.fail("the first word is not on the page")


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_errors_and_deep_trees_have_answers_in_every_format(name: str) -> None:
    if name in ("svg", "html"):
        pytest.importorskip("svgling")
    tree = Node("NN", ["(deep"])
    for _ in range(DEEP):
        tree = Node("NP", [tree])
    deep = ParseResult(("(deep",), (ScoredTree(tree, 1.0, -1.0, 1.0),), False)
    failed = ParseResult((), (), False, "no & never", offsets=())
    text = "".join(FORMATS[name](iter([Answer(1, deep), Answer(2, failed)]), False))
    shown = {
        "penn": "(())", "json": '"error": "no & never"', "pretty": "(())", "conll": "-LRB-deep",
        "svg": "no &amp; never", "html": "no &amp; never",
    }  # fmt: skip
    assert shown[name] in text
    assert name != "svg" or text.count("\n") == 2
