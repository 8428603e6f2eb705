"""Separate random numbers for each example of a batch that a graph computes one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from rnnparse._keras_compat import all_layers, global_seed_generator, seed_generators
from rnnparse._tensorflow import tf

Seeds = Sequence[tuple[Any, tf.Tensor]]
"""Pairs of a Keras `SeedGenerator` and its seeds."""


def example_seeds(model: Any, size: tf.Tensor) -> Seeds:
    """Seeds [size, 2] for the examples, for each generator that a model's layers draw from.

    Args:
        model: a Keras model or layer, or None for Keras's global generator only, from which layers
            without a generator draw.
        size: int, the number of examples.
    """
    generators = [global_seed_generator()]
    for layer in all_layers(model):
        generators += seed_generators(layer)
    different = {id(generator): generator for generator in generators}.values()
    return [(generator, _draw(generator.next(), size)) for generator in different]


def _draw(seed: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    limit = tf.int32.max - 1
    pair = tf.cast(tf.math.floormod(seed, limit), tf.int32)
    drawn = tf.random.stateless_uniform([size, 2], pair, maxval=limit, dtype=tf.int32)
    return tf.cast(drawn, seed.dtype)


@contextmanager
def drawing_from(seeds: Seeds) -> Iterator[None]:
    """A context in which each generator returns seed, seed + [0, 1], … and keeps its state.

    Args:
        seeds: pairs of a generator and its seed, int [2].
    """
    for generator, seed in seeds:
        # In the instance's dict, because Keras might track an attribute.
        generator.__dict__["next"] = _following(seed)
    try:
        yield
    finally:
        for generator, _ in seeds:
            del generator.__dict__["next"]


def _following(seed: tf.Tensor) -> Callable[..., tf.Tensor]:
    numbers = count()

    def following(ordered: bool = True) -> tf.Tensor:
        return seed + tf.constant([0, next(numbers)], seed.dtype)

    return following
