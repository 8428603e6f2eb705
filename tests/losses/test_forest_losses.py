"""Losses over shared forests against the enumeration of all trees, node by node."""

from __future__ import annotations

import doctest
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import logsumexp, softmax

from rnnparse.losses import forest as module
from rnnparse.losses.external import check_external
from rnnparse.losses.forest import (
    conditional_log_likelihood,
    expected_risk,
    node_posteriors,
    tree_scores,
)
from rnnparse.losses.score_gradients import WEIGHTS
from rnnparse.losses.structured import structured_hinge
from rnnparse.models.batch import LevelBatch, pad_batch
from tests.models.conftest import make_world

SEEDS = range(4)


def random_dag(seed: int) -> SimpleNamespace:
    """A forest in which anything shares anything: a node may be both children of another, occur
    many times in a tree, be the root of several candidates, of several sentences.
    """
    rng = np.random.default_rng(seed)
    N, leaves, T, B, K = 16, 4, 10, 6, 5
    left = [-1] * leaves + [int(rng.integers(node)) for node in range(leaves, N)]
    right = [-1] * leaves + [int(rng.integers(-1, min(node, 8))) for node in range(leaves, N)]
    mask = rng.random((B, K)) < 0.6
    mask[0], mask[1] = False, np.arange(K) == 2
    mask[2:, 1] = True
    gold = [int(rng.choice(np.flatnonzero(row))) if row.any() else 0 for row in mask]
    candidates = np.where(mask, rng.integers(T, size=(B, K)), 10**6)
    return SimpleNamespace(
        left=np.array(left),
        right=np.array(right),
        root=rng.integers(N, size=T),
        candidates=candidates,
        mask=mask,
        gold=np.array(gold),
        cost=rng.integers(0, 4, T).astype(float),
    )


FORESTS = {f"dag {seed}": random_dag(seed) for seed in SEEDS}
FORESTS |= {f"sentences {seed}": make_world(seed).batch() for seed in SEEDS}
every_forest = pytest.mark.parametrize("name", FORESTS)
some_forests = pytest.mark.parametrize("name", ["dag 1", "dag 2", "sentences 3"])


def nodes_of(forest: Any, node: int) -> list[int]:
    """The nodes of the tree below, each as often as it occurs."""
    below = [child for child in (forest.left[node], forest.right[node]) if child >= 0]
    return [node] + [inner for child in below for inner in nodes_of(forest, int(child))]


def counts(forest: Any) -> np.ndarray:
    """How often each candidate [T] has each node [N]."""
    table = np.zeros((len(forest.root), len(forest.left)))
    for t, root in enumerate(forest.root):
        for node in nodes_of(forest, int(root)):
            table[t, node] += 1
    return table


