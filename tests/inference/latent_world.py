"""Random latent grammars for small hypergraphs, and lists of all derivations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from rnnparse.grammar.latent import LatentGrammar
from rnnparse.grammar.latent_layout import Layout
from rnnparse.grammar.latent_training import normalized
from rnnparse.inference.packed_graph import HypergraphArrays

MOST = 2000  # derivations of a vertex


class TooMany(Exception):
    """There are more derivations than a test should list."""


@dataclass(frozen=True)
class Derivation:
    """One derivation of a vertex: its edges and tags, and P(words | substate)."""

    edges: frozenset[int]
    tags: frozenset[int]
    vector: np.ndarray


class Derivations:
    """All derivations of the vertices of a hypergraph.

    Args:
        graph: its arrays.
        rule: probabilities of each edge, [X, Y, Z] or [X, Y] of the substates of its vertices;
            None where there are none.
        emission: of each tag, [X].
    """

    def __init__(
        self,
        graph: HypergraphArrays,
        rule: list[np.ndarray | None],
        emission: list[np.ndarray],
    ) -> None:
        self.graph, self.rule, self.emission = graph, rule, emission
        self._known: dict[int, list[Derivation]] = {}

    def root(self) -> list[Derivation]:
        return self.of(0)

    def of(self, v: int) -> list[Derivation]:
        if v not in self._known:
            found = self._known[v] = []
            for chain, bottom in self._chains(v, frozenset()):
                for base in self._base(bottom):
                    vector = base.vector
                    for e in chain:
                        vector = np.exp(self.graph.logp[e]) * (self._rule(e) @ vector)
                    found.append(Derivation(base.edges | set(chain), base.tags, vector))
                    if len(found) > MOST:
                        raise TooMany
        return self._known[v]

    def _rule(self, e: int) -> np.ndarray:
        rule = self.rule[e]
        assert rule is not None
        return rule

    def _chains(self, v: int, above: frozenset[int]) -> Iterator[tuple[list[int], int]]:
        """The edges of each unary chain that ends at a vertex, bottom-up, and its first vertex."""
        yield [], v
        g = self.graph
        for e in np.flatnonzero((g.parent == v) & (g.right < 0)).tolist():
            below = int(g.left[e])
            if self.rule[e] is None or below in above | {v}:
                continue
            for chain, bottom in self._chains(below, above | {v}):
                passed = [bottom, *g.parent[chain].tolist()]
                if g.link[e] or g.category[v] not in g.category[passed]:
                    yield [*chain, e], bottom

    def _base(self, v: int) -> Iterator[Derivation]:
        g = self.graph
        for t in np.flatnonzero(g.tag == v).tolist():
            yield Derivation(
                frozenset(), frozenset({t}), np.exp(g.tag_logp[t]) * self.emission[t]
            )
        for e in np.flatnonzero((g.parent == v) & (g.right >= 0)).tolist():
            rule = self.rule[e]
            if rule is None:
                continue
            for a, b in product(self.of(int(g.left[e])), self.of(int(g.right[e]))):
                vector = np.exp(g.logp[e]) * np.einsum("xyz,y,z->x", rule, a.vector, b.vector)
                yield Derivation(a.edges | b.edges | {e}, a.tags | b.tags, vector)

    def posteriors(self) -> tuple[np.ndarray, np.ndarray]:
        """The posterior of each edge and tag."""
        edge, tag = np.zeros(len(self.graph.parent)), np.zeros(len(self.graph.tag))
        for derivation in self.root():
            chance = derivation.vector.sum()
            edge[list(derivation.edges)] += chance
            tag[list(derivation.tags)] += chance
        total = sum(derivation.vector.sum() for derivation in self.root())
        return edge / total, tag / total


def random_latent(
    graph: HypergraphArrays, categories: int, rng: np.random.Generator
) -> LatentGrammar:
    """A latent grammar with most of the rules of a projection, for the words w0, w1 and w2."""
    category = graph.category
    binary = graph.right >= 0
    used = np.stack([category[graph.parent], category[graph.left]], axis=1)
    other = rng.integers(0, 2 * categories, (3, 3))
    triples = np.concatenate(
        [np.column_stack([used, category[graph.right]])[binary], other]
    ).astype(np.int32)
    triples, pairs = (np.unique(rows, axis=0) for rows in (triples, used[~binary]))
    triples, pairs = (rows[rng.random(len(rows)) < 0.95] for rows in (triples, pairs))
    substates = rng.integers(1, 4, 2 * categories)
    substates[category[0]] = 1
    tags = np.unique(category[graph.tag])
    seen = [np.sort(rng.choice(tags, rng.integers(1, len(tags) + 1), False)) for _ in range(3)]
    tag = np.concatenate(seen).astype(np.int32)
    rules = np.concatenate([triples, np.pad(pairs, ((0, 0), (0, 1)), constant_values=-1)])
    rules = rules[np.lexsort(rules.T[::-1])].astype(np.int32)
    layout = Layout.full(rules, substates)
    layout = layout.only((rng.random(len(layout.rule)) < 0.9) | (layout.place == 0))
    # So that each substate has a rule, entries of substates 0 are repeated for the others.
    layout, _ = layout.completed()
    p = normalized(layout, rng.exponential(size=len(layout.rule)) + 1e-9).astype(np.float32)
    return LatentGrammar(
        ("w0", "w1", "w2"),
        substates.astype(np.int32),
        rules,
        layout.ptr,
        layout.place.astype(np.int32),
        p,
        np.cumsum([0, *map(len, seen)], dtype=np.int64),
        tag,
        rng.exponential(size=int(substates[tag].sum())).astype(np.float32),
    )


def latent_derivations(
    graph: HypergraphArrays, latent: LatentGrammar, words: list[str], tag_logp: np.ndarray
) -> Derivations:
    """All derivations of a projection under a latent grammar."""
    tables: dict[tuple[int, ...], np.ndarray] = {}
    for r, row in enumerate(latent.rules.tolist()):
        own = slice(latent.rule_ptr[r], latent.rule_ptr[r + 1])
        categories = [c for c in row if c >= 0]
        table = np.zeros(latent.substates[categories])
        table.ravel()[latent.place[own]] = latent.probability[own]
        tables[tuple(categories)] = table
    rule: list[np.ndarray | None] = []
    for parent, left, right in zip(graph.parent, graph.left, graph.right, strict=True):
        vertices = [v for v in (parent, left, right) if v >= 0]
        rule.append(tables.get(tuple(graph.category[vertices].tolist())))
    counts = _counts(latent)
    emission = []
    for v in graph.tag.tolist():
        tag, word = int(graph.category[v]), words[graph.start[v]]
        usual = sum(c for (_, t), c in counts.items() if t == tag)
        rare = sum(c for (w, t), c in counts.items() if t == tag and _total(counts, w) <= 2)
        if isinstance(usual, int):  # a tag that the latent grammar has not seen
            emission.append(np.zeros(latent.substates[tag]))
            continue
        usual = usual / usual.sum()
        share = (rare + usual) / (rare + usual).sum()
        if (word, tag) in counts:
            own = counts[word, tag]
            share = (own + 0.5 * share) / (own.sum() + 0.5)
        emission.append(share / usual)
    return Derivations(graph._replace(tag_logp=tag_logp), rule, emission)


def _counts(latent: LatentGrammar) -> dict[tuple[str, int], np.ndarray]:
    """The counts of each word and tag."""
    counts, place, entry = {}, 0, 0
    for w, word in enumerate(latent.words):
        for tag in latent.tag[latent.ptr[w] : latent.ptr[w + 1]].tolist():
            size = int(latent.substates[tag])
            counts[word, tag] = latent.count[place : place + size].astype(np.float64)
            place, entry = place + size, entry + 1
    return counts


def _total(counts: dict[tuple[str, int], np.ndarray], word: str) -> float:
    return float(sum(c.sum() for (w, _), c in counts.items() if w == word))
