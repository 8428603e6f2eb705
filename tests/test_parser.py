"""Parsing, scoring and reranking; models on disk are tested in test_model_folder.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.parse.api import ParserI
from nltk.tree import ParentedTree, Tree

from rnnparse.errors import TreebankError
from rnnparse.input_sentences import LONGEST_TEXT
from rnnparse.losses.cost import labelled_spans
from rnnparse.parser import Parser, ScoredTree
from rnnparse.ranking import CHUNK
from rnnparse.threads import AHEAD
from rnnparse.trees.brackets import escape_token, format_tree, read_trees
from rnnparse.trees.cleaning import clean, words
from tests.grammar.small import trees
from tests.small_parser import small_parser

SENTENCE = ["Anna", "ate", "the", "udon", "with", "chicken", "."]


@pytest.fixture(scope="module")
def parser() -> Parser:
    return small_parser()


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    return [words(tree) for tree in trees(40, "dev")]


def bracketed(scored: list[ScoredTree]) -> list[str]:
    return [format_tree(tree.tree) for tree in scored]


def test_pipe_gives_a_tree_for_every_text_lazily(parser: Parser) -> None:
    def texts() -> Iterator[str]:
        yield from ("Anna ate the udon with chicken.", "", "Anna ate.")
        raise AssertionError("read too far")

    trees = parser.pipe(texts())
    assert list(islice(trees, 3)) == [
        parser.parse(SENTENCE),
        Tree("", []),
        parser.parse("Anna ate."),
    ]
    assert list(parser.pipe([SENTENCE] * 3, n_jobs=-1)) == [parser.parse(SENTENCE)] * 3


def test_parse_sents_is_that_of_nltk(parser: Parser) -> None:
    expected = [list(trees) for trees in parser.as_nltk().parse_sents([SENTENCE, ["Anna"]])]
    assert [list(trees) for trees in parser.parse_sents([SENTENCE, ["Anna"]])] == expected
    with pytest.raises(ValueError, match="at least one token"):
        list(parser.parse_sents([SENTENCE, []]))


def test_reprs_are_one_short_line(parser: Parser) -> None:
    (result,) = parser.parse_many([SENTENCE * 30])
    (failed,) = parser.parse_many([[]])
    shown = {repr(value) for value in (parser, parser.grammar, result, failed, *result.trees)}
    assert len(shown) == 5 and all(len(line) < 120 and "\n" not in line for line in shown), shown
    assert repr(failed) == "ParseResult(error='a sentence needs at least one token')"


# -- parsing -----------------------------------------------------------------------------------


def test_text_and_its_tokens_give_the_same_tree(parser: Parser) -> None:
    assert parser.parse("Anna ate the udon with chicken.") == parser.parse(SENTENCE)
    assert words(parser.parse(SENTENCE)) == SENTENCE
    assert parser.parse(tuple(SENTENCE)).label() == "TOP"


def test_the_best_tree_heads_the_list(parser: Parser, sentences: list[list[str]]) -> None:
    for tokens in sentences[:10]:
        scored = parser.parse_n_best(tokens)
        assert len(scored) <= parser.candidates
        assert scored[0].tree == parser.parse(tokens)
        assert [s.score for s in scored] == sorted((s.score for s in scored), reverse=True)
        assert len(set(bracketed(scored))) == len(scored)
        for candidate in scored:
            assert candidate.log_probability is not None and candidate.log_probability < 0
            total = candidate.rnn_score + parser.beta * candidate.log_probability
            assert candidate.score == total
            assert words(candidate.tree) == tokens


def test_the_network_changes_the_order(parser: Parser, sentences: list[list[str]]) -> None:
    """Otherwise the tests here would hold for the base grammar alone."""
    cvg = [r.trees[0].tree for r in parser.parse_many(sentences)]
    pcfg = [r.trees[0].tree for r in parser.parse_many(sentences, scorer="pcfg")]
    assert sum(a != b for a, b in zip(cvg, pcfg, strict=True)) > 10


def test_k_says_how_many(parser: Parser, sentences: list[list[str]]) -> None:
    tokens = max(sentences, key=len)
    everything = parser.parse_n_best(tokens)
    assert len(everything) == parser.candidates
    assert parser.parse_n_best(tokens, 3) == everything[:3]
    # More than the model's own number of candidates are looked at only when they are asked for.
    assert len(parser.parse_n_best(tokens, 30)) == 30
    for k in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            parser.parse_n_best(SENTENCE, k)
        with pytest.raises(ValueError, match="at least 1"):
            parser.parse_many([SENTENCE], n_best=k)


def test_fewer_trees_where_there_are_no_more(parser: Parser) -> None:
    few = parser.parse_n_best(["Anna"], 10_000)
    assert 0 < len(few) < 10_000
    assert len(set(bracketed(few))) == len(few)


def test_pcfg_alone_ranks_by_probability(parser: Parser, sentences: list[list[str]]) -> None:
    for result in parser.parse_many(sentences[:10], n_best=5, scorer="pcfg"):
        assert all(s.score == s.log_probability for s in result.trees)
        assert [s.score for s in result.trees] == sorted(
            (s.score for s in result.trees), reverse=True
        )


def test_candidates_considered_may_be_fewer_than_the_models(parser: Parser) -> None:
    (narrow,) = parser.parse_many([SENTENCE], candidates=1)
    (pcfg,) = parser.parse_many([SENTENCE], scorer="pcfg")
    assert narrow.trees[0].tree == pcfg.trees[0].tree


@pytest.mark.parametrize("jobs", [0, 2, 3])
def test_threads_change_nothing(parser: Parser, sentences: list[list[str]], jobs: int) -> None:
    one = list(parser.parse_many(sentences, n_best=2))
    assert [list(r.tokens) for r in one] == sentences
    assert list(parser.parse_many(sentences, n_best=2, n_jobs=jobs)) == one


def test_results_may_be_left_unread(parser: Parser, sentences: list[list[str]]) -> None:
    results = parser.parse_many(sentences, n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(islice(results, 3))) == 3
        del results
    assert parser.parse(SENTENCE) == parser.parse(SENTENCE)


def test_raw_texts_in_a_row(parser: Parser) -> None:
    text = "Anna ate the udon with chicken."
    (result,) = parser.parse_many([text])
    assert list(result.tokens) == SENTENCE


def test_no_sentence_gives_no_result(parser: Parser) -> None:
    assert list(parser.parse_many([])) == []
    assert list(parser.parse_many([], n_jobs=2)) == []


@pytest.mark.parametrize("sentence", ["", "  ", [], ["a", ""], ["New York"], ["a\n"], ["\ud800"]])
def test_what_is_no_token_is_an_error(parser: Parser, sentence: str | list[str]) -> None:
    with pytest.raises(ValueError):
        parser.parse(sentence)
    with pytest.raises(ValueError):
        list(parser.parse_many([SENTENCE, sentence], n_jobs=2, errors="raise"))


def test_an_unknown_scorer_is_an_error_at_once(parser: Parser) -> None:
    with pytest.raises(ValueError, match="cvg, pcfg, not 'rnn'"):
        parser.parse_many([SENTENCE], scorer="rnn")


WORDS = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters=" \t\n\r\f\v\0"), min_size=1
)


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6))
def test_any_tokens_get_a_tree_that_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[str]
) -> None:
    tree = small_parser().parse(tokens)
    assert words(tree) == [escape_token(token) for token in tokens]
    file = tmp_path_factory.mktemp("trees") / "tree.mrg"
    file.write_bytes(format_tree(tree).encode())
    assert list(read_trees(file)) == [tree]


def test_brackets_are_escaped_in_trees_and_kept_in_results(parser: Parser) -> None:
    tokens = ["Solano(r)", "(", "713)853-7041", "-LRB-"]
    (result,) = parser.parse_many([tokens])
    assert list(result.tokens) == tokens
    escaped = ["Solano-LRB-r-RRB-", "-LRB-", "713-RRB-853-7041", "-LRB-"]
    assert words(result.trees[0].tree) == escaped


def test_a_long_sentence(parser: Parser, sentences: list[list[str]]) -> None:
    tokens = [token for sentence in sentences for token in sentence][:300]
    (result,) = parser.parse_many([tokens])
    assert words(result.trees[0].tree) == tokens
    assert result.glued in (True, False)


# -- given trees -------------------------------------------------------------------------------


def test_a_candidates_score_is_the_trees_score(parser: Parser, sentences: list[list[str]]) -> None:
    for tokens in sentences[:10]:
        for candidate in parser.parse_n_best(tokens):
            assert parser.score(candidate.tree) == candidate.rnn_score


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("(S (NP (NN rain)) (VP (VBZ falls)))", "(TOP (S (NP (NN rain)) (VP (VBZ falls))))"),
        ("( (S (NP (NN rain)) (VP (VBZ falls))) )", "(S (NP-SBJ-1 (NN rain)) (VP (VBZ falls)))"),
        ("(S (NP (NP (NN rain))) (VP (VBZ falls)))", "(S (NP (NN rain)) (VP (VP (VBZ falls))))"),
        (
            "(S (NP (NN rain)) (VP (VBZ falls) (NP (-NONE- *T*-1))))",
            "(S (NP (NN rain)) (VP (VBZ falls)))",
        ),
        ("(NP (-LRB- -LRB-) (NN a))", "(NP (-LRB- -LRB-) (NN a))"),
    ],
)
def test_trees_that_mean_the_same_score_the_same(parser: Parser, one: str, other: str) -> None:
    scores = [parser.score(Tree.fromstring(text)) for text in (one, other)]
    assert scores[0] == scores[1] != 0.0


def test_any_tree_has_a_score(parser: Parser) -> None:
    odd = [
        "(X (Y qqq) (@Z (\\W 17) (W 3.5) (-LRB- -LRB-) (NP zzz)))",
        "(NEW (NEWER (NEWEST w)))",
        "(NN w)",
        "(TOP (TOP (TOP (NN a) (NN b))))",
    ]
    for text in odd:
        tree = Tree.fromstring(text)
        assert np.isfinite(parser.score(tree))
        assert parser.score(tree) == parser.score(ParentedTree.convert(tree))
        assert tree == Tree.fromstring(text)
    flat = Tree("NP", [Tree("NN", ["w"]) for _ in range(300)])
    assert np.isfinite(parser.score(flat))
    deep = Tree("NN", ["w"])
    for i in range(5000):
        deep = Tree("NP" if i % 2 else "X", [deep])
    assert np.isfinite(parser.score(deep))


def test_what_is_no_tree_over_words_is_an_error(parser: Parser) -> None:
    for text in ("(NP (-NONE- *))", "(NP )", "(NP (X ))"):
        with pytest.raises(ValueError, match="no words"):
            parser.score(Tree.fromstring(text))
    for tree in (Tree("NP", ["a", "b"]), Tree("NP", [Tree("N", ["a"]), "b"])):
        with pytest.raises(TreebankError, match="only child of its tag"):
            parser.score(tree)


def test_rerank_orders_by_the_networks_score(parser: Parser) -> None:
    scored = parser.parse_n_best(SENTENCE)
    given_trees = [s.tree for s in sorted(scored, key=lambda s: -(s.log_probability or 0))]
    # A parser's own trees, one of them twice, one of another parser with tags and labels unknown.
    other = Tree.fromstring(
        "(S (N-PL Anna) (VP-X (V ate) (NP (D the) (N udon) (P with) (N chicken))) (. .))"
    )
    ranked = parser.rerank([*given_trees, other, given_trees[0]])
    assert len(ranked) == len(given_trees) + 2
    assert [r.score for r in ranked] == sorted((r.score for r in ranked), reverse=True)
    expected = {format_tree(s.tree): s.rnn_score for s in scored}
    expected[format_tree(other)] = parser.score(other)
    for r in ranked:
        assert r.score == r.rnn_score == expected[format_tree(r.tree)]
        assert r.log_probability is None
    assert sum(r.tree == given_trees[0] for r in ranked) == 2
    assert sum(r.tree is other for r in ranked) == 1


def test_rerank_keeps_the_order_of_equals(parser: Parser) -> None:
    plain = Tree.fromstring("(S (NP (NN rain)) (VP (VBZ falls)))")
    marked = Tree.fromstring("(S (NP-SBJ (NN rain)) (VP (VBZ falls)))")
    assert [r.tree for r in parser.rerank([marked, plain])] == [marked, plain]
    assert [r.tree for r in parser.rerank([plain, marked])] == [plain, marked]


def test_rerank_wants_trees_of_one_sentence(parser: Parser) -> None:
    one = Tree.fromstring("(NP (DT a) (NN b))")
    for other in ("(NP (DT a) (NN c))", "(NP (NN a))", "(NP (DT a) (NN b) (NN c))"):
        with pytest.raises(ValueError, match="same words"):
            parser.rerank([one, Tree.fromstring(other)])
    with pytest.raises(ValueError, match="at least one"):
        parser.rerank([])
    with pytest.raises(ValueError, match="no words"):
        parser.rerank([one, Tree.fromstring("(NP (-NONE- *))")])
    # Brackets may be escaped by one parser and not by the other.
    escaped = [Tree("NP", [Tree("-LRB-", [w]), Tree("NN", ["b"])]) for w in ("(", "-LRB-")]
    assert len({r.score for r in parser.rerank(escaped)}) == 1


def test_the_vector_of_a_tree(parser: Parser) -> None:
    tree = clean(Tree.fromstring("(NP (DT the) (NN udon))"))
    assert tree is not None
    p = parser.parameters
    names = parser.category_pairs.categories
    rows = parser.category_pairs.rows(
        np.array([names.index("DT"), names.index("NP")]), np.array([names.index("NN"), -1])
    )
    assert rows[0] > 0  # a key of its own, or this would test the shared weights alone
    the, udon = p.vectors[parser.vocabulary.rows(["the", "udon"])]
    phrase = np.tanh(np.concatenate([the, udon, [1]]) @ p.W[rows[0]])
    W = p.W[rows[1]]
    root = np.tanh(phrase @ W[: p.dim] + W[-1])
    np.testing.assert_allclose(parser.embed(tree), root, rtol=0, atol=1e-5)
    assert parser.embed(tree).dtype == np.float32
    total = p.v[rows[0]] @ phrase + p.v[rows[1]] @ root
    np.testing.assert_allclose(parser.score(tree), total, rtol=1e-5, atol=1e-5)


def test_scores_depend_on_the_words(parser: Parser) -> None:
    texts = ("(VP (VBD ate) (NP (NN udon)))", "(VP (VBD met) (NP (NN udon)))")
    one, other = (parser.score(Tree.fromstring(text)) for text in texts)
    assert one != other


# -- NLTK --------------------------------------------------------------------------------------


def test_the_parser_is_one_of_nltks(parser: Parser) -> None:
    nltk_parser = parser.as_nltk()
    assert isinstance(nltk_parser, ParserI)
    expected = [s.tree for s in parser.parse_n_best(SENTENCE)]
    assert list(nltk_parser.parse(SENTENCE)) == expected
    assert list(nltk_parser.parse(iter(SENTENCE))) == expected
    assert nltk_parser.parse_one(SENTENCE) == expected[0]
    assert nltk_parser.parse_all(SENTENCE) == expected
    several = [list(trees) for trees in nltk_parser.parse_sents([SENTENCE, ["Anna"]])]
    assert several[0] == expected
    assert several[1] == [s.tree for s in parser.parse_n_best(["Anna"])]
    assert next(nltk_parser.parse("Anna ate the udon with chicken.")) == expected[0]


# -- imports -----------------------------------------------------------------------------------


def test_parsing_a_saved_model_never_imports_tensorflow(parser: Parser, tmp_path: Path) -> None:
    parser.save(tmp_path / "model")
    code = f"""
