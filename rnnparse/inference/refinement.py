"""From a pruned coarse chart to the hypergraph of the grammar itself.

The coarse hypergraph says which categories may span which tokens, and from which children.
Refinement computes the inside scores of their symbols along its edges alone: for each edge, the
rules for which its coarse rule stands. The max-outside pass of `pruning` then goes down the same
edges.

The symbols that a vertex's coarse symbol stands for have successive items. A cell's items are
successive, too. An item without a derivation has the inside score -inf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF, cell_index
from rnnparse.inference.hypergraph import CELLS, EDGES, VERTICES, end_cell, with_room
from rnnparse.inference.pruning import (
    keep_binary,
    list_alive,
    push_unary,
    room_after,
    unary_edges,
)


class Members(NamedTuple):
    """The vertices of each cell of a coarse `Graph`, in the order of its cells."""

    ptr: np.ndarray  # [cells+1] int64
    vertex: np.ndarray  # int64


class Refined(NamedTuple):
    """The items of the vertices of a coarse `Graph`.

    Vertex v has the items from first[v] on, one for each symbol of its coarse symbol.
    """

    members: Members
    first: np.ndarray  # [vertices] int64
    best: np.ndarray  # [vertices] float64: the best inside score of its items
    symbol: np.ndarray  # [items] int32
    inside: np.ndarray  # [items] float64: log probability of the best derivation
    possible: np.ndarray  # int64: the items with a derivation, by cell, the last cell first
    possible_ptr: np.ndarray  # [cells+1] int64: those of cell c end at possible_ptr[c]
    lexical: np.ndarray  # int64: the item of each tag state of the tokens, or -1
    root: int  # the item of the root; 0 if there are none


@njit(nogil=True)
def _members(coarse, cell_ptr):
    """The `Members` of a graph; glue cells have none."""
    cells = coarse.size[CELLS]
    ptr, vertex, count = np.zeros(cells + 1, np.int64), np.empty(coarse.size[VERTICES], np.int64), 0
    for c in range(cells):
        cell = coarse.cells[c]
        if not cell.glue:
            at = cell_index(np.int64(cell.start), np.int64(cell.end))
            for item in range(cell_ptr[at], cell_ptr[at + 1]):
                if coarse.vertex_of[item] >= 0:
                    vertex[count] = coarse.vertex_of[item]
                    count += 1
        ptr[c + 1] = count
    return Members(ptr, vertex[:count])


@njit(nogil=True)
def _place_items(vertices, count, members, symbol_ptr, symbols):
    """`first` and `symbol` of `Refined`."""
    first, items = np.full(count, -1), 0
    for v in members:
        first[v] = items
        above = vertices[v].symbol
        items += symbol_ptr[above + 1] - symbol_ptr[above]
    symbol, items = np.empty(items, np.int32), 0
    for v in members:
        above = vertices[v].symbol
        for s in range(symbol_ptr[above], symbol_ptr[above + 1]):
            symbol[items] = symbols[s]
            items += 1
    return first, symbol


@njit(nogil=True)
def _apply_lexicon(sentence, token, coarse, place, vertex_at, first, inside, lexical):
    """Enter the scores and items of a token's tag states."""
    for t in range(sentence.ptr[token], sentence.ptr[token + 1]):
        symbol = sentence.symbol[t]
        v = vertex_at[coarse[symbol]]
        if v >= 0:
            lexical[t] = first[v] + place[symbol]
            inside[lexical[t]] = max(inside[lexical[t]], sentence.logp[t])


@njit(nogil=True)
def _apply_edges(begin, end, edges, left_ptr, left, rule, first, inside):
    """Raise the inside scores of a cell by the rules of its coarse binary edges."""
    for e in range(begin, end):
        edge = edges[e]
        if edge.right < 0:
            continue
        parent, below, beside = first[edge.parent], first[edge.left], first[edge.right]
        for x in range(left_ptr[edge.rule], left_ptr[edge.rule + 1]):
            one = inside[below + left[x].left]
            if one == NEG_INF:
                continue
            for r in range(left[x].first, left[x + 1].first):
                total, p = one + inside[beside + rule[r].right] + rule[r].logp, rule[r].parent
                old = inside[parent + p]
                inside[parent + p] = total if total > old else old


@njit(nogil=True)
def _list_possible(members, vertices, symbol_ptr, first, inside, possible):
    """List the items of a cell that have a derivation; returns their number."""
    count = 0
    for v in members:
        above = vertices[v].symbol
        size = symbol_ptr[above + 1] - symbol_ptr[above]
        for item in range(first[v], first[v] + size):
            if inside[item] > NEG_INF:
                possible[count] = item
                count += 1
    return count


