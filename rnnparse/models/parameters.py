"""The parameters of the network and their gradients as NumPy arrays; no TensorFlow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rnnparse.models.category_pairs import CategoryPairs


class Parameters(NamedTuple):
    """All weights of a CVG (V words, R category pairs, n dimensions; float32 or float64).

    The matrices are input-major, like the kernel of a Keras Dense layer: `W[r]` is the transpose of
    the paper's W, and p = tanh([b; c; 1] W[r]). A unary node uses the rows `W[r][:n]` and the last
    row, which holds the bias.

    Attributes:
        vectors: word vectors, [V, n].
        W: stacked composition matrices, [R, 2n + 1, n]; row 0 belongs to rare and unseen pairs.
        v: stacked score vectors, [R, n].
    """

    vectors: np.ndarray
    W: np.ndarray
    v: np.ndarray

    @property
    def dim(self) -> int:
        """n, the dimension of word and phrase vectors."""
        return int(self.v.shape[1])


class Gradients(NamedTuple):
    """Derivatives by the rows of `Parameters` that a batch uses; other rows have derivative 0.

    Attributes:
        rows: rows of W and v, int32 [A], ascending.
        W: [A, 2n + 1, n].
        v: [A, n].
        words: rows of the word vectors, int32 [U], ascending.
        vectors: [U, n].
    """

    rows: np.ndarray
    W: np.ndarray
    v: np.ndarray
    words: np.ndarray
    vectors: np.ndarray


def initial_parameters(
    category_pairs: CategoryPairs,
    vectors: np.ndarray | int,
    dim: int,
    *,
    noise: float = 0.001,
    seed: int = 0,
    dtype: str = "float32",
) -> Parameters:
    """Initial weights: a phrase starts as the mean of its children, a unary node as its child.

    W = ½[I I 0] for a pair of categories and [I 0] for a single one (Socher et al. 2013, section
    3.3), v = 0, each with uniform noise in ±`noise`. Entries that a unary node never reads stay 0.

    Args:
        category_pairs: each has a row of W and v.
        vectors: word vectors [V, dim], or V for random ones (standard deviation 0.1).
        dim: n.
        noise: half width of the uniform noise.
        seed: random seed of the noise; the same seed gives the same bytes.
        dtype: "float32" or "float64".

    Raises:
        ValueError: `vectors` is not [V, dim].
    """
    rng = np.random.default_rng(seed)
    if isinstance(vectors, int):
        words = rng.normal(0.0, 0.1, (vectors, dim))
    else:
        words = np.asarray(vectors)
        if words.ndim != 2 or words.shape[1] != dim:
            raise ValueError(f"word vectors have the shape {words.shape}, not [V, {dim}]")
    unary = category_pairs.is_unary
    W = rng.uniform(-noise, noise, (len(category_pairs), 2 * dim + 1, dim))
    W[unary, dim : 2 * dim] = 0.0
    share = np.where(unary, 1.0, 0.5)[:, None, None]
    W[:, :dim] += share * np.eye(dim)
    W[~unary, dim : 2 * dim] += 0.5 * np.eye(dim)
    v = rng.uniform(-noise, noise, (len(category_pairs), dim))
    return Parameters(words.astype(dtype), W.astype(dtype), v.astype(dtype))
