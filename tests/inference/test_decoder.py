"""The decoder with a real grammar: exact lists, glue, threads, and nothing compiled anew."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.grammar.annotate import SPLITS, Annotator, Rule
from rnnparse.grammar.grammar import Grammar, estimate
from rnnparse.inference.cky import inside_chart
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.forest import candidate_tree
from rnnparse.inference.glue import PENALTY
from rnnparse.inference.kbest import enumerate_trees
from rnnparse.inference.pruning import prune
from rnnparse.inference.rebinarize import binarize_candidates
from rnnparse.inference.refinement import prune_refined, refine
from rnnparse.inference.search import Search
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import trees
from tests.inference.brute import Twin, as_tree

NONSENSE = ["gladly", "ate", "ate", ",", "Xyzzy", "the", "of", "-LRB-", "42nd", "with", "!", "the"]


def listed(grammar: Grammar, parse: Parse, tokens: Sequence[str]) -> list[tuple[float, str]]:
    trees = [
        candidate_tree(parse.forest, c, tokens, grammar.pcfg.categories).pformat(1 << 30)
        for c in range(len(parse.forest.root))
    ]
    return list(zip(parse.forest.logp.tolist(), trees, strict=True))


@pytest.fixture(scope="module")
def tiny() -> Grammar:
    """A grammar of so few trees that brute force can list all trees of short sentences."""
    return estimate(trees(25), HeadTable.english())


@pytest.mark.parametrize(
    "text", ["He ate .", "Anna cooks the omelette .", "the nurse", ".", "udon"]
)
def test_lists_of_a_real_grammar_against_brute_force(tiny: Grammar, text: str) -> None:
    tokens = text.split()
    twin = Twin(tiny.pcfg, tiny.lexicon.emissions(tokens), most=200_000)
    scored_trees, glued = twin.best_trees()
    best = [(p, as_tree(t, tiny.pcfg.categories, tokens).pformat(1 << 30)) for p, t in scored_trees]
    decoder = Decoder(tiny, Search(exact=True))
    for k in (1, 2, 7, 50):
        parse = decoder.parse(tokens, k)
        got = listed(tiny, parse, tokens)
        assert parse.glued == glued
        assert len(got) == min(k, len(best))
        assert [s for s, _ in got] == pytest.approx([s for s, _ in best[:k]], abs=1e-9)
        scores = {tree: score for score, tree in best}
        assert all(scores[tree] == pytest.approx(score, abs=1e-9) for score, tree in got)


def own_score(grammar: Grammar, annotator: Annotator, tree: Tree) -> float:
    """The log probability of a training tree's own derivation."""
    pcfg = grammar.pcfg
    number = {symbol: i for i, symbol in enumerate(pcfg.symbols)}
    rules = dict(zip(map(tuple, pcfg.binary.tolist()), pcfg.binary_logp, strict=True))
    for (parent, child), x in zip(pcfg.unary[~pcfg.link], pcfg.unary_logp[~pcfg.link], strict=True):
        rules[int(parent), int(child), -1] = x
    emissions = grammar.lexicon.emissions(tree.leaves())
    total, position = 0.0, 0
    for event in annotator.occurrences(tree):
        if isinstance(event, Rule):
            right = number[event.right] if event.right else -1
            total += rules[number[event.parent], number[event.left], right]
        else:
            states = slice(emissions.ptr[position], emissions.ptr[position + 1])
            place = emissions.symbol[states].tolist().index(number[event.state])
            total += emissions.logp[states][place]
            position += 1
    return total


def test_training_trees_score_no_more_than_the_best_tree(grammar: Grammar) -> None:
    treebank = trees(60)
    annotator = Annotator(grammar.heads, SPLITS, 3, treebank)
    decoder = Decoder(grammar, Search(exact=True))
    better = 0
    for tree in treebank:
        parse = decoder.parse(tree.leaves(), 200)
        own = own_score(grammar, annotator, tree)
        assert math.isfinite(own)
        assert not parse.glued
        assert parse.forest.logp[0] >= own - 1e-9
        better += parse.forest.logp[0] > own + 1e-9
        if own > parse.forest.logp[-1] + 1e-9:
            scores = {t: s for s, t in listed(grammar, parse, tree.leaves())}
            assert scores[tree.pformat(1 << 30)] >= own - 1e-9
    assert 0 < better < 60


