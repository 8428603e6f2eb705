"""Random small grammars and sentences: unary cycles, links, intermediate symbols, ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from hypothesis import strategies as st

from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.lexicon import Emissions, Lexicon
from rnnparse.grammar.pcfg import Pcfg
from rnnparse.trees.heads import HeadTable

CATEGORIES = ("TOP", "A", "B", "C")


@dataclass(frozen=True)
class FixedLexicon:
    """Gives every sentence the same emissions."""

    fixed: Emissions

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
    """A grammar of at most 8 symbols with a sentence of at most `longest` tokens."""
    kinds = draw(
        st.lists(st.tuples(st.integers(1, 3), st.sampled_from([False, False, True])), max_size=7)
    )
    category = [0, 1] + [c + 4 * partial for c, partial in kinds]
    whole = [s for s in range(1, len(category)) if category[s] < 4]
    some = st.integers(0, len(category) - 1)
    scores = draw(
        st.sampled_from([st.floats(-6, 0), st.sampled_from([-0.5, -1.0, -1.5]), st.just(0.0)])
    )
    binary = draw(st.lists(st.tuples(some, some, some), max_size=12, unique=True))
    unary = draw(
        st.lists(
            st.tuples(st.sampled_from([0, *whole]), st.sampled_from([0, *whole])),
            max_size=5, unique=True,
        )
    )
    links = [
        (a, b) for a, b in draw(st.lists(st.tuples(some, some), max_size=4, unique=True))
        if category[a] == category[b] and a != b and (a, b) not in unary
    ]
    rules = sorted((child, parent, False) for parent, child in unary)
    rules = sorted(rules + [(child, parent, True) for parent, child in links])
    binary.sort(key=lambda rule: (rule[1], rule[2], rule[0]))
    pcfg = Pcfg(
        symbols=("TOP", *(f"s{i}" for i in range(1, len(category)))),
        categories=CATEGORIES,
        category=np.array(category, np.int32),
        binary=np.array(binary, np.int32).reshape(-1, 3),
        binary_logp=np.array([draw(scores) for _ in binary], np.float64),
        unary=np.array([(p, a) for a, p, _ in rules], np.int32).reshape(-1, 2),
        unary_logp=np.array([draw(scores) for _ in rules], np.float64),
        link=np.array([link for *_, link in rules], np.bool_),
    )
    n = draw(st.integers(1, longest))
    states = [
        draw(st.lists(st.sampled_from(whole), min_size=1, max_size=3, unique=True))
        for _ in range(n)
    ]
    flat = [s for token in states for s in sorted(token)]
    return World(
        pcfg,
        Emissions(
            np.cumsum([0, *map(len, states)], dtype=np.int64),
            np.array(flat, np.int32),
            np.array([draw(scores) for _ in flat], np.float64),
        ),
    )
