"""Loss and subgradient of a batch by the two-tree path, in NumPy and numba; no TensorFlow.

The structured hinge is a maximum over candidates of smooth functions. By Danskin's theorem the
derivative at the maximiser alone is a subgradient of it, so that all candidates are scored but only
the maximiser and the target tree of each violated example are differentiated.
"""

from __future__ import annotations

import numpy as np

from rnnparse.losses.hinge import hinge_weights
from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch, restrict
from rnnparse.models.parameters import Gradients, Parameters
from rnnparse.optim.adagrad_arrays import adagrad_all, adagrad_rows


def hinge_of_scores(
    batch: LevelBatch, scores: np.ndarray, kappa: float, tie: str = "first"
) -> tuple[np.ndarray, np.ndarray]:
    """Violations of a batch whose candidates have the given scores.

    Args:
        batch: B sentences, T candidates; `batch.cost` is the margin for κ = 1.
        scores: float [T].
        kappa: κ, the margin for each wrong labelled span.
        tie: see `rnnparse.losses.hinge.hinge_weights`.

    Returns:
        Violations [B], and a subgradient of their sum by the scores [T].
    """
    if not len(scores):
        return np.zeros(len(batch.gold), scores.dtype), np.zeros(0, scores.dtype)
    costs = (kappa * batch.cost).astype(scores.dtype)
    violation, weights = hinge_weights(
        scores[batch.candidates], costs[batch.candidates], batch.gold, batch.mask, tie
    )
    # Candidates stand in the order of their sentences, as the unmasked entries of the rectangle.
    return violation, weights[batch.mask]


def hinge_gradients(
    batch: LevelBatch, parameters: Parameters, kappa: float = 0.1, tie: str = "first"
) -> tuple[np.ndarray, Gradients]:
    """Violation of each example and a subgradient of their mean.

    Args:
        batch: B sentences.
        parameters: weights of the network.
        kappa, tie: see `hinge_of_scores`.

    Returns:
        Violations [B], and the subgradient of (1/B) Σ r_i by the rows of the weights that the
        two trees of violated examples use. L2 is not in it.
    """
    leaves = parameters.vectors[batch.words]
    return hinge_gradients_at(batch, leaves, parameters.W, parameters.v, kappa, tie)


def hinge_gradients_at(
    batch: LevelBatch, leaves: np.ndarray, W: np.ndarray, v: np.ndarray, kappa: float, tie: str
) -> tuple[np.ndarray, Gradients]:
    """The same where the vectors of the batch's words, [U, n], have been looked up already."""
    structure = (batch.rows, batch.key, batch.left, batch.right)
    vectors, totals = kernels.forward(leaves, W, v, *structure)
    violation, weights = hinge_of_scores(batch, totals[batch.root], kappa, tie)
    upstream = weights / np.asarray(max(len(violation), 1), weights.dtype)
    used, *derivatives = kernels.backward(
        W, v, *structure, batch.root, vectors, len(leaves), upstream, True
    )
    return violation, Gradients(
        rows=batch.rows[used],
        W=derivatives[0],
        v=derivatives[1],
        words=batch.words,
        vectors=derivatives[2],
    )


def adagrad_step(
    parameters: Parameters,
    sums: Parameters,
    gradients: Gradients,
    learning_rate: float,
    l2: float = 0.0,
) -> None:
    """One AdaGrad step in place, with the L2 term λ/2 (‖W‖² + ‖v‖²) but without word vectors in it.

    The same as `rnnparse.optim.adagrad.AdaGrad` on a `CVG`, in about a tenth of the time.

    Args:
        parameters: changed in place.
        sums: sums of squared derivatives, changed in place; zeros before the first step
            (`Parameters.zeros_like`).
        gradients: from `hinge_gradients`.
        learning_rate: α.
        l2: λ.
    """
    rows, W, v, words, vectors = gradients
    adagrad_rows(parameters.vectors, sums.vectors, words, vectors, learning_rate)
    for weights, squares, gradient in ((parameters.W, sums.W, W), (parameters.v, sums.v, v)):
        if l2:
            adagrad_all(weights, squares, rows, gradient, learning_rate, l2)
        else:
            adagrad_rows(weights, squares, rows, gradient, learning_rate)


def danskin_batch(batch: LevelBatch, weights: np.ndarray) -> tuple[LevelBatch, np.ndarray]:
    """The part of a batch that has to be differentiated, for engines that differentiate all.

    Args:
        batch: any batch.
        weights: [T], derivative of the loss by the scores, mostly zero.

    Returns:
        The batch of the candidates with a weight, one a row, and their weights.
    """
    chosen = np.flatnonzero(weights)
    return restrict(batch, chosen[:, None], np.zeros(len(chosen))), weights[chosen]
