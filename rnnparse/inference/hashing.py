"""Open-addressing hash maps from int64 keys to int32 values, for use inside numba kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

EMPTY = np.int64(-1)


class Map(NamedTuple):
    """A hash map; keys are not negative, `keys[slot] == EMPTY` marks a free slot."""

    keys: np.ndarray  # int64, a power of two long
    values: np.ndarray  # int32


@njit(cache=True, nogil=True)
def new_map(capacity):  # type: ignore[no-untyped-def]
    """An empty map with room for `capacity` keys."""
    size = 16
    while size < 2 * capacity:
        size *= 2
    return Map(np.full(size, EMPTY, np.int64), np.empty(size, np.int32))


@njit(cache=True, nogil=True, inline="always")
def _mix(key):  # type: ignore[no-untyped-def]
    """Scatter the bits of a key (the finaliser of splitmix64)."""
    h = np.uint64(key)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True)
def find_slot(keys, key):  # type: ignore[no-untyped-def]
    """The slot that holds `key`, or the free slot where it belongs."""
    mask = np.uint64(keys.shape[0] - 1)
    slot = _mix(key) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@njit(cache=True, nogil=True)
def grow_map(table):  # type: ignore[no-untyped-def]
    """A map of twice the size with the same entries."""
    keys = np.full(2 * table.keys.shape[0], EMPTY, np.int64)
    values = np.empty(2 * table.keys.shape[0], np.int32)
    for s in range(table.keys.shape[0]):
        if table.keys[s] != EMPTY:
            slot = find_slot(keys, table.keys[s])
            keys[slot] = table.keys[s]
            values[slot] = table.values[s]
    return Map(keys, values)


@njit(cache=True, nogil=True)
def intern(table, key, fresh):  # type: ignore[no-untyped-def]
    """The value of a key, which becomes `fresh` (the number of keys so far) where it is new.

    Returns:
        The map, maybe moved to a larger place, and the value.
    """
    slot = find_slot(table.keys, key)
    if table.keys[slot] != EMPTY:
        return table, table.values[slot]
    table.keys[slot] = key
    table.values[slot] = fresh
    if 2 * (fresh + 1) >= table.keys.shape[0]:
        table = grow_map(table)
    return table, np.int32(fresh)
