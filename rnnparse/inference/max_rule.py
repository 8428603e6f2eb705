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
from rnnparse.inference.edge_posteriors import FLOOR, EdgeRules, edge_posteriors
from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.projection import Projection

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
    rules = EdgeRules(
        np.ones(len(arrays.symbol), np.int64), np.zeros(len(arrays.parent), np.int64),
        np.ones(1, np.float32), np.ones(len(arrays.tag)),
    )
    edge, tag, _ = edge_posteriors(arrays, rules)
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
        self._first = grammar.offsets(np.arange(len(self._size))[:, None])
        binary, unary = grammar.binary.astype(np.int64), grammar.unary.astype(np.int64)
        between = grammar.offsets(binary)
        places = np.concatenate([between[:-1], between[-1] + grammar.offsets(unary)[:-1]])
        rules = np.concatenate([binary, np.pad(unary, ((0, 0), (0, 1)), constant_values=-1)])
        self._rules = _Lookup(self._key(*rules.T), places)
        self._probability = np.concatenate(
            [grammar.binary_probability, grammar.unary_probability]
        )
        word = np.repeat(np.arange(len(grammar.words)), np.diff(grammar.ptr))
        counts = grammar.offsets(grammar.tag[:, None])
        self._tags = _Lookup(word * len(self._size) + grammar.tag, counts[:-1])
        self._count = grammar.count.astype(np.float64)
        usual = np.where(grammar.usual > 0.0, grammar.usual, np.inf)
        self._inverse, self._rare = 1.0 / usual, grammar.usual_rare

    def _key(self, parent: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """A number for each rule; unary ones have right child -1."""
        size = len(self._size)
        key: np.ndarray = (parent * size + left) * (size + 1) + right + 1
        return key

    def posteriors(
        self, arrays: HypergraphArrays, words: Sequence[str], tag_logp: np.ndarray
    ) -> Posteriors | None:
        """The posteriors of the edges and tags of a projection.

        A word that was seen with a tag has the substates that it had there, smoothed by those of
        rare words; another word has those of rare words.

        Args:
            arrays: of the projection.
            words: unescaped; n of them.
            tag_logp [T] float64: log P(word | tag).

        Returns:
            None if the grammar has no tree within the hypergraph.
        """
        category = arrays.category.astype(np.int64)
        right = np.where(arrays.right < 0, -1, category[arrays.right])
        keys = self._key(category[arrays.parent], category[arrays.left], right)
        rules = EdgeRules(
            self._size[category], self._rules.places(keys), self._probability,
            self._emissions(arrays, words),
        )
        edge, tag, possible = edge_posteriors(arrays._replace(tag_logp=tag_logp), rules)
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
        own = np.where(seen[of_tag] < 0, 0.0, self._count[seen[of_tag] + state])
        total = np.bincount(of_tag, own, len(tag))[of_tag]
        place = self._first[tag][of_tag] + state
        emission: np.ndarray = (own + SMOOTHING * self._rare[place]) / (total + SMOOTHING)
        return emission * self._inverse[place]


class _Lookup:
    """Places by keys; int64."""

    def __init__(self, keys: np.ndarray, places: np.ndarray) -> None:
        order = np.argsort(keys)
        # A last key that nobody looks up spares a check of the bounds.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._places = np.append(places[order], -1)

    def places(self, keys: np.ndarray) -> np.ndarray:
        """The place of each key, -1 for unknown keys."""
        found = np.searchsorted(self._keys, keys)
        places: np.ndarray = np.where(self._keys[found] == keys, self._places[found], -1)
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
