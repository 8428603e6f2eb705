"""The network node by node in plain Python, written from the paper's equations alone."""

from __future__ import annotations

import numpy as np

from rnnparse.inference.forest import Forest
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.parameters import Parameters


def tree_score(
    forest: Forest, candidate: int, rows: np.ndarray, keys: CategoryPairs, weights: Parameters
) -> float:
    """s(x, y) = Σ v·p, p = tanh(W [b; c; 1]), of one candidate tree."""
    n = weights.dim
    total = 0.0

    def vector(node: int) -> np.ndarray:
        nonlocal total
        left, right = int(forest.left[node]), int(forest.right[node])
        if left < 0:
            return weights.vectors[rows[forest.start[node]]]
        if right < 0:
            pair = (int(forest.cat[left]), -1)
            inputs = np.concatenate([vector(left), np.zeros(n), [1.0]])
        else:
            pair = (int(forest.cat[left]), int(forest.cat[right]))
            inputs = np.concatenate([vector(left), vector(right), [1.0]])
        known = [tuple(p) for p in keys.pairs.tolist()]
        row = known.index(pair) + 1 if pair in known else 0
        # The paper's W is n × (2n + 1).
        p = np.tanh(weights.W[row].T @ inputs)
        total += float(weights.v[row] @ p)
        return p

    vector(int(forest.root[candidate]))
    return total
