"""Inside and outside scores over all derivations of a hypergraph, as numba kernels.

Unary chains never repeat a category. So the inside pass distinguishes the *base* score of a vertex,
that of its derivations from a tag or binary edge, from its inside score, which adds those from
unary chains. A chain is followed edge by edge; few cells have more than a few.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF
from rnnparse.inference.hypergraph import CELLS, VERTICES

LONGEST = 64  # vertices in a unary chain


@njit(nogil=True)
def _add(a, b, maximum):
    """log(exp a + exp b), or the maximum."""
    high, low = max(a, b), min(a, b)
    if maximum or low == NEG_INF:
        return high
    return high + np.log1p(np.exp(low - high))


@njit(nogil=True)
def _allowed(depth, edge, path, vertices):
    """Whether an edge may follow a chain: a link, or one to a category that is new to it."""
    parent = np.int64(edge.parent)
    for d in range(depth + 1):
        same = vertices[path[d]].category == vertices[parent].category
        if path[d] == parent or (same and not edge.link):
            return False
    return depth + 1 < path.shape[0]


@njit(nogil=True)
def _next_edge(vertex, e, last, edges):
    """The next unary edge of a cell above a vertex, from edge `e` on; -1 if there is no other."""
    while e < last and edges[e].right < 0:  # the unary edges come first
        if edges[e].left == vertex:
            return e
        e += 1
    return np.int64(-1)


@njit(nogil=True)
def _walk(
    bottom, first, last, edges, vertices, score, maximum, outward, base, inside, top, below, mass,
    path, taken, total,
):
    """Follow all unary chains of a cell from one vertex up.

    Going inward, raise the inside score of the vertex at the end of each chain. Going outward,
    raise `below` of the first vertex, and the mass of every vertex on the chain that is a node.
    """
    depth = 0
    path[0], taken[0], total[0] = bottom, first, 0.0
    while depth >= 0:
        e = _next_edge(path[depth], taken[depth], last, edges)
        if e < 0:
            depth -= 1
            continue
        taken[depth] = e + 1
        if not _allowed(depth, edges[e], path, vertices):
            continue
        parent = np.int64(edges[e].parent)
        chain = total[depth] + edges[e].logp + score[parent]
        if edges[e].link:  # the node is the parent, not the child
            chain -= score[path[depth]]
        depth += 1
        path[depth], taken[depth], total[depth] = parent, first, chain
        if not outward:
            inside[parent] = _add(inside[parent], base[bottom] + chain, maximum)
            continue
        below[bottom] = _add(below[bottom], top[parent] + chain, maximum)
        for d in range(depth + 1):
            link_above = d < depth and edges[taken[d] - 1].link
            if not link_above:
                whole = base[bottom] + chain + top[parent]
                mass[path[d]] = _add(mass[path[d]], whole, maximum)


@njit(nogil=True)
def _walk_cell(
    c, first, last, edges, vertices, score, maximum, outward, base, inside, top, below, mass, done,
    path, taken, total,
):
    """Follow all unary chains of cell c; `done` receives c for each vertex at which one begins.

    Outside scores are of all vertices, also of those that only chains lead to.
    """
    e = first
    while e < last and edges[e].right < 0:
        bottom = np.int64(edges[e].left)
        if (outward or base[bottom] > NEG_INF) and done[bottom] != c:
            done[bottom] = c
            _walk(
                bottom, first, last, edges, vertices, score, maximum, outward, base, inside, top,
                below, mass, path, taken, total,
            )
        e += 1


@njit(nogil=True)
def _enter_base(
    cell, first, last, edges, lex_ptr, lex_vertex, lex_logp, score, maximum, base, inside
):
    """Raise the base and inside scores of a cell by its tag states and binary edges."""
    if cell.end - cell.start == 1 and not cell.glue:
        for t in range(lex_ptr[cell.start], lex_ptr[cell.end]):
            v = lex_vertex[t]
            if v >= 0:
                base[v] = _add(base[v], lex_logp[t] + score[v], maximum)
                inside[v] = base[v]
    for e in range(first, last):
        edge = edges[e]
        if edge.right >= 0:
            whole = inside[edge.left] + inside[edge.right] + edge.logp + score[edge.parent]
            base[edge.parent] = _add(base[edge.parent], whole, maximum)
            inside[edge.parent] = base[edge.parent]


@njit(nogil=True)
def _push_down(first, last, edges, score, maximum, inside, top, below):
    """Raise the outside scores of the children of a cell's binary edges."""
    for e in range(first, last):
        edge = edges[e]
        if edge.right >= 0:
            parent = np.int64(edge.parent)
            here = _add(top[parent], below[parent], maximum) + edge.logp + score[parent]
            top[edge.left] = _add(top[edge.left], here + inside[edge.right], maximum)
            top[edge.right] = _add(top[edge.right], here + inside[edge.left], maximum)


@njit(nogil=True)
def inside_outside(graph, lex_ptr, lex_vertex, lex_logp, score, epsilon, maximum):
    """The scores of all vertices.

    Args:
        graph: a `Graph`; vertex 0 is the root.
        lex_ptr [n+1], lex_vertex, lex_logp: the vertices (or -1) of each token's tag states and
            their scores.
        score [vertices]: is added for each node of a tree.
        epsilon: the vertex of the empty sequence (the end of glue), or -1.
        maximum: take the best derivation of each vertex instead of the sum over all.

    Returns:
        Log scores, float64 [vertices]: inside; outside, at the top of a cell's unary chains or
        below others; and mass, of all derivations of the root in which the vertex is a node.
    """
    size, cells, edges, vertices = graph.size[VERTICES], graph.cells, graph.edges, graph.vertices
    base, inside = np.full(size, NEG_INF), np.full(size, NEG_INF)
    # Outside scores by what is above a vertex: a binary edge, or unary chains from the vertex on.
    top, below, mass = np.full(size, NEG_INF), np.full(size, NEG_INF), np.full(size, NEG_INF)
    path, taken, total = np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int64), np.empty(LONGEST)
    done = np.full(size, -1, np.int64)
    if epsilon >= 0:
        base[epsilon] = inside[epsilon] = 0.0
    for c in range(graph.size[CELLS] - 1, -1, -1):
        first, last = cells[c - 1].last if c > 0 else np.int64(0), cells[c].last
        _enter_base(
            cells[c], first, last, edges, lex_ptr, lex_vertex, lex_logp, score, maximum, base,
            inside,
        )
        _walk_cell(
            c, first, last, edges, vertices, score, maximum, False, base, inside, top, below, mass,
            done, path, taken, total,
        )
    top[0] = 0.0
    done[:] = -1
    for c in range(graph.size[CELLS]):
        first, last = cells[c - 1].last if c > 0 else np.int64(0), cells[c].last
        _walk_cell(
            c, first, last, edges, vertices, score, maximum, True, base, inside, top, below, mass,
            done, path, taken, total,
        )
        _push_down(first, last, edges, score, maximum, inside, top, below)
    for v in range(size):
        mass[v] = _add(mass[v], base[v] + top[v], maximum)
        top[v] = _add(top[v], below[v], maximum)
    return inside, top, mass
