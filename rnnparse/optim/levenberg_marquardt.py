"""Levenberg–Marquardt on any list of Keras variables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from rnnparse.optim.convergence import MinimizeResult, StepResult, Tolerances
from rnnparse.optim.normal_equations import Blocks, NormalEquations, check_size, normal_equations
from rnnparse.optim.tape_jacobian import TapeJacobian, is_traced

Residuals = Callable[..., Any]
Jacobian = Callable[..., Blocks]

# A reduction by a smaller part of the cost is lost in rounding.
_VISIBLE = np.finfo(np.float64).eps


class LevenbergMarquardt:
    """Minimises ½ ‖r(θ)‖² + ½ Σ l θ² over variables θ.

    A step δ solves (JᵀJ + L + μ D) δ = −(Jᵀr + L θ), J the Jacobian of r and L = diag(l), in
    float64 by Cholesky, in the smaller of parameter and residual space. D is Marquardt's scaling
    diag(JᵀJ) + L, by which the units of the parameters do not matter, or rather the largest that
    it has been, as in MINPACK: saturated units of a network would else run away. A step that
    lowers the cost is accepted; μ then falls by up to 3 where the gain ratio is good, and rises by
    up to 2 where it is poor. Else μ rises by 2, 4, 8 … until one does, as it does where the matrix
    is not positive definite. Residuals that are not finite count as a higher cost. The cost is
    that of the values as stored: variables of float32 are rounded before they are judged.

    Where r has kinks, as the hinge has, J is an element of its generalised Jacobian, and the
    method a semismooth Gauss–Newton method. With a minibatch a step fits that batch: keep μ from
    falling with `damping_range`, else each step forgets the batches before.

    Attributes:
        damping: μ for the next step.

    Args:
        variables: Keras or TensorFlow variables of any float dtype.
        damping: μ before the first step.
        damping_range: the least and the greatest μ. A step is given up above the greatest; μ is
            then as before.
        l2: l, a number, or for each variable a number or an array that broadcasts to it.
        memory_limit: bytes that the equations may take.
        chunk: residuals differentiated at once, which bounds the memory of the tape.

    Raises:
        ValueError: an argument out of range.

    Reference:
        Marquardt (1963), An Algorithm for Least-Squares Estimation of Nonlinear Parameters;
        Moré (1978), The Levenberg–Marquardt Algorithm: Implementation and Theory (for D);
        Nielsen (1999), Damping Parameter in Marquardt's Method (for μ); Madsen, Nielsen & Tingleff
        (2004), Methods for Non-Linear Least Squares Problems, algorithm 3.16.

    Example:
        >>> x = tf.Variable([-1.2, 1.0], dtype="float64")
        >>> optimizer = LevenbergMarquardt([x])
        >>> result = optimizer.minimize(lambda: [10 * (x[1] - x[0] ** 2), 1 - x[0]])
        >>> x.numpy().round(6)
        array([1., 1.])
    """

    def __init__(
        self,
        variables: Sequence[Any],
        *,
        damping: float = 1e-3,
        damping_range: tuple[float, float] = (1e-12, 1e15),
        l2: Any = 0.0,
        memory_limit: float = 4e9,
        chunk: int = 64,
    ) -> None:
        self._variables = [v.value if isinstance(v, keras.Variable) else v for v in variables]
        if not self._variables or not all(v.dtype.is_floating for v in self._variables):
            raise ValueError("needs at least one variable, and only such of a float dtype")
        if not 0 < damping_range[0] <= damping <= damping_range[1] < np.inf:
            raise ValueError(f"damping {damping} must be positive and within {damping_range}")
        self._sizes = [int(np.prod(v.shape)) for v in self._variables]
        each = list(l2) if np.iterable(l2) else [l2] * len(self._variables)
        if len(each) != len(self._variables):
            raise ValueError(f"l2 has {len(each)} weights for {len(self._variables)} variables")
        self._l2 = _flat(
            [
                np.broadcast_to(np.asarray(weight, np.float64), variable.shape)
                for weight, variable in zip(each, self._variables, strict=True)
            ]
        )
        if not np.all((self._l2 >= 0) & np.isfinite(self._l2)):
            raise ValueError("l2 must be finite and not negative")
        self._root_l2 = np.sqrt(self._l2)
        self.damping, self.damping_range = float(damping), damping_range
        self._largest = np.zeros(len(self._l2))
        self._memory_limit, self._tape = memory_limit, TapeJacobian(self._variables, chunk)

    def step(
        self,
        residuals: Residuals,
        jacobian: Jacobian | None = None,
        data: Sequence[Any] = (),
    ) -> StepResult:
        """One step, on a whole problem or on a minibatch of it.

        Args:
            residuals: gives r as a tensor or array of any shape; called with `data`. A
                `tf.function` is differentiated many times faster than another function, see
                `TapeJacobian`.
            jacobian: gives J, float [B, P], or its rows in blocks, columns in the order of the
                variables, each flattened; called with `data`. Default: by tape.
            data: arguments of the two, tensors or nests of them.

        Returns:
            What was done; where nothing was, see `Tolerances.reached` for why.

        Raises:
            ValueError: residuals or derivatives are not finite before the step, there are none,
                they depend on no variable, or the Jacobian has another shape.
            ConfigError: the equations would take more than `memory_limit`.

        Example:
            >>> @tf.function
            ... def residuals(x, y):
            ...     return model(x)[:, 0] - y
            >>> for x, y in batches:
            ...     optimizer.step(residuals, data=(x, y))
        """
        evaluate = functools.partial(residuals, *data)
        stored = [variable.numpy() for variable in self._variables]
        start = _flat(stored)
        values, cost = self._evaluate(evaluate, start)
        _check_start(values, cost)
        check_size(len(values), len(start), self._memory_limit)
        if jacobian is None:
            blocks: Blocks = self._tape.blocks(residuals, len(values), data)
        else:
            blocks = jacobian(*data)
        with np.errstate(over="ignore", invalid="ignore"):
            equations = normal_equations(blocks, values, start, self._l2, self._largest)
        self._largest = equations.largest
        accepted = False
        try:
            result = self._descend(equations, evaluate, start, cost)
            accepted = result.accepted
        finally:
            if not accepted:
                for variable, value in zip(self._variables, stored, strict=True):
                    variable.assign(value)
        return result

    def minimize(
        self,
        residuals: Residuals,
        jacobian: Jacobian | None = None,
        *,
        steps: int = 200,
        tolerances: Tolerances = Tolerances(),  # noqa: B008
    ) -> MinimizeResult:
        """Steps until a tolerance is reached.

        Args:
            residuals, jacobian: as for `step`; `residuals` is traced once, as a `tf.function`
                without AutoGraph, unless a Jacobian is given.
            steps: at most so many, at least 1.
            tolerances: when to stop.

        Raises:
            ValueError, ConfigError: as `step`.
        """
        if steps < 1:
            raise ValueError("steps must be at least 1")
        if jacobian is None and not is_traced(residuals):
            residuals = tf.function(residuals, autograph=False)
        history: list[StepResult] = []
        reason = ""
        while not reason and len(history) < steps:
            history.append(self.step(residuals, jacobian))
            reason = tolerances.reached(history[-1])
        return MinimizeResult(reason or "steps", history[-1].cost, history)

    def state(self) -> list[np.ndarray]:
        """μ [] and D [P], float64: what a checkpoint needs besides the variables."""
        return [np.array(self.damping), self._largest.copy()]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        """Go on from a `state`.

        Raises:
            ValueError: it is of an optimiser of other variables.
        """
        damping, largest = state
        if np.shape(largest) != self._largest.shape:
            raise ValueError("the state is of an optimiser of other variables")
        self.damping, self._largest = float(damping), np.array(largest, np.float64)

    def cost(self, residuals: Residuals, data: Sequence[Any] = ()) -> float:
        """½ ‖r‖² + ½ Σ l θ² at the present values; arguments as for `step`."""
        parameters = _flat([variable.numpy() for variable in self._variables])
        return self._evaluate(functools.partial(residuals, *data), parameters)[1]

    def _descend(
        self, equations: NormalEquations, residuals: Residuals, start: np.ndarray, cost: float
    ) -> StepResult:
        """Raise μ until the cost falls, or cannot be seen to fall any more."""
        tries: list[_Try] = []
        damping, growth = float(np.clip(self.damping, *self.damping_range)), 2.0
        while damping <= self.damping_range[1]:
            tries.append(self._attempt(equations, residuals, start, cost, damping))
            last = tries[-1]
            if last.cost < cost:
                factor = max(1 / 3, 1 - (2 * (cost - last.cost) / last.predicted - 1) ** 3)
                self.damping = float(np.clip(damping * factor, *self.damping_range))
                return _result(equations, cost, last, len(tries), accepted=True)
            if last.predicted <= _VISIBLE * cost:
                break
            damping, growth = damping * growth, 2 * growth
        return _result(equations, cost, tries[0], len(tries), accepted=False)

    def _attempt(
        self,
        equations: NormalEquations,
        residuals: Residuals,
        start: np.ndarray,
        cost: float,
        damping: float,
    ) -> _Try:
        """Solve for one μ and move there."""
        after = np.nan
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                step = equations.solve(damping)
            except np.linalg.LinAlgError:
                step = np.full(len(start), np.nan)
            predicted = equations.predicted(step, damping)
            root = np.sqrt(equations.scale)
            length, size = (np.sqrt(_sum_squares(root * x)) for x in (step, start))
            if predicted > _VISIBLE * cost:
                after = self._evaluate(residuals, self._move(start + step))[1]
        relative = length / size if size else np.inf
        return _Try(damping, predicted, after, float(np.sqrt(_sum_squares(step))), relative)

    def _move(self, parameters: np.ndarray) -> np.ndarray:
        """Set the variables; returns θ as they hold it."""
        parts = np.split(parameters, np.cumsum(self._sizes)[:-1])
        for variable, part in zip(self._variables, parts, strict=True):
            value = part.reshape(variable.shape).astype(variable.dtype.as_numpy_dtype)
            variable.assign(value)
            part[:] = value.ravel()
        return parameters

    def _evaluate(self, residuals: Residuals, parameters: np.ndarray) -> tuple[np.ndarray, float]:
        """r [B], and the cost."""
        values = np.asarray(residuals(), np.float64).ravel()
        return values, 0.5 * (_sum_squares(values) + _sum_squares(self._root_l2 * parameters))


class _Try(NamedTuple):
    """One value of μ; `cost` is NaN where it could not be reached."""

    damping: float
    predicted: float
    cost: float
    step_norm: float
    relative_step: float


def _check_start(residuals: np.ndarray, cost: float) -> None:
    if not len(residuals):
        raise ValueError("there are no residuals")
    if not np.isfinite(cost):
        bad = np.count_nonzero(~np.isfinite(residuals))
        raise ValueError(
            f"the cost is not finite at the start ({bad} of {len(residuals)} residuals are not); "
            "begin at another point"
        )


def _result(
    equations: NormalEquations, cost: float, found: _Try, tries: int, accepted: bool
) -> StepResult:
    # A column of zeros has a derivative of 0.
    norms = np.sqrt(np.where(equations.diagonal > 0, equations.diagonal, 1.0))
    length = float(np.sqrt(2 * cost))
    steepest = float(np.max(np.abs(equations.gradient) / norms))
    return StepResult(
        cost_before=cost,
        cost=found.cost if accepted else cost,
        accepted=accepted,
        damping=found.damping,
        gain_ratio=(cost - found.cost) / found.predicted if found.predicted else np.nan,
        predicted=found.predicted,
        step_norm=found.step_norm,
        relative_step=found.relative_step,
        gradient_norm=float(np.sqrt(_sum_squares(equations.gradient))),
        cosine=steepest / length if length else 0.0,
        tries=tries,
    )


def _sum_squares(values: np.ndarray) -> float:
    # Unlike a dot product its value, and mostly its time, do not depend on the number of threads.
    return float(np.sum(np.square(values)))


def _flat(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([value.astype(np.float64).ravel() for value in values])
