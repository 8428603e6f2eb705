"""Small least-squares problems on TensorFlow variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

ROSENBROCK = (-1.2, 1.0)


def variable(value: Any, dtype: str = "float64") -> tf.Variable:
    return tf.Variable(value, dtype=dtype)


def rosenbrock(x: Any) -> Callable[[], Any]:
    return tf.function(lambda: tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]))


def exponential() -> tuple[Callable[[Any], Any], np.ndarray]:
    """y = 2.5 exp(−1.3 t) + 0.5 with noise, and a start."""
    t = np.linspace(0, 3, 40)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + np.random.default_rng(0).normal(0, 0.05, 40)
    return lambda b: b[0] * tf.exp(b[1] * t) + b[2] - y, np.array([1.0, -0.1, 0.0])
