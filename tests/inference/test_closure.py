"""The unary closure against all chains there are, and grammars with very many chains."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.grammar.grammar import estimate
from rnnparse.inference import best_trees as best_trees_module
from rnnparse.inference.closure import unary_closure
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.rules import UNARY
from rnnparse.inference.search import Search
from rnnparse.trees.heads import HeadTable
from tests.inference.random_grammar import random_tests

Rules = dict[tuple[int, int], tuple[float, bool]]  # of parent and child


def all_chains(rules: Rules, category: list[int]) -> dict[tuple[int, int], float]:
    """The best valid chain for each pair, by listing all of them."""
    best: dict[tuple[int, int], float] = {}

    def climb(first: int, symbol: int, used: frozenset[int], on: frozenset[int], p: float) -> None:
        for (parent, child), (logp, link) in rules.items():
            if child != symbol or parent in on or (not link and category[parent] in used):
                continue
            best[first, parent] = max(best.get((first, parent), -np.inf), p + logp)
            climb(first, parent, used | {category[parent]}, on | {parent}, p + logp)

    for first in range(len(category)):
        climb(first, first, frozenset({category[first]}), frozenset({first}), 0.0)
    return best


def closure(rules: Rules, category: list[int]) -> dict[tuple[int, int], float]:
    ordered = sorted(rules)
    unary = np.zeros(len(rules), UNARY)
    unary["child"] = [child for _, child in ordered]
    unary["logp"] = [rules[pair][0] for pair in ordered]
    unary["link"] = [rules[pair][1] for pair in ordered]
    ptr = np.searchsorted([parent for parent, _ in ordered], np.arange(len(category) + 1))
    chains = unary_closure(ptr.astype(np.int64), unary, np.array(category, np.int32))
    for chain in chains:
        path = (chain.child, *chain.between, chain.parent)
        steps = [rules[parent, child] for child, parent in pairwise(path)]
        assert sum(logp for logp, _ in steps) == pytest.approx(chain.logp)
    assert len({(chain.child, chain.parent) for chain in chains}) == len(chains)
    return {(chain.child, chain.parent): chain.logp for chain in chains}


@random_tests
@given(st.integers(0, 1 << 32), st.booleans())
def test_the_closure_is_the_best_of_all_valid_chains(seed: int, tied: bool) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 8))
    category = rng.integers(0, int(rng.integers(1, 6)), size).tolist()
    rules: Rules = {}
    for _ in range(int(rng.integers(0, 4 * size))):
        parent, child = rng.integers(0, size, 2).tolist()
        link = category[parent] == category[child] and bool(rng.random() < 0.7)
        rules[parent, child] = (0.0 if tied else -float(rng.exponential()), link)
    expected, actual = all_chains(rules, category), closure(rules, category)
    assert actual.keys() == expected.keys()
    assert [actual[pair] for pair in expected] == pytest.approx(list(expected.values()))


def dense_chains(count: int, labels: int, length: int, seed: int = 0) -> list[Tree]:
    """Trees of a word or two below unary chains of labels at random."""
    rng = random.Random(seed)
    names = [f"L{c}" for c in range(labels)]

    def chain(inner: str) -> str:
        for name in rng.sample(names, length):
            inner = f"({name} {inner})"
        return inner

    words = [
        " ".join(chain(f"(T w{rng.randrange(9)})") for _ in range(rng.randint(1, 2)))
        for _ in range(count)
    ]
    return [Tree.fromstring(f"(TOP {chain(f'(S {part})')})") for part in words]


def test_dense_chains_take_no_exponential_time() -> None:
    decoder = Decoder(estimate(dense_chains(40, 10, 6), HeadTable.left()))
    began = time.thread_time()
    lists = [decoder.parse(["w1", "w2"][:n], 50).forest for n in (1, 2)]
    assert [len(forest.root) for forest in lists] == [50, 50]
    assert time.thread_time() - began < 20


def test_lists_below_dense_chains_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = estimate(dense_chains(30, 6, 4), HeadTable.left())
    decoder = Decoder(grammar, Search(exact=True))
    everything = decoder.parse(["w1"], 10**6).forest.logp
    assert len(everything) > 500 and (np.diff(everything) <= 0).all()
    monkeypatch.setattr(best_trees_module, "EFFORT", 1)
    for k in (1, 7, 60):
        assert decoder.parse(["w1"], k).forest.logp.tolist() == everything[:k].tolist()