@pytest.mark.parametrize("tokens", [["gladly"], ["!?"], NONSENSE, NONSENSE * 5])
def test_sentences_without_a_tree_are_glued(grammar: Grammar, tokens: list[str]) -> None:
    decoder = Decoder(grammar, Search(exact=True))
    for k in (1, 20):
        parse = decoder.parse(tokens, k)
        assert parse.glued
        pieces = []
        for score, text in listed(grammar, parse, tokens):
            tree = Tree.fromstring(text)
            assert (tree.label(), tree.leaves()) == ("TOP", tokens)
            pieces.append(len(tree))
            assert PENALTY * (len(tree) + 0.5) < score < PENALTY * len(tree)
        assert len(pieces) == k or len(tokens) == 1
        assert pieces[0] == min(pieces)


def test_labels_that_english_does_not_know_parse_too() -> None:
    text = "(TOP (\u03a3 (N\u0391 (d x{}) (n y{})) (@V (v z) (d x{}))))"
    treebank = [Tree.fromstring(text.format(i % 3, i % 5, i % 2)) for i in range(20)]
    grammar = estimate(treebank, HeadTable.english())
    for tree in treebank:
        parse = Decoder(grammar).parse(tree.leaves(), 3)
        assert not parse.glued
        assert candidate_tree(parse.forest, 0, tree.leaves(), grammar.pcfg.categories) == tree


@pytest.mark.parametrize("text", ["(TOP (NN word))", "(TOP (NP (NN word)))"])
def test_a_treebank_of_one_token_parses(text: str) -> None:
    grammar = estimate([Tree.fromstring(text)], HeadTable.english())
    parse = Decoder(grammar).parse(["word"], 4)
    assert not parse.glued
    assert listed(grammar, parse, ["word"])[0][1] == text
    glued = Decoder(grammar).parse(["word", "word"], 4)
    assert glued.glued
    assert listed(grammar, glued, ["word", "word"])[0][1] == "(TOP (NN word) (NN word))"


def sentences() -> Iterator[list[str]]:
    for tree in trees(25, "dev"):
        yield tree.leaves()
        yield tree.leaves()[::-1][:7]


def same(one: Parse, other: Parse) -> bool:
    return one.glued == other.glued and all(
        np.array_equal(getattr(one.forest, name), getattr(other.forest, name))
        for name in ("cat", "left", "right", "start", "end", "root", "logp")
    )


def test_threads_share_a_decoder(grammar: Grammar) -> None:
    alone = [Decoder(grammar).parse(tokens, 30) for tokens in sentences()]
    vectors = grammar.lexicon.tagger.vectors
    shared = Decoder(estimate(trees(60), HeadTable.english(), vectors=vectors))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            together = list(pool.map(lambda tokens: shared.parse(tokens, 30), sentences()))
            assert all(same(a, b) for a, b in zip(alone, together, strict=True))


def test_kernels_are_compiled_once_for_all_grammars(grammar: Grammar) -> None:
    kernels = (inside_chart, prune, refine, prune_refined, enumerate_trees, binarize_candidates)
    variants = []
    for decoder in (
        Decoder(grammar),
        Decoder(Grammar.from_arrays(grammar.to_arrays())),
        Decoder(estimate([Tree.fromstring("(TOP (X (NN word)))")], HeadTable.left())),
        Decoder(estimate([Tree.fromstring("(TOP (NN word) (NN word))")], HeadTable.right())),
    ):
        for tokens in [["word"], *sentences(), NONSENSE]:
            for k in (1, 5):
                decoder.parse(tokens, k)
        variants.append([len(kernel.signatures) for kernel in kernels])
    assert variants == [variants[0]] * len(variants)


@pytest.mark.slow
def test_a_sentence_of_300_tokens_has_trees(grammar: Grammar) -> None:
    tokens = [token for tree in trees(60, "dev") for token in tree.leaves()[:-1]][:300]
    parse = Decoder(grammar, Search(exact=True)).parse(tokens, 20)
    parsed = [Tree.fromstring(text) for _, text in listed(grammar, parse, tokens)]
    assert len(parsed) == 20
    assert all(tree.leaves() == tokens for tree in parsed)
