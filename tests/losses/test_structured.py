from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rnnparse.losses.score_gradients import TIES, WEIGHTS, hinge_weights
from rnnparse.losses.structured import (
    structured_hinge,
    structured_perceptron,
    structured_squared_hinge,
)

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
LOSSES = {
    "hinge": structured_hinge,
    "squared-hinge": structured_squared_hinge,
    "perceptron": structured_perceptron,
}
# NumPy warns of what stands where no candidate is.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
every_loss = pytest.mark.parametrize("name", LOSSES)
every_tie = pytest.mark.parametrize("tie", TIES)


def random_case(seed: int, B: int = 40, K: int = 6, dtype: str = "float64") -> Arrays:
    """Scores, costs, gold and mask; small integers make exact ties frequent.

    Entries that are no candidates hold NaN and infinities; the first rows have no candidates.
    """
    rng = np.random.default_rng(seed)
    scores = rng.integers(-52, -47, (B, K)).astype(dtype)
    costs = rng.integers(0, 3, (B, K)).astype(dtype)
    gold = rng.integers(0, K, B).astype(np.int32)
    mask = rng.random((B, K)) < 0.7
    mask[np.arange(B), gold] = True
    costs[np.arange(B), gold] = 0
    mask[:3] = False
    scores[~mask] = rng.choice([np.nan, np.inf, -np.inf], np.sum(~mask))
    costs[~mask] = rng.choice([np.nan, np.inf, -np.inf], np.sum(~mask))
    return scores, costs, gold, mask


def smooth_case(seed: int, B: int = 30, K: int = 5) -> Arrays:
    """A case without ties: the two best candidates of each row are at least 0.01 apart."""
    rng = np.random.default_rng(seed)
    scores, costs, gold, mask = random_case(seed, B, K)
    scores = np.where(mask, rng.standard_normal((B, K)), scores)
    for ranked in (scores, scores + costs):
        top = np.sort(np.where(mask, ranked, -1e9), axis=1)[3:]
        assert np.min(top[:, -1] - top[:, -2]) > 0.01
    return scores, costs, gold, mask


def brute_force(case: Arrays, name: str, tie: str) -> tuple[list[float], np.ndarray]:
    """Loss and subgradient, example by example."""
    scores, costs, gold, mask = case
    losses, weights = [], np.zeros(scores.shape)
    for i in range(len(gold)):
        margin = 0 * costs[i] if name == "perceptron" else costs[i]
        augmented = {k: scores[i, k] + margin[k] for k in np.flatnonzero(mask[i])}
        if not augmented:
            losses.append(0.0)
            continue
        best = max(augmented.values())
        losses.append(best - scores[i, gold[i]])
        tied = [k for k, s in augmented.items() if s == best]
        if tie == "gold" and gold[i] in tied:
            continue
        for k in tied if tie == "uniform" else tied[:1]:
            weights[i, k] += 1 / len(tied) if tie == "uniform" else 1
        weights[i, gold[i]] -= 1
        if name == "squared-hinge":
            weights[i] *= 2 * losses[i]
            losses[i] **= 2
    return losses, weights


def with_gradient(name: str, case: Any, tie: str, upstream: Any = 1.0) -> tuple[Any, Any, Any]:
    """Loss and its derivatives by scores and costs, weighted by `upstream` [B]."""
    scores, costs, gold, mask = case
    scores, costs = tf.convert_to_tensor(scores), tf.convert_to_tensor(costs)
    with tf.GradientTape() as tape:
        tape.watch((scores, costs))
        loss = LOSSES[name](scores, costs, gold, mask, tie)
        total = tf.reduce_sum(loss * upstream)
    return loss, *tape.gradient(total, (scores, costs), unconnected_gradients="zero")


