"""Open-addressing hash tables from int64 keys to int64 values, for use inside numba kernels.

A table is an int64 array [slots, 2] of keys and values, a power of two long; the key -1 marks a
free slot. Inserting never grows a table: callers check `crowded` first.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit

EMPTY = -1


@njit(nogil=True)
def new_table(capacity):
    """An empty table with room for `capacity` keys."""
    slots = 16
    while slots < 2 * capacity:
        slots *= 2
    return np.full((slots, 2), EMPTY, np.int64)


@njit(nogil=True)
def crowded(table, keys):
    """Whether a table of so many keys should grow before it takes one more."""
    return 2 * (keys + 1) > table.shape[0]


@njit(nogil=True)
def larger(table):
    """A table of twice the size with the same entries."""
    new = np.full((2 * table.shape[0], 2), EMPTY, np.int64)
    for old in range(table.shape[0]):
        if table[old, 0] != EMPTY:
            slot = find_slot(new, table[old, 0])
            new[slot, 0] = table[old, 0]
            new[slot, 1] = table[old, 1]
    return new


@njit(nogil=True)
def find_slot(table, key):
    """The slot that holds `key` (not negative), or the free slot where it belongs."""
    mask = np.uint64(table.shape[0] - 1)
    # Scatter the bits of the key (the finaliser of splitmix64).
    h = np.uint64(key)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    slot = (h ^ (h >> np.uint64(31))) & mask
    while table[slot, 0] != key and table[slot, 0] != EMPTY:
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(nogil=True)
def intern(table, key, fresh):
    """The value of a key; a new key gets the value `fresh`."""
    slot = find_slot(table, key)
    if table[slot, 0] == EMPTY:
        table[slot, 0] = key
        table[slot, 1] = fresh
    return table[slot, 1]
