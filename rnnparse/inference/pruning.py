"""The max-outside pass: prune the chart to the parts of trees near the best score.

It goes from the root of the chart down. An edge (a rule applied to items) is kept if the best tree
with it has a log probability of at least `threshold`. Other edges occur in no such tree, so that
k-best enumeration over the kept edges is exact down to `threshold`.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF, cell_index, clear_column, find_item, new_column
from rnnparse.inference.hypergraph import EDGES, VERTICES, add_edge, add_vertex, end_cell, with_room


@njit(cache=True, nogil=True)
def reach(item, outside, symbol, category, partial, vertex_of, vertices, size):
    """Raise the outside score of an item's vertex; make the vertex if there is none yet.

    Returns:
        The vertex, and whether its score rose.
    """
    v = np.int64(vertex_of[item])
    if v < 0:
        s = symbol[item]
        v = add_vertex(vertices, size, outside, category[s], partial[s])
        vertex_of[item] = v
        return v, True
    if outside > vertices[v].outside:
        vertices[v].outside = outside
        return v, True
    return v, False


@njit(cache=True, nogil=True)
def _list_alive(first, last, vertex_of, alive):
    """List the items of a cell that have a vertex; returns their number."""
    count = 0
    for item in range(first, last):
        if vertex_of[item] >= 0:
            alive[count] = item
            count += 1
    return count


@njit(cache=True, nogil=True)
def _push_unary(
    cell, threshold, cell_ptr, symbol, inside, unary_ptr, unary, category, partial, alive, count,
    vertex_of, vertices, size,
):
    """Push outside scores down the unary rules of one cell, to their fixed point.

    Args:
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
                child = find_item(cell_ptr, symbol, cell, unary[u].child)
                if child < 0:
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


@njit(cache=True, nogil=True)
def _unary_edges(
    cell, threshold, cell_ptr, symbol, inside, unary_ptr, unary, alive, vertex_of, vertices,
    edges, size,
):
    """List the unary edges kept in a cell; returns False if there is no room."""
    for parent in alive:
        s, v = symbol[parent], vertex_of[parent]
        for u in range(unary_ptr[s], unary_ptr[s + 1]):
            child = find_item(cell_ptr, symbol, cell, unary[u].child)
            if child < 0 or vertices[v].outside + unary[u].logp + inside[child] < threshold:
                continue
            if size[EDGES] == edges.shape[0]:
                return False
            add_edge(edges, size, unary[u].logp, v, vertex_of[child], -1, unary[u].link)
    return True


@njit(cache=True, nogil=True)
def _binary_edges(
    i, j, threshold, cell_ptr, symbol, slot, slots, left_score, score, low, high, width,
    binary_ptr, binary, left_symbol, right_symbol, category, partial, alive,
    vertex_of, vertices, edges, size,
):
    """List the binary edges kept in cell (i, j) and push outside scores to their children.

    Scores of children come from the row and the column; only for the few kept edges, the items of
    the children are searched.

    Returns:
        Whether there was room, and whether anything was pruned.
    """
    pruned = False
    for parent in alive:
        v, s = vertex_of[parent], symbol[parent]
        for r in range(binary_ptr[s], binary_ptr[s + 1]):
            x, b = slot[binary[r].left], np.int64(binary[r].right)
            if x < 0:
                continue
            here, start = vertices[v].outside + binary[r].logp, slots[x].start
            for k in range(max(slots[x].low, low[b]), min(slots[x].high, high[b]) + 1):
                one, other = left_score[start + k], score[b * width + k]
                if here + one + other < threshold:
                    pruned |= one + other > NEG_INF
                    continue
                if size[EDGES] == edges.shape[0] or size[VERTICES] + 2 > vertices.shape[0]:
                    return False, pruned
                left = find_item(cell_ptr, symbol, cell_index(i, k), left_symbol[binary[r].left])
                right = find_item(cell_ptr, symbol, cell_index(k, j), right_symbol[b])
                left, _ = reach(
                    left, here + other, symbol, category, partial, vertex_of, vertices, size
                )
                right, _ = reach(
                    right, here + one, symbol, category, partial, vertex_of, vertices, size
                )
                add_edge(edges, size, binary[r].logp, v, left, right, False)
    return True, pruned


