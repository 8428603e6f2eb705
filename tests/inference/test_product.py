"""Parsing with products of grammars, end to end."""

from __future__ import annotations

import pickle
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.errors import ModelError, OutOfMemoryError
from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.latent import LatentGrammar, estimate_latent
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import candidate_tree
from rnnparse.inference.posteriors import Hypergraph
from rnnparse.inference.product import ProductDecoder, state_shares
from rnnparse.inference.search import Search
from rnnparse.threads import in_order
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import small_grammar, trees
from tests.grammar.test_latent import HEADS, labels

UNKNOWN = ["Quuxes", "gladly", "zyzzy", "."]


@lru_cache(maxsize=1)
def latents() -> list[LatentGrammar]:
    names = small_grammar().pcfg.categories
    return [estimate_latent(trees(60), HEADS, names, cycles=2, seed=seed) for seed in range(2)]


@lru_cache(maxsize=1)
def decoder() -> ProductDecoder:
    return ProductDecoder(small_grammar(), latents())


def sentences() -> list[list[str]]:
    return [tree.leaves() for tree in trees(8, "dev")] + [UNKNOWN, ["Rain"]]


def best(graph: Hypergraph, tokens: list[str]) -> str:
    return str(candidate_tree(graph.best_tree(), 0, tokens, small_grammar().pcfg.categories))


def test_the_best_trees_of_the_hypergraph() -> None:
    names = small_grammar().pcfg.categories
    changed = 0
    for tokens in sentences():
        parse = decoder().parse(tokens, 20)
        ((first, graph),) = decoder().hypergraphs(tokens)
        assert first == 0 and parse.glued == graph.glued and not parse.divided
        kept = [str(candidate_tree(parse.forest, i, tokens, names)) for i in range(2)]
        listed = graph.k_best(None, 20)
        assert kept == [str(candidate_tree(listed, i, tokens, names)) for i in range(2)]
        assert (np.diff(parse.forest.logp) <= 0).all()
        plain = Decoder(small_grammar()).parse(tokens, 1)
        assert plain.glued == parse.glued
        changed += kept[0] != str(candidate_tree(plain.forest, 0, tokens, names))
        if not graph.glued:
            assert (graph.symbol == graph.category).all()
    assert changed > 0


def test_products_agree_more_with_gold_trees() -> None:
    gold = trees(40, "dev")
    plain = Decoder(small_grammar())
    right = [0, 0]
    names = small_grammar().pcfg.categories
    for tree in gold:
        for place, parser in enumerate((plain, decoder())):
            forest = parser.parse(tree.leaves(), 1).forest
            right[place] += candidate_tree(forest, 0, tree.leaves(), names) == tree
    assert right[1] > right[0]


def test_without_latent_grammars_it_is_max_rule_parsing() -> None:
    alone = ProductDecoder(small_grammar(), [])
    for tokens in sentences():
        ((_, graph),) = alone.hypergraphs(tokens)
        if not graph.glued:
            assert (graph.logp <= 1e-12).all()
            assert graph.best_tree().logp[0] <= 0.0


def test_threads_may_share_a_decoder() -> None:
    alone = [decoder().parse(tokens, 5).forest.logp for tokens in sentences()]
    together = in_order(lambda tokens: decoder().parse(tokens, 5), 3 * sentences(), 2)
    for one, other in zip(3 * alone, together, strict=True):
        assert one.tobytes() == other.forest.logp.tobytes()


def test_a_sentence_in_parts_is_joined() -> None:
    tokens = [*trees(1, "dev")[0].leaves(), *UNKNOWN]
    small = ProductDecoder(small_grammar(), latents(), Search(max_length=len(tokens) - 2))
    parse = small.parse(tokens, 5)
    assert parse.divided and parse.glued and len(parse.forest.root) == 1
    tree = candidate_tree(parse.forest, 0, tokens, small_grammar().pcfg.categories)
    assert tree.leaves() == tokens
    parts = small.hypergraphs(tokens)
    assert [first + graph.end.max() for first, graph in parts] == [parts[1][0], len(tokens)]


def test_a_sentence_without_time_is_parsed_in_short_parts() -> None:
    tokens = [word for tree in trees(5, "dev") for word in tree.leaves()]
    hasty = ProductDecoder(small_grammar(), latents(), Search(max_seconds=0.001))
    parse = hasty.parse(tokens, 1)
    tree = candidate_tree(parse.forest, 0, tokens, small_grammar().pcfg.categories)
    assert tree.leaves() == tokens


def test_hypergraphs_can_be_kept() -> None:
    tokens = sentences()[0]
    ((_, graph),) = decoder().hypergraphs(tokens, window=6.0)
    again = decoder().hypergraph(pickle.loads(pickle.dumps(graph.arrays())))
    assert best(again, tokens) == best(graph, tokens)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="cannot list the 0 best trees"):
        decoder().parse(["a"], 0)
    with pytest.raises(ValueError, match="cannot list"):
        decoder().parse([], 1)
    other = estimate_latent(trees(60), HeadTable.left(), (*labels(trees(70)), "Z"), cycles=1)
    with pytest.raises(ValueError, match="a latent grammar has"):
        ProductDecoder(small_grammar(), [other])


def test_memory_that_runs_out_is_an_error_with_the_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    small = ProductDecoder(small_grammar(), latents())
    monkeypatch.setattr(small, "_hypergraph", no_memory)
    with pytest.raises(OutOfMemoryError, match="that begins with: Quuxes gladly zyzzy"):
        small.parse(UNKNOWN, 1)


def test_states_share_their_tag(grammar: Grammar) -> None:
    share = np.exp(state_shares(grammar))
    states = np.unique(grammar.lexicon.states())
    category = grammar.pcfg.category[states]
    sums = np.bincount(category, share[states])
    assert sums[np.unique(category)] == pytest.approx(1.0)


@given(st.integers(0, 1 << 32))
def test_whatever_can_be_loaded_can_parse(seed: int) -> None:
    """Damaged arrays are found when they are loaded, or do no harm."""
    rng = np.random.default_rng(seed)
    arrays = latents()[0].to_arrays()
    name = str(rng.choice(list(arrays)))
    array = arrays[name] = arrays[name].copy()
    places = rng.integers(0, len(array), int(rng.integers(1, 4)))
    if array.dtype.kind == "f":
        array[places] = rng.choice([-1.0, 0.0, 1e-40, 0.5, 1.0, 7.0, np.inf, np.nan])
    else:
        array[places] += rng.choice([-100, -1, 1, 3, 1000]).astype(array.dtype, casting="unsafe")
    try:
        damaged = LatentGrammar.from_arrays(arrays)
    except ModelError as error:
        assert str(error).startswith("a latent grammar is damaged")
        return
    parse = ProductDecoder(small_grammar(), [damaged]).parse(trees(1, "dev")[0].leaves(), 3)
    assert not np.isnan(parse.forest.logp).any()
