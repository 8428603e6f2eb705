"""Posteriors of edges and tags under rules with substates, as numba kernels.

Each vertex has vectors over its substates. As in `inside_outside`, unary chains never repeat a
category: the *base* of a vertex is the sum over its derivations from a tag or binary edge, and its
inside vector adds those from unary chains. The inside pass keeps the chains of each span as a
list; the outside pass goes through it backwards.

What belongs to a vertex or an edge is in one record, since numba takes long to compile functions of
many arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.arrays import grow
from rnnparse.inference.chart import NEG_INF
from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.scaled_vectors import FAST, add_scaled, apply_down, apply_up, dot, normalize

FLOOR = -30.0  # least log posterior

# Where the array of vectors has the number 1, a place to write to, and vectors of a single step.
# Python's integers would be literals to numba, which compiles functions anew for each of them.
ONE, SPARE, STEPS = np.int64(0), np.int64(1), np.int64(2)
BASE, INSIDE, OUTSIDE = range(3)
STATE = np.dtype(
    [
        ("category", np.int32),
        ("size", np.int64),  # number of substates
        ("at", np.int64, 3),  # where the vector of each kind begins
        ("scale", np.float64, 3),
        ("cell", np.int64),  # the last span whose chains from this vertex were followed
    ],
    align=True,
)
EDGE = np.dtype(
    [
        ("parent", np.int32),
        ("left", np.int32),
        ("right", np.int32),  # -1 in a unary edge
        ("link", np.bool_),
        ("first", np.int64),  # the entries of its rule are first:last
        ("last", np.int64),
        ("logp", np.float64),  # on top of these
        ("at", np.int64),  # where its inside vector over the parent's substates begins
        ("scale", np.float64),
        ("posterior", np.float64),  # its log, for unary edges first not the log
    ],
    align=True,
)
TAG = np.dtype(
    [
        ("vertex", np.int32),
        ("at", np.int64),  # where the vector of its emission begins
        ("logp", np.float64),  # on top of that
        ("posterior", np.float64),
    ],
    align=True,
)
CHAIN = np.dtype(
    [
        ("vertex", np.int32),
        ("edge", np.int32),  # the last one, -1 at the first vertex
        ("before", np.int64),  # the chain without that edge
        ("at", np.int64),  # where its inside vector begins, and after that its outside vector
        ("inside", np.float64),  # their scales
        ("outside", np.float64),
    ],
    align=True,
)


@njit(**FAST)
def _enter_binary(first, last, edges, states, entries, work):
    """Raise the base and inside vectors of a span by its binary edges."""
    for e in range(first, last):
        edge = edges[e]
        if edge.right < 0:
            continue
        a, b, parent = states[edge.left], states[edge.right], states[edge.parent]
        if a.scale[INSIDE] == NEG_INF or b.scale[INSIDE] == NEG_INF:
            continue
        apply_up(
            entries, edge.first, edge.last, a.at[INSIDE], b.at[INSIDE], work, edge.at, parent.size
        )
        scale = normalize(work, edge.at, parent.size)
        edge.scale = scale + a.scale[INSIDE] + b.scale[INSIDE] + edge.logp
        for kind in (BASE, INSIDE):
            parent.scale[kind] = add_scaled(
                work, edge.at, parent.size, edge.scale, parent.at[kind], parent.scale[kind]
            )


@njit(**FAST)
def _goes_on(chain, edge, chains, states):
    """Whether an edge may follow a chain: a link, or one to a category that is new to it."""
    if edge.left != chains[chain].vertex:
        return False
    while chain >= 0:
        vertex = chains[chain].vertex
        same = states[vertex].category == states[edge.parent].category
        if vertex == edge.parent or (same and not edge.link):
            return False
        chain = chains[chain].before
    return True


@njit(**FAST)
def _enter_chain(chains, count, vertex, edge, before, inside, at, size, work):
    """Add a chain whose inside vector is at work[at:at+size]."""
    chain = chains[count]
    chain.vertex = vertex
    chain.edge = edge
    chain.before = before
    chain.at = at
    chain.inside = inside
    chain.outside = NEG_INF
    for x in range(at + size, at + 2 * size):
        work[x] = 0.0


@njit(**FAST)
def _follow_chains(c, first, last, edges, states, entries, chains, count, work, free):
    """List the chains of span c, and raise the inside vectors where they end.

    Args:
        chains, count: the list and its length.
        work, free: the vectors, of which those from `free` on are not used.

    Returns:
        The list and the vectors, which may have grown; the new `count` and `free`.
    """
    x, e, none = count, first, np.int64(-1)
    while e < last and edges[e].right < 0:  # the unary edges come first
        left = edges[e].left
        bottom, e = states[left], e + 1
        size = bottom.size
        if bottom.scale[BASE] > NEG_INF and bottom.cell != c:
            bottom.cell = c
            chains, work = grow(chains, count + 1), grow(work, free + 2 * size)
            for y in range(size):
                work[free + y] = work[bottom.at[BASE] + y]
            _enter_chain(chains, count, left, none, none, bottom.scale[BASE], free, size, work)
            count, free = count + 1, free + 2 * size
    last = e
    while x < count:
        for e in range(first, last):
            edge = edges[e]
            if not _goes_on(x, edge, chains, states):
                continue
            parent = states[edge.parent]
            size = parent.size
            chains, work = grow(chains, count + 1), grow(work, free + 2 * size)
            apply_up(entries, edge.first, edge.last, chains[x].at, ONE, work, free, size)
            scale = normalize(work, free, size) + chains[x].inside + edge.logp
            if scale == NEG_INF:
                continue
            _enter_chain(chains, count, edge.parent, e, x, scale, free, size, work)
            parent.scale[INSIDE] = add_scaled(
                work, free, size, scale, parent.at[INSIDE], parent.scale[INSIDE]
            )
            count, free = count + 1, free + 2 * size
        x += 1
    return chains, count, work, free


@njit(**FAST)
def _pass_chains(first, last, edges, states, entries, chains, work, total):
    """Raise the outside vectors of a span's vertices below chains first..last-1."""
    for x in range(last - 1, first - 1, -1):
        chain = chains[x]
        if chain.edge < 0:
            continue
        edge, before = edges[chain.edge], chains[chain.before]
        parent, child = states[edge.parent], states[edge.left]
        at = chain.at + parent.size
        chain.outside = add_scaled(
            work, parent.at[OUTSIDE], parent.size, parent.scale[OUTSIDE], at, chain.outside
        )
        share = dot(work, at, chain.at, parent.size)
        edge.posterior += share * np.exp(chain.outside + chain.inside - total)
        apply_down(
            entries, edge.first, edge.last, at, before.at, ONE, work, STEPS, child.size, SPARE,
            np.int64(1),
        )
        scale = normalize(work, STEPS, child.size) + chain.outside + edge.logp
        before.outside = add_scaled(
            work, STEPS, child.size, scale, before.at + child.size, before.outside
        )
    for x in range(first, last):  # only now, because chains end below what is above the span
        chain = chains[x]
        if chain.edge < 0:
            bottom = states[chain.vertex]
            bottom.scale[OUTSIDE] = add_scaled(
                work, chain.at + bottom.size, bottom.size, chain.outside, bottom.at[OUTSIDE],
                bottom.scale[OUTSIDE],
            )


