"""Where theory can be checked: J is convex in v, so that subgradients and descents must obey it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from rnnparse.config import TrainingConfig
from rnnparse.losses.score_gradients import TIES
from rnnparse.training.data import load_clean
from rnnparse.training.prepare import make_lists, make_problem
from tests.training.convex import ConvexProblem, Descent, descend
from tests.training.problems import small_problem

CONVEX = ("hinge", "squared-hinge", "perceptron", "mmi")


@lru_cache(maxsize=1)
def embedded() -> ConvexProblem:
    """30 sentences of the embedded treebank with up to 10 candidates each."""
    return ConvexProblem.of(small_problem(30, candidates=10), l2=3e-3)


@pytest.fixture(scope="module")
def newspaper(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> ConvexProblem:
    """150 sentences of newspaper text with up to 30 candidates each."""
    trees = load_clean(str(shared / "treebanks" / "wsj-sample" / "train.mrg"))[:150]
    config = TrainingConfig(candidates=30, dim=10)
    cache = tmp_path_factory.mktemp("lists")
    lists = make_lists(trees, [], None, config, cache, n_jobs=1, progress=False)
    return ConvexProblem.of(make_problem(lists, trees, [], None, config), l2=1e-3)


def random_points(problem: ConvexProblem, count: int, seed: int) -> np.ndarray:
    """Values of v, many of them at kinks: [count, R, n].

    A tenth is 0 and a tenth nearly 0; a fifth has few weights but 0, so that trees that differ
    elsewhere tie exactly, and another fifth lies beside these; the rest is of all sizes.
    """
    rng = np.random.default_rng(seed)
    shape = problem.parameters.v.shape
    points = np.exp(rng.uniform(-5, 4, (count, 1, 1))) * rng.standard_normal((count, *shape))
    tenth = count // 10
    points[:tenth] = 0
    points[tenth : 2 * tenth] *= 1e-9
    sparse = points[2 * tenth : 4 * tenth]
    sparse[rng.random(sparse.shape[:2]) < 0.95] = 0
    points[4 * tenth : 6 * tenth] = sparse + 1e-9 * rng.standard_normal(sparse.shape)
    return points


def count_ties(problem: ConvexProblem, points: np.ndarray, objective: str) -> int:
    """Points and sentences at which several candidates reach the maximum exactly."""
    scores = np.array([problem.scores(v) for v in points])
    if objective != "perceptron":
        scores += problem.margins
    table = np.where(problem.batch.mask, scores[:, problem.batch.candidates], -np.inf)
    tied = np.sum(table == table.max(axis=2, keepdims=True), axis=2)
    return int(np.sum(tied > 1))


def gaps(
    problem: ConvexProblem,
    points: np.ndarray,
    objective: str,
    tie: str,
    follow: str | None = None,
) -> np.ndarray:
    """J(v') − J(v) − g · (v' − v) for all pairs, in units of the error that rounding may make.

    Convex functions have no entry below −1. J is a mean of sums of a few hundred products at most,
    whose terms are rounded to 1e-16 of their sizes: 1e-14 of the sizes of all parts is generous.

    Args:
        problem, points, objective, tie: say where J and its subgradients are taken.
        follow: the objective whose subgradients are taken, if not J's own.

    Returns:
        [v', v].
    """
    values, subgradients, sizes = [], [], []
    for v in points:
        value, subgradient = problem.evaluate(v, objective, tie)
        if follow is not None:
            subgradient = problem.evaluate(v, follow, tie)[1]
        size = np.abs(problem.scores(v)).max() + 1
        sizes.append(size**2 if objective == "squared-hinge" else size)
        values.append(value)
        subgradients.append(subgradient.ravel())
    v, g, J, size = points.reshape(len(points), -1), *map(np.array, (subgradients, values, sizes))
    along, parts = v @ g.T, np.abs(v) @ np.abs(g).T
    gap = J[:, None] - J - (along - np.diagonal(along))
    return gap / (1e-14 * (size[:, None] + size + J[:, None] + J + parts + np.diagonal(parts)))


def test_scores_are_linear_in_v() -> None:
    problem = embedded()
    for v in random_points(problem, 20, 0):
        scores = problem.scores(v)
        size = np.abs(scores).max()
        np.testing.assert_allclose(problem.features @ v.ravel(), scores, atol=1e-13 * size)


@pytest.mark.parametrize(
    ("objective", "tie"),
    [
        *((objective, tie) for objective in CONVEX for tie in TIES if objective != "mmi"),
        ("mmi", "first"),  # smooth, so that no rule matters
    ],
)
@pytest.mark.parametrize("l2", [0.0, pytest.param(3e-3, marks=pytest.mark.slow)])
def test_the_subgradient_inequality_holds_between_random_points(
    l2: float, objective: str, tie: str
) -> None:
    """J(v') ≥ J(v) + g · (v' − v) for all 14,400 pairs of 120 points, many of them at kinks.

    Without the L2 term, too, which would make up for many a wrong subgradient.
    """
    problem = replace(embedded(), l2=l2)
    points = random_points(problem, 120, 1)
    assert count_ties(problem, points, objective) > 500
    assert gaps(problem, points, objective, tie).min() >= -1


def test_the_inequality_fails_where_it_should() -> None:
    """For a function that is not convex, and for a maximiser found without its margin."""
    problem = replace(embedded(), l2=0.0)
    points = random_points(problem, 120, 1)
    assert gaps(problem, points, "risk", "first").min() < -1e6
    assert gaps(problem, points, "hinge", "first", follow="perceptron").min() < -1e6


def test_rules_take_different_subgradients_at_ties() -> None:
    problem = embedded()
    for v in random_points(problem, 10, 2)[[0, 2, 3]]:
        gradients = [problem.evaluate(v, "perceptron", tie)[1] for tie in TIES]
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert np.abs(gradients[one] - gradients[other]).max() > 1e-3


def check_optimum(problem: ConvexProblem) -> None:
    """The solver's v is within 1e-6 of a bound that no v goes below."""
    v, bound = problem.optimum
    least = problem.evaluate(v)[0]
    assert bound <= least <= (1 + 1e-6) * bound
    assert 0 < 1.5 * bound < problem.evaluate(np.zeros_like(v))[0]


def check_descents(problem: ConvexProblem, steps: int, scale: float, rate: float) -> None:
    """Subgradient descent with the rate c/√t, and AdaGrad, come within 1 % of the optimum.

    Args:
        problem: says what J is.
        steps: of each.
        scale: c, by trial from 10, 30 and 60.
        rate: AdaGrad's, by trial from 0.05, 0.1 and 0.2.
    """
    v, bound = problem.optimum
    least = problem.evaluate(v)[0]
    descent = descend(problem, "sgd", lambda step: scale / np.sqrt(step), steps)
    adagrad = descend(problem, "adagrad", lambda step: rate, steps)
    for met, limit in (
        (descent, descent_limit(descent, v.ravel())),
        (adagrad, adagrad_limit(adagrad, v.ravel())),
    ):
        assert met.best[-1] <= 1.01 * bound
        assert met.values.min() >= bound
        assert np.all(met.best - least <= limit)
        assert limit[-1] < 0.5 * limit[steps // 10]


def descent_limit(met: Descent, optimum: np.ndarray) -> np.ndarray:
    """(‖v_1 − v*‖² + Σ α² ‖g‖²) / (2 Σ α), which the best J − J* cannot exceed, step by step.

    Reference: Shor (1985), Minimization Methods for Non-Differentiable Functions; with G for the
    largest ‖g‖ it is the textbook's (R² + G² Σ α²) / (2 Σ α).
    """
    norms = np.sum(met.subgradients**2, axis=1)
    distance = np.sum((met.points[0] - optimum) ** 2)
    return (distance + np.cumsum(met.rates**2 * norms)) / (2 * np.cumsum(met.rates))


def adagrad_limit(met: Descent, optimum: np.ndarray) -> np.ndarray:
    """(max ‖v − v*‖∞² / 2α + α) Σ_j √(Σ g_j²) / t, which the best J − J* cannot exceed.

    Reference: Duchi et al. (2011), Adaptive Subgradient Methods, theorem 5.
    """
    rate = met.rates[0]
    farthest = np.maximum.accumulate(np.max((met.points - optimum) ** 2, axis=1))
    roots = np.sum(np.sqrt(np.cumsum(met.subgradients**2, axis=0)), axis=1)
    return (farthest / (2 * rate) + rate) * roots / np.arange(1, len(roots) + 1)


def test_a_quadratic_program_gives_the_proven_optimum() -> None:
    check_optimum(embedded())


@pytest.mark.slow
def test_descents_come_within_one_per_cent_of_the_optimum() -> None:
    check_descents(embedded(), steps=1000, scale=30.0, rate=0.1)


@pytest.mark.slow
def test_newspaper_text_obeys_the_theory(newspaper: ConvexProblem) -> None:
    points = random_points(newspaper, 50, 1)
    for objective in CONVEX:
        assert count_ties(newspaper, points, objective) > 500
        for tie in TIES:
            assert gaps(replace(newspaper, l2=0.0), points, objective, tie).min() >= -1
    check_optimum(newspaper)
    check_descents(newspaper, steps=400, scale=60.0, rate=0.1)
