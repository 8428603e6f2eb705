"""Open-addressing hash maps from int64 keys to int32 values, for use inside numba kernels."""

from __future__ import annotations

import numpy as np
from numba import njit

EMPTY = np.int64(-1)


@njit(cache=True, nogil=True)
def new_map(capacity):  # type: ignore[no-untyped-def]
    """An empty map (keys, values) with room for `capacity` keys; keys must not be negative."""
    size = 16
    while size < 2 * capacity:
        size *= 2
    return np.full(size, EMPTY, np.int64), np.empty(size, np.int32)


@njit(cache=True, nogil=True, inline="always")
def mix(key):  # type: ignore[no-untyped-def]
    """Scatter the bits of a key (the finaliser of splitmix64)."""
    h = np.uint64(key)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True)
def find_slot(keys, key):  # type: ignore[no-untyped-def]
    """The slot that holds `key`, or the empty slot where it belongs."""
    mask = np.uint64(keys.shape[0] - 1)
    slot = mix(key) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@njit(cache=True, nogil=True)
def grow_map(keys, values):  # type: ignore[no-untyped-def]
    """A map of twice the size with the same entries."""
    new_keys = np.full(2 * keys.shape[0], EMPTY, np.int64)
    new_values = np.empty(2 * keys.shape[0], np.int32)
    for s in range(keys.shape[0]):
        if keys[s] != EMPTY:
            slot = find_slot(new_keys, keys[s])
            new_keys[slot] = keys[s]
            new_values[slot] = values[s]
    return new_keys, new_values