@njit(**FAST)
def _push_down(first, last, edges, states, entries, work, wide, total):
    """Enter the posteriors of a span's binary edges; raise the outside vectors of the children.

    Edges at the floor are not followed: what is below them alone has no greater posterior.
    """
    for e in range(first, last):
        edge = edges[e]
        parent = states[edge.parent]
        if edge.right < 0 or edge.scale == NEG_INF or parent.scale[OUTSIDE] == NEG_INF:
            continue
        share = dot(work, parent.at[OUTSIDE], edge.at, parent.size)
        edge.posterior = np.log(share) + parent.scale[OUTSIDE] + edge.scale - total
        if not edge.posterior > FLOOR:
            edge.posterior = FLOOR
            continue
        a, b = states[edge.left], states[edge.right]
        to_left, to_right = STEPS, STEPS + wide
        apply_down(
            entries, edge.first, edge.last, parent.at[OUTSIDE], a.at[INSIDE], b.at[INSIDE],
            work, to_left, a.size, to_right, b.size,
        )
        scale = parent.scale[OUTSIDE] + edge.logp
        left = normalize(work, to_left, a.size) + scale + b.scale[INSIDE]
        right = normalize(work, to_right, b.size) + scale + a.scale[INSIDE]
        a.scale[OUTSIDE] = add_scaled(
            work, to_left, a.size, left, a.at[OUTSIDE], a.scale[OUTSIDE]
        )
        b.scale[OUTSIDE] = add_scaled(
            work, to_right, b.size, right, b.at[OUTSIDE], b.scale[OUTSIDE]
        )


@njit(**FAST)
def _enter_tags(tags, states, work):
    """Raise the base and inside vectors of vertices that are tags."""
    for t in range(tags.shape[0]):
        tag = tags[t]
        state = states[tag.vertex]
        for kind in (BASE, INSIDE):
            state.scale[kind] = add_scaled(
                work, tag.at, state.size, tag.logp, state.at[kind], state.scale[kind]
            )


