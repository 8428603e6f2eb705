"""Small least-squares problems on TensorFlow variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

ROSENBROCK = (-1.2, 1.0)
EXPONENTIAL = (1.0, -0.1, 0.0)


def variable(value: Any, dtype: str = "float64") -> tf.Variable:
    return tf.Variable(value, dtype=dtype)


def rosenbrock(x: Any) -> tuple[Callable[[], Any], Callable[[], np.ndarray]]:
    """The residuals at x, and their derivatives, which take far less time than tracing a tape."""

    def jacobian() -> np.ndarray:
        return np.array([[-20 * float(x[0]), 10.0], [-1.0, 0.0]])

    return lambda: tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), jacobian


def exponential(b: Any) -> tuple[Callable[[], Any], Callable[[], np.ndarray]]:
    """y = 2.5 exp(−1.3 t) + 0.5 with noise: residuals at b, and derivatives."""
    t = np.linspace(0, 3, 40)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + np.random.default_rng(0).normal(0, 0.05, 40)

    def jacobian() -> np.ndarray:
        values = np.asarray(b)
        e = np.exp(values[1] * t)
        return np.stack([e, values[0] * t * e, np.ones(40)], axis=1)

    return lambda: b[0] * tf.exp(b[1] * t) + b[2] - y, jacobian
