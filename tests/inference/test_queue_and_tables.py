"""The queue, the hash tables and the store of trees against Python's own."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.inference.hashing import EMPTY, crowded, find_slot, intern, larger, new_table
from rnnparse.inference.heap import ENTRY, pop, push
from rnnparse.inference.tree_interning import (
    NODES,
    SEQUENCES,
    intern_node,
    intern_sequence,
    new_contents,
)
from tests.inference.random_grammar import random_tests

scores = st.one_of(st.floats(-10, 0), st.sampled_from([0.0, -1.0, -np.inf]))


@random_tests
@given(st.lists(st.one_of(scores, st.none()), max_size=200))
def test_heap_pops_the_best_and_of_equal_ones_the_first(operations: list[float | None]) -> None:
    heap, size = np.empty(256, ENTRY), np.zeros(2, np.int64)
    twin: list[tuple[float, int]] = []
    for number, score in enumerate(operations):
        if score is not None:
            push(heap, size, score, number, -number, 2 * number)
            heapq.heappush(twin, (-score, number))
        elif twin:
            expected = heapq.heappop(twin)
            assert pop(heap, size) == (-expected[0], expected[1], -expected[1], 2 * expected[1])
        assert size[0] == len(twin)


@random_tests
@given(st.lists(st.integers(0, 1 << 62), max_size=200), st.integers(1, 64))
def test_tables_are_dictionaries(keys: list[int], stride: int) -> None:
    table = new_table(8)
    twin: dict[int, int] = {}
    for key in keys + [k * stride for k in range(100)]:
        if crowded(table, len(twin)):
            table = larger(table)
        fresh = len(twin)
        assert intern(table, key, fresh) == twin.setdefault(key, fresh)
    assert (table[:, 0] != EMPTY).sum() == len(twin) <= len(table) / 2
    for key, value in twin.items():
        assert table[find_slot(table, key), 1] == value
    assert table[find_slot(table, 1 << 61 | 12345), 0] in (EMPTY, 1 << 61 | 12345)


def test_sequences_with_one_hash_code_are_told_apart() -> None:
    contents = new_contents()
    lists = [[1000008], [0, 5], [], [3], [0, 5, 0], [1000008]]  # the first two have one code
    numbers = [
        intern_sequence(
            np.array(x, np.int32), len(x), contents.sequences, contents.members,
            contents.sequence_table, contents.size,
        )
        for x in lists
    ]
    assert numbers == [0, 1, 2, 3, 4, 0]
    assert contents.size[SEQUENCES] == 5


def test_nodes_over_tokens_and_sequences_are_told_apart() -> None:
    contents = new_contents()
    arguments = (contents.nodes, contents.node_table, contents.size)
    nodes = [
        intern_node(category, sequence, start, start + 1, 7, *arguments)
        for category in (0, 6)
        for sequence in (-1, 0, 1)
        for start in (0, 1)
    ]
    # A node over a sequence is the same wherever its span was noted.
    assert nodes == [0, 1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 7]
    assert contents.size[NODES] == 8
