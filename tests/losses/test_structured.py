from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.losses.objectives import TIES, hinge_weights
from rnnparse.losses.structured import structured_hinge

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def random_case(seed: int, dtype: str = "float64", ties: bool = True) -> Arrays:
    """Scores, costs, gold and mask; small integers make exact ties frequent."""
    rng = np.random.default_rng(seed)
    B, K = 40, 6
    scores = rng.integers(-2, 3, (B, K)) if ties else rng.standard_normal((B, K))
    costs = rng.integers(0, 3, (B, K)).astype(dtype)
    gold = rng.integers(0, K, B).astype(np.int32)
    mask = rng.random((B, K)) < 0.7
    mask[np.arange(B), gold] = True
    costs[np.arange(B), gold] = 0
    scores = scores.astype(dtype)
    scores[~mask] = np.nan
    mask[:3] = False
    return scores, costs, gold, mask


def brute_force(case: Arrays, tie: str) -> tuple[list[float], np.ndarray]:
    """Loss and subgradient, example by example."""
    scores, costs, gold, mask = case
    losses, weights = [], np.zeros(scores.shape)
    for i in range(len(gold)):
        augmented = {k: scores[i, k] + costs[i, k] for k in range(scores.shape[1]) if mask[i, k]}
        if not augmented:
            losses.append(0.0)
            continue
        best = max(augmented.values())
        tied = [k for k, s in augmented.items() if s == best]
        losses.append(best - scores[i, gold[i]])
        if tie == "gold" and gold[i] in tied:
            continue
        for k in tied if tie == "uniform" else tied[:1]:
            weights[i, k] += 1 / len(tied) if tie == "uniform" else 1
        weights[i, gold[i]] -= 1
    return losses, weights


def with_gradient(case: Arrays, tie: str, upstream: np.ndarray) -> tuple[Any, Any, Any]:
    scores, costs, gold, mask = case
    scores, costs = tf.convert_to_tensor(scores), tf.convert_to_tensor(costs)
    with tf.GradientTape() as tape:
        tape.watch((scores, costs))
        loss = structured_hinge(scores, costs, gold, mask, tie)
        total = tf.reduce_sum(loss * upstream)
    return loss, *tape.gradient(total, (scores, costs))


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("seed", range(4))
def test_loss_and_subgradient_against_brute_force(seed: int, tie: str) -> None:
    case = random_case(seed)
    upstream = np.random.default_rng(seed).standard_normal(len(case[0]))
    losses, weights = brute_force(case, tie)
    loss, by_scores, by_costs = with_gradient(case, tie, upstream)
    np.testing.assert_allclose(loss, losses)
    np.testing.assert_allclose(by_scores, upstream[:, None] * weights)
    target = np.eye(6)[case[2]] * case[3].any(axis=1, keepdims=True)
    if tie == "gold":
        assert np.isfinite(by_costs).all()
    else:
        np.testing.assert_allclose(by_costs, upstream[:, None] * (weights + target))
    twin_loss, twin_weights = hinge_weights(*case, tie)
    np.testing.assert_allclose(twin_loss, losses)
    np.testing.assert_allclose(twin_weights, weights)


