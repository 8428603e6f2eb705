"""Where the tokens and constituents of a parsed text are, and what each adds to the score."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from nltk.tree import Tree

from rnnparse.inference.search import Search
from rnnparse.input_sentences import Line
from rnnparse.parse_results import Constituent, ParseResult
from rnnparse.parser import Parser
from rnnparse.trees.cleaning import words
from rnnparse.trees.node import Node
from tests.grammar.small import trees
from tests.small_parser import small_parser

TEXTS = [
    "They ate udon with the man that met Anna in a park.",
    "They saw “udon” (with \xadAnna), didn’t they? 😀",
    "with with",
    "udon",
    " \u200b they \U0001f600 ate\t.",
]


def results(parser: Parser, *texts: Any, **options: Any) -> list[ParseResult]:
    return list(parser.parse_many(texts, errors="raise", **options))


@pytest.mark.parametrize("text", TEXTS)
def test_the_parts_of_constituents_add_up_to_the_scores_of_the_tree(text: str) -> None:
    (result,) = results(small_parser(), text, n_best=8)
    for scored in result.trees:
        nodes = scored.constituents
        assert sum(node.rnn_score for node in nodes) == pytest.approx(scored.rnn_score, abs=1e-5)
        logs = [node.log_probability for node in nodes]
        assert None not in logs
        assert sum(filter(None, logs)) == pytest.approx(scored.log_probability, abs=1e-8)


@pytest.mark.parametrize("number", [3, 17, 40])
def test_rules_alone_explain_the_probability_that_the_decoder_found(number: int) -> None:
    """`RuleScores` searches the derivations of a tree anew; nothing is left for the root."""
    parser = small_parser()
    (result,) = results(parser, words(trees(60)[number]), n_best=20)
    assert len(result.trees) > 1 and not result.glued
    emissions = parser.grammar.lexicon.emissions(result.tokens)
    for scored in result.trees:
        parts = parser._rule_scores.parts(scored.tree, emissions)
        assert parts is not None and (parts <= 0).all()
        assert parts.sum() == pytest.approx(scored.log_probability, abs=1e-8)


def test_network_parts_are_those_of_score_nodes() -> None:
    parser = small_parser()
    (result,) = results(parser, TEXTS[0])
    tree, nodes = result.trees[0].tree, result.trees[0].constituents
    binary = parser.score_nodes(tree)
    assert any(node.label.startswith("@") for node in binary)  # counted with the nodes above them
    for node in nodes:
        if not node.is_tag and len(node_at(tree, nodes.index(node))) < 3:
            own = [n.score for n in binary if (n.label, n.span) == (node.label, node.span)]
            assert node.rnn_score == pytest.approx(own[0], abs=1e-6)
    assert {node.rnn_score for node in nodes if node.is_tag} == {0.0}


def node_at(tree: Tree, number: int) -> Tree:
    return list(tree.subtrees())[number]


@pytest.mark.parametrize("text", TEXTS)
def test_offsets_and_characters_name_the_text(text: str) -> None:
    (result,) = results(small_parser(), text)
    assert result.offsets is not None and len(result.offsets) == len(result.tokens)
    marks = str.maketrans({"\xad": None, "’": "'"})
    for token, (start, end) in zip(result.tokens, result.offsets, strict=True):
        shown = text[start:end].translate(marks)
        assert shown == token or (token in ("``", "''") and shown in "“”")
    for node, tree in zip(result.trees[0].constituents, all_nodes(result), strict=True):
        start, end = node.span
        assert node.label == tree.label() and len(tree.leaves()) == end - start
        assert node.characters == (result.offsets[start][0], result.offsets[end - 1][1])
        assert node.is_tag == isinstance(tree[0], str)


def all_nodes(result: ParseResult) -> list[Tree]:
    return list(result.trees[0].tree.subtrees())


def test_a_line_of_tokens_keeps_their_places_and_given_tokens_have_none() -> None:
    line, tokens = results(small_parser(), Line(" They\t ate (x"), ["They", "ate", "(x"])
    assert line.tokens == tokens.tokens == ("They", "ate", "(x")
    assert line.offsets == ((1, 5), (7, 10), (11, 13)) and tokens.offsets is None
    assert line.trees[0].constituents[0].characters == (1, 13)
    assert tokens.trees[0].constituents[0].characters is None


def test_posteriors_are_the_marginals_and_absent_unless_wanted() -> None:
    parser = small_parser()
    plain, wanted = (results(parser, TEXTS[0], posteriors=p)[0] for p in (False, True))
    assert {node.posterior for node in plain.trees[0].constituents} == {None}
    chance = {(b.label, b.start, b.end): b.probability for b in parser.marginals(TEXTS[0])}
    nodes = wanted.trees[0].constituents
    assert [node.posterior for node in nodes] == pytest.approx(
        [chance[(node.label, *node.span)] for node in nodes]
    )
    assert [replace(node, posterior=None) for node in nodes] == list(plain.trees[0].constituents)


def test_sentences_in_parts_have_constituents_too() -> None:
    parser = Parser(**vars_of(small_parser()) | {"search": Search(max_length=6)})
    (result,) = results(parser, TEXTS[0] * 3, posteriors=True)
    assert result.divided
    root, *others = result.trees[0].constituents
    assert root.posterior == 1.0 and root.log_probability is not None
    assert root.log_probability < -1000  # the penalty of glue
    assert all(0.0 <= (node.posterior or 0.0) <= 1.0 for node in others)
    assert any(node.posterior for node in others)


def vars_of(parser: Parser) -> dict[str, Any]:
    return parser.__getstate__()


def test_results_can_be_pickled_with_their_constituents() -> None:
    (result,) = results(small_parser(), TEXTS[1])
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result
    assert copy.trees[0].constituents == result.trees[0].constituents
    assert len(pickle.dumps(result)) < 20_000  # without the parser


def test_trees_of_other_grammars_have_no_derivation() -> None:
    parser = small_parser()
    emissions = parser.grammar.lexicon.emissions(["They", "ate"])
    for text in ("(TOP (X (NN They) (VBD ate)))", "(TOP (NP (VP (NN They)) (VBD ate)))"):
        assert parser._rule_scores.parts(Tree.fromstring(text), emissions) is None
    (scored,) = parser.rerank([Tree.fromstring(text)])
    assert scored.constituents == ()


def test_nodes_of_the_command_line_have_the_same_constituents() -> None:
    from rnnparse.parser import parse_nodes

    parser = small_parser()
    (result,) = results(parser, TEXTS[0])
    (same,) = parse_nodes(parser, [TEXTS[0]], constituents=True)
    assert isinstance(same.trees[0].tree, Node)
    assert same.trees[0].constituents == result.trees[0].constituents
    assert isinstance(same.trees[0].constituents[0], Constituent)
