"""Damped normal equations of least squares, in the smaller of parameter and residual space.

A step δ of Levenberg–Marquardt minimises ½ ‖r + J δ‖² + ½ Σ l (θ + δ)² + ½ μ Σ D δ², that is

    (JᵀJ + L + μ D) δ = −g,      g = Jᵀr + L θ,      L = diag(l)

for B residuals r, P parameters θ and a weight l of an L2 term for each parameter, which acts as a
residual √l θ without being one. D is the largest diag(JᵀJ) + L of all points so far. All in
float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from rnnparse.errors import ConfigError

Blocks = np.ndarray | Iterable[np.ndarray]

_COLUMNS = 4096  # of the Jacobian that are scaled at once
_ROWS = 512  # of the Jacobian that are multiplied at once, or more


class NormalEquations:
    """The equations at one point, to be solved for any damping.

    Attributes:
        gradient: g [P], of ½ ‖r‖² + ½ Σ l θ².
        diagonal: diag(JᵀJ) + L [P].
        largest: D [P].
        scale: D, but 1 where D is 0, so that the system is positive definite. Such a parameter
            has no influence on the residuals and is not in the L2 term; its step is 0.
    """

    gradient: np.ndarray
    diagonal: np.ndarray
    largest: np.ndarray
    scale: np.ndarray

    def _set_scale(self, diagonal: np.ndarray, before: np.ndarray) -> None:
        bad = np.count_nonzero(~np.isfinite(diagonal))
        if bad:
            raise ValueError(
                f"the Jacobian is not finite: it holds NaN or infinite derivatives by {bad} of "
                f"{len(diagonal)} parameters"
            )
        self.diagonal = diagonal
        self.largest = np.maximum(diagonal, before)
        self.scale = np.where(self.largest > np.finfo(np.float64).tiny, self.largest, 1.0)

    def solve(self, damping: float) -> np.ndarray:
        """The step δ [P] for μ > 0.

        Raises:
            numpy.linalg.LinAlgError: the matrix is not positive definite to working precision.
        """
        raise NotImplementedError

    def predicted(self, step: np.ndarray, damping: float) -> float:
        """By how much the linear model says that a step from `solve` lowers the cost, ≥ 0.

        Equal to ½ δᵀ(μ D δ − g), which unlike the difference of two costs does not cancel.
        """
        return 0.5 * float(np.sum(step * (damping * self.scale * step - self.gradient)))


class ParameterSpace(NormalEquations):
    """[P, P], for P ≤ B: JᵀJ is summed up block by block, so that J is never held as a whole.

    The matrix is scaled to a diagonal of at most 1, so that its condition does not depend on the
    parameters' units.

    Args:
        blocks: J [B, P], or its rows in blocks [b, P].
        residuals: r [B].
        parameters: θ [P].
        l2: l [P].
        before: `largest` of the point before; zeros at the first one.

    Raises:
        ValueError: the blocks do not make up a [B, P], or hold numbers that are not finite.
    """

    def __init__(
        self,
        blocks: Blocks,
        residuals: np.ndarray,
        parameters: np.ndarray,
        l2: np.ndarray,
        before: np.ndarray,
    ) -> None:
        count = len(parameters)
        self._matrix = np.zeros((count, count))
        self.gradient = l2 * parameters
        row = 0
        for block in _merged(_checked(blocks, len(residuals), count)):
            self._matrix += block.T @ block
            self.gradient += block.T @ residuals[row : row + len(block)]
            row += len(block)
        diagonal = np.einsum("ii->i", self._matrix)
        diagonal += l2
        self._set_scale(diagonal.copy(), before)
        self._root = np.sqrt(self.scale)
        self._matrix /= self._root
        self._matrix /= self._root[:, None]

    def solve(self, damping: float) -> np.ndarray:
        damped = self._matrix.copy()
        np.einsum("ii->i", damped)[:] += damping
        return -_solve_positive(damped, self.gradient / self._root) / self._root


class ResidualSpace(NormalEquations):
    """[B, B], for B < P, by the identity of Woodbury.

    With E = L + μ D and K = J E^-½ the step is δ = −E⁻¹ (L θ + Jᵀw), where
    (I + K Kᵀ) w = r − J E⁻¹ L θ. Arguments and errors as for `ParameterSpace`.
    """

    def __init__(
        self,
        blocks: Blocks,
        residuals: np.ndarray,
        parameters: np.ndarray,
        l2: np.ndarray,
        before: np.ndarray,
    ) -> None:
        self._jacobian = np.empty((len(residuals), len(parameters)))
        row = 0
        for block in _checked(blocks, *self._jacobian.shape):
            self._jacobian[row : row + len(block)] = block
            row += len(block)
        self._residuals, self._l2, self._shrinkage = residuals, l2, l2 * parameters
        self.gradient = self._jacobian.T @ residuals + self._shrinkage
        squares = np.einsum("bp,bp->p", self._jacobian, self._jacobian)
        self._set_scale(squares + l2, before)

    def solve(self, damping: float) -> np.ndarray:
        weight = self._l2 + damping * self.scale
        matrix = np.eye(len(self._residuals))
        for start in range(0, len(weight), _COLUMNS):
            part = slice(start, start + _COLUMNS)
            scaled = self._jacobian[:, part] / np.sqrt(weight[part])
            matrix += scaled @ scaled.T
        right = self._residuals - self._jacobian @ (self._shrinkage / weight)
        solution = _solve_positive(matrix, right)
        return -(self._shrinkage + self._jacobian.T @ solution) / weight


def normal_equations(
    blocks: Blocks,
    residuals: np.ndarray,
    parameters: np.ndarray,
    l2: np.ndarray,
    before: np.ndarray,
) -> NormalEquations:
    """The equations in the smaller space; arguments and errors as for `ParameterSpace`.

    Example:
        >>> jacobian, residuals = np.array([[2.0], [0.0]]), np.array([4.0, 1.0])
        >>> zero = np.zeros(1)
        >>> equations = normal_equations(jacobian, residuals, zero, zero, zero)
        >>> equations.solve(1.0).round(9)
        array([-1.])
    """
    space = ParameterSpace if len(parameters) <= len(residuals) else ResidualSpace
    return space(blocks, residuals, parameters, l2, before)


def check_size(residuals: int, parameters: int, limit: float) -> None:
    """Refuse equations that take more memory than wanted, before any of it is taken.

    Args:
        residuals: B.
        parameters: P.
        limit: in bytes.

    Raises:
        ConfigError: with the sizes, and what to do.
    """
    side = min(residuals, parameters)
    # The matrix, its damped copy, the same for TensorFlow, and the Cholesky factor.
    need = 8 * 4 * side**2
    if residuals < parameters:
        need += 8 * residuals * (parameters + _COLUMNS)
    if need > limit:
        raise ConfigError(
            f"Levenberg–Marquardt on {residuals:,} residuals and {parameters:,} parameters needs "
            f"{need / 1e9:,.1f} GB (a Jacobian of {8 * residuals * parameters / 1e9:,.1f} GB, "
            f"normal equations of {8 * side**2 / 1e9:,.1f} GB), more than the memory limit of "
            f"{limit / 1e9:,.1f} GB: take fewer residuals at once (a minibatch), freeze some of "
            "the variables, or raise the limit"
        )


def _checked(blocks: Blocks, residuals: int, parameters: int) -> Iterator[np.ndarray]:
    found = 0
    for block in [blocks] if hasattr(blocks, "shape") else blocks:
        block = np.asarray(block, np.float64)
        if block.ndim != 2 or block.shape[1] != parameters:
            raise ValueError(f"a Jacobian of shape {block.shape}, but {parameters} parameters")
        found += len(block)
        if found > residuals:
            break
        yield block
    if found != residuals:
        raise ValueError(f"a Jacobian of {found} rows, but {residuals} residuals")


def _merged(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Blocks of some size, as many small products take longer than a large one."""
    waiting: list[np.ndarray] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= _ROWS:
            yield np.concatenate(waiting) if len(waiting) > 1 else block
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


def _solve_positive(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    # TensorFlow's, as LAPACK's loses most of its time where its threads have to share cores.
    with tf.device("CPU"):
        try:
            factor = tf.linalg.cholesky(matrix)
            solution = np.asarray(tf.linalg.cholesky_solve(factor, right[:, None]))[:, 0]
        except tf.errors.InvalidArgumentError:  # by some versions; others fill in NaN
            solution = np.full(1, np.nan)
    if not np.isfinite(solution).all():
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return solution
