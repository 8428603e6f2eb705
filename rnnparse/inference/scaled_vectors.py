"""Vectors of probabilities with logarithmic scales, and rules applied to them, as numba kernels.

Vectors are parts of one array; a vector stands for its components times the exponential of its
scale. A rule with substates x of the parent and y, z of the children has its probabilities
P(x → y z | x) in this order, z running fastest. A unary rule has one y.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.inference.chart import NEG_INF

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
def apply_up(probability, place, n, m, k, left, right, work, at):
    """Set work[at+x] = Σ P(x → y z) work[left+y] work[right+z].

    Args:
        place: where the probabilities of the rule begin.
        n, m, k: number of substates of the parent and of the children.
    """
    row = place
    for x in range(n):
        mass = 0.0
        for y in range(m):
            inner = 0.0
            for z in range(k):
                inner += probability[row + z] * work[right + z]
            mass += inner * work[left + y]
            row += k
        work[at + x] = mass


@njit(**FAST)
def apply_down(probability, place, n, m, k, above, left, right, work, to_left, to_right):
    """Set work[to_left+y] = Σ work[above+x] P(x → y z) work[right+z], and to_right+z likewise."""
    for y in range(m):
        work[to_left + y] = 0.0
    for z in range(k):
        work[to_right + z] = 0.0
    row = place
    for x in range(n):
        for y in range(m):
            inner, both = 0.0, work[above + x] * work[left + y]
            for z in range(k):
                inner += probability[row + z] * work[right + z]
            for z in range(k):
                work[to_right + z] += both * probability[row + z]
            work[to_left + y] += work[above + x] * inner
            row += k
