"""The coarse grammar: a PCFG projected to fewer symbols, for coarse-to-fine parsing.

A coarse symbol stands for all symbols of a category, or of an intermediate category with the same
sisters, and a coarse rule for all rules over the symbols of its own (Charniak et al., "Multilevel
Coarse-to-fine PCFG Parsing", HLT-NAACL 2006; Petrov & Klein, "Improved Inference for Unlexicalized
Parsing", NAACL 2007). Its probability is that of the rules together, each weighted by the expected
frequency of its parent. Links within a coarse symbol leave no node, so they are left out.

The same frequencies give the probability of a coarse symbol next to a tag: the boundary estimates
of Caraballo & Charniak, "New Figures of Merit for Best-First Probabilistic Chart Parsing"
(Computational Linguistics 24, 1998).
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from rnnparse.grammar.annotate import BACKOFF
from rnnparse.grammar.pcfg import Pcfg, category_names
from rnnparse.trees.cleaning import ROOT

ITERATIONS = 500  # of the expected frequencies; those of estimated grammars converge sooner
PRECISION = 1e-6
DAMPING = 0.999  # keeps the systems of equations regular if a rule of probability 1 is recursive
LEAST = 1e-12  # frequency of symbols that the root does not reach
UNSEEN = -30.0  # log probability of neighbours that the grammar excludes; tags may be wrong


@dataclass(frozen=True)
class CoarseGrammar:
    """A grammar projected to N coarse symbols, T of which are tags.

    Logs are natural. Row and column T stand for the beginning or end of a sentence.

    Attributes:
        pcfg: the coarse rules.
        coarse [S] int32: the coarse symbol of each symbol of the grammar.
        state_weight [S] float64: log of a symbol's share in the expected frequency of the tag
            states of its coarse symbol; the coarse P(word | tag) is the weighted mean of the
            P(word | state).
        tag_weight [N] float64: log of the expected frequency of the tag states of each coarse
            symbol.
        tag_number [N] int32: the number of each tag, -1 for other symbols.
        tag_code [N] int64: a number made from each symbol's name alone.
        begins [T+1, N] float64: log P(a constituent with symbol X begins | the tag before).
        ends [T+1, N] float64: log P(the tag after | a constituent with symbol X ends).
        transitions [T+1, T+1] float64: log P(tag | the tag before).
    """

    pcfg: Pcfg
    coarse: np.ndarray
    state_weight: np.ndarray
    tag_weight: np.ndarray
    tag_number: np.ndarray
    tag_code: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    transitions: np.ndarray


def coarse_grammar(pcfg: Pcfg, states: np.ndarray) -> CoarseGrammar:
    """Project a grammar to coarse symbols.

    Args:
        pcfg: the grammar.
        states: its symbols of tokens, int32, with repetitions.
    """
    names, coarse = _coarse_symbols(pcfg)
    frequency = expected_frequencies(pcfg)
    is_state = np.zeros(len(pcfg.symbols), np.bool_)
    is_state[states] = True
    of_states = np.where(is_state, frequency, 0.0)
    tag_weight = np.log(np.maximum(np.bincount(coarse, of_states, len(names)), LEAST))
    state_weight = np.log(np.maximum(of_states, LEAST)) - tag_weight[coarse]
    projected = _project(pcfg, names, coarse, frequency)
    tags = np.unique(coarse[states])
    tag_number = np.full(len(names), -1, np.int32)
    tag_number[tags] = np.arange(len(tags))
    codes = [crc32(name.encode("utf-8", "surrogatepass")) for name in names]
    return CoarseGrammar(
        projected, coarse, state_weight, tag_weight, tag_number, np.array(codes, np.int64),
        *_neighbours(projected, tags),
    )


def expected_frequencies(pcfg: Pcfg) -> np.ndarray:
    """[S] float64: how often each symbol is expected to occur in a tree.

    The fixed point of f(B) = 1{B is the root} + Σ f(A) P(rule) over the rules with child B.
    """
    symbols = len(pcfg.symbols)
    parent = np.concatenate([pcfg.binary[:, 0], pcfg.binary[:, 0], pcfg.unary[:, 0]])
    child = np.concatenate([pcfg.binary[:, 1], pcfg.binary[:, 2], pcfg.unary[:, 1]])
    chance = np.exp(np.concatenate([pcfg.binary_logp, pcfg.binary_logp, pcfg.unary_logp]))
    root = np.zeros(symbols)
    root[pcfg.root] = 1.0
    frequency = root
    for _ in range(ITERATIONS):
        before = frequency
        frequency = root + np.bincount(child, chance * before[parent], symbols)
        frequency = np.minimum(frequency, 1 / PRECISION)  # a grammar of infinite trees
        if np.abs(frequency - before).max() < PRECISION:
            break
    return np.maximum(frequency, LEAST)


def _coarse_symbols(pcfg: Pcfg) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the coarse symbols, and the coarse symbol of each symbol, int32 [S].

    A whole symbol loses all annotations. An intermediate one keeps the sisters in its name.
    """
    stems = category_names(pcfg.categories)
    coarse = []
    for symbol, category in zip(pcfg.symbols, pcfg.category.tolist(), strict=True):
        stem = stems[category]
        _, bar, sisters = symbol.removeprefix(stem).rstrip(BACKOFF + "'").partition("|")
        coarse.append(stem + bar + sisters if category >= len(pcfg.categories) else stem)
    names = tuple(sorted(set(coarse)))
    number = {name: i for i, name in enumerate(names)}
    return names, np.array([number[name] for name in coarse], np.int32)


