"""Expected counts of rules with latent substates over given trees, as numba kernels.

The inside vector of a node has P(words below | substate), up to a factor, for each substate of its
category. It is divided by its sum; the log likelihood is the sum of the logs of these divisors.
Outside vectors are scaled such that the products with the inside vector sum to 1: they are the
posteriors of the substates.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit

# fastmath lets the compiler reorder the sums, so that it vectorizes the loops.
_FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}


@njit(**_FAST)
def _apply_rule(first, last, states, probability, n, left, right, result):
    """result[x] = Σ P(x → y z) left[y] right[z], divided by its sum, which is returned.

    Args:
        first, last: the entries of the rule.
        n: number of substates x.
    """
    for x in range(n):
        result[x] = 0.0
    total = 0.0
    for e in range(first, last):
        mass = probability[e] * left[states[1, e]] * right[states[2, e]]
        result[states[0, e]] += mass
        total += mass
    if total > 0.0:
        for x in range(n):
            result[x] /= total
    return total


@njit(**_FAST)
def _push_down(
    first, last, states, probability, above, left, right, m, k, to_left, to_right, uses
):
    """Set the outside vectors of two children, and add to the uses of the rule.

    Args:
        first, last: the entries of the rule.
        above: the parent's outside vector, divided by the sum of its inside vector.
        left, right, m, k: the inside vectors of the children, and their lengths.
    """
    for y in range(m):
        to_left[y] = 0.0
    for z in range(k):
        to_right[z] = 0.0
    for e in range(first, last):
        x, y, z = states[0, e], states[1, e], states[2, e]
        uses[e] += above[x] * left[y] * right[z]
        mass = above[x] * probability[e]
        to_left[y] += mass * right[z]
        to_right[z] += mass * left[y]


@njit(**_FAST)
def _inside(begin, end, nodes, substates, ptr, states, probability, one, inside, total):
    """The inside vectors of a tree and their sums; returns the log likelihood of the tree."""
    likelihood = 0.0
    for v in range(begin, end):
        left, right, i, rule = nodes.left[v], nodes.right[v], v - begin, nodes.rule[v]
        total[i] = _apply_rule(
            ptr[rule], ptr[rule + 1], states, probability, substates[nodes.category[v]],
            inside[left - begin] if left >= 0 else one,
            inside[right - begin] if right >= 0 else one,
            inside[i],
        )
        likelihood += np.log(total[i])
    return likelihood


@njit(**_FAST)
def _merge_gains(n, first, share, inside, outside, gains):
    """Add the change of the log likelihood if each two substates that were one became one again.

    Args:
        first: number of the first of those pairs.
        share: of the first substate in the count of each pair.
    """
    for x in range(0, n, 2):
        pair = first + x // 2
        merged = share[pair] * inside[x] + (1.0 - share[pair]) * inside[x + 1]
        now = inside[x] * outside[x] + inside[x + 1] * outside[x + 1]
        then = merged * (outside[x] + outside[x + 1])
        gains[pair] += np.log(max(1.0 - now + then, 1e-300))


@njit(**_FAST)
def expected_uses(
    nodes, substates, ptr, states, probability, uses, pair_ptr, share, gains, stop
):
    """The log likelihood of trees, and how they use the rules.

    Args:
        nodes: `Nodes`.
        substates [D] int64: number of substates of each category.
        ptr [M+1] int64, states [3, P] int32: of a `Layout`.
        probability [P] float64: of its entries.
        uses [P] float64: receives the expected counts divided by the probabilities.
        pair_ptr [D+1] int64: first pair of substates of each category, if they are to be merged.
        share, gains [pairs] float64: see `_merge_gains`.
        stop [1]: nonzero to stop early, with meaningless results.
    """
    most, widest = np.int64(0), substates.max()
    for t in range(nodes.ptr.shape[0] - 1):
        most = max(most, nodes.ptr[t + 1] - nodes.ptr[t])
    inside, outside = np.empty((most, widest)), np.empty((most, widest))
    total, one, spare = np.empty(most), np.ones(1), np.empty(1)
    likelihood = 0.0
    for t in range(nodes.ptr.shape[0] - 1):
        if stop[0]:
            break
        begin, end = nodes.ptr[t], nodes.ptr[t + 1]
        likelihood += _inside(
            begin, end, nodes, substates, ptr, states, probability, one, inside, total
        )
        outside[end - begin - 1] = 1.0
        for v in range(end - 1, begin - 1, -1):
            i, c, left, right = v - begin, nodes.category[v], nodes.left[v], nodes.right[v]
            if pair_ptr[c + 1] > pair_ptr[c]:
                _merge_gains(substates[c], pair_ptr[c], share, inside[i], outside[i], gains)
            for x in range(substates[c]):
                outside[i, x] /= total[i]
            _push_down(
                ptr[nodes.rule[v]], ptr[nodes.rule[v] + 1], states, probability, outside[i],
                inside[left - begin] if left >= 0 else one,
                inside[right - begin] if right >= 0 else one,
                substates[nodes.category[left]] if left >= 0 else 1,
                substates[nodes.category[right]] if right >= 0 else 1,
                outside[left - begin] if left >= 0 else spare,
                outside[right - begin] if right >= 0 else spare,
                uses,
            )
    return likelihood
