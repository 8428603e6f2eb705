"""Robust losses of residuals, as SciPy's `least_squares` defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rnnparse._tensorflow import tf
from rnnparse.errors import ConfigError


def _huber(z: tf.Tensor) -> tf.Tensor:
    outside = tf.maximum(z, 1.0)
    return (2 * tf.sqrt(outside) - 1) / outside


def _soft_l1(z: tf.Tensor) -> tf.Tensor:
    return 2 / (1 + tf.sqrt(1 + z))


def _cauchy(z: tf.Tensor) -> tf.Tensor:
    # Use the series near 0, where log(1 + z) / z is 0 / 0.
    small = z < 1e-4
    far = tf.where(small, tf.ones_like(z), z)
    return tf.where(small, 1 - z / 2 + z**2 / 3, tf.math.log1p(far) / far)


# ρ(z) / z, which is 1 at z = 0.
_RATIOS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "huber": _huber,
    "soft_l1": _soft_l1,
    "cauchy": _cauchy,
}


def robust(residuals: Any, loss: str, scale: float = 1.0) -> tf.Tensor:
    """Residuals whose ½ sum of squares is a robust loss of the given ones.

    With z = (r / C)² the loss of a residual is ½ C² ρ(z), where ρ(z) is z for `linear`; z up to 1
    and 2 √z − 1 beyond for `huber`; 2 (√(1 + z) − 1) for `soft_l1`; and log(1 + z) for `cauchy`.
    The function returns r √(ρ(z) / z), whose half square is that loss. Its derivatives are
    continuous, so it suits any least-squares method.

    Args:
        residuals: r of any shape and a real float dtype.
        loss: name of the loss.
        scale: C > 0; residuals well below it count as in least squares.

    Returns:
        A tensor of the shape and dtype of r.

    Raises:
        ConfigError: the loss is unknown, or the scale is not positive.

    Example:
        >>> 0.5 * robust(tf.constant([0.5, -10.0]), "huber") ** 2
        <tf.Tensor: shape=(2,), dtype=float32, numpy=array([0.125, 9.5  ], dtype=float32)>
    """
    check_loss(loss, scale)
    residuals = tf.convert_to_tensor(residuals)
    if loss == "linear":
        return residuals
    return residuals * tf.sqrt(_RATIOS[loss](tf.square(residuals / scale)))


def check_loss(loss: str, scale: float) -> None:
    """Raise ConfigError if `robust` does not know the loss, or the scale is not positive."""
    if loss != "linear" and loss not in _RATIOS:
        raise ConfigError(f"loss must be one of linear, {', '.join(_RATIOS)}, not {loss!r}")
    if not 0 < scale < float("inf"):
        raise ConfigError(f"loss_scale must be positive and finite, not {scale}")
