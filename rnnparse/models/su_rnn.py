"""The syntactically untied recursive network as a TensorFlow function, in two engines.

Both take a `LevelBatch` of tensors or arrays, the vectors of its words, leaves [U, n] =
vectors[batch.words], and the weights of its keys, W [A, 2n + 1, n] and v [A, n], gathered at
batch.rows. Both return the scores [T] of all candidates, differentiable by the three.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rnnparse._tensorflow import tf
from rnnparse.config import ENGINES
from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch


def scores_tensorflow(
    batch: LevelBatch, leaves: tf.Tensor, W: tf.Tensor, v: tf.Tensor, width: int | None = None
) -> tf.Tensor:
    """Scores in pure TensorFlow: the reference, for GPUs, XLA and second derivatives.

    For each node p = tanh([b; c; 1] W) and s = v · p (Socher et al. 2013, equations 2 to 6), level
    by level; a tree's score is the sum over its nodes, summed up along the shared nodes.

    Args:
        batch, leaves, W, v: see above.
        width: None for levels of any width. `jit_compile=True` needs static shapes: pass the width
            to which `pad_batch` padded the batch.

    Returns:
        [T], in the dtype of the weights.
    """
    # Unknown in a graph for models of several sizes.
    n = v.shape[-1] or tf.shape(v)[-1]
    count = tf.shape(batch.key)[0]
    # One row per node: its vector, followed by the score of its subtree.
    table = tf.pad(leaves, [[0, count - tf.shape(leaves)[0]], [0, 1]])
    levels = tf.shape(batch.level_offsets)[0] - 1
    most = None if width is None else int(batch.level_offsets.shape[0]) - 1

    def grow(level: tf.Tensor, table: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        begin = batch.level_offsets[level]
        end = batch.level_offsets[level + 1]
        nodes = begin + (tf.range(end - begin) if width is None else tf.range(width))
        right = tf.gather(batch.right, nodes)
        b = tf.gather(table, tf.gather(batch.left, nodes))
        c = tf.gather(table, tf.maximum(right, 0))
        c = tf.where((right >= 0)[:, None], c, tf.zeros_like(c))
        inputs = tf.concat([b[:, :n], c[:, :n], tf.ones_like(b[:, :1])], axis=1)
        key = tf.gather(batch.key, nodes)
        p = tf.tanh(tf.matmul(inputs[:, None, :], tf.gather(W, key))[:, 0, :])
        score = tf.reduce_sum(p * tf.gather(v, key), axis=1, keepdims=True)
        rows = tf.concat([p, b[:, n:] + c[:, n:] + score], axis=1)
        return level + 1, tf.tensor_scatter_nd_update(table, nodes[:, None], rows)

    _, table = tf.while_loop(
        lambda level, table: level < levels, grow, [tf.constant(1), table], maximum_iterations=most
    )
    return tf.gather(table[:, n], batch.root)


def scores_numba(
    batch: LevelBatch, leaves: tf.Tensor, W: tf.Tensor, v: tf.Tensor, width: int | None = None
) -> tf.Tensor:
    """The same scores by the numba kernels, as one operation with a custom gradient; CPU only.

    It has first derivatives only: TensorFlow silently takes the second for 0, and XLA refuses the
    operation. `width` is ignored.
    """
    dtype = v.dtype
    structure = [batch.key, batch.left, batch.right, batch.root]

    @tf.custom_gradient
    def score(leaves: tf.Tensor, W: tf.Tensor, v: tf.Tensor) -> Any:
        scores, vectors = tf.numpy_function(
            _forward, [leaves, W, v, *structure], [dtype, dtype], stateful=False
        )
        scores.set_shape([None])

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            # These are indexed slices if the scores were gathered.
            upstream = tf.convert_to_tensor(upstream)
            derivatives = tf.numpy_function(
                _backward,
                [upstream, vectors, leaves, W, v, *structure],
                [dtype] * 3,
                stateful=False,
            )
            for derivative, source in zip(derivatives, (leaves, W, v), strict=True):
                derivative.set_shape(source.shape)
            return derivatives

        return scores, gradient

    return score(leaves, W, v)


@cache
def _graph(dtype: tf.DType, n: int | None) -> Any:
    """One graph for batches of all sizes; TensorFlow warns if it makes several in a row."""
    batch = _structure(LevelBatch(*[tf.TensorSpec([None], tf.int32)] * len(LevelBatch._fields)))
    vectors = tf.TensorSpec([None, n], dtype)
    matrices = tf.TensorSpec([None, n and 2 * n + 1, n], dtype)
    return tf.function(scores_tensorflow, input_signature=[batch, vectors, matrices, vectors])


def _structure(batch: LevelBatch) -> LevelBatch:
    """The fields of a batch that `scores_tensorflow` reads."""
    read = ("key", "left", "right", "level_offsets", "root")
    unread: dict[str, Any] = {name: () for name in LevelBatch._fields if name not in read}
    return batch._replace(**unread)


def _scores_in_graph(
    batch: LevelBatch, leaves: tf.Tensor, W: tf.Tensor, v: tf.Tensor, width: int | None = None
) -> tf.Tensor:
    """`scores_tensorflow` as a graph, which runs the loop over levels several times faster."""
    if width is not None:  # for XLA: the shapes have to stay known
        return scores_tensorflow(batch, leaves, W, v, width)
    return _graph(v.dtype, v.shape[-1])(_structure(batch), leaves, W, v)


SCORES = dict(zip(ENGINES, (scores_numba, _scores_in_graph), strict=True))
"""The function that scores candidates, by engine."""


def _forward(
    leaves: np.ndarray,
    W: np.ndarray,
    v: np.ndarray,
    key: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    root: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(v), dtype=np.int32)
    vectors, totals = kernels.forward(leaves, W, v, rows, key, left, right)
    return totals[root], vectors


def _backward(
    upstream: np.ndarray,
    vectors: np.ndarray,
    leaves: np.ndarray,
    W: np.ndarray,
    v: np.ndarray,
    key: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    root: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = np.arange(len(v), dtype=np.int32)
    _, matrices, scorers, words = kernels.backward(
        W, v, rows, key, left, right, root, vectors, len(leaves), upstream, False
    )
    return words, matrices, scorers
