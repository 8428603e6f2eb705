"""Diagonal AdaGrad on NumPy arrays in place: one pass over the memory, and no TensorFlow.

The same rule as `rnnparse.optim.adagrad.AdaGrad`, for training loops whose weights are arrays.
Derivatives whose square is below the normal numbers of the dtype count as 0.
"""

from __future__ import annotations

import numpy as np

from rnnparse.compiled import njit


def adagrad_rows(
    weights: np.ndarray,
    sums: np.ndarray,
    rows: np.ndarray,
    gradient: np.ndarray,
    learning_rate: float,
) -> None:
    """θ ← θ − α g / √(Σ g²) on some rows, where 0/0 = 0.

    Args:
        weights, sums: [R, …], contiguous, the same dtype; both are changed. The sums of squares
            begin at 0.
        rows: int32 [A], without repetition.
        gradient: [A, …], derivatives by these rows.
        learning_rate: α.
    """
    slot = np.arange(len(rows), dtype=np.int32)
    kind = weights.dtype.type
    _update(_flat(weights), _flat(sums), rows, slot, _flat(gradient), kind(learning_rate), kind(0))


def adagrad_all(
    weights: np.ndarray,
    sums: np.ndarray,
    rows: np.ndarray,
    gradient: np.ndarray,
    learning_rate: float,
    l2: float,
) -> None:
    """The same on all rows, with the derivative λ θ of an L2 term added to each.

    Args:
        weights, sums, rows, gradient, learning_rate: as for `adagrad_rows`.
        l2: λ of λ/2 ‖θ‖².
    """
    everything = np.arange(len(weights), dtype=np.int32)
    slot = np.full(len(weights), -1, np.int32)
    slot[rows] = np.arange(len(rows), dtype=np.int32)
    kind = weights.dtype.type
    _update(
        _flat(weights),
        _flat(sums),
        everything,
        slot,
        _flat(gradient),
        kind(learning_rate),
        kind(l2),
    )


def _flat(array: np.ndarray) -> np.ndarray:
    """[R, …] as [R, m], without a copy."""
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


@njit(cache=True, nogil=True, error_model="numpy")
def _update(
    weights: np.ndarray,
    sums: np.ndarray,
    rows: np.ndarray,
    slot: np.ndarray,
    gradient: np.ndarray,
    learning_rate: float,
    l2: float,
) -> None:
    """Row rows[i] has the derivative gradient[slot[i]], none where that is -1, and l2 · weights."""
    zero, one = weights.dtype.type(0), weights.dtype.type(1)
    # Squares below the normal numbers count as 0, as in TensorFlow: an L2 term alone takes weights
    # there within a few steps, and arithmetic on such numbers is slower by far.
    least = weights.dtype.type(np.sqrt(np.finfo(weights.dtype).tiny))
    total = np.empty(weights.shape[1], weights.dtype)
    for i in range(len(rows)):
        theta, sum_of_squares = weights[rows[i]], sums[rows[i]]
        for j in range(len(total)):
            total[j] = l2 * theta[j]
        if slot[i] >= 0:
            g = gradient[slot[i]]
            for j in range(len(total)):
                total[j] += g[j]
        for j in range(len(total)):
            # Without branches, so that the loop is vectorised.
            derivative = total[j] if abs(total[j]) > least else zero
            square = sum_of_squares[j] + derivative * derivative
            sum_of_squares[j] = square
            theta[j] -= learning_rate * derivative / (np.sqrt(square) if square > zero else one)
