"""The fast path against full autodiff, finite differences and directional derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from rnnparse._tensorflow import tf
from rnnparse.losses.score_gradients import TIES, WEIGHTS
from rnnparse.losses.structured import (
    structured_hinge,
    structured_perceptron,
    structured_squared_hinge,
)
from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch
from rnnparse.models.cvg import CVG
from rnnparse.models.objective import loss_gradients, loss_of_scores
from rnnparse.models.parameters import Parameters
from rnnparse.models.scorer import Scorer
from rnnparse.models.su_rnn import SCORES
from tests.models.conftest import World, make_world, zeros_like
from tests.models.tied_world import tied_world

KAPPA = 0.1
KINKED = {
    "hinge": structured_hinge,
    "squared-hinge": structured_squared_hinge,
    "perceptron": structured_perceptron,
}
SMOOTH = [name for name in WEIGHTS if name not in KINKED]


def native_loss(objective: str, tie: str, scores: Any, costs: Any, gold: Any, mask: Any) -> Any:
    """The losses [B] in TensorFlow's own operations, which derive them by themselves.

    A gather gives its derivative to one candidate, reduce_max to all that tie in equal parts.
    """
    reached = tf.gather(scores, gold, batch_dims=1)
    floor = tf.where(mask, scores, -1e30)
    if objective == "mmi":
        return tf.reduce_logsumexp(floor, axis=1) - reached
    if objective == "risk":
        return tf.reduce_sum(tf.nn.softmax(floor, axis=1) * tf.where(mask, costs, 0.0), axis=1)
    augmented = floor if objective == "perceptron" else floor + costs
    best = tf.reduce_max(augmented, axis=1)
    if tie != "uniform":
        place = tf.argmax(augmented, axis=1, output_type=tf.int32)
        if tie == "gold":
            gold_ties = tf.gather(augmented, gold, batch_dims=1) == best
            place = tf.where(gold_ties, gold, place)
        best = tf.gather(augmented, place, batch_dims=1)
    return (best - reached) ** 2 if objective == "squared-hinge" else best - reached


def through_all(world: World, loss: Any) -> tuple[np.ndarray, Parameters]:
    """Losses, and the gradient of their mean through the scores of all candidates."""
    batch = world.batch()
    model = CVG(world.parameters, "tensorflow")
    with tf.GradientTape() as tape:
        scores = tf.gather(model(batch), batch.candidates)
        losses = loss(scores, KAPPA * batch.cost[batch.candidates], batch.gold, batch.mask)
        mean = tf.reduce_mean(losses)
    actual = tape.gradient(mean, [v.value for v in model.trainable_variables])
    return losses.numpy(), Parameters(*map(as_dense, actual))


def as_dense(derivative: Any) -> np.ndarray:
    return np.asarray(tf.convert_to_tensor(derivative))


def by_arrays(world: World, objective: str, tie: str) -> tuple[np.ndarray, Parameters]:
    losses, gradients = loss_gradients(world.batch(), world.parameters, objective, KAPPA, tie)
    dense = zeros_like(world.parameters)
    dense.vectors[gradients.words] = gradients.vectors
    dense.W[gradients.rows] = gradients.W
    dense.v[gradients.rows] = gradients.v
    return losses, dense


def by_model(engine: str, world: World, objective: str, tie: str) -> tuple[np.ndarray, Parameters]:
    losses, derivatives = CVG(world.parameters, engine).loss_gradients(
        world.batch(), objective, KAPPA, tie
    )
    return losses, Parameters(*map(as_dense, derivatives))


FAST = {"arrays": by_arrays, **{engine: partial(by_model, engine) for engine in SCORES}}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [make_world, tied_world])
@pytest.mark.parametrize(
    ("objective", "tie"), [*itertools.product(KINKED, TIES), *((o, "first") for o in SMOOTH)]
)
def test_the_fast_path_gives_what_full_autodiff_gives(
    objective: str, tie: str, make: Any, seed: int
) -> None:
    references = [partial(native_loss, objective, tie)]
    if objective in KINKED:
        references.append(partial(KINKED[objective], tie=tie))
    world = make(seed)
    fast = [path(world, objective, tie) for path in FAST.values()]
    assert min(float(np.abs(derivative).max()) for derivative in fast[0][1]) > 1e-3
    for reference in references:
        expected_losses, expected = through_all(world, reference)
        for losses, derivatives in fast:
            np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=1e-10)
            for a, b in zip(derivatives, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("objective", SMOOTH)
def test_no_rule_is_needed_where_there_is_no_kink(objective: str) -> None:
    world = tied_world(0)
    by_rule = [by_arrays(world, objective, tie)[1] for tie in TIES]
    for a, *others in zip(*by_rule, strict=True):
        assert all(np.array_equal(a, b) for b in others)


@pytest.mark.parametrize("objective", KINKED)
@pytest.mark.parametrize("seed", range(3))
def test_the_rules_differ_in_every_variable_of_a_tied_world(seed: int, objective: str) -> None:
    world = tied_world(seed)
    by_rule = {tie: by_arrays(world, objective, tie)[1] for tie in TIES}
    for one, other in itertools.combinations(TIES, 2):
        for a, b in zip(by_rule[one], by_rule[other], strict=True):
            # Where the target ties, the squared hinge is 0 and has a derivative, which is 0.
            alike = objective == "squared-hinge" and "uniform" not in (one, other)
            assert np.abs(a - b).max() > 1e-3 or alike


def candidates(batch: LevelBatch) -> list[np.ndarray]:
    """Each sentence's candidates, numbered through the batch."""
    return [row[mask] for row, mask in zip(batch.candidates, batch.mask, strict=True)]


