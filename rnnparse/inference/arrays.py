"""Arrays that grow, for numba kernels."""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit


@njit(cache=True, nogil=True)
def grow(array, size):
    """Return `array` itself, or a copy of at least twice its length that holds `size` entries."""
    if size <= array.shape[0]:
        return array
    bigger = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    bigger[: array.shape[0]] = array
    return bigger
