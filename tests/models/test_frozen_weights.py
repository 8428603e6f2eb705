"""Frozen weights of the network: found by name, not differentiated, not in the L2 term."""

from __future__ import annotations

import numpy as np
import pytest

from rnnparse.errors import ConfigError
from rnnparse.models.cvg import CVG
from rnnparse.models.frozen_weights import NOTHING, FrozenWeights, check_fields, find_frozen
from rnnparse.models.objective import loss_gradients, loss_gradients_at
from tests.models.conftest import World, make_world

NAMES = {
    "vectors": ("UNK", "the", "cat"),
    "W": ("<rare>", "NP", "NP,PP", "NP,VP", "VP,NP"),
    "v": ("<rare>", "NP", "NP,PP", "NP,VP", "VP,NP"),
}


def test_patterns_name_variables_and_rows() -> None:
    frozen = find_frozen(["vectors", "W:NP,*", "W:VP,NP", "v:<rare>"], NAMES)
    assert frozen.variables == {"vectors"}
    assert {name: rows.tolist() for name, rows in frozen.rows.items()} == {
        "W": [2, 3, 4],
        "v": [0],
    }
    assert find_frozen([], NAMES) == NOTHING
    assert find_frozen(["W:*"], NAMES).variables == {"W"}
    assert find_frozen(["[Wv]:NP"], NAMES).rows.keys() == {"W", "v"}


def test_patterns_that_mean_nothing_are_errors() -> None:
    for patterns, message in (
        (["vektors"], r"no variable matches 'vektors'; did you mean vectors\?"),
        (["W:PP,*"], r"no row of W matches 'PP,\*'"),
        (["*"], "none can be trained"),
        (["vectors", "W", "v:*"], "none can be trained"),
    ):
        with pytest.raises(ConfigError, match=message):
            find_frozen(patterns, NAMES)
    with pytest.raises(ConfigError, match="no variable matches 'U'"):
        check_fields(["W:NP", "U:NP"])
    with pytest.raises(ConfigError, match="none can be trained"):
        check_fields(["vectors", "[Wv]:*"])
    assert check_fields(["vectors", "v:*", "W:NP"]).variables == {"vectors", "v"}
    assert find_frozen(["W:PP,*"], NAMES, strict=False) == NOTHING


@pytest.mark.parametrize("learned", [["v"], ["W"], ["vectors"], ["W", "v"], ["vectors", "v"]])
@pytest.mark.parametrize("objective", ["hinge", "mmi"])
def test_what_is_left_out_changes_nothing_else(
    world: World, learned: list[str], objective: str
) -> None:
    batch, weights = world.batch(), world.parameters
    loss, whole = loss_gradients(batch, weights, objective)
    leaves = weights.vectors[batch.words]
    same, part = loss_gradients_at(batch, leaves, weights.W, weights.v, objective, learned=learned)
    np.testing.assert_array_equal(same, loss)
    for name in learned:
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name))
    for name in {"W", "vectors"} - set(learned):
        assert not len(getattr(part, name))


@pytest.mark.parametrize("engine", ["numba", "tensorflow"])
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("frozen", [{"vectors"}, {"W"}, {"vectors", "W"}, {"vectors", "v"}])
def test_a_model_differentiates_what_it_trains(engine: str, l2: float, frozen: set[str]) -> None:
    world = make_world(2)
    model = CVG(world.parameters, engine)
    batch = world.batch()
    whole = dict(zip(("vectors", "W", "v"), model.loss_gradients(batch, l2=l2)[1], strict=True))
    model.freeze(FrozenWeights(frozenset(frozen), {}))
    assert {v.name for v in model.trainable_variables} == whole.keys() - frozen
    _, derivatives = model.loss_gradients(batch, l2=l2)
    assert len(derivatives) == 3 - len(frozen)
    for variable, derivative in zip(model.trainable_variables, derivatives, strict=True):
        np.testing.assert_allclose(
            dense(derivative, variable.shape),
            dense(whole[variable.name], variable.shape),
            atol=1e-12,
        )


def dense(derivative: object, shape: tuple[int, ...]) -> np.ndarray:
    """A derivative, slices or not, as an array."""
    if not hasattr(derivative, "indices"):
        return np.asarray(derivative)
    array = np.zeros(shape)
    np.add.at(array, np.asarray(derivative.indices), np.asarray(derivative.values))
    return array


def test_the_l2_term_is_over_what_is_trained(world: World) -> None:
    model = CVG(world.parameters)
    W, v = world.parameters.W, world.parameters.v
    assert model.penalty(0.2) == pytest.approx(0.1 * ((W**2).sum() + (v**2).sum()))
    model.freeze(FrozenWeights(frozenset({"v"}), {"W": np.array([0, 2], np.int32)}))
    rest = np.delete(W, [0, 2], axis=0)
    assert model.penalty(0.2) == pytest.approx(0.1 * (rest**2).sum())
    np.testing.assert_array_equal(model.parameters().W, W)