def augmented(objective: str, batch: LevelBatch, weights: Parameters) -> np.ndarray:
    """What the maximum is taken of, for all candidates: [T]."""
    scores = Scorer(weights).scores(batch)
    return scores if objective == "perceptron" else scores + KAPPA * batch.cost


def tied_candidates(objective: str, batch: LevelBatch, weights: Parameters) -> list[np.ndarray]:
    """Each sentence's candidates that reach the maximum."""
    scores = augmented(objective, batch, weights)
    return [own[scores[own] == scores[own].max()] for own in candidates(batch)]


def differentiated(objective: str, tie: str, world: World) -> set[int]:
    """The candidates whose derivative a rule takes: those it weights more or less than 0."""
    batch = world.batch()
    chosen: set[int] = set()
    tied = tied_candidates(objective, batch, world.parameters)
    for gold, among in zip(batch.candidates[range(len(tied)), batch.gold], tied, strict=True):
        follow = set(among.tolist())
        if tie == "first":
            follow = {int(among[0])}
        elif tie == "gold":
            follow = {int(gold)} if gold in follow else {int(among[0])}
        chosen |= follow | {int(gold)} if follow != {int(gold)} else set()
    return chosen


def below(batch: LevelBatch, candidates: set[int]) -> set[int]:
    """The nodes of some trees, words too."""
    nodes: set[int] = set()
    stack = [int(batch.root[t]) for t in candidates]
    while stack:
        node = stack.pop()
        if node >= 0 and node not in nodes:
            nodes.add(node)
            stack += [int(batch.left[node]), int(batch.right[node])]
    return nodes