@njit(nogil=True)
def _passes(first, last, via, vertex_at):
    """Whether the cell has all categories that a chain passes through."""
    missing = 0
    for x in range(first, last):
        missing += vertex_at[via[x]] < 0
    return missing == 0


@njit(nogil=True)
def _apply_chains(
    possible, count, base, symbol, coarse, place, vertex_at, chain_ptr, chain_parent, chain_logp,
    via_ptr, via, first, inside,
):
    """Raise the inside scores of a cell by unary chains, which start from the scores before them.

    Args:
        possible: the `count` items that have a derivation; items that get one are added.
        base: receives the scores from before.

    Returns:
        The new number of items.
    """
    for x in range(count):
        base[x] = inside[possible[x]]
    for x in range(count):
        s = symbol[possible[x]]
        for u in range(chain_ptr[s], chain_ptr[s + 1]):
            parent = np.int64(chain_parent[u])
            v = vertex_at[coarse[parent]]
            if v < 0:
                continue
            item, total = first[v] + place[parent], base[x] + chain_logp[u]
            if total > inside[item] and _passes(via_ptr[u], via_ptr[u + 1], via, vertex_at):
                if inside[item] == NEG_INF:
                    possible[count] = item
                    count += 1
                inside[item] = total
    return count


@njit(nogil=True)
def refine(coarse, cell_ptr, sentence, rules, classes, stop):
    """The inside scores of the grammar's symbols within a coarse graph.

    Args:
        coarse: a coarse `Graph`.
        cell_ptr: of the chart that it was made from.
        sentence: a `Sentence`.
        rules: `RuleArrays` of the grammar.
        classes: `RuleClasses` of the grammar.
        stop [1]: nonzero to stop early, with incomplete scores.

    Returns:
        `Refined`.
    """
    members = _members(coarse, cell_ptr)
    first, symbol = _place_items(
        coarse.vertices, coarse.size[VERTICES], members.vertex, classes.symbol_ptr, classes.symbol
    )
    inside, best = np.full(symbol.shape[0], NEG_INF), np.full(first.shape[0], NEG_INF)
    possible, possible_ptr = np.empty(symbol.shape[0], np.int64), np.zeros_like(members.ptr)
    base = np.empty(rules.category.shape[0])
    vertex_at = np.full(classes.symbol_ptr.shape[0] - 1, -1)
    lexical = np.full(sentence.symbol.shape[0], -1)
    count = np.int64(0)
    for c in range(coarse.size[CELLS] - 1, -1, -1):
        if stop[0]:
            break
        cell, own = coarse.cells[c], members.vertex[members.ptr[c] : members.ptr[c + 1]]
        for v in own:
            vertex_at[coarse.vertices[v].symbol] = v
        if cell.end - cell.start == 1:
            _apply_lexicon(
                sentence, cell.start, classes.coarse, classes.place, vertex_at, first, inside,
                lexical,
            )
        _apply_edges(
            coarse.cells[c - 1].last if c > 0 else np.int64(0), cell.last, coarse.edges,
            classes.left_ptr, classes.left, classes.rule, first, inside,
        )
        added = _list_possible(
            own, coarse.vertices, classes.symbol_ptr, first, inside, possible[count:]
        )
        added = _apply_chains(
            possible[count:], added, base, symbol, classes.coarse, classes.place, vertex_at,
            classes.chain_ptr, rules.closure_parent, rules.closure_logp, classes.via_ptr,
            classes.via, first, inside,
        )
        for item in possible[count : count + added]:
            v = vertex_at[classes.coarse[symbol[item]]]
            best[v] = max(best[v], inside[item])
        count += added
        possible_ptr[c] = count
        for v in own:
            vertex_at[coarse.vertices[v].symbol] = -1
    root = first[0] + classes.place[rules.root] if symbol.shape[0] > 0 else np.int64(0)
    return Refined(members, first, best, symbol, inside, possible, possible_ptr, lexical, root)