@njit(cache=True, nogil=True)
def _load_column(j, cell_ptr, symbol, inside, right_number, score, low, high, width):
    """Enter the right children that end at j."""
    for k in range(j):
        cell = cell_index(k, j)
        for t in range(cell_ptr[cell], cell_ptr[cell + 1]):
            b = np.int64(right_number[symbol[t]])
            if b >= 0:
                score[b * width + k] = inside[t]
                low[b] = min(low[b], k)
                high[b] = k


@njit(cache=True, nogil=True)
def _cell_edges(i, j, chart, rules, column, alive, threshold, graph):
    """The edges kept in cell (i, j).

    Returns:
        The room that edges and vertices need, whether there was enough (if not, the call can be
        repeated), and whether anything was pruned.
    """
    edge_room, vertex_room = graph.edges.shape[0], graph.vertices.shape[0]
    cell = cell_index(i, j)
    count = _list_alive(chart.cell_ptr[cell], chart.cell_ptr[cell + 1], graph.vertex_of, alive)
    if count == 0:
        return edge_room, vertex_room, True, False
    before = graph.size[EDGES]
    count, pruned = _push_unary(
        cell, threshold, chart.cell_ptr, chart.symbol, chart.inside, rules.unary_ptr, rules.unary,
        rules.category, rules.partial, alive, count, graph.vertex_of, graph.vertices, graph.size,
    )
    room = count >= 0
    if room:
        room = _unary_edges(
            cell, threshold, chart.cell_ptr, chart.symbol, chart.inside, rules.unary_ptr,
            rules.unary, alive[:count], graph.vertex_of, graph.vertices, graph.edges, graph.size,
        )
    if room and j - i > 1:
        room, cut = _binary_edges(
            i, j, threshold, chart.cell_ptr, chart.symbol,
            chart.rows.slot[i], chart.rows.slots, chart.rows.score,
            column.score, column.low, column.high, column.width,
            rules.binary_ptr, rules.binary, rules.left_symbol, rules.right_symbol,
            rules.category, rules.partial, alive[:count],
            graph.vertex_of, graph.vertices, graph.edges, graph.size,
        )
        pruned |= cut
    if room:
        end_cell(graph, i, j, False)
    else:
        if graph.size[EDGES] == edge_room:
            edge_room += 1
        else:
            vertex_room += 1
        graph.size[EDGES] = before
    return edge_room, vertex_room, room, pruned


@njit(cache=True, nogil=True)
def prune(n, chart, rules, graph, threshold, stop):
    """Add all edges within the threshold below the vertices of a graph.

    Args:
        n: number of tokens.
        chart: a filled `Chart`.
        rules: the same `RuleArrays`.
        graph: contains the root with outside score 0, or glue and its constituents.
        threshold: least log probability of a tree.
        stop [1]: nonzero to stop early, with an incomplete graph.

    Returns:
        The `Graph`, and whether the threshold excluded anything.
    """
    pruned = False
    alive = np.empty(rules.category.shape[0], np.int64)
    column = new_column(rules.right_symbol.shape[0], n + 1)
    for j in range(n, 0, -1):
        _load_column(
            j, chart.cell_ptr, chart.symbol, chart.inside, rules.right_number,
            column.score, column.low, column.high, column.width,
        )
        for i in range(j):
            if stop[0]:
                return graph, pruned
            room = False
            while not room:
                edges, vertices, room, cut = _cell_edges(
                    i, j, chart, rules, column, alive, threshold, graph
                )
                pruned |= cut
                graph = with_room(graph, edges, vertices)
        clear_column(column)
    return graph, pruned
