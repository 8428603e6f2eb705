"""The list of the k best trees in a space.

The list is exact within the space: a window below the best score grows until it holds k trees, or
all trees. A window with far too many derivations is narrowed, because with many unary chains the
number of trees in a wide window grows exponentially.
"""

from __future__ import annotations

from math import inf, log
from typing import Any

import numpy as np

from rnnparse.array_invariants import trusted
from rnnparse.inference.forest import Forest
from rnnparse.inference.hypergraph import EDGES
from rnnparse.inference.kbest import enumerate_trees
from rnnparse.inference.rebinarize import binarize_candidates
from rnnparse.inference.space import Space
from rnnparse.inference.tree_interning import Candidates

FACTOR = 1.4  # growth of the window
WIDEST = 1e9
NARROWEST = 0.1  # nats; smaller differences between windows do not count
TOLERANCE = 1e-9  # tolerance for sums in another order
EFFORT = 50  # derivations per token and tree; newspaper text needs at most 8


def likely_window(n: int, k: int) -> float:
    """An estimate of how far (in nats) the k-th best tree of n tokens lies below the best."""
    return 0.5 + 36.0 * log(k) / (n + 4)


def best_trees(
    space: Space, k: int, categories: int, heads: Any, stop: np.ndarray
) -> Forest | None:
    """The k best distinct trees of a space; fewer if it has fewer, but at least one.

    Args:
        space: has a tree.
        k: number of trees.
        categories: number C of basic categories.
        heads: arrays of a compiled head table over those categories.
        stop [1]: uint8 that another thread may set.

    Returns:
        The trees, or None once `stop` is set.
    """
    candidates = best_candidates(space, k, categories, stop)
    if candidates is None:
        return None
    return trusted(
        Forest, **binarized(candidates, categories, heads), logp=candidates.score
    )


def best_candidates(
    space: Space, k: int, categories: int, stop: np.ndarray
) -> Candidates | None:
    """The trees of `best_trees` as n-ary ones, with their scores."""
    n = len(space.sentence.ptr) - 1
    window, effort = likely_window(n, k), EFFORT * k * (n + 10)
    low, high = 0.0, inf  # windows known to be too small, and to have too many derivations
    while not stop[0]:
        threshold = space.best - window - TOLERANCE
        graph, pruned = space.within(threshold, stop)
        candidates, dropped, ended = enumerate_trees(
            n, k, threshold, 2 * categories, graph, space.sentence.ptr, space.lexical,
            space.sentence.logp, n if space.glued else -1,
            effort + 2 * int(graph.size[EDGES]) + len(space.lexical), stop,
        )
        complete = ended and not (pruned or dropped)
        if len(candidates.root) >= k or complete or (ended and window > WIDEST):
            return candidates
        low, high = (window, high) if ended else (low, window)
        if high == inf:
            window *= FACTOR
        elif high - low > NARROWEST:
            window = (low + high) / 2
        else:  # very many trees are equally good
            window, high, effort = high, inf, 4 * effort + 1
    return None


def binarized(candidates: Candidates, categories: int, heads: Any) -> dict[str, np.ndarray]:
    """The arrays of a `Forest` other than `logp`."""
    names = ("cat", "left", "right", "start", "end", "root")
    return dict(zip(names, binarize_candidates(candidates, categories, heads), strict=True))