def second_order(name: str, case: Any, tie: str, pfor: bool = True) -> tuple[Any, Any]:
    """Jacobian [B, B, K] of the losses and Hessian [B, K, B, K] of their sum, by the scores."""
    scores, costs, gold, mask = case
    scores = tf.convert_to_tensor(scores)
    with tf.GradientTape(persistent=not pfor) as outer:
        outer.watch(scores)
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(scores)
            loss = LOSSES[name](scores, costs, gold, mask, tie)
        first = inner.gradient(loss, scores)
    jacobian = inner.jacobian(loss, scores, experimental_use_pfor=pfor)
    return jacobian, outer.jacobian(first, scores, experimental_use_pfor=pfor)


def compiled(function: Any, mode: str) -> Any:
    if mode == "eager":
        return function
    return tf.function(function, jit_compile=mode == "xla", autograph=False)


@every_tie
@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_subgradient_against_brute_force(seed: int, name: str, tie: str) -> None:
    case = random_case(seed)
    upstream = np.random.default_rng(seed).standard_normal(len(case[0]))
    losses, weights = brute_force(case, name, tie)
    loss, by_scores, by_costs = with_gradient(name, case, tie, upstream)
    np.testing.assert_allclose(loss, losses)
    np.testing.assert_allclose(by_scores, upstream[:, None] * weights)
    for ours, twin in zip((losses, weights), WEIGHTS[name](*case, tie), strict=True):
        np.testing.assert_allclose(ours, twin)
    if name == "perceptron":
        assert not np.any(by_costs)
    elif tie != "gold":  # where the gold one is chosen, `weights` does not tell it from no choice
        scale = 2 * np.sqrt(losses) if name == "squared-hinge" else np.any(case[3], axis=1)
        target = np.eye(6)[case[2]] * scale[:, None]
        np.testing.assert_allclose(by_costs, upstream[:, None] * (weights + target))


@every_loss
def test_the_derivative_by_costs_follows_the_choice_of_the_gold_candidate(name: str) -> None:
    case = (np.array([[3.0, 1.0]]), np.array([[0.0, 2.0]]), [0], [[True, True]])
    _, by_scores, by_costs = with_gradient(name, case, "gold")
    assert np.array(by_scores).tolist() == [[0, 0]]
    assert np.array(by_costs).tolist() == [[float(name == "hinge"), 0]]


@every_tie
@every_loss
def test_finite_differences_away_from_ties(name: str, tie: str) -> None:
    case = smooth_case(5)
    scores, costs, gold, mask = case
    upstream = np.random.default_rng(5).standard_normal(len(gold))
    loss, by_scores, by_costs = with_gradient(name, case, tie, upstream)
    assert 0 < np.count_nonzero(loss) < len(gold) - 3
    h = 1e-4

    def difference(step: np.ndarray, what: int) -> np.ndarray:
        """Central difference in one column of scores or costs, all rows at once."""
        ends = []
        for sign in (1, -1):
            moved = [scores, costs]
            moved[what] = moved[what] + sign * step
            ends.append(np.array(LOSSES[name](*moved, gold, mask, tie)))
        return upstream * (ends[0] - ends[1]) / (2 * h)

    for k in range(scores.shape[1]):
        step = h * np.eye(scores.shape[1])[k]
        for what, derivative in enumerate((by_scores, by_costs)):
            expected = difference(step, what)
            np.testing.assert_allclose(derivative[:, k], expected, rtol=1e-6, atol=1e-10)


@every_tie
@every_loss
def test_finite_differences_of_the_gradient_away_from_ties(name: str, tie: str) -> None:
    """Products of the Hessian by scores and costs together with a random direction."""
    scores, costs, gold, mask = smooth_case(6)
    rng = np.random.default_rng(6)
    direction = [np.where(mask, rng.standard_normal(mask.shape), 0) for _ in range(2)]
    x = tf.constant(scores), tf.constant(costs)
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, *first = with_gradient(name, (*x, gold, mask), tie)
        total = tf.add_n([tf.reduce_sum(g * d) for g, d in zip(first, direction, strict=True)])
    products = tape.gradient(total, x, unconnected_gradients="zero")
    h = 1e-4

    def gradients(step: float) -> list[np.ndarray]:
        moved = [np.asarray(a + step * d) for a, d in zip(x, direction, strict=True)]
        return [np.array(g) for g in with_gradient(name, (*moved, gold, mask), tie)[1:]]

    for result, up, down in zip(products, gradients(h), gradients(-h), strict=True):
        np.testing.assert_allclose(result, (up - down) / (2 * h), rtol=1e-6, atol=1e-9)
        assert np.any(result) == (name == "squared-hinge")


