"""The structured margin Δ: how many labelled spans of a candidate tree are wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rnnparse.compiled import njit
from rnnparse.trees.node import is_tree

if TYPE_CHECKING:
    from nltk.tree import Tree


class SpanForest(Protocol):
    """The arrays of a `rnnparse.inference.forest.Forest` that the margin depends on."""

    @property
    def cat(self) -> np.ndarray: ...
    @property
    def left(self) -> np.ndarray: ...
    @property
    def right(self) -> np.ndarray: ...
    @property
    def start(self) -> np.ndarray: ...
    @property
    def end(self) -> np.ndarray: ...
    @property
    def root(self) -> np.ndarray: ...


def structured_cost(candidate: Tree, gold: Tree, kappa: float = 0.1) -> float:
    """Δ(y, ŷ) = κ · |N(ŷ) \\ N(y)| over multisets N of labelled spans (label, start, end).

    N excludes the root and the preterminals. A span that the candidate has twice and the gold tree
    once counts as one wrong span.

    Args:
        candidate, gold: trees over the same words, not binarized.
        kappa: κ.

    Reference:
        Socher et al. (2013), equation 7; Taskar et al. (2004).
    """
    wrong = Counter(labelled_spans(candidate)) - Counter(labelled_spans(gold))
    return kappa * wrong.total()


def labelled_spans(tree: Tree) -> list[tuple[str, int, int]]:
    """(label, start, end) of all nodes except the root and the preterminals; end is exclusive."""
    spans: list[tuple[str, int, int]] = []
    position = 0
    # Each node is visited twice: with -1 before its children, and with its start after them.
    pending: list[tuple[Tree, int]] = [(tree, -1)]
    while pending:
        node, start = pending.pop()
        if start >= 0:
            spans.append((node.label(), start, position))
        elif not is_tree(node[0]):
            position += 1
        else:
            pending.append((node, position))
            pending.extend((child, -1) for child in reversed(node))
    return spans[:-1]


def candidate_spans(forest: SpanForest, candidate: int, is_counted: np.ndarray) -> np.ndarray:
    """Labelled spans of one candidate, as the target for `span_costs`.

    Args:
        forest: candidate trees.
        candidate: index of one of them.
        is_counted: bool [categories], False for intermediate categories.

    Returns:
        int32 [G, 3]: category, start, end; without the root and the preterminals.
    """
    nodes = _counted_nodes(
        forest.cat, forest.left, forest.right, int(forest.root[candidate]), is_counted
    )
    return np.stack([forest.cat[nodes], forest.start[nodes], forest.end[nodes]], axis=1)


def span_costs(
    forest: SpanForest, gold: np.ndarray, is_counted: np.ndarray, kappa: float = 1.0
) -> np.ndarray:
    """Δ of all candidates of a forest; the same as `structured_cost` on their trees.

    Args:
        forest: K candidate trees.
        gold: int [G, 3], category, start and end of the target's labelled spans, repeated as often
            as the tree repeats them. A category that no candidate has may be any other number.
        is_counted: bool [categories], False for intermediate categories.
        kappa: κ; with 1, the number of wrong spans.

    Returns:
        float64 [K].
    """
    spans, copies = np.unique(np.asarray(gold, np.int32).reshape(-1, 3), axis=0, return_counts=True)
    wrong = _count_wrong(
        forest.cat,
        forest.left,
        forest.right,
        forest.root,
        _find_spans(forest, spans),
        copies,
        is_counted,
    )
    return kappa * wrong


def _find_spans(forest: SpanForest, spans: np.ndarray) -> np.ndarray:
    """For each node the row of `spans` that it matches, or -1: int32 [N]."""
    if not len(spans):
        return np.full(len(forest.cat), -1, np.int32)
    width = int(max(forest.end.max(initial=0), spans[:, 1:].max())) + 1
    packed = (spans[:, 0].astype(np.int64) * width + spans[:, 1]) * width + spans[:, 2]
    order = np.argsort(packed)
    wanted = (forest.cat.astype(np.int64) * width + forest.start) * width + forest.end
    place = np.minimum(np.searchsorted(packed[order], wanted), len(spans) - 1)
    row = order[place]
    return np.where(packed[row] == wanted, row, -1).astype(np.int32)


@njit(nogil=True)
def _counted_nodes(
    cat: np.ndarray, left: np.ndarray, right: np.ndarray, root: int, is_counted: np.ndarray
) -> np.ndarray:
    """The nodes below `root` with a labelled span, parents before children."""
    nodes = np.empty(len(cat), np.int32)
    stack = np.empty(len(cat), np.int32)
    count, depth = 0, 1
    stack[0] = root
    while depth:
        depth -= 1
        node = stack[depth]
        if left[node] < 0:
            continue
        if node != root and is_counted[cat[node]]:
            nodes[count] = node
            count += 1
        stack[depth] = left[node]
        depth += 1
        if right[node] >= 0:
            stack[depth] = right[node]
            depth += 1
    return nodes[:count].copy()


@njit(nogil=True)
def _count_wrong(
    cat: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    roots: np.ndarray,
    span: np.ndarray,
    copies: np.ndarray,
    is_counted: np.ndarray,
) -> np.ndarray:
    """The number of each candidate's spans that the target does not have: float64 [K]."""
    wrong = np.zeros(len(roots))
    for k in range(len(roots)):
        unused = copies.copy()
        for node in _counted_nodes(cat, left, right, roots[k], is_counted):
            if span[node] >= 0 and unused[span[node]] > 0:
                unused[span[node]] -= 1
            else:
                wrong[k] += 1
    return wrong