def by_enumeration(
    forest: Any, scores: np.ndarray, costs: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Losses [B] and their derivatives by the scores of the nodes [B, N], sentence by sentence."""
    B, N, table = len(forest.gold), len(forest.left), counts(forest)
    results = {name: (np.zeros(B), np.zeros((B, N))) for name in ("mmi", "risk")}
    for i in range(B):
        trees = forest.candidates[i, forest.mask[i]]
        if not len(trees):
            continue
        totals = np.array([sum(scores[n] for n in nodes_of(forest, forest.root[t])) for t in trees])
        gold, p = forest.candidates[i, forest.gold[i]], softmax(totals)
        target = totals[np.flatnonzero(forest.mask[i]).tolist().index(forest.gold[i])]
        results["mmi"][0][i] = logsumexp(totals) - target
        results["mmi"][1][i] = p @ table[trees] - table[gold]
        risk = p @ costs[trees]
        results["risk"][0][i] = risk
        results["risk"][1][i] = (p * (costs[trees] - risk)) @ table[trees]
    return results


def loss_of(kind: str, scores: Any, forest: Any, costs: Any) -> Any:
    if kind == "mmi":
        return conditional_log_likelihood(scores, forest)
    return expected_risk(scores, forest, costs)


def with_gradient(
    kind: str, scores: Any, forest: Any, costs: Any, upstream: Any
) -> tuple[Any, Any]:
    scores = tf.convert_to_tensor(scores)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        loss = loss_of(kind, scores, forest, costs)
        total = tf.reduce_sum(loss * upstream)
    return loss, tape.gradient(total, scores)


def case(name: str, scale: float = 1.0) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """A forest, scores of its nodes, costs, and an upstream gradient."""
    forest = FORESTS[name]
    rng = np.random.default_rng(len(name))
    scores = scale * rng.standard_normal(len(forest.left))
    return forest, scores, 0.3 * forest.cost, rng.standard_normal(len(forest.gold))


@pytest.mark.parametrize("kind", ["mmi", "risk"])
@pytest.mark.parametrize("graph", [False, True])
@every_forest
def test_losses_and_derivatives_are_those_of_enumeration(name: str, graph: bool, kind: str) -> None:
    forest, scores, costs, upstream = case(name)
    losses, derivatives = by_enumeration(forest, scores, costs)[kind]

    def run() -> Any:
        return with_gradient(kind, scores, forest, costs, upstream)

    loss, gradient = (tf.function(run) if graph else run)()
    np.testing.assert_allclose(loss, losses, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradient, upstream @ derivatives, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["mmi", "risk"])
@some_forests
def test_derivatives_are_those_of_finite_differences(name: str, kind: str) -> None:
    forest, scores, costs, upstream = case(name)

    @tf.function
    def graph(scores: Any) -> Any:
        loss, gradient = with_gradient(kind, scores, forest, costs, upstream)
        return tf.reduce_sum(loss * upstream), gradient

    def fn(scores: np.ndarray) -> tuple[Any, Any]:
        return graph(tf.constant(scores))

    report = check_external(fn, scores)
    assert report.relative_error < 1e-6 and not report.kinks


@pytest.mark.parametrize("kind", ["mmi", "risk"])
@every_forest
def test_derivatives_are_those_of_tensorflow(name: str, kind: str) -> None:
    forest, scores, costs, upstream = case(name)
    places = np.where(forest.mask, forest.candidates, 0)
    x = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(x)
        table = tf.gather(tf.linalg.matvec(counts(forest), x), places)
        table = tf.where(forest.mask, table, -1e300)
        if kind == "mmi":
            reached = tf.gather(table, forest.gold, batch_dims=1)
            own = tf.reduce_logsumexp(table, axis=1) - reached
        else:
            own = tf.reduce_sum(tf.nn.softmax(table) * costs[places], axis=1)
        own = tf.where(forest.mask.any(axis=1), own, 0)
        total = tf.reduce_sum(own * upstream)
    loss, gradient = with_gradient(kind, scores, forest, costs, upstream)
    np.testing.assert_allclose(loss, own, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradient, tape.gradient(total, x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["mmi", "risk"])
@every_forest
def test_they_are_the_objectives_of_the_scores_of_trees(name: str, kind: str) -> None:
    forest, scores, costs, _ = case(name)
    table = np.asarray(tree_scores(scores, forest))
    of_candidates = costs[np.where(forest.mask, forest.candidates, 0)]
    losses, _ = WEIGHTS[kind](table, of_candidates, forest.gold, forest.mask)
    np.testing.assert_allclose(loss_of(kind, scores, forest, costs), losses)


@every_forest
def test_tree_scores_are_linear_with_all_derivatives(name: str) -> None:
    forest, scores, _, _ = case(name)
    table = counts(forest)[np.where(forest.mask, forest.candidates, 0)] * forest.mask[..., None]
    np.testing.assert_allclose(tree_scores(scores, forest), table @ scores, atol=1e-12)
    x = tf.constant(scores)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            total = tf.reduce_sum(tree_scores(x, forest) ** 2)
        first = inner.gradient(total, x)
        weighted = tf.reduce_sum(first * tf.sin(x))
    flat = table.reshape(-1, len(scores))
    np.testing.assert_allclose(first, 2 * flat.T @ flat @ scores, atol=1e-9)
    expected = 2 * flat.T @ flat @ np.sin(scores) + np.cos(scores) * first
    np.testing.assert_allclose(outer.gradient(weighted, x), expected, atol=1e-9)


@every_forest
def test_posteriors_are_those_of_enumeration(name: str) -> None:
    forest, scores, costs, _ = case(name)
    some = forest.mask.any(axis=1)
    target = forest.candidates[np.arange(len(some)), forest.gold][some]
    denominator = by_enumeration(forest, scores, costs)["mmi"][1].sum(axis=0)
    expected = denominator + counts(forest)[target].sum(axis=0)
    posteriors = node_posteriors(scores.astype(np.float32), forest)
    assert posteriors.dtype == np.float64
    np.testing.assert_allclose(posteriors, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(node_posteriors(scores, forest), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["mmi", "risk"])
@pytest.mark.parametrize("scale", [1e4, -1e4])
@every_forest
def test_huge_scores_neither_overflow_nor_lose_the_rest(name: str, scale: float, kind: str) -> None:
    forest, scores, costs, upstream = case(name)
    scores = scores + scale * (np.arange(len(scores)) % 3 == 0)
    losses, derivatives = by_enumeration(forest, scores, costs)[kind]
    loss, gradient = with_gradient(kind, scores, forest, costs, upstream)
    np.testing.assert_allclose(loss, losses, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, upstream @ derivatives, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["mmi", "risk"])
def test_single_precision_keeps_small_differences_between_large_totals(kind: str) -> None:
    """Two trees share a node whose score swamps in float32 what tells them apart."""
    left, right = [-1, -1, -1, 0, 0], [-1, -1, -1, 1, 2]
    columns = dict(candidates=[[0, 1]], mask=[[True, True]], gold=[0])
    two = SimpleNamespace(left=left, right=right, root=[3, 4], **columns)
    scores = np.array([1e7, 0.25, 0.75, 0, 0], np.float32)
    loss, gradient = with_gradient(kind, scores, two, [0.0, 1.0], [1.0])
    assert loss.dtype == gradient.dtype == "float32"
    p = softmax([0.25, 0.75])
    np.testing.assert_allclose(loss, [-np.log(p[0]) if kind == "mmi" else p[1]], rtol=1e-6)
    slope = p[1] if kind == "mmi" else p[0] * p[1]
    np.testing.assert_allclose(gradient, slope * np.array([0, -1, 1, -1, 1]), atol=1e-7)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("kind", ["mmi", "risk"])
def test_a_jacobian_has_the_derivative_of_each_sentence(kind: str, graph: bool) -> None:
    forest, scores, costs, _ = case("dag 1")

    def jacobian(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loss_of(kind, x, forest, costs)
        return tape.jacobian(loss, x)

    rows = (tf.function(jacobian) if graph else jacobian)(tf.constant(scores))
    expected = by_enumeration(forest, scores, costs)[kind][1]
    np.testing.assert_allclose(rows, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("padded", [False, True])
def test_a_batch_of_tensors_within_a_graph(padded: bool) -> None:
    forest, scores, costs, _ = case("sentences 2")
    batch = forest
    if padded:
        batch = pad_batch(forest, width=4)
        words, gap = len(forest.words), len(batch.words) - len(forest.words)
        filled = np.full(len(batch.left), 1e9)
        filled[:words] = scores[:words]
        filled[words + gap :][: len(scores) - words] = scores[words:]
        scores, costs = filled, 0.3 * batch.cost

    @tf.function(reduce_retracing=True)
    def run(scores: Any, batch: LevelBatch, costs: Any) -> Any:
        return conditional_log_likelihood(scores, batch), expected_risk(scores, batch, costs)

    expected = by_enumeration(*case("sentences 2")[:3])
    for loss, kind in zip(run(scores, batch, costs), ("mmi", "risk"), strict=True):
        B = len(forest.gold)
        np.testing.assert_allclose(loss[:B], expected[kind][0], rtol=1e-10)
        assert not np.any(loss[B:])


@pytest.mark.parametrize("kind", ["mmi", "risk"])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_batches_without_candidates_have_no_loss(shape: tuple[int, int], kind: str) -> None:
    none = np.zeros(0, np.int32)
    for nodes in (0, 4):
        children = np.full(nodes, -1)
        places, mask = np.zeros(shape, np.int32), np.zeros(shape, bool)
        gold = np.zeros(shape[0], np.int32)
        empty = SimpleNamespace(
            left=children, right=children, root=none, candidates=places, mask=mask, gold=gold
        )
        loss, gradient = with_gradient(kind, np.ones(nodes), empty, np.zeros(0), np.ones(shape[0]))
        np.testing.assert_array_equal(loss, np.zeros(shape[0]))
        np.testing.assert_array_equal(gradient, np.zeros(nodes))
        np.testing.assert_array_equal(node_posteriors(np.ones(nodes), empty), np.zeros(nodes))


def test_a_sentence_with_one_candidate_has_nothing_to_learn() -> None:
    forest, scores, costs, _ = case("dag 0")
    only = np.arange(len(forest.gold)) == 1
    loss, gradient = with_gradient("mmi", scores, forest, costs, only.astype(float))
    assert loss[1] == 0 and not np.any(gradient)
    loss, gradient = with_gradient("risk", scores, forest, costs, only.astype(float))
    assert loss[1] == costs[forest.candidates[1, 2]] and not np.any(gradient)


def test_scores_of_trees_go_into_other_losses() -> None:
    forest, scores, costs, _ = case("dag 3")
    table = tree_scores(scores, forest)
    of_candidates = costs[np.where(forest.mask, forest.candidates, 0)]
    weights = WEIGHTS["hinge"](np.asarray(table), of_candidates, forest.gold, forest.mask)[1]
    x = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = structured_hinge(tree_scores(x, forest), of_candidates, forest.gold, forest.mask)
    chosen = weights[forest.mask] @ counts(forest)[forest.candidates[forest.mask]]
    np.testing.assert_allclose(tape.gradient(loss, x), chosen, atol=1e-12)


def test_the_gold_trees_become_likely_and_the_risk_small() -> None:
    forest, *_ = case("sentences 1")
    features = np.eye(len(forest.left), dtype=np.float32)
    for kind in ("mmi", "risk"):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Dense(1, use_bias=False)])
        optimizer = keras.optimizers.Adam(0.1)
        losses = []
        for _ in range(40):
            with tf.GradientTape() as tape:
                scores = model(features)[:, 0]
                loss = tf.reduce_mean(loss_of(kind, scores, forest, 0.1 * forest.cost))
            optimizer.apply(
                tape.gradient(loss, model.trainable_variables), model.trainable_variables
            )
            losses.append(float(loss))
        assert losses[-1] < 0.3 * losses[0]


def test_the_message_of_xla_says_what_to_do() -> None:
    forest, scores, _, _ = case("dag 0")
    compiled = tf.function(lambda: conditional_log_likelihood(scores, forest), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs_jit_compile_False"):
        compiled()


def test_the_example_of_the_docstring() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