@njit(**FAST)
def _passes(cells, edges, states, tags, entries, work, free, wide):
    """The inside and outside passes, which set the posteriors.

    Args:
        cells [cells+1] int64: where the edges of each span begin.
        edges, states, tags, entries: EDGE, STATE, TAG and ENTRY records.
        work, free: see `_follow_chains`.
        wide: most substates of a vertex.

    Returns:
        Whether any tree is possible.
    """
    _enter_tags(tags, states, work)
    chains, count, ptr = np.empty(64, CHAIN), np.int64(0), np.zeros_like(cells)
    for c in range(cells.shape[0] - 2, -1, -1):
        _enter_binary(cells[c], cells[c + 1], edges, states, entries, work)
        chains, count, work, free = _follow_chains(
            c, cells[c], cells[c + 1], edges, states, entries, chains, count, work, free
        )
        ptr[c] = count  # the first chain of the span before
    root = states[0]
    if root.scale[INSIDE] == NEG_INF:
        return False
    over_root = 0.0
    for x in range(root.size):
        over_root += work[root.at[INSIDE] + x]
        work[root.at[OUTSIDE] + x] = 1.0
    total, root.scale[OUTSIDE] = root.scale[INSIDE] + np.log(over_root), 0.0
    for c in range(cells.shape[0] - 1):
        _pass_chains(ptr[c + 1], ptr[c], edges, states, entries, chains, work, total)
        _push_down(cells[c], cells[c + 1], edges, states, entries, work, wide, total)
    for t in range(tags.shape[0]):
        tag = tags[t]
        state = states[tag.vertex]
        share = dot(work, tag.at, state.at[OUTSIDE], state.size)
        tag.posterior = np.log(share) + state.scale[OUTSIDE] + tag.logp - total
    return True


class Frame(NamedTuple):
    """What `edge_posteriors` needs of a hypergraph, whatever its rules."""

    graph: HypergraphArrays
    edges: np.ndarray  # [E] EDGE, without rules
    states: np.ndarray  # [V] STATE, without vectors
    unary: np.ndarray  # [E] bool
    cells: np.ndarray  # [cells+1] int64: where the edges of each span begin


def frame_of(graph: HypergraphArrays) -> Frame:
    """The frame of a hypergraph.

    Args:
        graph: wide arrays that are not glued.
    """
    states, edges = np.zeros(len(graph.symbol), STATE), np.zeros(len(graph.parent), EDGE)
    states["category"], states["scale"], states["cell"] = graph.category, NEG_INF, -1
    for name in ("parent", "left", "right", "link", "logp"):
        edges[name] = getattr(graph, name)
    unary = graph.right < 0
    edges["scale"], edges["posterior"] = NEG_INF, np.where(unary, 0.0, FLOOR)
    span = graph.start.astype(np.int64) * (int(graph.end.max()) + 1) + graph.end
    borders = np.flatnonzero(np.diff(span[graph.parent], prepend=-1, append=-1))
    return Frame(graph, edges, states, unary, borders)


class EdgeRules(NamedTuple):
    """The rules of E edges and T tags of a hypergraph with V vertices.

    The probabilities of edges come on top of those of the hypergraph.
    """

    size: np.ndarray  # [V] int: number of substates
    first: np.ndarray  # [E] int: the entries of each edge are first:last
    last: np.ndarray  # [E] int
    entries: np.ndarray  # ENTRY
    tag_logp: np.ndarray  # [T] float64: log P(word | tag)
    emission: np.ndarray  # float64: P(word | substate) / P(word | tag) of each tag, end to end


def edge_posteriors(frame: Frame, rules: EdgeRules) -> tuple[np.ndarray, np.ndarray, bool]:
    """The log posteriors of the edges and tags of a hypergraph.

    Args:
        frame: of the hypergraph.
        rules: its rules.

    Returns:
        float64 [E] and [T], at least `FLOOR`; and whether any tree is possible.
    """
    graph, size = frame.graph, rules.size
    wide, ends = int(size.max()), np.cumsum(size)
    states, edges, tags = frame.states.copy(), frame.edges.copy(), np.zeros(len(graph.tag), TAG)
    free = STEPS + 2 * wide
    states["size"] = size
    states["at"] = (ends - size + free)[:, None] + ends[-1] * np.arange(3)
    free += 3 * int(ends[-1])
    edges["first"], edges["last"] = rules.first, rules.last
    of_edges = size[graph.parent]
    edges["at"] = np.cumsum(of_edges) - of_edges + free
    free += int(of_edges.sum())
    of_tags = size[graph.tag]
    tags["vertex"], tags["logp"] = graph.tag, rules.tag_logp
    tags["at"] = np.cumsum(of_tags) - of_tags + free
    work = np.zeros(free + 2 * len(rules.emission))
    work[ONE] = 1.0
    work[free : free + len(rules.emission)] = rules.emission
    possible = _passes(
        frame.cells, edges, states, tags, rules.entries, work, free + len(rules.emission), wide
    )
    edge = edges["posterior"].copy()
    with np.errstate(divide="ignore"):
        edge[frame.unary] = np.log(edge[frame.unary])
    return np.maximum(edge, FLOOR), np.maximum(tags["posterior"], FLOOR), possible