def _project(
    pcfg: Pcfg, names: tuple[str, ...], of: np.ndarray, frequency: np.ndarray
) -> Pcfg:
    """The coarse rules, with the probabilities of the rules that each stands for."""
    parent, child = of[pcfg.unary].T
    across = pcfg.link & (parent != child)  # other links stay within a new symbol
    own = ~pcfg.link | across
    binary, of_binary = _merged(
        of[pcfg.binary], frequency[pcfg.binary[:, 0]] * np.exp(pcfg.binary_logp)
    )
    unary, of_unary = _merged(
        of[pcfg.unary[own]], frequency[pcfg.unary[own, 0]] * np.exp(pcfg.unary_logp[own])
    )
    total = np.zeros(len(names))
    np.add.at(total, binary[:, 0], of_binary)
    np.add.at(total, unary[:, 0], of_unary)
    category = np.zeros(len(names), np.int32)
    category[of] = pcfg.category
    # In a tree no category repeats along a unary chain, but links keep it.
    link = category[unary[:, 0]] == category[unary[:, 1]]
    kept = ~link | np.isin(_pairs(unary), _pairs(of[pcfg.unary[across]]))
    return Pcfg(
        symbols=names,
        categories=pcfg.categories,
        category=category,
        binary=binary,
        binary_logp=np.log(of_binary / total[binary[:, 0]]),
        unary=unary[kept],
        unary_logp=np.log(of_unary / total[unary[:, 0]])[kept],
        link=link[kept],
    )


def _pairs(rules: np.ndarray) -> np.ndarray:
    """One number for each pair of symbols."""
    numbers: np.ndarray = rules[:, 0].astype(np.int64) << 32 | rules[:, 1]
    return numbers


def _merged(rules: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal rules once, children first in the order, and their total mass."""
    distinct, place = np.unique(np.roll(rules, -1, axis=1), axis=0, return_inverse=True)
    merged = np.roll(distinct, 1, axis=1).astype(np.int32)
    return merged, np.bincount(place.ravel(), mass, len(merged))


def _neighbours(coarse: Pcfg, tags: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`begins`, `ends` and `transitions` of a `CoarseGrammar`."""
    size, outside = len(coarse.symbols), len(tags)
    binary, unary = coarse.binary, coarse.unary
    of_binary, of_unary = np.exp(coarse.binary_logp), np.exp(coarse.unary_logp)
    leftmost, rightmost = np.zeros((2, size, size))  # P(child at this edge | parent)
    for edge, column in ((leftmost, 1), (rightmost, 2)):
        np.add.at(edge, (binary[:, 0], binary[:, column]), of_binary)
        np.add.at(edge, (unary[:, 0], unary[:, 1]), of_unary)
    root = coarse.symbols.index(ROOT)
    own = np.zeros((size, outside + 1))
    own[tags, np.arange(outside)] = 1.0
    first, last = _closed(leftmost, own), _closed(rightmost, own)
    frequency = expected_frequencies(coarse)
    uses = (frequency[binary[:, 0]] * of_binary)[:, None]
    before, after = np.zeros((2, size, outside + 1))  # expected counts of the tags beside a symbol
    before[root, outside] = after[root, outside] = 1.0
    np.add.at(before, binary[:, 2], uses * last[binary[:, 1]])
    np.add.at(after, binary[:, 1], uses * first[binary[:, 2]])
    before, after = _closed(leftmost.T, before), _closed(rightmost.T, after)
    of_tag = np.append(frequency[tags], 1.0)
    with np.errstate(divide="ignore"):
        begins = np.log(before.T) - np.log(of_tag)[:, None]
        ends = np.log(after.T) - np.log(frequency)
    final = np.append(ends[outside, tags], -np.inf)
    transitions = np.column_stack([begins[:, tags], final])
    floored = [np.maximum(x, UNSEEN) for x in (begins, ends, transitions)]
    begins, ends, transitions = (np.ascontiguousarray(x) for x in floored)
    return begins, ends, transitions


def _closed(step: np.ndarray, start: np.ndarray) -> np.ndarray:
    """start + step · start + step² · start + …; where it is no more than rounding, 0."""
    total = np.linalg.solve(np.eye(len(step)) - DAMPING * step, start)
    return np.where(total > LEAST, total, 0.0)
