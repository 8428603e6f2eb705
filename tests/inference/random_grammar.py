"""Random small grammars and sentences: unary cycles, links, intermediate symbols, ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.lexicon import Emissions, Lexicon
from rnnparse.grammar.pcfg import Pcfg
from rnnparse.trees.heads import HeadTable

CATEGORIES = ("TOP", "A", "B", "C")
random_tests = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@dataclass(frozen=True)
class FixedLexicon:
    """Gives every sentence the same emissions."""

    fixed: Emissions

    def states(self) -> np.ndarray:
        return self.fixed.symbol

    def emissions(self, tokens: list[str]) -> Emissions:
        assert len(tokens) == len(self.fixed.ptr) - 1
        return self.fixed


@dataclass(frozen=True)
class World:
    """A grammar and what its one sentence may be."""

    pcfg: Pcfg
    emissions: Emissions

    @property
    def tokens(self) -> list[str]:
        return [f"w{i}" for i in range(len(self.emissions.ptr) - 1)]

    def grammar(self, heads: HeadTable | None = None) -> Grammar:
        lexicon = cast(Lexicon, FixedLexicon(self.emissions))
        return Grammar(self.pcfg, lexicon, heads or HeadTable.left())


@st.composite
def worlds(draw: st.DrawFn, longest: int = 5) -> World:
    """A grammar of at most 9 symbols with a sentence of at most `longest` tokens.

    Hypothesis chooses the kind of world and a seed; rules drawn one by one would too often be too
    few to span a sentence.
    """
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    n = min(draw(st.sampled_from([1, 2, 3, 4, 4, 5])), longest)
    scores = draw(st.sampled_from(["any", "few", "zero"]))

    def logp(count: int) -> np.ndarray:
        if scores == "any":
            return -rng.exponential(1.5, count)
        return rng.choice([-0.5, -1.0, -1.5] if scores == "few" else [0.0], count)

    size = int(rng.integers(2, 9))
    category = np.concatenate([[0], rng.integers(1, 4, size)])
    category[2:] += 4 * (rng.random(size - 1) < 0.35)
    pcfg = _grammar(category, rng, logp, dense=draw(st.sampled_from([1, 3, 4])))
    whole = np.flatnonzero((category > 0) & (category < 4))
    states = [
        np.sort(rng.choice(whole, min(len(whole), int(rng.integers(1, 4))), replace=False))
        for _ in range(n)
    ]
    flat = np.concatenate(states).astype(np.int32)
    ptr = np.cumsum([0, *map(len, states)], dtype=np.int64)
    return World(pcfg, Emissions(ptr, flat, logp(len(flat))))


def _grammar(
    category: np.ndarray, rng: np.random.Generator, logp: Callable[[int], np.ndarray], dense: int
) -> Pcfg:
    """Random rules: some for the root, `dense` times as many others as symbols."""
    size = len(category)
    whole = np.flatnonzero(category < 4)
    rules = {tuple(rng.integers(0, size, 3).tolist()) for _ in range(dense * size)}
    rules |= {(0, *rng.integers(1, size, 2).tolist()) for _ in range(2)}
    binary = sorted(rules, key=lambda rule: (rule[1], rule[2], rule[0]))
    chains = {tuple(rng.choice(whole, 2).tolist()) for _ in range(int(rng.integers(0, 4 * dense)))}
    chains.add((0, int(rng.choice(whole))))
    unary = {(child, parent): False for parent, child in chains}
    for _ in range(int(rng.integers(0, 5))):
        parent, child = rng.integers(0, size, 2).tolist()
        if category[parent] == category[child] and parent != child:
            unary.setdefault((child, parent), True)
    ordered = sorted(unary)
    return Pcfg(
        symbols=("TOP", *(_name(i, c) for i, c in enumerate(category[1:].tolist(), start=1))),
        categories=CATEGORIES,
        category=category.astype(np.int32),
        binary=np.array(binary, np.int32).reshape(-1, 3),
        binary_logp=logp(len(binary)),
        unary=np.array([(parent, child) for child, parent in ordered], np.int32).reshape(-1, 2),
        unary_logp=logp(len(ordered)),
        link=np.array([unary[rule] for rule in ordered], np.bool_),
    )


def _name(number: int, category: int) -> str:
    """A symbol's name; intermediate ones have sisters, which some of them share."""
    if category < 4:
        return f"{CATEGORIES[category]}^{number}"
    return f"@{CATEGORIES[category - 4]}^{number}|{number % 2}<"


def world_of(
    category: list[int],
    binary: list[tuple[int, int, int]],
    unary: list[tuple[int, int]],
    tags: list[list[int]],
    links: list[tuple[int, int]] | None = None,
) -> World:
    """A world in which everything has the log probability -1; rules are parent and children."""
    rules = sorted([(a, p, False) for p, a in unary] + [(a, p, True) for p, a in links or []])
    pcfg = Pcfg(
        symbols=("TOP", *(f"s{i}" for i in range(1, len(category)))),
        categories=CATEGORIES,
        category=np.array(category, np.int32),
        binary=np.array(sorted(binary, key=lambda r: r[1:]), np.int32).reshape(-1, 3),
        binary_logp=np.full(len(binary), -1.0),
        unary=np.array([(p, a) for a, p, _ in rules], np.int32).reshape(-1, 2),
        unary_logp=np.full(len(rules), -1.0),
        link=np.array([link for *_, link in rules], np.bool_),
    )
    ptr = np.cumsum([0, *map(len, tags)], dtype=np.int64)
    flat = np.array([s for token in tags for s in token], np.int32)
    return World(pcfg, Emissions(ptr, flat, np.full(len(flat), -1.0)))
