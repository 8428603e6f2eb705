"""Damped normal equations of least squares, in the smaller of parameter and residual space.

A step δ of Levenberg–Marquardt minimises ½ ‖r + J δ‖² + ½ Σ l (θ + δ)² + ½ μ Σ D δ², that is

    (JᵀJ + L + μ D) δ = −g,      g = Jᵀr + L θ,      L = diag(l)

for B residuals r, P parameters θ and an L2 weight l for each parameter, which acts like a residual
√l θ. D is the largest diag(JᵀJ) + L of all points so far. Everything is in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from rnnparse._tensorflow import tf
from rnnparse.errors import ConfigError
from rnnparse.optim.levenberg_marquardt.jacobian import (
    Blocks,
    checked_blocks,
    merged_blocks,
    whole_jacobian,
)

_SINGULAR = 1e-9  # ratio of pivots below which rows may depend on each other
_DEPENDENT = 1e-8  # μ for such rows: rounding and μ then change the step equally
_SMALL = 128  # number of parameters up to which the QR decomposition is cheap
_COLUMNS = 4096  # of the Jacobian that are scaled at once


class NormalEquations(ABC):
    """The equations at one point, which can be solved for any damping.

    Attributes:
        gradient: g [P], of ½ ‖r‖² + ½ Σ l θ².
        diagonal: diag(JᵀJ) + L [P].
        largest: D [P].
        scale: D with 1 in place of 0, so that the system is positive definite. A parameter with
            D = 0 has no influence on the cost, and its step is 0.
        jacobian: J [B, P] if it is kept as a whole, or None.
        floor: the smallest μ for which rounding does not spoil the step.
    """

    gradient: np.ndarray
    diagonal: np.ndarray
    largest: np.ndarray
    scale: np.ndarray
    jacobian: np.ndarray | None = None
    _held: np.ndarray | None = None

    @property
    def floor(self) -> float:
        return 1e-13

    def least(self, minimum: float) -> float:
        """The smallest μ ≥ minimum for which rounding does not spoil the step."""
        return minimum if minimum >= _DEPENDENT else max(minimum, self.floor)  # this takes time

    def _set_scale(self, diagonal: np.ndarray, before: np.ndarray) -> None:
        bad = np.count_nonzero(~np.isfinite(diagonal))
        if bad:
            raise ValueError(
                f"the Jacobian is not finite: derivatives with respect to {bad} of "
                f"{len(diagonal)} parameters are NaN or infinite"
            )
        self.diagonal = diagonal
        self.largest = np.maximum(diagonal, before)
        self.scale = np.where(self.largest > np.finfo(np.float64).tiny, self.largest, 1.0)

    def solve(self, damping: float) -> np.ndarray:
        """The step δ [P] for μ > 0.

        Raises:
            numpy.linalg.LinAlgError: the matrix is not positive definite to working precision.
        """
        return self.inverse(damping, -self.gradient)

    @abstractmethod
    def inverse(self, damping: float, right: np.ndarray) -> np.ndarray:
        """As `solve`, for another right-hand side [P], a gradient of residuals and L2 terms."""

    def correction(self, damping: float, residuals: np.ndarray) -> np.ndarray:
        """−(JᵀJ + L + μ D)⁻¹ Jᵀf [P] for other residuals f [B]; needs `jacobian`."""
        assert self.jacobian is not None
        right = -(self.jacobian.T @ residuals)
        if self._held is not None:
            right[self._held] = 0
        return self.inverse(damping, right)

    @abstractmethod
    def curvature(self, step: np.ndarray) -> float:
        """δᵀ(JᵀJ + L)δ, for any δ [P]."""

    def hold(self, held: np.ndarray) -> None:
        """Set gradient and step of the parameters in `held`, bool [P], to 0 from now on."""
        self.gradient, self._held = np.where(held, 0.0, self.gradient), held
        self._drop(held)

    @abstractmethod
    def _drop(self, held: np.ndarray) -> None:
        """Set the columns of held parameters in J and L to 0."""

    def length(self, step: np.ndarray) -> float:
        """‖√D δ‖."""
        return float(np.sqrt(np.sum(self.scale * np.square(step))))

    def predicted(self, step: np.ndarray, damping: float) -> float:
        """The reduction of the cost that the linear model predicts for a step from `solve`, ≥ 0.

        Computed as ½ δᵀ(μ D δ − g), which unlike a difference of costs does not cancel.
        """
        return 0.5 * float(np.sum(step * (damping * self.scale * step - self.gradient)))

    def reduction(self, step: np.ndarray) -> float:
        """The reduction of the cost that the linear model predicts for any step."""
        return -float(np.sum(step * self.gradient)) - 0.5 * self.curvature(step)


class TriangularSpace(NormalEquations):
    """[P, P], for a small P: J = Q R by Householder reflections, block by block.

    This avoids JᵀJ, which would square the condition number. The step minimizes
    ‖R δ + Qᵀr‖² + μ Σ D δ², with L2 terms as further rows. The singular value decomposition of R,
    scaled to columns of norm at most 1, serves every damping. Arguments and errors are as for
    `ParameterSpace`.
    """

    @property
    def floor(self) -> float:
        return 1e-16

    def __init__(
        self,
        blocks: Blocks,
        residuals: np.ndarray,
        parameters: np.ndarray,
        l2: np.ndarray,
        before: np.ndarray,
    ) -> None:
        count, root = len(parameters), np.sqrt(l2)
        shrinking = np.column_stack([np.diag(root), root * parameters])[root > 0]
        self.gradient, diagonal = l2 * parameters, l2.copy()
        row, factor = 0, shrinking
        for block in merged_blocks(checked_blocks(blocks, len(residuals), count)):
            part = residuals[row : row + len(block)]
            self.gradient += block.T @ part
            diagonal += np.einsum("bp,bp->p", block, block)
            # Check this before the decomposition, which fails on NaN and infinity.
            self._set_scale(diagonal, before)
            rows = np.block([[factor], [block, part[:, None]]])
            factor = np.asarray(np.linalg.qr(rows, "r"))
            row += len(block)
        self._factor, self._right = factor[:, :count], factor[:, count]
        self._root = np.sqrt(self.scale)
        self._decompose()

    def solve(self, damping: float) -> np.ndarray:
        return self._damped(damping, -self._singular * self._rotated)

    def inverse(self, damping: float, right: np.ndarray) -> np.ndarray:
        return self._damped(damping, self._directions @ (right / self._root))

    def curvature(self, step: np.ndarray) -> float:
        return float(np.sum(np.square(self._factor @ step)))

    def _damped(self, damping: float, along: np.ndarray) -> np.ndarray:
        return self._directions.T @ (along / (self._singular**2 + damping)) / self._root

    def _drop(self, held: np.ndarray) -> None:
        self._factor[:, held] = 0
        self._decompose()

    def _decompose(self) -> None:
        scaled = self._factor / self._root
        left, self._singular, self._directions = np.linalg.svd(scaled, full_matrices=False)
        self._rotated = left.T @ self._right
        # Remove directions without influence, which rounding would amplify.
        lost = max(scaled.shape) * np.finfo(np.float64).eps * self._singular[0]
        self._directions[self._singular <= lost] = 0
        self._directions[:, ~self._factor.any(axis=0)] = 0


class ParameterSpace(NormalEquations):
    """[P, P], for P ≤ B: JᵀJ is summed block by block, without the whole J in memory.

    The matrix is scaled to a diagonal of at most 1, so its condition number does not depend on the
    parameters' units.

    Args:
        blocks: J [B, P], or its rows in blocks [b, P].
        residuals: r [B].
        parameters: θ [P].
        l2: l [P].
        before: `largest` of the previous point; zeros at the first one.

    Raises:
        ValueError: the blocks do not form a [B, P] matrix, or contain NaN or infinity.
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
        for block in merged_blocks(checked_blocks(blocks, len(residuals), count)):
            self._matrix += block.T @ block
            self.gradient += block.T @ residuals[row : row + len(block)]
            row += len(block)
        diagonal = np.einsum("ii->i", self._matrix)
        diagonal += l2
        self._set_scale(diagonal.copy(), before)
        self._root = np.sqrt(self.scale)
        self._matrix /= self._root
        self._matrix /= self._root[:, None]
        self._factor: tuple[float, Any] = (np.nan, None)

    def inverse(self, damping: float, right: np.ndarray) -> np.ndarray:
        if self._factor[0] != damping:
            damped = self._matrix.copy()
            np.einsum("ii->i", damped)[:] += damping
            self._factor = damping, _factorised(damped)
        return _solved(self._factor[1], right / self._root) / self._root

    def curvature(self, step: np.ndarray) -> float:
        scaled = self._root * step
        return float(scaled @ self._matrix @ scaled)

    def _drop(self, held: np.ndarray) -> None:
        self._matrix[held] = 0
        self._matrix[:, held] = 0
        self._factor = (np.nan, None)