def test_uniform_is_what_reduce_max_does() -> None:
    scores, costs, gold, _ = random_case(0)
    scores = np.nan_to_num(scores)
    scores_t = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(scores_t)
        own = tf.reduce_max(scores_t + costs, axis=1) - tf.gather(scores_t, gold, batch_dims=1)
    expected = tape.gradient(own, scores_t)
    mask = np.ones(scores.shape, bool)
    loss, by_scores, _ = with_gradient((scores, costs, gold, mask), "uniform", np.ones(len(gold)))
    np.testing.assert_allclose(loss, own)
    np.testing.assert_allclose(by_scores, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("compiled", [False, True])
def test_graph_and_xla_are_eager(dtype: str, tie: str, compiled: bool) -> None:
    case = random_case(1, dtype)
    upstream = np.ones(len(case[0]), dtype)
    step = tf.function(lambda *c: with_gradient(c, tie, upstream), jit_compile=compiled)
    for a, b in zip(step(*case), with_gradient(case, tie, upstream), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == dtype


@pytest.mark.parametrize(
    ("mode", "pfor"),
    [("eager", True), ("eager", False), ("graph", True), ("graph", False), ("xla", True)],
)
def test_jacobian_is_the_subgradient_of_each_example(mode: str, pfor: bool) -> None:
    case = random_case(2)

    def jacobian(scores: Any, costs: Any, gold: Any, mask: Any) -> Any:
        scores = tf.convert_to_tensor(scores)
        with tf.GradientTape(persistent=not pfor) as tape:
            tape.watch(scores)
            loss = structured_hinge(scores, costs, gold, mask)
        return tape.jacobian(loss, scores, experimental_use_pfor=pfor)

    if mode != "eager":
        jacobian = tf.function(jacobian, jit_compile=mode == "xla")
    rows = np.asarray(jacobian(*case))
    weights = hinge_weights(*case)[1]
    B = len(weights)
    np.testing.assert_array_equal(rows[np.arange(B), np.arange(B)], weights)
    assert np.count_nonzero(rows) == np.count_nonzero(weights)


@pytest.mark.parametrize("compiled", [None, False, True])
def test_the_second_derivative_is_zero_not_missing(compiled: bool | None) -> None:
    scores, costs, gold, mask = random_case(3)

    def second(scores: tf.Tensor, costs: tf.Tensor) -> Any:
        with tf.GradientTape() as outer:
            outer.watch((scores, costs))
            with tf.GradientTape() as inner:
                inner.watch(scores)
                loss = structured_hinge(scores, costs, gold, mask) ** 2
            first = inner.gradient(loss, scores)
        return first, *outer.gradient(first, (scores, costs))

    run = second if compiled is None else tf.function(second, jit_compile=compiled)
    first, by_scores, _ = run(tf.constant(scores), tf.constant(costs))
    loss, weights = hinge_weights(scores, costs, gold, mask)
    np.testing.assert_allclose(first, 2 * loss[:, None] * weights)
    # d/ds of Σ_k 2 r w_k is 2 w Σ_k w_k, and weights sum to zero.
    np.testing.assert_allclose(by_scores, np.zeros_like(weights), atol=1e-12)


def test_the_second_derivative_of_the_squared_hinge() -> None:
    scores = tf.constant([[1.0, 2.0, 0.0]], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(scores)
        with tf.GradientTape() as inner:
            inner.watch(scores)
            loss = structured_hinge(scores, tf.zeros_like(scores), [0], [[True] * 3]) ** 2
        first = inner.gradient(loss, scores)
    hessian = outer.jacobian(first, scores)[0, :, 0, :]
    np.testing.assert_allclose(hessian, 2 * np.outer([-1, 1, 0], [-1, 1, 0]))


def test_it_trains_a_keras_model() -> None:
    """Three candidates with features; the weights must learn which feature marks the target."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((64, 3, 4)).astype(np.float32)
    gold = features[:, :, 1].argmax(axis=1).astype(np.int32)
    costs = 0.1 * (np.arange(3) != gold[:, None]).astype(np.float32)

    class Ranker(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1, use_bias=False)
            self.tracker = keras.metrics.Mean(name="loss")

        def call(self, x: Any) -> Any:
            return self.dense(x)[..., 0]

        def train_step(self, data: Any) -> Any:
            x, (costs, gold) = data
            with tf.GradientTape() as tape:
                scores = self(x)
                mask = tf.ones_like(scores, tf.bool)
                loss = tf.reduce_mean(structured_hinge(scores, costs, gold, mask))
            variables = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result()}

    keras.utils.set_random_seed(0)
    model = Ranker()
    model.compile(optimizer=keras.optimizers.SGD(0.5))
    history = model.fit(features, (costs, gold), epochs=20, batch_size=16, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < 0.1 * losses[0]


def test_an_empty_batch_and_a_batch_without_candidates() -> None:
    for shape in ((0, 0), (0, 3), (2, 1)):
        scores = np.zeros(shape)
        gold, mask = np.zeros(shape[0], np.int32), np.zeros(shape, bool)
        loss, by_scores, _ = with_gradient((scores, scores, gold, mask), "first", np.ones(shape[0]))
        assert loss.shape == (shape[0],) and not np.any(loss) and not np.any(by_scores)
        assert hinge_weights(scores, scores, gold, mask)[0].shape == (shape[0],)


def test_an_unknown_tie_rule_is_refused() -> None:
    case = random_case(0)
    for function in (structured_hinge, hinge_weights):
        with pytest.raises(ValueError, match="first, uniform, gold"):
            function(*case, tie="last")
