"""Exact k-best enumeration of *distinct* trees over a pruned hypergraph.

Lazy k-best (Huang & Chiang, "Better k-best Parsing", IWPT 2005) with one priority queue per cell.
All probabilities are at most 1, so derivations leave the queue of a cell best first, including
those with unary chains (Knuth 1977). Vertices may have scores, which a derivation adds to its log
probability for each node. A unary step may then raise the sum, so the key in the queue lacks the
score of the uppermost node, and each node above another in a chain lowers it by the greatest score
that a step may add (the *lift*). Then no key is above that of the derivation it comes from, and of
derivations of one vertex with equally long chains, the best comes first.

Every derivation has a *content*: its tree without annotation and binarization (see
`tree_interning`). Of two derivations of an item with the same content the worse is dropped at once,
because the better could replace it in any tree.

A unary chain never repeats a category. An item keeps k derivations for each chain of categories at
its top, so that excluding a chain above it cannot make a list too short.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF
from rnnparse.inference.derivations import (
    DERIVATIONS,
    append,
    chain_above,
    first_sight,
    kept_slot,
    new_search,
    order_cell,
    room_for_one,
    sort_cell,
    with_room,
)
from rnnparse.inference.heap import pop, push
from rnnparse.inference.hypergraph import CELLS
from rnnparse.inference.tree_interning import export, intern_node, intern_sequence, new_contents

STRETCH = 1 << 16  # derivations between two checks of `stop`


@njit(nogil=True)
def _seed(
    first, last, states, lex_vertex, lex_logp, cut, edges, vertices, derivations, heap, heap_size
):
    """Queue the best derivation of every binary edge and every tag state of a cell.

    Args:
        first, last: the cell's edges.
        states: first and last of the tag states, equal for all but single tokens.

    Returns:
        Whether anything was excluded, the largest number of unary edges above one vertex, and the
        lift.
    """
    dropped, most, lift, zero = False, 0, 0.0, np.int64(0)
    for x in range(*states):
        if lex_vertex[x] >= 0:
            if lex_logp[x] + vertices[lex_vertex[x]].outside >= cut:
                push(heap, heap_size, lex_logp[x], -1 - x, zero, zero)
            else:
                dropped |= vertices[lex_vertex[x]].outside > NEG_INF
    for e in range(first, last):
        edge = edges[e]
        left = vertices[edge.left]
        if edge.right < 0:
            edge.next = left.up
            left.up = e
            above = 0
            if not edge.link:
                lift = max(lift, left.score)
            while e >= 0:
                above += 1
                e = np.int64(edges[e].next)
            most = max(most, above)
            continue
        right = vertices[edge.right]
        if left.count > 0 and right.count > 0:
            score = edge.logp + (derivations[left.first].score + derivations[right.first].score)
            if score + vertices[edge.parent].outside >= cut:
                push(heap, heap_size, score, e, zero, zero)
            else:
                dropped |= vertices[edge.parent].outside > NEG_INF
    return dropped, most, lift


@njit(nogil=True)
def _next_of_edge(
    e, left_rank, right_rank, cut, edges, vertices, derivations, heap, heap_size
):
    """Queue the successors of a binary derivation; each pair of ranks is reached exactly once."""
    edge = edges[e]
    left, right = vertices[edge.left], vertices[edge.right]
    dropped = False
    for side in range(2):
        a, b = left_rank + 1 - side, right_rank + side
        if (side == 0 and right_rank > 0) or a >= left.count or b >= right.count:
            continue
        score = edge.logp + (derivations[left.first + a].score + derivations[right.first + b].score)
        if score + vertices[edge.parent].outside >= cut:
            push(heap, heap_size, score, e, a, b)
        else:
            dropped |= vertices[edge.parent].outside > NEG_INF
    return dropped


@njit(nogil=True)
def _next_above(e, key, steps, lift, derivation, cut, edges, vertices, heap, heap_size):
    """Queue the unary derivations above a new derivation with a key, from edge `e` on.

    `steps` is the number of nodes below the uppermost one in its chain.
    """
    dropped = False
    while e >= 0:
        above, more = key + edges[e].logp, steps
        if not edges[e].link:
            above += vertices[edges[e].left].score - lift
            more += 1
        if above + lift * more + vertices[edges[e].parent].outside >= cut:
            push(heap, heap_size, above, e, derivation, np.int64(0))
        else:
            dropped |= vertices[edges[e].parent].outside > NEG_INF
        e = np.int64(edges[e].next)
    return dropped


@njit(nogil=True)
def _gather(derivation, partial, sequences, members, buffer, length):
    """Append the content of a child to the buffer: a node, or an intermediate symbol's sequence."""
    if not partial:
        buffer[length] = derivation.content
        return length + 1
    sequence = sequences[derivation.content]
    for p in range(sequence.length):
        buffer[length + p] = members[sequence.first + p]
    return length + sequence.length


