"""Loss and subgradient of a batch by the two-tree path, in NumPy and numba; no TensorFlow.

The structured hinge is a maximum over candidates of smooth functions. By Danskin's theorem the
derivative of the maximizer is a subgradient. So all candidates are scored, but only the maximizer
and the target of each violated example are differentiated.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from rnnparse.losses.score_gradients import WEIGHTS
from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch, restrict
from rnnparse.models.parameters import Gradients, Parameters


def loss_of_scores(
    batch: LevelBatch,
    scores: np.ndarray,
    objective: str = "hinge",
    kappa: float = 0.1,
    tie: str = "first",
) -> tuple[np.ndarray, np.ndarray]:
    """Losses of a batch whose candidates have the given scores.

    Args:
        batch: B sentences, T candidates; `batch.cost` is the margin for κ = 1.
        scores: float [T].
        objective: one of `rnnparse.losses.names.OBJECTIVES`.
        kappa: κ, the margin for each wrong labelled span.
        tie: see `rnnparse.losses.score_gradients.hinge_weights`.

    Returns:
        Losses [B], and a subgradient of their sum by the scores [T].
    """
    if not len(scores):
        return np.zeros(len(batch.gold), scores.dtype), np.zeros(0, scores.dtype)
    costs = (kappa * batch.cost).astype(scores.dtype)
    losses, weights = WEIGHTS[objective](
        scores[batch.candidates], costs[batch.candidates], batch.gold, batch.mask, tie
    )
    # Candidates are in the order of the unmasked entries of the rectangle.
    return losses, weights[batch.mask]


def loss_gradients(
    batch: LevelBatch,
    parameters: Parameters,
    objective: str = "hinge",
    kappa: float = 0.1,
    tie: str = "first",
) -> tuple[np.ndarray, Gradients]:
    """Loss of each example and a subgradient of their mean.

    Args:
        batch: B sentences.
        parameters: weights of the network.
        objective, kappa, tie: see `loss_of_scores`.

    Returns:
        Losses [B], and the subgradient of (1/B) Σ loss by the rows of the weights that the trees
        with a weight use: for the hinges, two trees of each violated example; without L2.
    """
    leaves = parameters.vectors[batch.words]
    return loss_gradients_at(batch, leaves, parameters.W, parameters.v, objective, kappa, tie)


def loss_gradients_at(
    batch: LevelBatch,
    leaves: np.ndarray,
    W: np.ndarray,
    v: np.ndarray,
    objective: str = "hinge",
    kappa: float = 0.1,
    tie: str = "first",
    learned: Collection[str] = Parameters._fields,
) -> tuple[np.ndarray, Gradients]:
    """`loss_gradients` with the word vectors of the batch, [U, n], already looked up.

    Args:
        batch, objective, kappa, tie: see `loss_gradients`.
        leaves: vectors of the batch's words, [U, n].
        W, v: stacked weights.
        learned: fields of `Parameters` whose derivatives to compute; `Gradients.W` and
            `Gradients.vectors` are empty if they are not among these.
    """
    structure = (batch.rows, batch.key, batch.left, batch.right)
    vectors, totals = kernels.forward(leaves, W, v, *structure)
    losses, weights = loss_of_scores(batch, totals[batch.root], objective, kappa, tie)
    upstream = weights / np.asarray(max(len(losses), 1), weights.dtype)
    wanted = ("W" in learned, "vectors" in learned)
    used, *derivatives = kernels.backward(
        W, v, *structure, batch.root, vectors, len(leaves), upstream, True, *wanted
    )
    return losses, Gradients(
        rows=batch.rows[used],
        W=derivatives[0],
        v=derivatives[1],
        words=batch.words[: len(derivatives[2])],
        vectors=derivatives[2],
    )


def danskin_batch(batch: LevelBatch, weights: np.ndarray) -> tuple[LevelBatch, np.ndarray]:
    """The part of a batch that must be differentiated, for engines that differentiate all of it.

    Args:
        batch: any batch.
        weights: [T], derivative of the loss by the scores, mostly zero.

    Returns:
        The batch of the candidates with a weight, one per row, and their weights.
    """
    chosen = np.flatnonzero(weights)
    return restrict(batch, chosen[:, None], np.zeros(len(chosen))), weights[chosen]
