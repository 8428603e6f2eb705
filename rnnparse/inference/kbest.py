"""Exact k-best enumeration of *distinct* trees over a pruned hypergraph.

Lazy k-best (Huang & Chiang, "Better k-best Parsing", IWPT 2005) with one priority queue a cell.
All probabilities are at most 1, so in each cell derivations leave the queue best first, unary
chains included (Knuth 1977). Every derivation is named by its *content*: the tree that it stands
for once annotation and binarization are undone. Of two derivations of one item with the same
content the worse is dropped at once: in any tree it could be replaced by the better.

A unary chain never holds the same category twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rnnparse.inference.cky import grow_int
from rnnparse.inference.hashing import EMPTY, find_slot, grow_map, new_map

TOLERANCE = 1e-9  # rounding of sums in another order


class Candidates(NamedTuple):
    """The k best trees of a sentence as n-ary nodes that they share.

    Attributes:
        category [M] int32: basic category of each node.
        start, end [M] int32: its span.
        child_ptr [M+1] int64, child int32: its children in order; none for a preterminal.
        root [K] int32, logp [K] float64: the trees, best first.
    """

    category: np.ndarray
    start: np.ndarray
    end: np.ndarray
    child_ptr: np.ndarray
    child: np.ndarray
    root: np.ndarray
    logp: np.ndarray


@njit(cache=True, nogil=True, inline="always")
def _less(a_score, a_rank, b_score, b_rank):  # type: ignore[no-untyped-def]
    """Order of the queue: better score first, then the one pushed first."""
    return a_score > b_score or (a_score == b_score and a_rank < b_rank)


@njit(cache=True, nogil=True)
def _push(score, entry, size, new_score, new_entry):  # type: ignore[no-untyped-def]
    """Insert into a binary heap; `entry` rows are (edge, left rank, right rank, push number)."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        if not _less(new_score, new_entry[3], score[up], entry[up, 3]):
            break
        score[at] = score[up]
        entry[at] = entry[up]
        at = up
    score[at] = new_score
    entry[at] = new_entry
    return size + 1


@njit(cache=True, nogil=True)
def _pop(score, entry, size):  # type: ignore[no-untyped-def]
    """Remove the first entry of a binary heap (read it before)."""
    size -= 1
    last_score, last = score[size], entry[size].copy()
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and _less(
            score[down + 1], entry[down + 1, 3], score[down], entry[down, 3]
        ):
            down += 1
        if not _less(score[down], entry[down, 3], last_score, last[3]):
            break
        score[at] = score[down]
        entry[at] = entry[down]
        at = down
    score[at] = last_score
    entry[at] = last
    return size


@njit(cache=True, nogil=True)
def _grow_rows(array, size):  # type: ignore[no-untyped-def]
    if size <= array.shape[0]:
        return array
    bigger = np.empty((max(size, 2 * array.shape[0]), array.shape[1]), array.dtype)
    bigger[: array.shape[0]] = array
    return bigger


@njit(cache=True, nogil=True)
def _intern(keys, values, key, fresh):  # type: ignore[no-untyped-def]
    """The value of a key, or `fresh` after storing it; returns keys and values, maybe grown."""
    slot = find_slot(keys, key)
    if keys[slot] != EMPTY:
        return keys, values, values[slot]
    keys[slot] = key
    values[slot] = fresh
    if 2 * (fresh + 1) >= keys.shape[0]:
        keys, values = grow_map(keys, values)
    return keys, values, np.int32(fresh)


@njit(cache=True, nogil=True)
def _in_chain(chain_category, chain_below, chain, category):  # type: ignore[no-untyped-def]
    while chain > 0:
        if chain_category[chain] == category:
            return True
        chain = chain_below[chain]
    return False


