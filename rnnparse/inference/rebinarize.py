"""From n-ary candidate trees to the nodes of a forest: canonical, head-outward binarization."""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.hashing import intern, new_table
from rnnparse.trees.head_kernel import find_head


@njit(nogil=True)
def _reachable(candidates):
    """Which n-ary nodes are part of a candidate tree."""
    used = np.zeros(candidates.category.shape[0], np.bool_)
    used[candidates.root] = True
    for v in range(used.shape[0] - 1, -1, -1):
        if used[v]:
            for c in range(candidates.child_ptr[v], candidates.child_ptr[v + 1]):
                used[candidates.child[c]] = True
    return used


@njit(nogil=True)
def _put(out, at, category, left, right, start, end):
    out[0, at], out[1, at], out[2, at], out[3, at], out[4, at] = category, left, right, start, end


@njit(nogil=True)
def _merge(category, kids, n, head, out, nodes, table):
    """Join n > 2 children from the head outward, until only kids[0] and kids[1] remain.

    Args:
        category: of the intermediate nodes.
        kids: forest nodes of the children, overwritten.
        head: index of the head child.
        out, nodes: the forest and its number of nodes.
        table: intermediate nodes by category and children.

    Returns:
        The new number of nodes.
    """
    low = max(head - 1, 0)
    high = low + 1
    a, b = kids[low], kids[high]
    most = np.int64(out.shape[1])
    while low > 0 or high < n - 1:
        inner = intern(table, (category * most + a) * most + b, nodes)
        if inner == nodes:
            _put(out, nodes, category, a, b, out[3, a], out[4, b])
            nodes += 1
        if low > 0:
            low -= 1
            a, b = kids[low], inner
        else:
            high += 1
            a, b = inner, kids[high]
    kids[0], kids[1] = a, b
    return nodes


@njit(nogil=True)
def binarize_candidates(candidates, categories, heads):
    """Rebinarize shared n-ary trees head-outward, like `rnnparse.trees.binarize`.

    Args:
        candidates: n-ary trees, a `Candidates`.
        categories: number C of basic categories.
        heads: arrays of a compiled head table over those categories.

    Returns:
        cat, left, right, start, end of the forest's nodes and the root of each tree.
    """
    total, children = candidates.category.shape[0], candidates.child.shape[0]
    out = np.empty((5, total + children), np.int32)
    place = np.empty(total, np.int32)  # forest node of each n-ary node
    kids, labels = np.full(children + 2, -1, np.int64), np.empty(children, np.int32)
    used = _reachable(candidates)
    table = new_table(children)
    nodes = np.int64(0)
    for v in range(total):
        if not used[v]:
            continue
        first = candidates.child_ptr[v]
        n = candidates.child_ptr[v + 1] - first
        category = np.int64(candidates.category[v])
        kids[0] = kids[1] = -1
        for c in range(n):
            kids[c] = place[candidates.child[first + c]]
            labels[c] = candidates.category[candidates.child[first + c]]
        if n > 2:
            head = find_head(category, labels, n, *heads)
            nodes = _merge(categories + category, kids, n, head, out, nodes, table)
        _put(out, nodes, category, kids[0], kids[1], candidates.start[v], candidates.end[v])
        place[v] = nodes
        nodes += 1
    return (
        out[0, :nodes].copy(), out[1, :nodes].copy(), out[2, :nodes].copy(),
        out[3, :nodes].copy(), out[4, :nodes].copy(), place[candidates.root],
    )
