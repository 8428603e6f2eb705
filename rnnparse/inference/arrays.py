"""Arrays that grow, for numba kernels."""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit


@njit(nogil=True)
def grow(array, size):
    """Return `array` itself, or a copy of at least twice its length that holds `size` entries."""
    if size <= array.shape[0]:
        return array
    bigger = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    for x in range(array.shape[0]):  # not a slice: see `rnnparse.compiled`
        bigger[x] = array[x]
    return bigger


@njit(nogil=True)
def copy_to(target, source):
    """Copy an array to the beginning of another one."""
    for x in range(source.shape[0]):
        target[x] = source[x]
