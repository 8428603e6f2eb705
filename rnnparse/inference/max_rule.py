"""Max-rule scores: the log posteriors of rule applications, summed over grammars.

The tree with the greatest product of posteriors has fewer wrong constituents than the most
probable one (Petrov & Klein, "Improved Inference for Unlexicalized Parsing", NAACL 2007), and the
posteriors of several grammars can be multiplied (Petrov, "Products of Random Latent Variable
Grammars", NAACL 2010). All of them are those of one hypergraph, the `Projection` of what the
grammar itself has found likely. Unary chains never repeat a category.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rnnparse.grammar.latent import LatentGrammar
from rnnparse.grammar.latent_layout import offsets
from rnnparse.inference.edge_posteriors import FLOOR, EdgeRules, Frame, edge_posteriors, frame_of
from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.projection import Projection
from rnnparse.inference.scaled_vectors import ENTRY

SMOOTHING = 0.5  # pseudo-counts of the substates of rare words, for a known word


class Posteriors(NamedTuple):
    """Natural logs of posteriors, from `FLOOR` to 0."""

    edge: np.ndarray  # [E] float64: of a rule to be applied there
    tag: np.ndarray  # [T] float64


def own_posteriors(arrays: HypergraphArrays) -> Posteriors:
    """The posteriors under the log probabilities of a hypergraph.

    Args:
        arrays: wide ones, with at least one tree; not glued.
    """
    none, one = np.zeros(len(arrays.parent), np.int64), np.zeros(1, ENTRY)
    one["probability"] = 1.0
    rules = EdgeRules(
        np.ones(len(arrays.symbol), np.int64), none, none + 1, one, arrays.tag_logp,
        np.ones(len(arrays.tag)),
    )
    edge, tag, _ = edge_posteriors(frame_of(arrays), rules)
    return Posteriors(edge, tag)


def projected_posteriors(posteriors: Posteriors, projection: Projection) -> Posteriors:
    """Sums of the posteriors of a hypergraph, for the edges and tags of its projection."""
    parts = []
    for logs, place in zip(posteriors, (projection.edge, projection.tag), strict=True):
        kept = place >= 0
        sums = np.bincount(place[kept], np.exp(logs[kept]))
        parts.append(np.log(np.clip(sums, np.exp(FLOOR), 1.0)))
    return Posteriors(*parts)


class LatentScorer:
    """Posteriors under a latent grammar. Threads may share a scorer.

    Args:
        grammar: the grammar.
    """

    def __init__(self, grammar: LatentGrammar) -> None:
        self.grammar = grammar
        self._size = grammar.substates.astype(np.int64)
        self._first = grammar.state_ptr
        self._entries = np.zeros(len(grammar.place), ENTRY)
        for name, states in zip("xyz", grammar.states(), strict=True):
            self._entries[name] = states
        self._entries["probability"] = grammar.probability
        # Unknown rules come last, and have no entry.
        self._ptr = np.append(grammar.rule_ptr, [0, 0])
        self._rules = _Lookup(self._key(*grammar.rules.T.astype(np.int64)), len(self._ptr) - 2)
        word = np.repeat(np.arange(len(grammar.words)), np.diff(grammar.ptr))
        self._tags = _Lookup(word * len(self._size) + grammar.tag, -1)
        self._counts = offsets(self._size[grammar.tag])
        self._count = np.append(grammar.count, 0.0)  # the last is for unknown words
        usual = np.where(grammar.usual > 0.0, grammar.usual, np.inf)
        self._inverse, self._rare = 1.0 / usual, grammar.usual_rare

    def _key(self, parent: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """A number for each rule; unary ones have right child -1."""
        size = len(self._size)
        key: np.ndarray = (parent * size + left) * (size + 1) + right + 1
        return key

    def posteriors(
        self, frame: Frame, words: Sequence[str], tag_logp: np.ndarray
    ) -> Posteriors | None:
        """The posteriors of the edges and tags of a projection.

        A word that was seen with a tag has the substates that it had there, smoothed by those of
        rare words; another word has those of rare words.

        Args:
            frame: of the projection.
            words: unescaped; n of them.
            tag_logp [T] float64: log P(word | tag).

        Returns:
            None if the grammar has no tree within the hypergraph.
        """
        arrays, category = frame.graph, frame.graph.category.astype(np.int64)
        right = np.where(frame.unary, -1, category[arrays.right])
        keys = self._key(category[arrays.parent], category[arrays.left], right)
        rule = self._rules.places(keys)
        rules = EdgeRules(
            self._size[category], self._ptr[rule], self._ptr[rule + 1], self._entries, tag_logp,
            self._emissions(arrays, words),
        )
        edge, tag, possible = edge_posteriors(frame, rules)
        return Posteriors(edge, tag) if possible else None

    def _emissions(self, arrays: HypergraphArrays, words: Sequence[str]) -> np.ndarray:
        """P(word | substate) / P(word | tag) of the substates of all tags, end to end."""
        number = np.array([-1 if w is None else w for w in map(self.grammar.number, words)])
        tag, word = arrays.category[arrays.tag], number[arrays.start[arrays.tag]]
        seen = self._tags.places(word * len(self._size) + tag)
        seen[word < 0] = -1
        size = self._size[tag]
        of_tag = np.repeat(np.arange(len(tag)), size)
        state = np.arange(len(of_tag)) - (np.cumsum(size) - size)[of_tag]
        own = self._count[np.where(seen[of_tag] < 0, -1, self._counts[seen[of_tag]] + state)]
        total = np.bincount(of_tag, own, len(tag))[of_tag]
        place = self._first[tag][of_tag] + state
        emission: np.ndarray = (own + SMOOTHING * self._rare[place]) / (total + SMOOTHING)
        return emission * self._inverse[place]


class _Lookup:
    """The places of distinct keys, int64."""

    def __init__(self, keys: np.ndarray, unknown: int) -> None:
        order = np.argsort(keys)
        # A last key that nobody looks up spares a check of the bounds.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._places = np.append(order, unknown)
        self._unknown = unknown

    def places(self, keys: np.ndarray) -> np.ndarray:
        """The place of each key; for an unknown one the number `unknown`."""
        found = np.searchsorted(self._keys, keys)
        same = self._keys[found] == keys
        places: np.ndarray = np.where(same, self._places[found], self._unknown)
        return places


def product(arrays: HypergraphArrays, posteriors: Sequence[Posteriors]) -> HypergraphArrays:
    """The hypergraph in which log probabilities are the sums of log posteriors.

    Args:
        arrays: of the projection.
        posteriors: of each grammar.
    """
    return arrays._replace(
        logp=np.sum([p.edge for p in posteriors], axis=0),
        tag_logp=np.sum([p.tag for p in posteriors], axis=0),
    )