class ResidualSpace(NormalEquations):
    """[B, B], for B < P, by the Woodbury identity.

    With E = L + μ D and K = J E^-½ the step is δ = −E⁻¹ (L θ + Jᵀw), where
    (I + K Kᵀ) w = r − J E⁻¹ L θ. Arguments and errors are as for `ParameterSpace`.
    """

    jacobian: np.ndarray

    def __init__(
        self,
        blocks: Blocks,
        residuals: np.ndarray,
        parameters: np.ndarray,
        l2: np.ndarray,
        before: np.ndarray,
    ) -> None:
        self.jacobian = whole_jacobian(blocks, len(residuals), len(parameters))
        self._residuals, self._l2, self._shrinkage = residuals, l2, l2 * parameters
        self.gradient = self.jacobian.T @ residuals + self._shrinkage
        squares = np.einsum("bp,bp->p", self.jacobian, self.jacobian)
        self._set_scale(squares + l2, before)
        self._factor: tuple[float, Any] = (np.nan, None)

    @property
    def floor(self) -> float:
        """Larger if the rows of J depend on each other, so that r has a part outside its range.

        The rounding error of that part enters the step, divided by μ.
        """
        least = super().floor
        try:
            pivots = np.square(np.diag(self._damped_factor(least)))
        except np.linalg.LinAlgError:
            return _DEPENDENT
        return least if pivots.min() > _SINGULAR * pivots.max() else _DEPENDENT

    def solve(self, damping: float) -> np.ndarray:
        return self._woodbury(damping, self._residuals, self._shrinkage)

    def inverse(self, damping: float, right: np.ndarray) -> np.ndarray:
        return self._woodbury(damping, np.zeros(len(self._residuals)), -right)

    def correction(self, damping: float, residuals: np.ndarray) -> np.ndarray:
        return self._woodbury(damping, residuals, np.zeros(len(self.gradient)))

    def curvature(self, step: np.ndarray) -> float:
        squares = np.sum(np.square(self.jacobian @ step))
        return float(squares + np.sum(self._l2 * np.square(step)))

    def _drop(self, held: np.ndarray) -> None:
        self.jacobian[:, held] = 0
        self._l2 = np.where(held, 0.0, self._l2)
        self._shrinkage = np.where(held, 0.0, self._shrinkage)
        self._factor = (np.nan, None)

    def _woodbury(self, damping: float, residuals: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """−(JᵀJ + E)⁻¹ (Jᵀ residuals + rest)."""
        weight = self._l2 + damping * self.scale
        right = residuals - self.jacobian @ (rest / weight)
        solution = _solved(self._damped_factor(damping), right)
        return -(rest + self.jacobian.T @ solution) / weight

    def _damped_factor(self, damping: float) -> Any:
        """The Cholesky factor of I + K Kᵀ [B, B]."""
        if self._factor[0] != damping:
            weight = self._l2 + damping * self.scale
            matrix = np.eye(len(self._residuals))
            for start in range(0, len(weight), _COLUMNS):
                part = slice(start, start + _COLUMNS)
                scaled = self.jacobian[:, part] / np.sqrt(weight[part])
                matrix += scaled @ scaled.T
            self._factor = damping, _factorised(matrix)
        return self._factor[1]


def normal_equations(
    blocks: Blocks,
    residuals: np.ndarray,
    parameters: np.ndarray,
    l2: np.ndarray,
    before: np.ndarray,
    keep: bool = False,
) -> NormalEquations:
    """The equations in the best space for their size; arguments as for `ParameterSpace`.

    Args:
        keep: whether to keep J as a whole, for `NormalEquations.correction`.

    Example:
        >>> jacobian, residuals = np.array([[2.0], [0.0]]), np.array([4.0, 1.0])
        >>> zero = np.zeros(1)
        >>> equations = normal_equations(jacobian, residuals, zero, zero, zero)
        >>> equations.solve(1.0).round(9)
        array([-1.])
    """
    space: Callable[..., NormalEquations] = ResidualSpace
    if len(parameters) <= max(_SMALL, len(residuals)):
        space = TriangularSpace if len(parameters) <= _SMALL else ParameterSpace
    if keep and space is not ResidualSpace:
        blocks = whole_jacobian(blocks, len(residuals), len(parameters))
    equations = space(blocks, residuals, parameters, l2, before)
    if keep and equations.jacobian is None:
        equations.jacobian = np.asarray(blocks)
    return equations


def memory_needed(residuals: int, parameters: int, limit: float) -> int:
    """The memory that the equations need, in bytes.

    Args:
        residuals: B.
        parameters: P.
        limit: in bytes.

    Raises:
        ConfigError: they need more than the limit; the message has the sizes and the options.
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
            f"{limit / 1e9:,.1f} GB; use fewer residuals at once (a minibatch), freeze some of "
            "the variables, or raise the limit"
        )
    return need


def _factorised(matrix: np.ndarray) -> Any:
    """The Cholesky factor; LinAlgError if the matrix is not positive definite."""
    # TensorFlow's: LAPACK's is very slow when its threads must share cores.
    with tf.device("CPU"):
        try:
            factor = tf.linalg.cholesky(matrix)
        except tf.errors.InvalidArgumentError:  # by some versions; others fill in NaN
            raise np.linalg.LinAlgError("the matrix is not positive definite") from None
    return factor


def _solved(factor: Any, right: np.ndarray) -> np.ndarray:
    with tf.device("CPU"):
        solution = np.asarray(tf.linalg.cholesky_solve(factor, right[:, None]))[:, 0]
    if not np.isfinite(solution).all():
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return solution
