"""Worlds in which different trees tie exactly, so that the rule at ties decides the subgradient."""

from __future__ import annotations

import numpy as np

from rnnparse.inference.forest import Forest
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.parameters import Parameters, initial_parameters
from tests.models.conftest import WORDS, World
from tests.models.random_forest import CATEGORIES, INNER, TAGS, Builder, random_tree

DIM = 8
"""The size of a vector register, or a multiple: where vectors straddle registers, TensorFlow rounds
tanh differently by place, and no two trees would tie."""

SIZES = [(5, 2, 4), (7, 3, 3), (6, 1, 5), (4, 1, 4), (1, 1, 2)]
"""Words, shapes, and trees of each shape, sentence by sentence."""

COSTS = [2.0, 1.0, 3.0, 0.0, 1.0]
"""The margin of all candidates of a sentence but its target."""


def tied_world(seed: int) -> World:
    """Candidates of a few shapes, with labels that differ, and weights that do not know labels.

    All keys have rows of their own with equal values, so that trees of one shape have the same
    score, to the bit and in every engine, but derivatives by different rows. The last component of
    all vectors is 0; what the keys' weights make of it differs, and with it the derivatives by the
    words, but not the scores. Targets are of the first shape.
    """
    rng = np.random.default_rng(seed)
    forests = [_forest(*size, rng) for size in SIZES]
    rows = [rng.integers(0, WORDS, words).astype(np.int32) for words, *_ in SIZES]
    keys = CategoryPairs.from_forests(CATEGORIES, forests, min_count=1)
    gold = [int(rng.integers(trees)) for _, _, trees in SIZES]
    costs = [np.full(len(f.root), cost) for f, cost in zip(forests, COSTS, strict=True)]
    for cost, target in zip(costs, gold, strict=True):
        cost[target] = 0.0
    store = ForestDataset.from_forests(forests, rows, keys, costs, gold)
    weights = initial_parameters(keys, WORDS, DIM, noise=0.4, seed=seed, dtype="float64")
    vectors, W, v = weights.vectors * 5, weights.W, weights.v
    for stack in (W, v):
        stack[:] = stack[np.flatnonzero(~keys.is_unary)[0]]
    last = DIM - 1
    vectors[:, last] = 0.0
    W[:, :, last] = 0.0
    W[:, [last, DIM + last]] = rng.standard_normal((len(W), 2, DIM)) * (np.arange(DIM) < last)
    v[:, last] = rng.standard_normal(len(v))
    return World(forests, rows, keys, store, Parameters(vectors, W, v))


def _forest(words: int, shapes: int, each: int, rng: np.random.Generator) -> Forest:
    """`each` trees of each of some shapes, shape by shape."""
    builder = Builder()
    roots: dict[int, None] = {}
    for shape in range(1, shapes + 1):
        model = random_tree(builder, words, rng)
        while len(roots) < shape * each:
            roots.setdefault(_relabelled(builder, model, rng))
    arrays = np.array(builder.nodes, np.int32).T
    return Forest(*arrays, np.array(list(roots), np.int32), -np.arange(float(len(roots))))


def _relabelled(builder: Builder, node: int, rng: np.random.Generator) -> int:
    """The tree with new labels below its root."""

    def copy(node: int, is_root: bool) -> int:
        cat, left, right, start, end = builder.nodes[node]
        if left < 0:
            return builder.add(int(rng.choice(TAGS)), -1, -1, start, end)
        left = copy(left, False)
        right = copy(right, False) if right >= 0 else -1
        return builder.add(cat if is_root else int(rng.choice(INNER)), left, right, start, end)

    return copy(node, True)
