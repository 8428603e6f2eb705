"""The forward pass of BERT in NumPy.

Most of the time is spent in matrix products, which need many rows to be fast. So the sentences of a
batch are concatenated, without padding, and only attention treats them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_ROWS = 16  # rows of which the activation is computed at once, so that they stay in the CPU cache
# erfc(z) = e^(-z²) · (c₁t + … + c₅t⁵) with t = 1 / (1 + cz) for z ≥ 0, to 1.5e-7; equation 7.1.26
# of Abramowitz and Stegun.
_ERFC_SLOPE = 0.3275911
_ERFC = [np.float32(c) for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)]


class Norm(NamedTuple):
    """Layer normalization: float32 [d] each."""

    scale: np.ndarray
    shift: np.ndarray


class Linear(NamedTuple):
    """A linear map: weights float32 [inputs, outputs], bias float32 [outputs]."""

    weights: np.ndarray
    bias: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """float32 [n, inputs] to float32 [n, outputs]."""
        y: np.ndarray = x @ self.weights
        y += self.bias
        return y


class Layer(NamedTuple):
    """A layer: `qkv` gives queries, keys and values, each for all heads in turn."""

    qkv: Linear
    attention: Linear
    attention_norm: Norm
    inner: Linear
    outer: Linear
    norm: Norm


class Network(NamedTuple):
    """The parameters of BERT without its pooling layer.

    Attributes:
        words: float32 [V, d], an embedding for each subword.
        positions: float32 [P, d], to which the embedding of the first segment is added.
        norm: of the sum of both.
        layers: the layers.
        heads: attention heads of a layer; d is a multiple.
        epsilon: is added to variances.
    """

    words: np.ndarray
    positions: np.ndarray
    norm: Norm
    layers: list[Layer]
    heads: int
    epsilon: float

    def hidden_states(self, batch: Sequence[np.ndarray]) -> np.ndarray:
        """The embeddings and the outputs of all layers.

        Args:
            batch: int64 [m] each, m ≤ P, the subwords of a sentence or a part of it.

        Returns:
            float32 [layers + 1, M, d], where M is the sum of all m.
        """
        ends = np.cumsum([len(ids) for ids in batch])
        parts = [slice(end - len(ids), end) for ids, end in zip(batch, ends, strict=True)]
        x = self.words[np.concatenate(batch)]
        for part in parts:
            x[part] += self.positions[: part.stop - part.start]
        out = np.empty((len(self.layers) + 1, *x.shape), np.float32)
        out[0] = self._normalized(x, self.norm)
        for i, layer in enumerate(self.layers):
            y = layer.attention(self._mixed(layer.qkv(out[i]), parts))
            y += out[i]
            x = self._normalized(y, layer.attention_norm)
            y = layer.outer(gelu(layer.inner(x)))
            y += x
            out[i + 1] = self._normalized(y, layer.norm)
        return out

    def _normalized(self, x: np.ndarray, norm: Norm) -> np.ndarray:
        """Layer normalization, in place."""
        x -= x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1])
        x /= np.sqrt(variance + np.float32(self.epsilon))[:, None]
        x *= norm.scale
        x += norm.shift
        return x

    def _mixed(self, qkv: np.ndarray, parts: Sequence[slice]) -> np.ndarray:
        """float32 [M, d]: attention within each part of the rows, before its linear map."""
        width = qkv.shape[1] // 3 // self.heads
        mixed = np.empty((len(qkv), self.heads, width), np.float32)
        for part in parts:
            rows = qkv[part].reshape(-1, 3, self.heads, width)
            queries, keys, values = rows.transpose(1, 2, 0, 3)  # [heads, m, width] each
            weights = queries @ keys.transpose(0, 2, 1)
            weights *= np.float32(width**-0.5)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            y = weights @ values
            y /= weights.sum(axis=-1, keepdims=True)
            mixed[part] = y.transpose(1, 0, 2)
        return mixed.reshape(len(qkv), -1)


def gelu(x: np.ndarray) -> np.ndarray:
    """x · Φ(x), where Φ is the normal distribution, in place: max(x, 0) - |x| · erfc(|x| / √2) / 2.

    Args:
        x: float32 [n, d].
    """
    buffers = np.empty((3, min(_ROWS, len(x)), x.shape[1]), np.float32)
    for row in range(0, len(x), _ROWS):
        y = x[row : row + _ROWS]
        size, t, tail = buffers[:, : len(y)]
        np.abs(y, out=size)
        np.multiply(size, np.float32(_ERFC_SLOPE * 0.5**0.5), out=t)
        t += np.float32(1)
        np.reciprocal(t, out=t)
        np.multiply(t, _ERFC[0], out=tail)
        for coefficient in _ERFC[1:]:
            tail += coefficient
            tail *= t
        np.multiply(size, size, out=t)
        t *= np.float32(-0.5)
        tail *= np.exp(t, out=t)
        tail *= size
        tail *= np.float32(0.5)
        np.maximum(y, np.float32(0), out=y)
        y -= tail
    return x
