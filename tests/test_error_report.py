"""Where a parser loses F1, and the page about its errors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.cli import main
from rnnparse.error_sources import error_sources
from rnnparse.evaluation import evaluate
from rnnparse.grammar.lexicon import Emissions, Lexicon
from rnnparse.inference.forest import candidate_tree
from rnnparse.inference.search import Search
from rnnparse.parser import Parser, load
from rnnparse.trees.brackets import write_trees
from rnnparse.trees.cleaning import tags, words
from tests.grammar.small import trees
from tests.small_parser import small_parser

GOLD = trees(80)[40:]  # half of them new to the small parser


def pasted(tree: Tree, gold: Tree) -> Tree:
    """The tree with the gold tree's tags, so that EVALB skips no sentence."""
    tree = tree.copy(deep=True)
    for position, tag in zip(tree.treepositions("leaves"), tags(gold), strict=True):
        tree[position[:-1]].set_label(tag)
    return tree


def f1(test: list[Tree], gold: list[Tree] = GOLD) -> float:
    pairs = [pasted(*pair) for pair in zip(test, gold, strict=True)]
    return float(evaluate(gold, pairs).summary()["f1"])


def test_scores_of_lists_are_those_of_evalb_on_the_trees() -> None:
    parser = small_parser()
    sources = error_sources(parser, GOLD, 1)
    sentences = [words(tree) for tree in GOLD]
    assert sources.now.cvg == pytest.approx(f1([parser.parse(s) for s in sentences]))
    pcfg = [r.trees[0].tree for r in parser.parse_many(sentences, scorer="pcfg")]
    assert sources.now.pcfg == pytest.approx(f1(pcfg))
    assert [words(tree) for tree in sources.pcfg_trees] == sentences
    lists = [parser.parse_n_best(s, parser.candidates) for s in sentences]
    best = []
    for gold, candidates in zip(GOLD, lists, strict=True):
        scores = [
            evaluate([gold], [pasted(c.tree, gold)]).summary()["f1"] or 0.0 for c in candidates
        ]
        best.append(candidates[scores.index(max(scores))].tree)
    assert sources.now.oracle == pytest.approx(f1(best))
    assert sources.now.list_errors + sources.now.choice_errors == pytest.approx(
        100 - sources.now.cvg
    )


class GoldTagged(Lexicon):
    """A lexicon that leaves an unknown word of one sentence the states of its gold tag alone."""

    def __init__(self, parser: Parser, gold: Tree) -> None:
        vars(self).update(vars(parser.grammar.lexicon))
        names, self.category = parser.grammar.pcfg.categories, parser.grammar.pcfg.category
        self.gold = [names.index(tag) if tag in names else -1 for tag in tags(gold)]

    def emissions(self, tokens: Sequence[str]) -> Emissions:
        usual = super().emissions(tokens)
        kept = [
            [x for x in range(*usual.ptr[i : i + 2]) if self.fits(token, i, usual.symbol[x])]
            for i, token in enumerate(tokens)
        ]
        assert all(kept)
        chosen = [x for states in kept for x in states]
        ptr = np.cumsum([0, *map(len, kept)]).astype(np.int64)
        return Emissions(ptr, usual.symbol[chosen], usual.logp[chosen])

    def fits(self, token: str, place: int, symbol: int) -> bool:
        return self.knows(token) or self.category[symbol] == self.gold[place]

    def is_possible(self, tokens: Sequence[str]) -> bool:
        """Whether the form of every unknown word suggests its gold tag."""
        usual = super().emissions(tokens)
        return all(
            any(self.fits(token, i, usual.symbol[x]) for x in range(*usual.ptr[i : i + 2]))
            for i, token in enumerate(tokens)
        )


def test_unknown_words_get_their_gold_tags() -> None:
    parser = small_parser()
    possible = [t for t in GOLD if GoldTagged(parser, t).is_possible(words(t))]
    sources = error_sources(parser, possible, 1)
    knows = parser.grammar.lexicon.knows
    unknown = [word for tree in possible for word in words(tree) if not knows(word)]
    assert sources.words == sum(len(words(tree)) for tree in possible)
    assert 0 < sources.unknown == len(unknown)
    best = []
    for gold in possible:
        decoder = copy(parser._decoder)
        decoder.grammar = replace(parser.grammar, lexicon=GoldTagged(parser, gold))
        forest = decoder.parse(words(gold), parser.candidates).forest
        scores = parser._rnn_scores(forest, words(gold)) + parser.beta * forest.logp
        names = parser.grammar.pcfg.categories
        best.append(candidate_tree(forest, int(scores.argmax()), words(gold), names))
    assert sources.tagged.cvg == pytest.approx(f1(best, possible))
    assert sources.tagged != sources.now


