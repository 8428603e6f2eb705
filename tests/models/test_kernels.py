from __future__ import annotations

import numpy as np
import pytest

from rnnparse.array_invariants import trusted
from rnnparse.inference.forest import Forest
from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.objective import loss_gradients
from rnnparse.models.parameters import Parameters
from rnnparse.models.scorer import Scorer
from tests.models.conftest import World, make_world, zeros_like
from tests.models.random_forest import single_trees
from tests.models.reference import tree_score


def all_derivatives(
    batch: LevelBatch, weights: Parameters, upstream: np.ndarray, compact: bool = False
) -> Parameters:
    """Dense derivatives of Σ upstream · score."""
    structure = (batch.rows, batch.key, batch.left, batch.right)
    leaves = weights.vectors[batch.words]
    vectors, _ = kernels.forward(leaves, weights.W, weights.v, *structure)
    used, W, v, words = kernels.backward(
        weights.W, weights.v, *structure, batch.root, vectors, len(leaves), upstream, compact
    )
    dense = zeros_like(weights)
    dense.vectors[batch.words] = words
    dense.W[batch.rows[used]] = W
    dense.v[batch.rows[used]] = v
    return dense


@pytest.mark.parametrize("seed", range(3))
def test_scores_agree_with_the_equations_node_by_node(seed: int) -> None:
    world = make_world(seed)
    scores = Scorer(world.parameters).scores(world.batch())
    expected = [
        tree_score(forest, k, rows, world.category_pairs, world.parameters)
        for forest, rows in zip(world.forests, world.rows, strict=True)
        for k in range(len(forest.root))
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shared_subtrees_score_as_separate_trees_to_the_bit(dtype: str) -> None:
    world = make_world(1, dtype)
    scorer = Scorer(world.parameters)
    shared = scorer.scores(world.batch())
    trees = [
        (t, r) for f, r in zip(world.forests, world.rows, strict=True) for t in single_trees(f)
    ]
    apart = ForestDataset.from_forests(*zip(*trees, strict=True), world.category_pairs)
    assert np.array_equal(scorer.scores(apart.batch(range(len(trees)))), shared)
    assert shared.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(3))
def test_a_forest_alone_scores_as_in_a_batch_to_the_bit(dtype: str, seed: int) -> None:
    world = make_world(seed, dtype)
    scorer = Scorer(world.parameters)
    alone = [
        scorer.forest_scores(forest, rows, world.category_pairs)
        for forest, rows in zip(world.forests, world.rows, strict=True)
    ]
    assert np.array_equal(np.concatenate(alone), scorer.scores(world.batch()))
    assert {scores.dtype for scores in alone} == {np.dtype(dtype)}


def test_pairs_without_weights_of_their_own_share_a_row() -> None:
    world = make_world(0)
    nothing = CategoryPairs(world.category_pairs.categories, np.empty((0, 2), np.int32))
    for forest, rows in zip(world.forests, world.rows, strict=True):
        scores = Scorer(world.parameters).forest_scores(forest, rows, nothing)
        expected = [
            tree_score(forest, k, rows, nothing, world.parameters) for k in range(len(forest.root))
        ]
        np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)


def test_a_forest_that_does_not_fit_is_refused() -> None:
    world = make_world(0)
    scorer, forest, rows = Scorer(world.parameters), world.forests[0], world.rows[0]
    pairs = world.category_pairs
    with pytest.raises(ValueError, match="more words than its sentence has rows"):
        scorer.forest_scores(forest, rows[:-1], pairs)
    with pytest.raises(ValueError, match="position in a batch is out of range"):
        scorer.forest_scores(forest, rows + np.int32(1000), pairs)
    with pytest.raises(ValueError, match="does not precede its parent"):
        later = np.where(forest.left >= 0, len(forest.cat) - 1, -1).astype(np.int32)
        scorer.forest_scores(trusted(Forest, **{**vars(forest), "left": later}), rows, pairs)
    small = Parameters(*(array[: len(pairs) - 1] for array in world.parameters))
    with pytest.raises(ValueError, match="lack a row"):
        Scorer(small).forest_scores(forest, rows % len(small.vectors), pairs)