import sys, rnnparse
from rnnparse.parser import Parser
parser = rnnparse.load({str(tmp_path / "model")!r})
tree = parser.parse("They ate udon with forks.")
parser.score(tree), parser.rerank([tree]), parser.embed(tree), parser.info()
list(parser.parse_many([["a"]] * 40, n_jobs=2)), list(parser.as_nltk().parse(["a"]))
print(type(tree).__name__, "tensorflow" in sys.modules, "keras" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert (done.stdout.split(), done.stderr) == (["Tree", "False", "False"], "")


# -- many sentences, and what is none ------------------------------------------------------------


def test_every_item_is_answered_in_order(parser: Parser) -> None:
    items: list[Any] = ["They ate.", "", None, b"bytes", ["a b"], ["a", 3], 7, {"a": 1}, [], "ate"]
    items += [repeat("udon"), "x" * (LONGEST_TEXT + 1), Tree.fromstring("(S (NN a))")]
    for jobs in (1, 2):
        results = list(parser.parse_many([*items, *items, SENTENCE], n_jobs=jobs))
        assert len(results) == 2 * len(items) + 1
        assert results[: len(items)] == results[len(items) : -1]
        fine = [i for i, result in enumerate(results) if result.error is None]
        assert fine == [0, 9, len(items), len(items) + 9, 2 * len(items)]
        for i, result in enumerate(results):
            assert bool(result.trees) == bool(result.tokens) == (i in fine)
    reasons = [result.error for result in results[: len(items)]]
    expected = ["at least one token", "not NoneType", "use text.decode", "' '", "token 2 is int"]
    expected += ["not int", "not dict", "at least one token"]
    expected += ["more than 1,048,576 characters"] * 2 + [r"pass tree.leaves\(\)"]
    for reason, part in zip([r for r in reasons if r is not None], expected, strict=True):
        assert re.search(part, reason)


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_are_raised_after_the_results_before_them(parser: Parser, jobs: int) -> None:
    results = parser.parse_many([SENTENCE] * 5 + [[]] + [SENTENCE], n_jobs=jobs, errors="raise")
    assert len([next(results) for _ in range(5)]) == 5
    with pytest.raises(ValueError, match="at least one token"):
        next(results)


def test_sentences_are_taken_as_they_are_needed(parser: Parser) -> None:
    taken = 0

    def endless() -> Iterator[list[str]]:
        nonlocal taken
        while True:
            taken += 1
            yield ["udon"]

    for result, number in zip(parser.parse_many(endless()), range(1, 4), strict=False):
        assert result.trees and taken == number
    taken = 0
    results = parser.parse_many(endless(), n_jobs=2)
    assert taken == 0
    for number in range(1, 3 * CHUNK):
        assert next(results).trees and number <= taken <= number + AHEAD * 2 * CHUNK
    assert taken % CHUNK == 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_that_were_read_are_forgotten(parser: Parser, jobs: int) -> None:
    forgotten: list[None] = []
    most = read = 0
    for result in parser.parse_many(repeat(["udon"], 500), n_jobs=jobs):
        read += 1
        weakref.finalize(result, forgotten.append, None)
        most = max(most, read - len(forgotten))
    assert read == 500 and most <= 2 * CHUNK


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_generator_raises_comes_after_what_it_gave(parser: Parser, jobs: int) -> None:
    def broken() -> Iterator[str]:
        yield from ["They ate."] * 20
        raise OSError("the disk is gone")

    results = parser.parse_many(broken(), n_jobs=jobs)
    assert len(list(islice(results, 20))) == 20
    with pytest.raises(OSError, match="disk is gone"):
        next(results)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda p: p.parse_many("They ate."), TypeError, r"one str: put it in a list"),
        (lambda p: p.parse_many(b"They ate."), TypeError, "not one bytes"),
        (lambda p: p.parse_many(None), TypeError, "an iterable of sentences, not NoneType"),
        (lambda p: p.parse_many([], n_jobs="2"), TypeError, "n_jobs must be a whole number"),
        (lambda p: p.parse_many([], n_jobs=-2), ValueError, "n_jobs must be at least -1, not -2"),
        (lambda p: p.parse_many([], candidates=0), ValueError, "candidates must be at least 1"),
        (lambda p: p.parse_many([], errors="drop"), ValueError, "keep, raise, not 'drop'"),
        (lambda p: p.parse(None), TypeError, "a string or a sequence of tokens, not NoneType"),
        (lambda p: p.parse(b"They ate."), TypeError, r"not bytes: use text.decode"),
        (lambda p: p.parse({"a"}), TypeError, "sequence of tokens, not set"),
        (lambda p: p.parse([b"They"]), TypeError, "token 1 is bytes"),
        (lambda p: p.parse_n_best("a", n_best="3"), TypeError, "n_best must be .* number, not '3'"),
        (lambda p: p.parse_n_best("a", n_best=1.5), TypeError, "n_best must be .* number, not 1.5"),
        (lambda p: p.score("(S (NN a))"), TypeError, r"nltk.Tree, not str.*Tree.fromstring"),
        (lambda p: p.score(None), TypeError, "nltk.Tree, not NoneType"),
        (lambda p: p.score_nodes([]), TypeError, "nltk.Tree, not list"),
        (lambda p: p.embed(None), TypeError, "nltk.Tree, not NoneType"),
        (lambda p: p.rerank("(S (NN a))"), TypeError, "a sequence of nltk.Tree, not str"),
        (lambda p: p.rerank(Tree("S", [])), TypeError, "not Tree: put it in a list"),
        (lambda p: p.rerank(["(S (NN a))"]), TypeError, "tree 1 must be an nltk.Tree, not str"),
        (lambda p: p.rerank(None), TypeError, "not NoneType"),
    ],
)
def test_wrong_arguments_are_named_with_a_remedy(
    parser: Parser, call: Callable[[Any], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call(parser)


def test_any_iterable_of_tokens_is_a_sentence(parser: Parser) -> None:
    expected = parser.parse(SENTENCE)
    assert parser.parse(iter(SENTENCE)) == parser.parse(np.array(SENTENCE)) == expected
    assert [r.trees[0].tree for r in parser.parse_many(iter([iter(SENTENCE)]))] == [expected]


# -- scores of nodes -----------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 39), st.integers(0, 19))
def test_the_scores_of_nodes_add_up_to_the_trees(sentence: int, rank: int) -> None:
    parser = small_parser()
    scored = parser.parse_n_best(words(trees(40, "dev")[sentence]))
    tree = scored[rank % len(scored)].tree
    nodes = parser.score_nodes(tree)
    assert sum(node.score for node in nodes) == pytest.approx(parser.score(tree), abs=1e-4)
    own = [node for node in nodes if not node.label.startswith("@")]
    assert [(n.label, n.span) for n in own] == [(s.label(), span) for s, span in spans_of(tree)]


def spans_of(tree: Tree, start: int = 0) -> Iterator[tuple[Tree, tuple[int, int]]]:
    """The nodes above the tags in pre-order."""
    if isinstance(tree[0], Tree):
        yield tree, (start, start + len(tree.leaves()))
        for child in tree:
            yield from spans_of(child, start)
            start += len(child.leaves())


def test_scores_of_nodes_of_any_tree(parser: Parser) -> None:
    text = "(X-1 (Y (Y qqq)) (@Z (\\\\W 17) (NN w) (-NONE- *) (NN w) (NN w)) (NN v))"
    tree = Tree.fromstring(text)
    nodes = parser.score_nodes(tree)
    assert [(node.label, node.span) for node in nodes if node.label not in ("@X", "@@Z")] == [
        ("TOP", (0, 6)), ("X", (0, 6)), ("@Z", (1, 5)),
    ]  # fmt: skip
    assert len(nodes) == 3 + 1 + 2  # X has three children, @Z four
    assert sum(node.score for node in nodes) == pytest.approx(parser.score(tree), abs=1e-5)
    assert parser.score_nodes(Tree.fromstring("(NN a)"))[0].label == "TOP"


def test_marginals_are_probabilities_of_phrases_and_tags() -> None:
    parser = small_parser()
    for text in ("They ate udon .", "gladly", "the nurse with the nurse ate , and ate ."):
        tokens = text.split()
        brackets = parser.marginals(tokens)
        assert [b.probability for b in brackets] == sorted(
            (b.probability for b in brackets), reverse=True
        )
        leaves = parser.parse(tokens).subtrees(lambda node: node.height() == 2)
        tag_names = {node.label() for node in leaves}
        for i in range(len(tokens)):
            ways = [b for b in brackets if (b.start, b.end) == (i, i + 1)]
            assert sum(b.probability for b in ways if b.label in tag_names) <= 1 + 1e-6
            assert any(b.probability > 0.1 for b in ways)
    with pytest.raises(ValueError, match="at least one token"):
        parser.marginals("")


def test_confidence_is_the_mean_probability_of_a_trees_phrases() -> None:
    parser = small_parser()
    tokens = ["They", "ate", "udon", "."]
    best = parser.parse(tokens)
    chance = {(b.label, b.start, b.end): b.probability for b in parser.marginals(tokens)}
    spans = labelled_spans(best)
    expected = sum(chance[span] for span in spans) / len(spans)
    assert parser.confidence(best) == pytest.approx(expected)
    assert parser.confidence(best) > 0.5
    wrong = Tree.fromstring("(TOP (X (PRP They) (VBD ate)) (NP (NN udon) (. .)))")
    assert parser.confidence(wrong) == 0.0
    assert parser.confidence(Tree.fromstring("(TOP (NN udon))")) == 1.0