def test_an_exact_parser_loses_nothing_by_pruning() -> None:
    parser = Parser(**small_parser().__getstate__() | {"search": Search(exact=True)})
    sources = error_sources(parser, GOLD[:10], 1)
    assert sources.pruned == 0 < sources.short <= 10
    assert all(len(words(tree)) <= 12 for tree in GOLD[:10]) == (sources.short == 10)


class Page(HTMLParser):
    """Cells of the tables of a page, by its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.heading, self.open = "", ""
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open = tag

    def handle_data(self, data: str) -> None:
        if self.open == "h2" and data.strip():
            self.heading = data
        if data.strip():
            self.texts.setdefault(self.heading, []).append(data.strip())


def report(model: Path, gold: list[Tree], folder: Path, *options: str) -> Page:
    write_trees(gold, folder / "gold.mrg")
    page = folder / "errors.html"
    arguments = ["evaluate", model, folder / "gold.mrg", "--html", page, "--jobs", "1", *options]
    assert main(list(map(str, arguments))) == 0
    return Page(page.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def extra() -> None:
    pytest.importorskip("svgling", reason="needs the extra draw")


def test_the_page_has_the_scores_of_the_command(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = report(model, GOLD, tmp_path, "--json", "--by-label", "--error-sources")
    scores = json.loads(capsys.readouterr().out)
    parser = load(model)
    evaluation = evaluate(GOLD, [parser.parse(words(tree)) for tree in GOLD])
    assert scores["f1"] == pytest.approx(evaluation.summary()["f1"])
    single = [row.f1 for row in evaluation.sentences if row.f1 is not None]
    assert scores["mean_sentence_f1"] == pytest.approx(sum(single) / len(single))
    assert f"{scores['f1']:.2f}" in page.texts["Scores"]
    assert {row["label"] for row in scores["by_label"]} <= set(page.texts["Labels"])
    assert f"{scores['error_sources']['now']['oracle']:.2f}" in page.texts["Where F1 is lost"]
    assert any("Mean " in text for text in page.texts["F1 of single sentences"])
    assert any(text.startswith("PP →") for text in page.texts["Attachments"])
    worst = page.texts["Worst sentences"]
    drawn = [text for text in worst if re.match(r"\d+: ", text)]
    order = [float(m[1]) for text in worst if (m := re.match(r"F1 ([\d.]+); ", text))]
    assert 1 <= len(drawn) == len(order) <= 20 and order == sorted(order)
    assert worst.count("gold") == worst.count("predicted") == len(drawn)


def test_perfect_trees_and_trees_without_attachments(model: Path, tmp_path: Path) -> None:
    parser = load(model)
    gold = [parser.parse(text) for text in ("They ate udon.", "They ate.", "udon")]
    page = report(model, gold, tmp_path)
    assert "No sentence has an error." in page.texts["Worst sentences"]
    assert "No phrase of these trees has an ambiguous attachment." in page.texts["Attachments"]
    assert page.texts["Confusions"].count("None.") == 2


def test_words_of_all_kinds_and_trees_without_words(model: Path, tmp_path: Path) -> None:
    strange = "(TOP (X (NN <b>x</b>) (NN 😀&amp;) (-LRB- -LRB-) (NN a/b) (`` “)))"
    gold = [Tree.fromstring(strange), Tree("", []), Tree.fromstring("(TOP (NN x))"), *GOLD[:2]]
    page = report(model, gold, tmp_path, "--delete-by", "gold")
    raw = (tmp_path / "errors.html").read_text(encoding="utf-8")
    assert "<b>" not in raw and "&lt;b&gt;x&lt;/b&gt;" in raw and "😀&amp;amp;" in raw
    assert any("1 no tree" in "".join(texts) for texts in page.texts.values())


def test_pages_that_cannot_be_written_are_refused_before_the_work(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rnnparse.parser.parse_nodes", lambda *_, **__: pytest.fail("parsed"))
    write_trees(GOLD[:1], tmp_path / "gold.mrg")
    base = ["evaluate", str(model), str(tmp_path / "gold.mrg"), "--html"]
    for path, message in (
        (str(tmp_path / "gold.mrg"), "expected a file name that ends in .html"),
        ("/dev/null/errors.html", "/dev/null/errors.html: cannot write: not a directory"),
    ):
        assert main([*base, path]) == 2
        assert message in capsys.readouterr().err
    for package in ("svgling", "jinja2"):
        with monkeypatch.context() as without:
            for name in [name for name in sys.modules if name.split(".")[0] == package]:
                without.delitem(sys.modules, name)
            without.setitem(sys.modules, package, None)
            if package == "jinja2":
                without.setitem(sys.modules, "markupsafe", None)
            assert main([*base, str(tmp_path / "errors.html")]) == 2
        assert "pip install 'rnnparse[draw]'" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gold.mrg"]