@pytest.mark.parametrize("name", ["vectors", "W", "v"])
def test_derivatives_agree_with_finite_differences(world: World, name: str) -> None:
    batch = world.batch()
    rng = np.random.default_rng(7)
    upstream = rng.standard_normal(len(batch.root))
    derivative = getattr(all_derivatives(batch, world.parameters, upstream), name)
    array = getattr(world.parameters, name)
    step = 1e-5
    checked = 0
    for place in zip(*(rng.integers(0, size, 60) for size in array.shape), strict=True):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[place] += sign * step
            scores = Scorer(world.parameters._replace(**{name: moved})).scores(batch)
            ends.append(float(upstream @ scores))
        numeric = (ends[0] - ends[1]) / (2 * step)
        assert derivative[place] == pytest.approx(numeric, rel=1e-6, abs=1e-8)
        checked += numeric != 0
    assert checked > 20


def test_inactive_nodes_are_left_out_and_change_nothing(world: World) -> None:
    batch = world.batch()
    upstream = np.zeros(len(batch.root))
    upstream[[2, 9]] = 1.0, -1.0
    whole = all_derivatives(batch, world.parameters, upstream)
    compact = all_derivatives(batch, world.parameters, upstream, compact=True)
    for a, b in zip(whole, compact, strict=True):
        assert np.array_equal(a, b)
    used = kernels.backward(
        world.parameters.W,
        world.parameters.v,
        *(batch.rows, batch.key, batch.left, batch.right, batch.root),
        np.zeros((len(batch.key), world.parameters.dim)),
        len(batch.words),
        upstream,
        True,
    )[0]
    assert 0 < len(used) < len(batch.rows)


def test_derivatives_that_cancel_at_a_root_cost_nothing(world: World) -> None:
    batch = world.batch()
    twice = batch._replace(root=batch.root[[1, 1]])
    structure = (batch.rows, batch.key, batch.left, batch.right)
    vectors = np.zeros((len(batch.key), world.parameters.dim))
    used, *_ = kernels.backward(
        *world.parameters[1:], *structure, twice.root, vectors, 3, np.array([1.0, -1.0]), True
    )
    assert len(used) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_input_gives_the_same_bytes(dtype: str) -> None:
    runs = []
    for _ in range(2):
        world = make_world(5, dtype)
        violation, gradients = loss_gradients(world.batch(), world.parameters)
        runs.append(b"".join(a.tobytes() for a in (violation, *gradients)))
    assert runs[0] == runs[1]


def test_float32_is_close_to_float64() -> None:
    exact = make_world(2)
    rough = exact.parameters._replace(
        **{k: a.astype(np.float32) for k, a in exact.parameters._asdict().items()}
    )
    batch = exact.batch()
    np.testing.assert_allclose(
        Scorer(rough).scores(batch), Scorer(exact.parameters).scores(batch), atol=1e-4
    )


def test_large_inputs_saturate_and_small_ones_stay_linear(world: World) -> None:
    """The rational tanh of the float32 kernel, over its whole range."""
    batch = world.store.batch([1])
    weights = world.parameters
    xs = np.concatenate([np.linspace(-30, 30, 1201), np.geomspace(1e-8, 1, 100)]).astype(np.float32)
    worst = 0.0
    for x in xs:
        W = np.zeros(weights.W.shape, np.float32)
        W[:, -1] = x
        vectors, _ = kernels.forward(
            weights.vectors[batch.words].astype(np.float32),
            W,
            weights.v.astype(np.float32),
            *(batch.rows, batch.key, batch.left, batch.right),
        )
        got = vectors[len(batch.words) :]
        assert np.all(np.abs(got) <= 1)
        worst = max(worst, float(np.abs(got / np.tanh(np.float64(x)) - 1).max()) if x else 0.0)
    assert worst < 1e-6


def test_a_node_of_an_unseen_key_uses_row_0(world: World) -> None:
    keys = world.category_pairs
    nothing = type(keys)(keys.categories, keys.pairs[:0])
    batch = ForestDataset.from_forests(world.forests, world.rows, nothing).batch(range(4))
    assert batch.rows.tolist() == [0]
    weights = world.parameters._replace(W=world.parameters.W[:1], v=world.parameters.v[:1])
    scores = Scorer(weights).scores(batch)
    assert scores[0] == pytest.approx(
        tree_score(world.forests[0], 0, world.rows[0], nothing, weights), rel=1e-12
    )
