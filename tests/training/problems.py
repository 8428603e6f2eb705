"""Small training problems in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from rnnparse.config import TrainingConfig
from rnnparse.training.prepare import Lists, Problem, make_lists, make_problem
from tests.grammar.small import trees


def small_config(**settings: Any) -> TrainingConfig:
    """Settings of a network that trains within a second."""
    return TrainingConfig(**{"kbest": 10, "dim": 5, "epochs": 2, "batch_size": 10, **settings})


def small_lists(count: int, dev: int = 6, **settings: Any) -> Lists:
    """Lists of the first trees of the embedded treebank."""
    with tempfile.TemporaryDirectory() as cache:
        return make_lists(
            trees(count),
            trees(dev, "dev"),
            None,
            small_config(**settings),
            Path(cache),
            jobs=1,
            progress=False,
        )


def small_problem(count: int, dev: int = 6, **settings: Any) -> Problem:
    """What the network trains on, of the first trees of the embedded treebank."""
    config = small_config(**settings)
    lists = small_lists(count, dev, **settings)
    return make_problem(lists, trees(count), trees(dev, "dev"), None, config)