@every_tie
@every_loss
@pytest.mark.parametrize("mode", ["eager", pytest.param("graph", marks=pytest.mark.slow)])
def test_jacobian_and_hessian_are_those_of_each_example(mode: str, name: str, tie: str) -> None:
    case = random_case(2, B=9, K=4)
    jacobian, hessian = compiled(lambda *c: second_order(name, c, tie), mode)(*case)
    own = np.eye(9)
    _, weights = WEIGHTS[name](*case, tie)
    np.testing.assert_allclose(jacobian, np.einsum("ij,jk->ijk", own, weights))
    w = hinge_weights(*case, tie)[1]
    expected = 2 * np.einsum("ij,ik,jl->ikjl", own, w, w) * (name == "squared-hinge")
    np.testing.assert_allclose(hessian, expected)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("hinge", marks=pytest.mark.slow),
        "squared-hinge",
        pytest.param("perceptron", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("mode", "pfor"), [("eager", False), ("graph", False), ("xla", True)])
def test_jacobian_and_hessian_in_other_modes(mode: str, pfor: bool, name: str) -> None:
    case = random_case(3, B=5, K=3)
    tie = "uniform"
    result = compiled(lambda *c: second_order(name, c, tie, pfor), mode)(*case)
    for a, b in zip(result, second_order(name, case, tie), strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize(
    ("mode", "dtype"),
    [
        ("graph", "float32"),
        pytest.param("graph", "float64", marks=pytest.mark.slow),
        ("xla", "float32"),
        pytest.param("xla", "float64", marks=pytest.mark.slow),
    ],
)
def test_graph_and_xla_are_eager(mode: str, dtype: str) -> None:
    case = random_case(1, dtype=dtype)

    def every(*case: Any) -> Any:
        return [with_gradient(name, case, tie) for name in LOSSES for tie in TIES]

    for result, expected in zip(compiled(every, mode)(*case), every(*case), strict=True):
        for a, b in zip(result, expected, strict=True):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_uniform_is_what_reduce_max_does() -> None:
    scores, costs, gold, _ = (np.nan_to_num(a, posinf=2, neginf=0) for a in random_case(0))
    scores_t = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(scores_t)
        own = tf.reduce_max(scores_t + costs, axis=1) - tf.gather(scores_t, gold, batch_dims=1)
    expected = tape.gradient(own, scores_t)
    mask = np.ones(scores.shape, bool)
    loss, by_scores, _ = with_gradient("hinge", (scores, costs, gold, mask), "uniform")
    np.testing.assert_allclose(loss, own)
    np.testing.assert_allclose(by_scores, expected)


def numbers(low: int, high: int) -> Any:
    return arrays("float64", (6, 4), elements=st.integers(low, high).map(float))


@st.composite
def convex_pairs(draw: Any) -> tuple[Arrays, np.ndarray, np.ndarray]:
    """A case with many ties, and other scores and costs; gold candidates cost nothing."""
    gold = draw(arrays("int64", 6, elements=st.integers(0, 3)))
    target = np.eye(4, dtype=bool)[gold]
    mask = draw(arrays(bool, (6, 4))) | target
    scores, other = draw(numbers(-2, 2)), draw(numbers(-3, 3))
    costs, other_costs = (np.where(target, 0, draw(numbers(0, 2))) for _ in range(2))
    return (scores, costs, gold, mask), other, other_costs


@every_tie
@every_loss
@settings(max_examples=8, deadline=None)
@given(pair=convex_pairs())
def test_the_subgradient_inequality_holds_at_ties_too(pair: Any, name: str, tie: str) -> None:
    """r(s', Δ') ≥ r(s, Δ) + g·(s' − s) + h·(Δ' − Δ), for scores and costs together."""
    (scores, costs, gold, mask), other, other_costs = pair
    loss, by_scores, by_costs = with_gradient(name, (scores, costs, gold, mask), tie)
    there = LOSSES[name](other, other_costs, gold, mask, tie)
    plane = loss + np.sum(by_scores * (other - scores) + by_costs * (other_costs - costs), axis=1)
    assert np.all(there >= plane - 1e-9)


@every_tie
@every_loss
@settings(max_examples=8, deadline=None)
@given(pair=convex_pairs())
def test_no_directional_derivative_is_below_the_subgradient(pair: Any, name: str, tie: str) -> None:
    """g·d ≤ r'(s; d); all numbers are dyadic, so that difference quotients carry no rounding."""
    (scores, costs, gold, mask), direction, _ = pair
    loss, by_scores, _ = with_gradient(name, (scores, costs, gold, mask), tie)
    t = 2.0**-20
    moved = LOSSES[name](scores + t * direction, costs, gold, mask, tie)
    slope = (moved - loss) / t
    if name == "squared-hinge":  # subtract what is of second order: r² + 2 r r' t + r'² t²
        r = np.sqrt(loss)
        slope = 2 * r * (np.sqrt(moved) - r) / t
    assert np.all(np.sum(by_scores * direction, axis=1) <= slope + 1e-9)


@every_tie
@every_loss
def test_what_is_no_candidate_does_not_matter(name: str, tie: str) -> None:
    case = random_case(4, B=8, K=4)
    scores, costs, gold, mask = case
    clean = (np.where(mask, scores, 0), np.where(mask, costs, 0), gold, mask)
    upstream = np.arange(8.0)
    results = [
        [*with_gradient(name, c, tie, upstream), *second_order(name, c, tie)] for c in (case, clean)
    ]
    for dirty, expected in zip(*results, strict=True):
        assert np.isfinite(dirty).all()
        np.testing.assert_array_equal(dirty, expected)
        assert not np.any(dirty[:3])


class Rankers(keras.Model):
    """Scores candidates by a weighted sum of their features; one such model for each loss."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(len(LOSSES) * len(TIES), use_bias=False)
        self.trackers = [keras.metrics.Mean(f"{name}, {tie}") for name in LOSSES for tie in TIES]

    def call(self, x: Any) -> Any:
        return tf.unstack(self.dense(x), axis=2)

    def train_step(self, data: Any) -> Any:
        x, (costs, gold) = data
        losses = [(loss, tie) for loss in LOSSES.values() for tie in TIES]
        means = []
        with tf.GradientTape() as tape:
            for (loss, tie), scores in zip(losses, self(x), strict=True):
                mask = tf.ones_like(scores, tf.bool)
                means.append(tf.reduce_mean(loss(scores, costs, gold, mask, tie)))
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(means, variables), variables)
        for tracker, mean in zip(self.trackers, means, strict=True):
            tracker.update_state(mean)
        return {tracker.name: tracker.result() for tracker in self.trackers}


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_loss_trains_a_keras_model(jit_compile: bool) -> None:
    """Three candidates with features; the weights must learn which feature marks the target."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((64, 3, 4)).astype(np.float32)
    gold = features[:, :, 1].argmax(axis=1).astype(np.int32)
    costs = 0.1 * (np.arange(3) != gold[:, None]).astype(np.float32)
    keras.utils.set_random_seed(0)
    model = Rankers()
    model.compile(optimizer=keras.optimizers.SGD(0.2), jit_compile=jit_compile)
    history = model.fit(features, (costs, gold), epochs=20, batch_size=16, verbose=0).history
    assert len(history) == 9
    for losses in history.values():
        assert losses[-1] < 0.1 * losses[0]