@njit(cache=True, nogil=True)
def enumerate_trees(  # type: ignore[no-untyped-def]
    k, threshold, n, graph, item_category, item_partial, lex_item, lex_ptr, lex_logp, root, epsilon
):
    """The k best distinct trees whose log probability is at least `threshold`.

    Args:
        k: most trees wanted.
        threshold: as in `prune`.
        n: number of tokens.
        graph: the kept edges, a `Hypergraph`; cells at or past n(n+1)/2 are glue.
        item_category [items] int32, item_partial [items] bool.
        lex_item [E] int32, lex_ptr [n+1], lex_logp [E]: item and score of each token's states.
        root: item that spans the sentence.
        epsilon: an item that stands for nothing (the end of glue), or -1.

    Returns:
        `Candidates`, and whether anything was left out because of the threshold.
    """
    items = item_category.shape[0]
    categories = item_category.max() + 1
    cut = threshold - TOLERANCE
    pruned = False
    # derivations, best first within each item
    d_score = np.empty(1024, np.float64)
    d_content = np.empty(1024, np.int32)
    d_chain = np.empty(1024, np.int32)
    d_item = np.empty(1024, np.int32)
    derivations = 0
    item_first = np.zeros(items, np.int64)
    item_count = np.zeros(items, np.int32)
    # contents: sequences of nodes, and nodes
    seq_ptr = np.zeros(1024, np.int64)
    seq_next = np.full(1024, -1, np.int32)  # chain of sequences in one hash bucket
    seq_node = np.empty(4096, np.int32)
    sequences = 0
    seq_keys, seq_heads = new_map(1024)
    n_category = np.empty(512, np.int32)
    n_sequence = np.empty(512, np.int32)  # -1 for a preterminal
    n_start = np.empty(512, np.int32)
    n_end = np.empty(512, np.int32)
    nodes = 0
    node_keys, node_values = new_map(512)
    seen_keys, seen_values = new_map(2048)
    seen = 0
    # unary chains: a linked list of categories; chain 0 is empty
    chain_category = np.zeros(64, np.int32)
    chain_below = np.zeros(64, np.int32)
    chains = 1
    chain_keys, chain_values = new_map(64)
    # how many derivations an item has for each chain
    count_keys, count_values = new_map(2048)
    count_of = np.zeros(2048, np.int32)
    counted = 0
    h_score = np.empty(256, np.float64)
    h_entry = np.empty((256, 4), np.int64)
    u_first = np.zeros(items, np.int64)
    u_count = np.zeros(items, np.int32)
    buffer = np.empty(64, np.int32)
    entry = np.empty(4, np.int64)
    here_rank = np.empty(1024, np.int64)

    if epsilon >= 0:
        seq_ptr[1] = 0
        sequences = 1
        seq_keys, seq_heads, _ = _intern(seq_keys, seq_heads, np.int64(0), 0)
        d_score[0] = 0.0
        d_content[0] = 0
        d_chain[0] = 0
        d_item[0] = epsilon
        derivations = 1
        item_first[epsilon] = 0
        item_count[epsilon] = 1

    for live in range(graph.cell.shape[0] - 1, -1, -1):
        cell = graph.cell[live]
        # the span of the cell
        if cell >= n * (n + 1) // 2:
            start, end = cell - n * (n + 1) // 2, n
        else:
            end = np.int64((1 + np.sqrt(1.0 + 8.0 * cell)) / 2)
            while end * (end - 1) // 2 > cell:
                end -= 1
            while (end + 1) * end // 2 <= cell:
                end += 1
            start = end - 1 - (cell - end * (end - 1) // 2)
        size = 0
        pushes = 0
        first_derivation = derivations
        for u in range(graph.unary_ptr[live], graph.unary_ptr[live + 1]):
            c = graph.unary_child[u]
            if u_count[c] == 0:
                u_first[c] = u
            u_count[c] += 1
        if end - start == 1 and cell < n * (n + 1) // 2:
            for x in range(lex_ptr[start], lex_ptr[end]):
                if lex_logp[x] + graph.outside[lex_item[x]] >= cut:
                    h_score = grow_int(h_score, size + 1)
                    h_entry = _grow_rows(h_entry, size + 1)
                    entry[0], entry[1], entry[2], entry[3] = -1 - x, 0, 0, pushes
                    size = _push(h_score, h_entry, size, lex_logp[x], entry)
                    pushes += 1
                else:
                    pruned = True
        for e in range(graph.binary_ptr[live], graph.binary_ptr[live + 1]):
            left, right = graph.left[e], graph.right[e]
            if item_count[left] == 0 or item_count[right] == 0:
                continue
            score = graph.logp[e] + d_score[item_first[left]] + d_score[item_first[right]]
            if score + graph.outside[graph.parent[e]] < cut:
                pruned = True
                continue
            h_score = grow_int(h_score, size + 1)
            h_entry = _grow_rows(h_entry, size + 1)
            entry[0], entry[1], entry[2], entry[3] = 2 * e, 0, 0, pushes
            size = _push(h_score, h_entry, size, score, entry)
            pushes += 1
        while size > 0:
            score = h_score[0]
            edge, left_rank, right_rank = h_entry[0, 0], h_entry[0, 1], h_entry[0, 2]
            size = _pop(h_score, h_entry, size)
            binary = edge >= 0 and edge % 2 == 0
            below = np.int64(0)
            link = False
            if edge < 0:
                item = lex_item[-1 - edge]
            elif binary:
                item = graph.parent[edge // 2]
            else:
                item = graph.unary_parent[edge // 2]
                below = left_rank  # number of the child's derivation
                link = graph.unary_link[edge // 2]
            category = item_category[item]
            # the chain of unary nodes that ends here
            if link:
                chain = d_chain[below]
            else:
                chain = np.int32(0)
                if edge >= 0 and not binary:
                    if _in_chain(chain_category, chain_below, d_chain[below], category):
                        continue
                    chain = d_chain[below]
                chain_keys, chain_values, new = _intern(
                    chain_keys, chain_values, np.int64(chain) * categories + category, chains
                )
                if new == chains:
                    chain_category = grow_int(chain_category, chains + 1)
                    chain_below = grow_int(chain_below, chains + 1)
                    chain_category[new] = category
                    chain_below[new] = chain
                    chains += 1
                chain = new
            count_keys, count_values, slot = _intern(
                count_keys, count_values, (np.int64(item) << 24) + chain, counted
            )
            if slot == counted:
                count_of = grow_int(count_of, counted + 1)
                count_of[slot] = 0
                counted += 1
            full = count_of[slot] >= k
            if binary and not full:
                e = edge // 2
                left, right = graph.left[e], graph.right[e]
                for side in range(2):
                    if side == 0 and right_rank > 0:
                        continue
                    a, b = left_rank + 1 - side, right_rank + side
                    if a >= item_count[left] or b >= item_count[right]:
                        continue
                    more = (
                        graph.logp[e] + d_score[item_first[left] + a] + d_score[item_first[right] + b]
                    )
                    if more + graph.outside[item] < cut:
                        pruned = True
                        continue
                    h_score = grow_int(h_score, size + 1)
                    h_entry = _grow_rows(h_entry, size + 1)
                    entry[0], entry[1], entry[2], entry[3] = edge, a, b, pushes
                    size = _push(h_score, h_entry, size, more, entry)
                    pushes += 1
            if full:
                continue
            # the content
            if link:
                content = d_content[below]
            else:
                length = 0
                if edge >= 0:
                    for side in range(2):
                        if binary:
                            e = edge // 2
                            part = graph.left[e] if side == 0 else graph.right[e]
                            rank = left_rank if side == 0 else right_rank
                            d = item_first[part] + rank
                        elif side == 0:
                            part, d = graph.unary_child[edge // 2], below
                        else:
                            continue
                        if item_partial[part]:
                            s = d_content[d]
                            for p in range(seq_ptr[s], seq_ptr[s + 1]):
                                buffer = grow_int(buffer, length + 1)
                                buffer[length] = seq_node[p]
                                length += 1
                        else:
                            buffer = grow_int(buffer, length + 1)
                            buffer[length] = d_content[d]
                            length += 1
                sequence = np.int64(-1)
                if edge >= 0:
                    code = np.int64(0)
                    for p in range(length):
                        code = code * np.int64(1000003) + buffer[p] + 1
                    code &= np.int64(0x3FFFFFFFFFFFFFFF)
                    slot_s = find_slot(seq_keys, code)
                    sequence = -1 if seq_keys[slot_s] == EMPTY else np.int64(seq_heads[slot_s])
                    while sequence >= 0:
                        same = seq_ptr[sequence + 1] - seq_ptr[sequence] == length
                        for p in range(length):
                            if not same or seq_node[seq_ptr[sequence] + p] != buffer[p]:
                                same = False
                                break
                        if same:
                            break
                        sequence = np.int64(seq_next[sequence])
                    if sequence < 0:
                        sequence = np.int64(sequences)
                        seq_ptr = grow_int(seq_ptr, sequences + 2)
                        seq_next = grow_int(seq_next, sequences + 1)
                        at = seq_ptr[sequences]
                        seq_node = grow_int(seq_node, at + length)
                        for p in range(length):
                            seq_node[at + p] = buffer[p]
                        seq_ptr[sequences + 1] = at + length
                        seq_next[sequences] = (
                            -1 if seq_keys[slot_s] == EMPTY else seq_heads[slot_s]
                        )
                        seq_keys[slot_s] = code
                        seq_heads[slot_s] = sequences
                        sequences += 1
                        if 2 * (sequences + 1) >= seq_keys.shape[0]:
                            seq_keys, seq_heads = grow_map(seq_keys, seq_heads)
                if item_partial[item]:
                    content = np.int32(sequence)
                else:
                    place = sequence if sequence >= 0 else -1 - start
                    node_keys, node_values, content = _intern(
                        node_keys, node_values, (place + n + 1) * categories + category, nodes
                    )
                    if content == nodes:
                        n_category = grow_int(n_category, nodes + 1)
                        n_sequence = grow_int(n_sequence, nodes + 1)
                        n_start = grow_int(n_start, nodes + 1)
                        n_end = grow_int(n_end, nodes + 1)
                        n_category[nodes] = category
                        n_sequence[nodes] = sequence
                        n_start[nodes] = start
                        n_end[nodes] = end
                        nodes += 1
            seen_keys, seen_values, known = _intern(
                seen_keys, seen_values, (np.int64(item) << 32) + content, seen
            )
            if known < seen:
                continue
            seen += 1
            count_of[slot] += 1
            d_score = grow_int(d_score, derivations + 1)
            d_content = grow_int(d_content, derivations + 1)
            d_chain = grow_int(d_chain, derivations + 1)
            d_item = grow_int(d_item, derivations + 1)
            d_score[derivations] = score
            d_content[derivations] = content
            d_chain[derivations] = chain
            d_item[derivations] = item
            item_count[item] += 1
            for u in range(u_first[item], u_first[item] + u_count[item]):
                more = score + graph.unary_logp[u]
                if more + graph.outside[graph.unary_parent[u]] < cut:
                    pruned = True
                    continue
                h_score = grow_int(h_score, size + 1)
                h_entry = _grow_rows(h_entry, size + 1)
                entry[0], entry[1], entry[2], entry[3] = 2 * u + 1, derivations, 0, pushes
                size = _push(h_score, h_entry, size, more, entry)
                pushes += 1
            derivations += 1
        # sort the cell's derivations by item, keeping their order
        total = derivations - first_derivation
        here_rank = grow_int(here_rank, total)
        at = first_derivation
        for d in range(first_derivation, derivations):
            item = d_item[d]
            if item_count[item] > 0 and item_first[item] == 0:
                item_first[item] = at + 1  # shifted by one: 0 means not placed yet
                at += item_count[item]
        for d in range(first_derivation, derivations):
            item = d_item[d]
            here_rank[d - first_derivation] = item_first[item] - 1
            item_first[item] += 1
        old_score = d_score[first_derivation:derivations].copy()
        old_content = d_content[first_derivation:derivations].copy()
        old_chain = d_chain[first_derivation:derivations].copy()
        old_item = d_item[first_derivation:derivations].copy()
        for t in range(total):
            d_score[here_rank[t]] = old_score[t]
            d_content[here_rank[t]] = old_content[t]
            d_chain[here_rank[t]] = old_chain[t]
            d_item[here_rank[t]] = old_item[t]
        t = first_derivation
        while t < derivations:
            item = d_item[t]
            item_first[item] = t
            t += item_count[item]
    found = min(k, item_count[root])
    roots = d_content[item_first[root] : item_first[root] + found].copy()
    logp = d_score[item_first[root] : item_first[root] + found].copy()
    child_ptr = np.zeros(nodes + 1, np.int64)
    for v in range(nodes):
        s = n_sequence[v]
        child_ptr[v + 1] = child_ptr[v] + (seq_ptr[s + 1] - seq_ptr[s] if s >= 0 else 0)
    child = np.empty(child_ptr[nodes], np.int32)
    for v in range(nodes):
        s = n_sequence[v]
        if s >= 0:
            for p in range(seq_ptr[s + 1] - seq_ptr[s]):
                child[child_ptr[v] + p] = seq_node[seq_ptr[s] + p]
    return (
        Candidates(
            n_category[:nodes].copy(), n_start[:nodes].copy(), n_end[:nodes].copy(),
            child_ptr, child, roots, logp,
        ),
        pruned,
    )
