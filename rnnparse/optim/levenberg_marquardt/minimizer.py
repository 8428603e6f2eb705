"""Levenberg–Marquardt on any list of Keras variables."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rnnparse._keras_compat import tensorflow_variable
from rnnparse._tensorflow import tf
from rnnparse.optim.levenberg_marquardt.bounds import Bound, Bounds
from rnnparse.optim.levenberg_marquardt.jacobian import Blocks, TapeJacobian, is_traced, real_rows
from rnnparse.optim.levenberg_marquardt.normal_equations import (
    NormalEquations,
    memory_needed,
    normal_equations,
)
from rnnparse.optim.levenberg_marquardt.results import MinimizeResult, StepResult, Tolerances
from rnnparse.optim.levenberg_marquardt.trial_step import TrialStep, check_start, report
from rnnparse.optim.levenberg_marquardt.trust_region import TrustRegion, shrinkage

Residuals = Callable[..., Any]
Jacobian = Callable[..., Blocks]

# A smaller relative reduction of the cost is lost in rounding.
_VISIBLE = np.finfo(np.float64).eps

# Of geodesic acceleration: the share of a step at which it is evaluated, the largest relative step
# to which it applies (further away a second-order term is not reliable), and the largest relative
# correction (the values of Transtrum & Sethna).
_PART, _FAR, _BENT = 0.1, 0.1, 0.75


class LevenbergMarquardt:
    """Minimizes ½ ‖r(θ)‖² + ½ Σ l θ² over variables θ, optionally within bounds.

    A step δ solves (JᵀJ + L + μ D) δ = −(Jᵀr + L θ) in float64, where J is the Jacobian of r and
    L = diag(l). For up to 128 parameters a QR decomposition of J is used, otherwise Cholesky in the
    smaller of parameter and residual space. D is Marquardt's scaling diag(JᵀJ) + L, which makes the
    units of the parameters irrelevant. As in MINPACK, it is the maximum over all points so far;
    otherwise saturated units of a network would diverge.

    μ is chosen so that the step stays within a trust region ‖√D δ‖ ≤ Δ, as in MINPACK. A step that
    lowers the cost is accepted. Δ doubles if the cost falls as predicted, and shrinks by a factor
    of two to ten if it does not. Residuals that are not finite count as a higher cost. The cost is
    evaluated for the values as stored, after rounding float32 variables.

    Steps of at most a tenth of ‖√D θ‖ are corrected by geodesic acceleration: half the second-order
    term along δ, for one more evaluation of r. In curved valleys, as networks have, this saves most
    of the steps.

    If r has kinks, as the hinge has, J is an element of its generalized Jacobian, and this is a
    semismooth Gauss–Newton method; turn the acceleration off then. On a minibatch a step fits that
    batch. Set `damping_range` to keep μ from falling, or each step forgets the previous batches.

    A parameter at a bound is held for a step if descent would cross the bound; the steps of the
    others end at their bounds. Variables that start out of bounds are moved to the nearest bound.

    The real and imaginary parts of complex residuals are separate residuals.

    Attributes:
        damping: μ of the last step.

    Args:
        variables: Keras or TensorFlow variables of any float dtype.
        damping: μ of the first step, whose length is the first Δ; None to choose it so that this
            step stays within ‖√D θ‖.
        damping_range: the minimum and maximum of μ. A step that would need a larger μ is given up,
            and the trust region is not changed.
        l2: l, a number, or for each variable a number or an array that broadcasts to it.
        bounds: for each variable None or a pair of a lower and an upper bound, each a number or an
            array that broadcasts to it; None for no bounds at all.
        acceleration: whether to use geodesic acceleration. It needs the whole J, and is omitted if
            that exceeds `memory_limit`.
        memory_limit: maximum memory of the equations in bytes.
        chunk: number of residuals to differentiate at once, which limits the memory of the tape.

    Raises:
        ValueError: an argument is out of range.

    Reference:
        Marquardt (1963), An Algorithm for Least-Squares Estimation of Nonlinear Parameters;
        Moré (1978), The Levenberg–Marquardt Algorithm: Implementation and Theory (for D and Δ);
        Nocedal & Wright (2006), Numerical Optimization, chapters 4 and 10;
        Transtrum & Sethna (2012), Improvements to the Levenberg–Marquardt Algorithm for Nonlinear
        Least-Squares Minimization, arXiv:1201.5885 (for the acceleration).

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
        damping: float | None = None,
        damping_range: tuple[float, float] = (1e-16, 1e15),
        l2: Any = 0.0,
        bounds: Sequence[Bound] | None = None,
        acceleration: bool = True,
        memory_limit: float = 4e9,
        chunk: int = 64,
    ) -> None:
        self._variables = [tensorflow_variable(variable) for variable in variables]
        if not self._variables or not all(v.dtype.is_floating for v in self._variables):
            raise ValueError("needs at least one variable, and only variables of a float dtype")
        self._cautious = damping is None
        damping = damping_range[0] if damping is None else damping
        if not 0 < damping_range[0] <= damping <= damping_range[1] < np.inf:
            raise ValueError(f"damping {damping} must be positive and within {damping_range}")
        self._sizes = [int(np.prod(v.shape)) for v in self._variables]
        self._l2 = _weights(l2, self._variables)
        self._root_l2 = np.sqrt(self._l2)
        dtypes = [v.dtype.as_numpy_dtype for v in self._variables]
        shapes = [tuple(v.shape) for v in self._variables]
        names = [getattr(v, "path", v.name) for v in variables]
        self._bounds = None if bounds is None else Bounds(bounds, names, shapes, dtypes)
        # Differences of r at a tenth of a step must be larger than the rounding of the variables.
        self._near = 1e4 * max(float(np.finfo(dtype).eps) for dtype in dtypes)
        self.damping_range = damping_range
        self._region = TrustRegion(np.inf, float(damping))
        self._largest = np.zeros(len(self._l2))
        self._values: np.ndarray | None = None  # r at the end of the last step
        self._acceleration, self._memory_limit = acceleration, memory_limit
        self._tape = TapeJacobian(self._variables, chunk)

    def __repr__(self) -> str:
        return f"LevenbergMarquardt(parameters={len(self._l2)}, damping={self.damping:.3g})"

    @property
    def damping(self) -> float:
        return self._region.damping

    def step(
        self,
        residuals: Residuals,
        jacobian: Jacobian | None = None,
        data: Sequence[Any] = (),
        *,
        fresh: bool = True,
    ) -> StepResult:
        """Take one step, on a whole problem or on a minibatch.

        Args:
            residuals: called with `data`; returns r as a tensor or array of any shape. A
                `tf.function` is differentiated many times faster than other functions, see
                `TapeJacobian`.
            jacobian: called with `data`; returns J, float [B, P], or its rows in blocks, with the
                columns in the order of the variables, each flattened. By default a tape is used.
            data: arguments of both functions, tensors or nests of them.
            fresh: whether r may have changed since the last step. False saves an evaluation if
                residuals, data and variables are unchanged.

        Returns:
            The result; `Tolerances.reached` says why a step was not possible.

        Raises:
            ValueError: there are no residuals; residuals or derivatives are not finite before the
                step, or do not depend on the variables; or the Jacobian has another shape.
            ConfigError: the equations would need more than `memory_limit`.

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
        accepted = False
        try:
            if self._bounds is not None:
                start = self._move(self._bounds.clip(start))
                stored = [variable.numpy() for variable in self._variables]
            if fresh or self._values is None:
                self._values = self._evaluate(evaluate, start)[0]
            values, cost = self._values, self._cost(self._values, start)
            check_start(values, cost)
            equations = self._equations(residuals, jacobian, data, values, start)
            result = self._descend(equations, evaluate, start, values, cost)
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
        """Take steps until a tolerance is reached.

        Args:
            residuals, jacobian: as for `step`. Without a Jacobian, `residuals` is traced once as a
                `tf.function` without AutoGraph.
            steps: maximum number of steps, at least 1.
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
            history.append(self.step(residuals, jacobian, fresh=not history))
            reason = tolerances.reached(history[-1])
        return MinimizeResult(reason or "steps", history[-1].cost, history)

    def state(self) -> list[np.ndarray]:
        """Δ [], μ [] and D [P] in float64: the state for a checkpoint, besides the variables."""
        region = self._region
        return [np.array(region.radius), np.array(region.damping), self._largest.copy()]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        """Continue from a `state`.

        Raises:
            ValueError: the state belongs to an optimizer of other variables.
        """
        if len(state) != 3 or np.shape(state[2]) != self._largest.shape:
            raise ValueError("the state belongs to an optimizer of other variables")
        radius, damping, largest = state
        self._region = TrustRegion(float(radius), float(damping))
        self._largest = np.array(largest, np.float64)

    def cost(self, residuals: Residuals, data: Sequence[Any] = ()) -> float:
        """½ ‖r‖² + ½ Σ l θ² for the current values; arguments as for `step`."""
        parameters = _flat([variable.numpy() for variable in self._variables])
        return self._evaluate(functools.partial(residuals, *data), parameters)[1]

    def _equations(
        self,
        residuals: Residuals,
        jacobian: Jacobian | None,
        data: Sequence[Any],
        values: np.ndarray,
        start: np.ndarray,
    ) -> NormalEquations:
        """The equations at θ = start, without parameters that are held at a bound."""
        need = memory_needed(len(values), len(start), self._memory_limit)
        whole = need + 8 * values.size * start.size
        keep = self._acceleration and whole <= self._memory_limit
        if jacobian is None:
            blocks: Blocks = self._tape.blocks(residuals, len(values), data)
        else:
            blocks = jacobian(*data)
        with np.errstate(over="ignore", invalid="ignore"):
            equations = normal_equations(blocks, values, start, self._l2, self._largest, keep)
        self._largest = equations.largest
        if self._bounds is not None:
            held = self._bounds.held(start, equations.gradient)
            if held.any():
                equations.hold(held)
        return equations

    def _descend(
        self,
        equations: NormalEquations,
        residuals: Residuals,
        start: np.ndarray,
        values: np.ndarray,
        cost: float,
    ) -> StepResult:
        """Shrink the trust region until the cost falls, or cannot fall visibly any more."""
        region, size = copy.copy(self._region), equations.length(start)
        least = equations.least(self.damping_range[0])
        if np.isinf(region.radius):  # the first step ever
            first = max(least, region.damping)
            length = equations.length(region.step(equations, first)[1])
            region.radius = min(length, size) if size and self._cautious else length
            region.damping = first
        tries: list[TrialStep] = []
        while True:
            damping, step = region.step(equations, least)
            predicted = equations.predicted(step, damping)
            lost, free = predicted <= _VISIBLE * cost, damping <= least
            if lost and not free and not tries and np.isfinite(region.radius):
                region.radius *= 10  # so short a step shows nothing
                continue
            trial = TrialStep(damping, step, predicted, size)
            tries.append(trial)
            if not predicted > _VISIBLE * cost or damping > self.damping_range[1]:
                break
            self._attempt(trial, equations, residuals, start, values)
            slope = float(np.sum(equations.gradient * step))
            shrink = min(shrinkage(cost, trial.cost, slope), 0.5 ** len(tries))
            length = equations.length(step)
            region.damping = damping
            region.adapt(trial.gain(cost), length, shrink, free)
            if trial.cost < cost:
                self._region, self._values = region, trial.values
                grown = len(tries) == 1 and not free and region.radius > length
                return report(equations, cost, trial, tries, accepted=True, restricted=grown)
        return report(equations, cost, tries[0], tries, accepted=False, restricted=False)

    def _attempt(
        self,
        trial: TrialStep,
        equations: NormalEquations,
        residuals: Residuals,
        start: np.ndarray,
        values: np.ndarray,
    ) -> None:
        """Take the step, with acceleration and within the bounds, and evaluate the cost there."""
        with np.errstate(over="ignore", invalid="ignore"):
            step = trial.step
            if self._acceleration and self._near <= trial.relative(equations) <= _FAR:
                step = step + self._bend(trial, equations, residuals, start, values)
            target = start + step
            if self._bounds is not None:
                inside = self._bounds.clip(target)
                if not np.array_equal(inside, target):
                    target, trial.predicted = inside, equations.reduction(inside - start)
            trial.step = step
            trial.values, trial.cost = self._evaluate(residuals, self._move(target))
            trial.evaluations += 1

    def _bend(
        self,
        trial: TrialStep,
        equations: NormalEquations,
        residuals: Residuals,
        start: np.ndarray,
        values: np.ndarray,
    ) -> np.ndarray:
        """Half the geodesic acceleration [P], or 0 if the path bends too much for it."""
        none = np.zeros(len(start))
        if equations.jacobian is None:
            return none
        near = self._evaluate(residuals, self._move(start + _PART * trial.step))[0]
        trial.evaluations += 1
        if near.shape != values.shape or not np.isfinite(near).all():
            return none
        along = equations.jacobian @ trial.step
        second = 2 / _PART * ((near - values) / _PART - along)
        half = 0.5 * equations.correction(trial.damping, second)
        bent = 2 * equations.length(half) <= _BENT * equations.length(trial.step)
        return half if bent else none

    def _move(self, parameters: np.ndarray) -> np.ndarray:
        """Set the variables; return θ as stored."""
        parts = np.split(parameters, np.cumsum(self._sizes)[:-1])
        for variable, part in zip(self._variables, parts, strict=True):
            value = part.reshape(variable.shape).astype(variable.dtype.as_numpy_dtype)
            variable.assign(value)
            part[:] = value.ravel()
        return parameters

    def _evaluate(self, residuals: Residuals, parameters: np.ndarray) -> tuple[np.ndarray, float]:
        """r [B], and the cost."""
        values = real_rows(np.asarray(residuals()).ravel())
        return values, self._cost(values, parameters)

    def _cost(self, values: np.ndarray, parameters: np.ndarray) -> float:
        return 0.5 * (_sum_squares(values) + _sum_squares(self._root_l2 * parameters))


def _weights(l2: Any, variables: Sequence[tf.Variable]) -> np.ndarray:
    """l [P]."""
    each = list(l2) if np.iterable(l2) else [l2] * len(variables)
    if len(each) != len(variables):
        raise ValueError(f"l2 has {len(each)} weights for {len(variables)} variables")
    arrays = [
        np.broadcast_to(np.asarray(weight), variable.shape)
        for weight, variable in zip(each, variables, strict=True)
    ]
    if any(map(np.iscomplexobj, arrays)):
        raise ValueError("l2 must be real")
    weights = _flat(arrays)
    if not np.all((weights >= 0) & np.isfinite(weights)):
        raise ValueError("l2 must be finite and not negative")
    return weights


def _sum_squares(values: np.ndarray) -> float:
    # Unlike for a dot product, the value does not depend on the number of threads.
    return float(np.sum(np.square(values)))


def _flat(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([value.astype(np.float64).ravel() for value in values])
