"""Vectors of probabilities with logarithmic scales, and rules applied to them, as numba kernels.

Vectors are parts of one array; a vector stands for its components times the exponential of its
scale. A rule has an entry for each of its probabilities P(x → y z | x), with substates x of the
parent and y, z of the children; z is 0 in a unary rule.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF

ENTRY = np.dtype(
    [("x", np.int16), ("y", np.int16), ("z", np.int16), ("probability", np.float32)], align=True
)
# fastmath lets the compiler reorder the sums, so that it vectorizes the loops.
FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}


@njit(**FAST)
def normalize(work, at, n):
    """Divide work[at:at+n] by its greatest component; returns the log of that, -inf for zeros."""
    greatest = 0.0
    for x in range(at, at + n):
        greatest = max(greatest, work[x])
    if greatest == 0.0:
        return NEG_INF
    for x in range(at, at + n):
        work[x] /= greatest
    return np.log(greatest)


@njit(**FAST)
def add_scaled(work, source, n, scale, target, target_scale):
    """Add a vector to another one; returns the new scale of that."""
    if scale == NEG_INF:
        return target_scale
    before, weight, new = 1.0, 1.0, max(scale, target_scale)
    if scale > target_scale:
        before = np.exp(target_scale - scale)
    else:
        weight = np.exp(scale - target_scale)
    for x in range(n):
        work[target + x] = before * work[target + x] + weight * work[source + x]
    return new


@njit(**FAST)
def dot(work, a, b, n):
    """The product of work[a:a+n] and work[b:b+n]."""
    total = 0.0
    for x in range(n):
        total += work[a + x] * work[b + x]
    return total


@njit(**FAST)
def apply_up(entries, first, last, left, right, work, at, n):
    """Set work[at+x] = Σ P(x → y z) work[left+y] work[right+z].

    Args:
        entries, first, last: ENTRY records, and which of them are the rule's.
        n: number of substates x.
    """
    for x in range(n):
        work[at + x] = 0.0
    for e in range(first, last):
        entry = entries[e]
        both = work[left + entry.y] * work[right + entry.z]
        work[at + entry.x] += entry.probability * both


@njit(**FAST)
def apply_down(entries, first, last, above, left, right, work, to_left, m, to_right, k):
    """Set work[to_left+y] = Σ work[above+x] P(x → y z) work[right+z], and to_right+z likewise.

    Args:
        entries, first, last: as for `apply_up`.
        m, k: number of substates y, z.
    """
    for y in range(m):
        work[to_left + y] = 0.0
    for z in range(k):
        work[to_right + z] = 0.0
    for e in range(first, last):
        entry = entries[e]
        mass = work[above + entry.x] * entry.probability
        work[to_left + entry.y] += mass * work[right + entry.z]
        work[to_right + entry.z] += mass * work[left + entry.y]
