"""Estimates of how likely an item is, from the tags beside it, before its outside score is known.

The boundary figure of merit of Caraballo & Charniak, "New Figures of Merit for Best-First
Probabilistic Chart Parsing" (Computational Linguistics 24, 1998): an item's inside score, times the
probability that its category begins after the tag before and is followed by the tag after, times
the probability of all other words under a bigram model of tags. Here each of these is the maximum
over tags, not the sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF, Beam


class Neighbours(NamedTuple):
    """Log probabilities of neighbours in the grammar; see `rnnparse.grammar.CoarseGrammar`."""

    tag_number: np.ndarray  # [N] int32
    begins: np.ndarray  # [T+1, N] float64
    ends: np.ndarray  # [T+1, N] float64
    transitions: np.ndarray  # [T+1, T+1] float64


@njit(nogil=True)
def _raise(scores, score, beside):
    """Raise scores to `score` + `beside`."""
    for x in range(scores.shape[0]):
        total = score + beside[x]
        scores[x] = total if total > scores[x] else scores[x]


@njit(nogil=True)
def boundary_beam(ptr, tag, logp, neighbours, width, depth, is_open):
    """The `Beam` of a sentence.

    Args:
        ptr [n+1], tag, logp: the tags of each token with log P(word | tag).
        neighbours: `Neighbours` of the grammar.
        width: nats below the best item of a cell.
        depth: nats below the best sequence of tags of the sentence.
        is_open [cells] bool: the cells that may have items.
    """
    tag_number, begins, ends, transitions = neighbours
    n, outside, size = ptr.shape[0] - 1, begins.shape[0] - 1, begins.shape[1]
    left, right = np.full((n + 1, size), NEG_INF), np.full((n + 1, size), NEG_INF)
    _raise(left[0], 0.0, begins[outside])
    _raise(right[n], 0.0, ends[outside])
    ahead = logp.copy()  # of the best tags up to and including a token's
    for i in range(n):
        for t in range(ptr[i], ptr[i + 1]):
            here = tag_number[tag[t]]
            reached = transitions[outside, here] if i == 0 else NEG_INF
            for s in range(ptr[i - 1] if i > 0 else 0, ptr[i] if i > 0 else 0):
                reached = max(reached, ahead[s] + transitions[tag_number[tag[s]], here])
            ahead[t] += reached
            _raise(left[i + 1], ahead[t], begins[here])
    behind = logp.copy()  # of the best tags from a token's on
    for i in range(n - 1, -1, -1):
        for t in range(ptr[i], ptr[i + 1]):
            here = tag_number[tag[t]]
            reached = transitions[here, outside] if i == n - 1 else NEG_INF
            for s in range(ptr[i + 1] if i < n - 1 else 0, ptr[i + 2] if i < n - 1 else 0):
                reached = max(reached, behind[s] + transitions[here, tag_number[tag[s]]])
            behind[t] += reached
            _raise(right[i], behind[t], ends[here])
    best = NEG_INF
    for t in range(ptr[n - 1], ptr[n]):
        best = max(best, ahead[t] + transitions[tag_number[tag[t]], outside])
    return Beam(left, right, width, best - depth, is_open)
