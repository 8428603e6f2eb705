"""J with v alone trainable, on the lists of real trees: convex, so that its optimum can be proven.

With W and the word vectors fixed every score is linear in v: s = v · φ, where φ holds for each key
the sum of the vectors of its nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import cvxpy
import numpy as np
from scipy.sparse import csr_matrix

from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch
from rnnparse.models.cvg import CVG
from rnnparse.models.frozen_weights import FrozenWeights
from rnnparse.models.objective import loss_gradients_at
from rnnparse.models.parameters import Parameters
from rnnparse.models.scorer import Scorer
from rnnparse.optim.optimizers import make_optimizer
from rnnparse.training.prepare import Problem

KAPPA = 0.1


@dataclass(frozen=True, eq=False)
class ConvexProblem:
    """J(v) = 1/m Σ loss_i(v) + λ/2 ‖v‖² of all sentences of a training problem, in float64."""

    batch: LevelBatch
    parameters: Parameters
    l2: float

    @classmethod
    def of(cls, problem: Problem, l2: float) -> ConvexProblem:
        """Take the lists and the first W and word vectors of a training problem."""
        parameters = Parameters(*(array.astype(np.float64) for array in problem.initial))
        return cls(problem.store.batch(range(len(problem.store))), parameters, l2)

    def evaluate(
        self, v: np.ndarray, objective: str = "hinge", tie: str = "first"
    ) -> tuple[float, np.ndarray]:
        """J and the subgradient [R, n] that the library's two-tree path gives."""
        vectors, W, _ = self.parameters
        losses, gradients = loss_gradients_at(
            self.batch, vectors[self.batch.words], W, v, objective, KAPPA, tie, ("v",)
        )
        subgradient = self.l2 * v
        subgradient[gradients.rows] += gradients.v
        return float(losses.mean() + self.l2 / 2 * np.sum(v * v)), subgradient

    def scores(self, v: np.ndarray) -> np.ndarray:
        """The scores of all candidates, [T]."""
        return Scorer(self.parameters._replace(v=v)).scores(self.batch)

    @cached_property
    def owner(self) -> np.ndarray:
        """[T], the sentence of each candidate."""
        return np.nonzero(self.batch.mask)[0]

    @cached_property
    def margins(self) -> np.ndarray:
        """[T], Δ of each candidate."""
        return KAPPA * self.batch.cost

    @cached_property
    def features(self) -> csr_matrix:
        """φ of all candidates, [T, R·n]: the derivative of each score by v."""
        batch, (vectors, W, v) = self.batch, self.parameters
        structure = (batch.rows, batch.key, batch.left, batch.right)
        nodes, _ = kernels.forward(vectors[batch.words], W, v, *structure)
        columns, values = [], []
        for candidate in range(len(batch.root)):
            one = np.zeros(len(batch.root))
            one[candidate] = 1.0
            used, _, sums, _ = kernels.backward(
                W, v, *structure, batch.root, nodes, len(batch.words), one, True, False, False
            )
            columns.append(batch.rows[used][:, None] * v.shape[1] + np.arange(v.shape[1]))
            values.append(sums.ravel())
        ends = np.cumsum([0, *map(len, values)])
        entries = (np.concatenate(values), np.concatenate(columns, axis=None), ends)
        return csr_matrix(entries, shape=(len(values), v.size))

    @cached_property
    def differences(self) -> csr_matrix:
        """φ of each candidate less that of its sentence's target, [T, R·n]."""
        targets = self.batch.candidates[np.arange(len(self.batch.gold)), self.batch.gold]
        return self.features - self.features[targets[self.owner]]

    @cached_property
    def optimum(self) -> tuple[np.ndarray, float]:
        """The v [R, n] that minimises J under the hinge, and a proven lower bound of J.

        The quadratic program min 1/m Σ ξ_i + λ/2 ‖v‖² where ξ_i ≥ v · δ_ik + Δ_ik, with
        δ_ik = φ_ik − φ_i, by an interior-point solver. The bound does not rest on the solver. For
        any α_ik ≥ 0 that sum to 1/m over each sentence's candidates a mean is at most the maximum:
        J(v) ≥ Σ α_ik (v · δ_ik + Δ_ik) + λ/2 ‖v‖² ≥ Σ α_ik Δ_ik − ‖Σ α_ik δ_ik‖² / 2λ for all v.
        The solver's multipliers make it tight.
        """
        count = len(self.batch.gold)
        v, slack = cvxpy.Variable(self.parameters.v.size), cvxpy.Variable(count)
        reached = self.differences @ v + self.margins <= slack[self.owner]
        value = cvxpy.sum(slack) / count + self.l2 / 2 * cvxpy.sum_squares(v)
        cvxpy.Problem(cvxpy.Minimize(value), [reached]).solve(solver=cvxpy.CLARABEL)
        alpha = np.maximum(reached.dual_value, 0.0)
        alpha /= count * np.bincount(self.owner, alpha)[self.owner]
        mixed = self.differences.T @ alpha
        bound = float(alpha @ self.margins - mixed @ mixed / (2 * self.l2))
        return v.value.reshape(self.parameters.v.shape), bound


@dataclass(frozen=True)
class Descent:
    """What was met on the way, step by step.

    Attributes:
        values: J, [N].
        points, subgradients: v and the subgradient there, [N, R·n].
        rates: learning rates, [N].
    """

    values: np.ndarray
    points: np.ndarray
    subgradients: np.ndarray
    rates: np.ndarray

    @property
    def best(self) -> np.ndarray:
        """The least J so far, [N]."""
        return np.minimum.accumulate(self.values)


def descend(
    problem: ConvexProblem, optimizer: str, rate: Callable[[int], float], steps: int
) -> Descent:
    """Train the model from v = 0 by its own two-tree path, in full batches, W and words frozen.

    Args:
        problem: says what J is.
        optimizer: a name for `make_optimizer`.
        rate: its learning rate at the steps 1, 2, …
        steps: N.
    """
    model = CVG(problem.parameters._replace(v=np.zeros_like(problem.parameters.v)))
    model.freeze(FrozenWeights(frozenset({"vectors", "W"}), {}))
    stepper = make_optimizer(optimizer, rate(1))
    stepper.build(model.trainable_variables)
    met = []
    for step in range(1, steps + 1):
        stepper.learning_rate = rate(step)
        losses, derivatives = model.loss_gradients(problem.batch, "hinge", KAPPA, l2=problem.l2)
        value = losses.mean() + model.penalty(problem.l2)
        # Keras keeps rates in float32.
        met.append((value, model.v.value.numpy(), derivatives[0], float(stepper.learning_rate)))
        stepper.apply(derivatives, model.trainable_variables)
    values, points, subgradients, rates = map(np.array, zip(*met, strict=True))
    return Descent(values, points.reshape(steps, -1), subgradients.reshape(steps, -1), rates)