@njit(nogil=True)
def _binary_edges(
    begin, end, threshold, coarse_edges, coarse_vertices, symbol, inside, best, outside, first,
    left_ptr, left, rule, category, partial, vertex_of, vertices, edges, size,
):
    """List the binary edges kept below a cell's coarse edges; push outside scores to children.

    Args:
        best: the best inside score of the items of each coarse vertex.
        outside [N]: the best outside score of this cell's items of each coarse symbol.

    Returns:
        Whether there was room, and whether anything was pruned.
    """
    pruned = False
    for e in range(begin, end):
        edge = coarse_edges[e]
        if edge.right < 0:
            continue
        bound = outside[coarse_vertices[edge.parent].symbol] + best[edge.right]
        if bound + best[edge.left] < threshold:
            pruned |= bound + best[edge.left] > NEG_INF
            continue
        parent, below, beside = first[edge.parent], first[edge.left], first[edge.right]
        for x in range(left_ptr[edge.rule], left_ptr[edge.rule + 1]):
            one = inside[below + left[x].left]
            if bound + one < threshold:
                pruned |= one > NEG_INF
                continue
            for r in range(left[x].first, left[x + 1].first):
                v = vertex_of[parent + rule[r].parent]
                if v < 0:
                    continue
                other, here = inside[beside + rule[r].right], vertices[v].outside + rule[r].logp
                if here + one + other < threshold:
                    pruned |= one + other > NEG_INF
                    continue
                if not keep_binary(
                    v, below + left[x].left, beside + rule[r].right, here, one, other,
                    rule[r].logp, r, symbol, category, partial, vertex_of, vertices, edges, size,
                ):
                    return False, pruned
    return True, pruned


@njit(nogil=True)
def _best_outside(alive, symbol, coarse, vertex_of, vertices, outside):
    """Enter the best outside score of each coarse symbol among the items of a cell."""
    for item in alive:
        at, above = coarse[symbol[item]], vertices[vertex_of[item]].outside
        outside[at] = max(outside[at], above)


@njit(nogil=True)
def _cell_edges(c, coarse, refined, rules, classes, item_of, alive, outside, threshold, graph):
    """The edges kept in a cell; see `pruning`."""
    before, symbol, inside = graph.size[EDGES], refined.symbol, refined.inside
    items = refined.possible[refined.possible_ptr[c + 1] : refined.possible_ptr[c]]
    count = list_alive(items, symbol, graph.vertex_of, item_of, alive)
    if count == 0:
        return *room_after(graph, before, True), True, False
    count, pruned = push_unary(
        threshold, symbol, inside, item_of, rules.unary_ptr, rules.unary, rules.category,
        rules.partial, alive, count, graph.vertex_of, graph.vertices, graph.size,
    )
    room = count >= 0
    if room:
        room = unary_edges(
            threshold, symbol, inside, item_of, rules.unary_ptr, rules.unary, alive[:count],
            graph.vertex_of, graph.vertices, graph.edges, graph.size,
        )
    cell = coarse.cells[c]
    if room:
        _best_outside(
            alive[:count], symbol, classes.coarse, graph.vertex_of, graph.vertices, outside
        )
        room, cut = _binary_edges(
            coarse.cells[c - 1].last if c > 0 else np.int64(0), cell.last, threshold,
            coarse.edges, coarse.vertices, symbol, inside, refined.best, outside, refined.first,
            classes.left_ptr, classes.left, classes.rule, rules.category, rules.partial,
            graph.vertex_of, graph.vertices, graph.edges, graph.size,
        )
        pruned |= cut
        for item in alive[:count]:
            outside[classes.coarse[symbol[item]]] = NEG_INF
    for item in items:
        item_of[symbol[item]] = -1
    if room:
        end_cell(graph, cell.start, cell.end, False)
    return *room_after(graph, before, room), room, pruned


@njit(nogil=True)
def prune_refined(coarse, refined, rules, classes, graph, threshold, stop):
    """Add all edges within the threshold below the vertices of a graph.

    Args:
        coarse, rules, classes: as for `refine`.
        refined: its result.
        graph: contains the root with outside score 0.
        threshold: least log probability of a tree.
        stop [1]: nonzero to stop early, with an incomplete graph.

    Returns:
        The `Graph`, and whether the threshold excluded anything.
    """
    pruned = False
    alive = np.empty(rules.category.shape[0], np.int64)
    item_of = np.full(rules.category.shape[0], -1, np.int64)
    outside = np.full(classes.symbol_ptr.shape[0] - 1, NEG_INF)
    for c in range(coarse.size[CELLS]):
        if stop[0]:
            break
        room = False
        while not room:
            edges, vertices, room, cut = _cell_edges(
                c, coarse, refined, rules, classes, item_of, alive, outside, threshold, graph
            )
            pruned |= cut
            graph = with_room(graph, edges, vertices)
    return graph, pruned
