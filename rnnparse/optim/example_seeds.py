"""Separate random numbers for each example of a batch that is computed one by one in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from rnnparse._keras_compat import all_layers, global_seed_generator, seed_generators
from rnnparse._tensorflow import tf

Seeds = Sequence[tuple[Any, tf.Tensor]]
"""Pairs of a Keras `SeedGenerator` and seeds for it."""


def example_seeds(model: Any, size: tf.Tensor) -> Seeds:
    """Seeds for each example and each generator that a model's layers draw from, [size, 2].

    Args:
        model: a Keras model or layer, or None: layers without a generator draw from Keras's own.
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
    """Within it each generator gives seed, seed + [0, 1], …, and its state stays as it is.

    Args:
        seeds: generators and for each a seed, int [2].
    """
    for generator, seed in seeds:
        # On the instance, and not by attribute, which Keras might track.
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
