"""Scores of spans from projected token vectors, as a numba kernel."""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit

# Sums in any order, so that they can be vectorized; NaN stays NaN.
_FAST = {"nogil": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy"}


@njit(**_FAST)
def _enter_hidden(rows, before, last, bias, norm, epsilon, z):
    """Enter the hidden units of one span into z [h]; rows [N, 4h] has one row a token."""
    h = z.shape[0]
    one, two, three, four = rows[before], rows[before + 1], rows[last], rows[last + 1]
    total = z.dtype.type(0)
    for x in range(h):
        z[x] = one[x] + two[h + x] + three[2 * h + x] + four[3 * h + x] + bias[x]
        total += z[x]
    mean, squares = total / h, z.dtype.type(0)
    for x in range(h):
        z[x] -= mean
        squares += z[x] * z[x]
    scale = 1 / np.sqrt(squares / h + epsilon)
    for x in range(h):
        z[x] = max(z[x] * scale * norm[0, x] + norm[1, x], z.dtype.type(0))


@njit(**_FAST)
def _product(a, b):
    total = a.dtype.type(0)
    for x in range(a.shape[0]):
        total += a[x] * b[x]
    return total


@njit(nogil=True)
def span_scores(
    rows, span, vertex_span, vertex_category, bias, norm, epsilon, labels, label_bias, kept, factor
):
    """The scores of vertices [M], in the dtype of the weights.

    Args:
        rows [N, 4h]: products of token vectors and P1 to P4.
        span [S, 2], vertex_span, vertex_category [M]: as in `SpanInputs`.
        bias [h], norm [2, h], labels [C, h], label_bias [C]: as in `SpanParameters`.
        epsilon: is added to the variance.
        kept [S, h] bool: hidden units that dropout keeps; [0, h] without dropout.
        factor: of the kept units.
    """
    hidden = np.empty((span.shape[0], bias.shape[0]), rows.dtype)
    for s in range(span.shape[0]):
        z = hidden[s]
        _enter_hidden(rows, span[s, 0], span[s, 1], bias, norm, epsilon, z)
        if kept.shape[0]:
            for x in range(z.shape[0]):
                z[x] *= factor * kept[s, x]
    scores = np.empty(vertex_span.shape[0], rows.dtype)
    for v in range(vertex_span.shape[0]):
        c = vertex_category[v]
        scores[v] = _product(hidden[vertex_span[v]], labels[c]) + label_bias[c]
    return scores
