"""Fitting a softmax over sparse and dense features, as a numba kernel."""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit
from rnnparse.threads import apart

RATE = 0.1
L2 = 1e-5


@apart
@njit(nogil=True)
def fit_softmax(ptr, feature, row, tag, weight, vectors, binary, tags, orders):
    """AdaGrad on the log loss; returns weights [binary + d, tags] float32."""
    dense = vectors.shape[1]
    w = np.zeros((binary + dense, tags), np.float32)
    squares = np.full((binary + dense, tags), np.float32(1e-3))
    score = np.empty(tags, np.float32)
    rate, decay = np.float32(RATE), np.float32(L2)
    for epoch in range(orders.shape[0]):
        for x in orders[epoch]:
            score[:] = 0
            for p in range(ptr[x], ptr[x + 1]):
                score += w[feature[p]]
            if row[x] >= 0:
                for d in range(dense):
                    score += w[binary + d] * vectors[row[x], d]
            score -= score.max()
            score = np.exp(score)
            score /= score.sum()
            score[tag[x]] -= np.float32(1)
            score *= weight[x]
            for p in range(ptr[x], ptr[x + 1]):
                f = feature[p]
                for t in range(tags):
                    g = score[t] + decay * w[f, t]
                    squares[f, t] += g * g
                    w[f, t] -= rate * g / np.sqrt(squares[f, t])
            if row[x] >= 0:
                for d in range(dense):
                    for t in range(tags):
                        g = score[t] * vectors[row[x], d] + decay * w[binary + d, t]
                        squares[binary + d, t] += g * g
                        w[binary + d, t] -= rate * g / np.sqrt(squares[binary + d, t])
    return w