@njit(nogil=True)
def _content(
    e, left_rank, right_rank, vertex, start, end, categories, edges, vertices, derivations,
    sequences, members, sequence_table, nodes, node_table, content_size, buffer,
):
    """The content of a derivation: a node, or a sequence for an intermediate symbol."""
    sequence = np.int64(-1)
    if e >= 0:
        left = vertices[edges[e].left]
        below = left_rank if edges[e].right < 0 else left.first + left_rank
        length = _gather(derivations[below], left.partial, sequences, members, buffer, np.int64(0))
        if edges[e].right >= 0:
            right = vertices[edges[e].right]
            length = _gather(
                derivations[right.first + right_rank], right.partial, sequences, members, buffer,
                length,
            )
        sequence = intern_sequence(
            buffer, length, sequences, members, sequence_table, content_size
        )
    if vertices[vertex].partial:
        return sequence
    return intern_node(
        vertices[vertex].category, sequence, start, end, categories, nodes, node_table,
        content_size,
    )


@njit(nogil=True)
def _added(e, left_rank, right_rank, vertex, edges, vertices, derivations):
    """The sum of the scores of a derivation's nodes."""
    total = vertices[vertex].score
    if e < 0:
        return total
    left = vertices[edges[e].left]
    if edges[e].right >= 0:
        right = vertices[edges[e].right]
        total += derivations[left.first + left_rank].added
        return total + derivations[right.first + right_rank].added
    total += derivations[left_rank].added
    return total - left.score if edges[e].link else total


@njit(nogil=True)
def _run(
    k, cut, categories, start, end, pushes, lift, lex_vertex, edges, vertices,
    derivations, chains, chain_table, kept_table, seen_table, size, heap, heap_size,
    sequences, members, sequence_table, nodes, node_table, content_size, buffer,
):
    """Take at most `STRETCH` derivations from the queue, best first, while there is room for more.

    A derivation is kept if its content is new to its vertex, its vertex has fewer than k
    derivations with the same chain, and its chain repeats no category.

    Returns:
        Whether the cut excluded anything.
    """
    dropped, taken = False, 0
    while (
        heap_size[0] > 0
        and taken < STRETCH
        and room_for_one(
            pushes,
            buffer.shape[0],
            derivations,
            chains,
            chain_table,
            kept_table,
            seen_table,
            size,
            heap,
            heap_size,
            sequences,
            members,
            sequence_table,
            nodes,
            node_table,
            content_size,
        )
    ):
        taken += 1
        key, e, left, right = pop(heap, heap_size)
        v = np.int64(lex_vertex[-1 - e] if e < 0 else edges[e].parent)
        unary = e >= 0 and edges[e].right < 0
        link = unary and edges[e].link
        chain = np.int64(derivations[left].chain) if unary else np.int64(0)
        if not link:
            chain = chain_above(
                chain, vertices[v].category, categories, chains, chain_table, size
            )
            if chain < 0:
                continue
        slot = kept_slot(v, chain, kept_table, size)
        if kept_table[slot, 1] >= k:
            continue
        if e >= 0 and not unary:
            dropped |= _next_of_edge(
                e, left, right, cut, edges, vertices, derivations, heap, heap_size
            )
        if link:
            content = np.int64(derivations[left].content)
        else:
            content = _content(
                e, left, right, v, start, end, categories, edges, vertices, derivations,
                sequences, members, sequence_table, nodes, node_table, content_size, buffer,
            )
        if first_sight(v, content, seen_table, size):
            kept_table[slot, 1] += 1
            steps = chains[chain].length - 1
            dropped |= _next_above(
                vertices[v].up, key, steps, lift, size[DERIVATIONS], cut, edges, vertices, heap,
                heap_size,
            )
            append(
                derivations, vertices, size, key + lift * steps + vertices[v].score,
                _added(e, left, right, v, edges, vertices, derivations), content, chain, v,
            )
    return dropped