@pytest.mark.parametrize("make", [make_world, tied_world])
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("objective", ["hinge", "perceptron"])
def test_two_trees_of_an_example_are_differentiated_or_all_that_tie(
    objective: str, tie: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(0)
    batch = world.batch()
    trees = differentiated(objective, tie, world)
    _, weights = loss_of_scores(
        batch, Scorer(world.parameters).scores(batch), objective, KAPPA, tie
    )
    assert set(np.flatnonzero(weights).tolist()) == trees
    most = max(len(trees.intersection(own.tolist())) for own in candidates(batch))
    assert most > 3 if tie == "uniform" and make is tied_world else most == 2

    counts = []
    monkeypatch.setitem(SCORES, "tensorflow", counting(SCORES["tensorflow"], counts))
    by_model("tensorflow", world, objective, tie)
    assert counts[1:] == [(len(trees), len(below(batch, trees)))]


def counting(engine: Any, counts: list[tuple[int, int]]) -> Any:
    """An engine that notes how many trees and nodes it is given."""

    def count(batch: LevelBatch, *arguments: Any) -> Any:
        counts.append((len(batch.root), len(batch.key)))
        return engine(batch, *arguments)

    return count


@pytest.mark.parametrize("make", [make_world, tied_world])
@pytest.mark.parametrize("tie", TIES)
def test_the_kernel_reads_no_node_outside_these_trees(
    tie: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(0)
    batch = world.batch()
    inside = below(batch, differentiated("hinge", tie, world))
    outside = np.array(sorted(set(range(len(batch.words), len(batch.key))) - inside))
    expected = by_arrays(world, "hinge", tie)[1]
    backward = kernels.backward

    def poisoned(*arguments: Any) -> Any:
        vectors = arguments[7]
        vectors[outside] = np.nan
        return backward(*arguments)

    monkeypatch.setattr(kernels, "backward", poisoned)
    assert len(outside) > len(batch.key) // 4
    for a, b in zip(by_arrays(world, "hinge", tie)[1], expected, strict=True):
        np.testing.assert_array_equal(a, b)


DEFINITIONS: dict[str, Callable[[np.ndarray, np.ndarray, int], float]] = {
    "hinge": lambda s, cost, gold: max(s + cost) - s[gold],
    "squared-hinge": lambda s, cost, gold: (max(s + cost) - s[gold]) ** 2,
    "perceptron": lambda s, cost, gold: max(s) - s[gold],
    "mmi": lambda s, cost, gold: -np.log(np.exp(s[gold]) / sum(np.exp(s))),
    "risk": lambda s, cost, gold: sum(np.exp(s) * cost) / sum(np.exp(s)),
}


def reference_loss(objective: str, batch: LevelBatch, weights: Parameters) -> float:
    """The mean loss, sentence by sentence, from the definitions."""
    scores = Scorer(weights).scores(batch)
    losses = [
        DEFINITIONS[objective](scores[own], KAPPA * batch.cost[own], gold)
        for own, gold in zip(candidates(batch), batch.gold, strict=True)
    ]
    return float(np.mean(losses))


def moved(weights: Parameters, direction: Parameters, step: float) -> Parameters:
    return Parameters(*(a + step * d for a, d in zip(weights, direction, strict=True)))


def places(world: World, name: str, count: int) -> Iterator[tuple[int, ...]]:
    """Entries of a variable, all of rows that the batch uses."""
    rng = np.random.default_rng(0)
    batch = world.batch()
    used = batch.words if name == "vectors" else batch.rows
    shape = getattr(world.parameters, name).shape
    for _ in range(count):
        yield (int(rng.choice(used)), *(int(rng.integers(size)) for size in shape[1:]))


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("objective", WEIGHTS)
def test_finite_differences_agree_away_from_ties(objective: str, seed: int) -> None:
    world = make_world(seed)
    batch, weights = world.batch(), world.parameters
    assert gap(objective, batch, weights) > 1e-3
    paths = [path(world, objective, "first")[1] for path in FAST.values()]
    for name in Parameters._fields:
        checked = 0
        for place in places(world, name, 60):
            direction = zeros_like(weights)
            getattr(direction, name)[place] = 1.0
            ends = [
                reference_loss(objective, batch, moved(weights, direction, step))
                for step in (1e-5, -1e-5)
            ]
            numeric = (ends[0] - ends[1]) / 2e-5
            for derivatives in paths:
                # Values of about 1 are rounded to 1e-16, their quotient to some 1e-11.
                assert getattr(derivatives, name)[place] == pytest.approx(
                    numeric, rel=1e-6, abs=5e-11
                )
            checked += abs(numeric) > 1e-4
        assert checked > 10


def gap(objective: str, batch: LevelBatch, weights: Parameters) -> float:
    """By how much the best candidate of each sentence leads at least."""
    scores = augmented(objective, batch, weights)
    ordered = [np.sort(scores[own]) for own in candidates(batch) if len(own) > 1]
    return float(min(s[-1] - s[-2] for s in ordered))


def directional_derivative(
    objective: str, batch: LevelBatch, weights: Parameters, direction: Parameters
) -> float:
    """J'(θ; d) by Danskin's theorem: along d the steepest of the tied candidates decides.

    The scores themselves are smooth, so that central differences give their slopes.
    """
    ends = [Scorer(moved(weights, direction, step)).scores(batch) for step in (1e-5, -1e-5)]
    slopes = (ends[0] - ends[1]) / 2e-5
    scores = augmented(objective, batch, weights)
    targets = batch.candidates[range(len(batch.gold)), batch.gold]
    actual = []
    for gold, tied in zip(targets, tied_candidates(objective, batch, weights), strict=True):
        slope = slopes[tied].max() - slopes[gold]
        # The target has no margin.
        outer = 2 * (scores[tied[0]] - scores[gold]) if objective == "squared-hinge" else 1.0
        actual.append(outer * slope)
    return float(np.mean(actual))


def directions(weights: Parameters, count: int, seed: int) -> Iterator[Parameters]:
    """Random unit directions: in all variables, then in each alone."""
    rng = np.random.default_rng(seed)
    for kept in (Parameters._fields, ("vectors",), ("W",), ("v",)):
        for _ in range(count):
            parts = {
                name: rng.standard_normal(array.shape) * (name in kept)
                for name, array in weights._asdict().items()
            }
            norm = np.sqrt(sum(np.sum(part**2) for part in parts.values()))
            yield Parameters(**{name: part / norm for name, part in parts.items()})


@pytest.mark.parametrize("objective", KINKED)
@pytest.mark.parametrize("seed", range(3))
def test_at_ties_no_direction_falls_faster_than_the_subgradient_says(
    seed: int, objective: str
) -> None:
    """J'(θ; d) ≥ g · d for all d, in W and the word vectors too: J is a maximum of smooth parts."""
    world = tied_world(seed)
    batch, weights = world.batch(), world.parameters
    actual = [by_arrays(world, objective, tie)[1] for tie in TIES]
    here = reference_loss(objective, batch, weights)
    strict = np.zeros(len(TIES), int)
    for direction in directions(weights, 12, seed):
        slope = directional_derivative(objective, batch, weights, direction)
        step = 1e-6
        quotient = (reference_loss(objective, batch, moved(weights, direction, step)) - here) / step
        assert quotient == pytest.approx(slope, abs=1e-5)
        for i, g in enumerate(actual):
            along = sum(float(np.sum(a * d)) for a, d in zip(g, direction, strict=True))
            assert slope >= along - 1e-9
            strict[i] += slope > along + 1e-3
    assert np.all(strict > 10)
