"""A small network over random forests, in float64 and with weights far from their start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from rnnparse.inference.forest import Forest
from rnnparse.models.batch import LevelBatch
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.parameters import Parameters, initial_parameters
from tests.models.random_forest import CATEGORIES, random_forests

WORDS, DIM = 12, 5


@dataclass
class World:
    """Forests, their store, and weights."""

    forests: list[Forest]
    rows: list[np.ndarray]
    category_pairs: CategoryPairs
    store: ForestDataset
    parameters: Parameters

    def batch(self) -> LevelBatch:
        """All sentences in one batch."""
        return self.store.batch(range(len(self.store)))


def make_world(seed: int, dtype: str = "float64") -> World:
    """Four sentences, one of them a single word; margins such that some examples are violated."""
    rng = np.random.default_rng(seed)
    forests, rows = random_forests([(5, 6), (1, 3), (9, 12), (3, 4)], WORDS, rng)
    # Keys that occur once are left to the shared row.
    keys = CategoryPairs.from_forests(CATEGORIES, forests, min_count=2)
    costs = [rng.integers(1, 6, len(f.root)).astype(float) for f in forests]
    gold = [int(rng.integers(len(f.root))) for f in forests]
    for cost, target in zip(costs, gold, strict=True):
        cost[target] = 0.0
    store = ForestDataset.from_forests(forests, rows, keys, costs, gold)
    start = initial_parameters(keys, WORDS, DIM, noise=0.4, seed=seed, dtype=dtype)
    return World(forests, rows, keys, store, start._replace(vectors=start.vectors * 5))


def zeros_like(parameters: Parameters) -> Parameters:
    """Zeros of the same shapes and dtype."""
    return Parameters(*map(np.zeros_like, parameters))


@pytest.fixture
def world() -> World:
    """One world in float64."""
    return make_world(0)