@njit(nogil=True)
def _finish_cell(
    k, cut, categories, start, end, pushes, lift, lex_vertex, graph, search, buffer, most, stop
):
    """Process the queue of a cell until it is empty, has had `most` entries, or `stop` is set.

    Returns:
        The search, whose arrays may have grown, and the result of `_run`.
    """
    dropped = False
    while search.heap_size[0] > 0 and search.heap_size[1] <= most and not stop[0]:
        search = with_room(search, pushes, buffer.shape[0])
        contents = search.contents
        dropped |= _run(
            k, cut, categories, start, end, pushes, lift, lex_vertex, graph.edges, graph.vertices,
            search.derivations, search.chains, search.chain_table, search.kept_table,
            search.seen_table, search.size, search.heap, search.heap_size,
            contents.sequences, contents.members, contents.sequence_table, contents.nodes,
            contents.node_table, contents.size, buffer,
        )
    return search, dropped


@njit(nogil=True)
def no_candidates():
    """`Candidates` without trees."""
    return export(new_contents(), np.empty(0, np.int32), np.empty(0), np.empty(0))


@njit(nogil=True)
def _lexical_vertices(vertex_of, lexical):
    """int32: the vertex of each tag state, or -1."""
    vertices = np.empty(lexical.shape[0], np.int32)
    for t in range(lexical.shape[0]):
        vertices[t] = vertex_of[lexical[t]] if lexical[t] >= 0 else -1
    return vertices


@njit(nogil=True)
def enumerate_trees(
    n, k, cut, categories, graph, lex_ptr, lexical, lex_logp, epsilon, most, stop
):
    """The k best distinct trees whose log probability plus scores is at least `cut`.

    Args:
        n: number of tokens.
        k: most trees.
        cut: least score of a tree.
        categories: number above all categories.
        graph: a `Graph`; vertex 0 is the root. Outside scores include the vertices' own scores.
        lex_ptr [n+1], lexical, lex_logp: the items (or -1) of each token's tag states and their
            scores.
        epsilon: the vertex of the empty sequence (the end of glue), or -1.
        most: most derivations that may be queued in total.
        stop [1]: nonzero to stop early.

    Returns:
        `Candidates`, whether the cut excluded anything, and whether the search was complete; if
        not, there are no candidates.
    """
    search, vertices = new_search(), graph.vertices
    lex_vertex = _lexical_vertices(graph.vertex_of, lexical)
    buffer = np.empty(n, np.int32)
    dropped = False
    if epsilon >= 0:
        contents, zero = search.contents, np.int64(0)
        nothing = intern_sequence(
            buffer, zero, contents.sequences, contents.members, contents.sequence_table,
            contents.size,
        )
        append(search.derivations, vertices, search.size, 0.0, 0.0, nothing, zero, epsilon)
        vertices[epsilon].first = 0
    for c in range(graph.size[CELLS] - 1, -1, -1):
        cell = graph.cells[c]
        start, end = np.int64(cell.start), np.int64(cell.end)
        first = graph.cells[c - 1].last if c > 0 else np.int64(0)
        tags = end - start == 1 and not cell.glue
        states = (lex_ptr[start], lex_ptr[end] if tags else lex_ptr[start])
        begin = search.size[DERIVATIONS]
        search = with_room(search, cell.last - first + states[1] - states[0], n)
        cut_off, above, lift = _seed(
            first,
            cell.last,
            states,
            lex_vertex,
            lex_logp,
            cut,
            graph.edges,
            vertices,
            search.derivations,
            search.heap,
            search.heap_size,
        )
        search, left_out = _finish_cell(
            k,
            cut,
            categories,
            start,
            end,
            above + 2,
            lift,
            lex_vertex,
            graph,
            search,
            buffer,
            most,
            stop,
        )
        if search.heap_size[0] > 0:
            return no_candidates(), dropped, False
        dropped |= cut_off or left_out
        if lift > 0.0:
            search = with_room(search, search.size[DERIVATIONS] - begin, n)
            order_cell(search.derivations[begin : search.size[DERIVATIONS]], search.heap)
        sort_cell(search.derivations[begin : search.size[DERIVATIONS]], vertices, begin)
    root = vertices[0]
    best = search.derivations[root.first : root.first + min(k, root.count)]
    trees = export(
        search.contents, best.content.copy(), best.score.copy(), best.added.copy()
    )
    return trees, dropped, True
