"""The max-outside pass: prune the chart to the parts of trees near the best score.

It goes from the root of the chart down. An edge (a rule applied to items) is kept if the best tree
with it has a log probability of at least `threshold`. Other edges occur in no such tree, so that
k-best enumeration over the kept edges is exact down to `threshold`.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF, cell_index, clear_column, new_column
from rnnparse.inference.hypergraph import EDGES, VERTICES, add_edge, add_vertex, end_cell, with_room

UNLIMITED = 1 << 62  # edges


@njit(nogil=True)
def reach(item, outside, symbol, category, partial, vertex_of, vertices, size):
    """Raise the outside score of an item's vertex; make the vertex if there is none yet.

    Returns:
        The vertex, and whether its score rose.
    """
    v = np.int64(vertex_of[item])
    if v < 0:
        s = symbol[item]
        v = add_vertex(vertices, size, outside, s, category[s], partial[s])
        vertex_of[item] = v
        return v, True
    if outside > vertices[v].outside:
        vertices[v].outside = outside
        return v, True
    return v, False


@njit(nogil=True)
def list_alive(items, symbol, vertex_of, item_of, alive):
    """List the items of a cell that have a vertex, and enter all items of the cell in `item_of`.

    Returns:
        The number of items listed; if 0, `item_of` is not touched.
    """
    count = 0
    for item in items:
        if vertex_of[item] >= 0:
            alive[count] = item
            count += 1
    if count > 0:
        for item in items:
            item_of[symbol[item]] = item
    return count


@njit(nogil=True)
def push_unary(
    threshold, symbol, inside, item_of, unary_ptr, unary, category, partial, alive, count,
    vertex_of, vertices, size,
):
    """Push outside scores down the unary rules of one cell, to their fixed point.

    Args:
        item_of [S]: the cell's item of each symbol, or -1.
        alive, count: the items with a vertex; items that get one are added.

    Returns:
        The new count, or -1 if there is no room for vertices, and whether anything was pruned.
    """
    pruned, changed = False, True
    while changed:
        changed, a = False, 0
        while a < count:
            s, above = symbol[alive[a]], vertices[vertex_of[alive[a]]].outside
            a += 1
            for u in range(unary_ptr[s], unary_ptr[s + 1]):
                child = item_of[unary[u].child]
                if child < 0 or inside[child] == NEG_INF:
                    continue
                outside = above + unary[u].logp
                if outside + inside[child] < threshold:
                    pruned = True
                    continue
                if size[VERTICES] == vertices.shape[0]:
                    return -1, pruned
                if vertex_of[child] < 0:
                    alive[count] = child
                    count += 1
                _, rose = reach(
                    child, outside, symbol, category, partial, vertex_of, vertices, size
                )
                changed |= rose
    return count, pruned


@njit(nogil=True)
def unary_edges(
    threshold, symbol, inside, item_of, unary_ptr, unary, alive, vertex_of, vertices, edges, size
):
    """List the unary edges kept in a cell; returns False if there is no room."""
    for parent in alive:
        s, v = symbol[parent], vertex_of[parent]
        for u in range(unary_ptr[s], unary_ptr[s + 1]):
            child = item_of[unary[u].child]
            if child < 0 or vertices[v].outside + unary[u].logp + inside[child] < threshold:
                continue
            if size[EDGES] == edges.shape[0]:
                return False
            add_edge(edges, size, unary[u].logp, v, vertex_of[child], -1, u, unary[u].link)
    return True


@njit(nogil=True)
def keep_binary(
    parent, left, right, here, of_left, of_right, logp, rule, symbol, category, partial,
    vertex_of, vertices, edges, size,
):
    """Add a binary edge and push outside scores to its children.

    Args:
        parent: the vertex.
        left, right: the items of the children.
        here: the parent's outside score plus the rule's log probability.
        of_left, of_right: the inside scores of the children.
        logp, rule: of the edge.

    Returns:
        Whether there was room.
    """
    if size[EDGES] == edges.shape[0] or size[VERTICES] + 2 > vertices.shape[0]:
        return False
    one, _ = reach(
        left, here + of_right, symbol, category, partial, vertex_of, vertices, size
    )
    other, _ = reach(
        right, here + of_left, symbol, category, partial, vertex_of, vertices, size
    )
    add_edge(edges, size, logp, parent, one, other, rule, False)
    return True


@njit(nogil=True)
def _binary_edges(
    threshold, symbol, slot, slots, left_score, left_item, score, right_item, low, high, top,
    width, left_ptr, left, binary, category, partial, alive, vertex_of, vertices, edges, size,
):
    """List the binary edges kept in a cell and push outside scores to their children.

    Returns:
        Whether there was room, and whether anything was pruned.
    """
    pruned = False
    for parent in alive:
        v, s = vertex_of[parent], symbol[parent]
        above = vertices[v].outside
        for group in range(left_ptr[s], left_ptr[s + 1]):
            x = slot[left[group].left]
            if x < 0:
                continue
            start, first, last = slots[x].start, slots[x].low, slots[x].high
            for r in range(left[group].first, left[group + 1].first):
                b, here = binary[r].right, above + binary[r].logp
                begin, end = max(first, low[b]), min(last, high[b])
                if begin <= end and here + slots[x].top + top[b] < threshold:
                    pruned = True
                    continue
                for k in range(begin, end + 1):
                    one, other = left_score[start + k], score[b * width + k]
                    if here + one + other < threshold:
                        pruned |= one + other > NEG_INF
                        continue
                    if not keep_binary(
                        v, left_item[start + k], right_item[b * width + k], here, one, other,
                        binary[r].logp, r, symbol, category, partial, vertex_of, vertices, edges,
                        size,
                    ):
                        return False, pruned
    return True, pruned


@njit(nogil=True)
def _load_column(j, cell_ptr, symbol, inside, right_number, score, item, low, high, top, width):
    """Enter the right children that end at j."""
    for k in range(j):
        cell = cell_index(k, j)
        for t in range(cell_ptr[cell], cell_ptr[cell + 1]):
            b = np.int64(right_number[symbol[t]])
            if b >= 0:
                score[b * width + k] = inside[t]
                item[b * width + k] = t
                low[b] = min(low[b], k)
                high[b] = k
                top[b] = max(top[b], inside[t])


@njit(nogil=True)
def room_after(graph, edges_before, room):
    """The room that edges and vertices need after a cell that may have had too little.

    Without enough room the cell's edges are removed again.
    """
    edge_room, vertex_room = graph.edges.shape[0], graph.vertices.shape[0]
    if not room:
        if graph.size[EDGES] == edge_room:
            edge_room += 1
        else:
            vertex_room += 1
        graph.size[EDGES] = edges_before
    return edge_room, vertex_room


@njit(nogil=True)
def _cell_edges(i, j, chart, items, rules, column, item_of, alive, threshold, graph):
    """The edges kept in cell (i, j), whose items are given.

    Returns:
        The room that edges and vertices need, whether there was enough (if not, the call can be
        repeated), and whether anything was pruned.
    """
    before = graph.size[EDGES]
    count = list_alive(items, chart.symbol, graph.vertex_of, item_of, alive)
    if count == 0:
        return *room_after(graph, before, True), True, False
    count, pruned = push_unary(
        threshold, chart.symbol, chart.inside, item_of, rules.unary_ptr, rules.unary,
        rules.category, rules.partial, alive, count, graph.vertex_of, graph.vertices, graph.size,
    )
    room = count >= 0
    if room:
        room = unary_edges(
            threshold, chart.symbol, chart.inside, item_of, rules.unary_ptr, rules.unary,
            alive[:count], graph.vertex_of, graph.vertices, graph.edges, graph.size,
        )
    if room and j - i > 1:
        room, cut = _binary_edges(
            threshold, chart.symbol,
            chart.rows.slot[i], chart.rows.slots, chart.rows.score, chart.rows.item,
            column.score, column.item, column.low, column.high, column.top, column.width,
            rules.left_ptr, rules.left, rules.binary, rules.category, rules.partial,
            alive[:count],
            graph.vertex_of, graph.vertices, graph.edges, graph.size,
        )
        pruned |= cut
    for item in items:
        item_of[chart.symbol[item]] = -1
    if room:
        end_cell(graph, i, j, False)
    return *room_after(graph, before, room), room, pruned


@njit(nogil=True)
def prune(n, chart, rules, graph, threshold, stop, most=UNLIMITED):
    """Add all edges within the threshold below the vertices of a graph.

    Args:
        n: number of tokens.
        chart: a filled `Chart`.
        rules: the same `RuleArrays`.
        graph: contains the root with outside score 0, or glue and its constituents.
        threshold: least log probability of a tree.
        stop [1]: nonzero to stop early, with an incomplete graph.
        most: edges; with more of them it also stops early.

    Returns:
        The `Graph`, and whether the threshold excluded anything.
    """
    pruned = False
    alive = np.empty(rules.category.shape[0], np.int64)
    item_of = np.full(rules.category.shape[0], -1, np.int64)
    column = new_column(rules.right_symbol.shape[0], n + 1)
    all_items = np.arange(chart.symbol.shape[0])
    for j in range(n, 0, -1):
        _load_column(
            j, chart.cell_ptr, chart.symbol, chart.inside, rules.right_number,
            column.score, column.item, column.low, column.high, column.top, column.width,
        )
        for i in range(j):
            if stop[0] or graph.size[EDGES] > most:
                return graph, pruned
            cell, room = cell_index(i, j), False
            items = all_items[chart.cell_ptr[cell] : chart.cell_ptr[cell + 1]]
            while not room:
                edges, vertices, room, cut = _cell_edges(
                    i, j, chart, items, rules, column, item_of, alive, threshold, graph
                )
                pruned |= cut
                graph = with_room(graph, edges, vertices)
        clear_column(column)
    return graph, pruned
