"""Telemetry of a training run: its numbers, that it changes nothing, its files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse._tensorflow import tf
from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.losses.score_gradients import WEIGHTS
from rnnparse.models.cvg import CVG
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.parameters import Parameters
from rnnparse.models.scorer import Scorer
from rnnparse.training.checkpoint import TrainingState, load_state, save_state
from rnnparse.training.training_step import GradientStep
from tests.training.problems import COUNT, problem, run, small_config, train_network
from tests.training.runs import logs, model_bytes, write_treebank
from tests.training.runs import run as run_all

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.losses.structured import structured_hinge  # isort: skip

def without_seconds(state: TrainingState) -> list[dict[str, Any]]:
    return [{**entry, "seconds": 0} for entry in state.history]


def assert_same(one: TrainingState, other: TrainingState) -> None:
    assert without_seconds(one) == without_seconds(other)
    for which in ("parameters", "mean", "best", "optimizer"):
        for a, b in zip(getattr(one, which), getattr(other, which), strict=True):
            np.testing.assert_array_equal(a, b)


# -- numbers -----------------------------------------------------------------------------------


def plain_epoch(config: TrainingConfig) -> tuple[list[dict[str, Any]], Parameters]:
    """The first epoch's updates by a tape over all candidates, and the weights after it.

    Each holds loss, objective, violated share, the dense gradient and the weights before it.
    """
    store, model = problem().store, CVG(problem().initial, "tensorflow")
    step = GradientStep(CVG(problem().initial, config.engine), config)
    order = np.random.default_rng([config.seed, 1, 0]).permutation(len(store))
    records = []
    for start in range(0, len(order), config.batch_size):
        batch = store.batch(order[start : start + config.batch_size])
        before = step.model.parameters()
        for name, value in before._asdict().items():
            getattr(model, name).assign(value)
        variables = {name: getattr(model, name).value for name in ("vectors", "W", "v")}
        with tf.GradientTape() as tape:
            scores = tf.gather(model(batch), batch.candidates)
            costs = tf.cast(config.kappa * tf.gather(batch.cost, batch.candidates), scores.dtype)
            hinges = structured_hinge(scores, costs, batch.gold, batch.mask, config.tie)
            squares = tf.reduce_sum(variables["W"] ** 2) + tf.reduce_sum(variables["v"] ** 2)
            objective = tf.reduce_mean(hinges) + 0.5 * config.l2 * squares
        gradients = tape.gradient(objective, variables)
        records.append(
            {
                "loss": float(tf.reduce_mean(hinges)),
                "objective": float(objective),
                "violated": float((hinges.numpy() > 0).mean()),
                "before": before,
                "gradients": {n: tf.convert_to_tensor(g).numpy() for n, g in gradients.items()},
            }
        )
        step(batch)
    return records, step.model.parameters()


@pytest.mark.parametrize(
    "settings",
    [
        {"l2": 0.01},
        {"l2": 0.0},
        {"l2": 0.0, "optimizer": "adam", "learning_rate": 0.01},
        {"l2": 0.01, "engine": "tensorflow"},
        {"l2": 0.0, "engine": "tensorflow"},
    ],
)
def test_a_record_is_what_a_plain_loop_counts(settings: dict[str, Any]) -> None:
    config = small_config(telemetry=True, **settings)
    updates, last = plain_epoch(config)
    (record,) = run(config, epochs=1).telemetry
    assert record["epoch"] == 1 and list(record["groups"]) == ["vectors", "W", "v"]
    for quantity in ("loss", "objective", "violated"):
        expected = [update[quantity] for update in updates]
        np.testing.assert_allclose(record["updates"][quantity], expected, rtol=1e-5)
    weights = [*(update["before"] for update in updates), last]
    for name, group in record["groups"].items():
        series, gradients = group["updates"], [update["gradients"][name] for update in updates]
        norms = [np.linalg.norm(gradient) for gradient in gradients]
        np.testing.assert_allclose(series["gradient_norm"], norms, rtol=1e-4)
        zeros = [np.mean(gradient == 0) for gradient in gradients]
        np.testing.assert_allclose(series["zero_share"], zeros, rtol=1e-4)
        values = [getattr(parameters, name).astype(np.float64) for parameters in weights]
        sizes = np.array([np.linalg.norm(value) for value in values[:-1]])
        steps = np.array([np.linalg.norm(b - a) for a, b in pairwise(values)])
        np.testing.assert_allclose(series["weight_norm"], sizes, rtol=1e-5)
        np.testing.assert_allclose(series["update_norm"], steps, rtol=1e-4)
        np.testing.assert_allclose(series["update_ratio"], steps / sizes, rtol=1e-4)
        touched = np.any([g.reshape(len(g), -1).any(axis=1) for g in gradients], axis=0)
        assert group["dead_rows"] == (~touched).sum()
        assert sum(group["histogram"]["counts"]) == group["size"] == values[0].size
        assert group["nonfinite_gradients"] == 0


@pytest.mark.parametrize("objective", ["hinge", "mmi"])
def test_dead_words_occur_but_have_no_gradient(objective: str) -> None:
    """All scores tie, and there is no margin: the hinge gives no word a gradient."""
    store, (vectors, W, v) = problem().store, problem().initial
    unheard = np.ones((3, vectors.shape[1]), np.float32)
    start = Parameters(np.vstack([vectors, unheard]), W, 0 * v if objective == "hinge" else v)
    config = small_config(telemetry=True, objective=objective, kappa=0.0, tie="gold", l2=0.0)
    state = train_network(start, store, None, config, epochs=1)
    words = state.telemetry[0]["groups"]["vectors"]
    assert words["absent_rows"] == 3
    assert words["dead_rows"] == (len(vectors) if objective == "hinge" else 0)
    assert (words["zero_share"]["max"] == 1.0) == (objective == "hinge")


def sample_record(parameters: Parameters, config: TrainingConfig) -> dict[str, Any]:
    """Activations and the sample's numbers, by a walk through the trees with a weight."""
    store, scorer = problem().store, Scorer(parameters)
    batch = store.batch(np.arange(COUNT))
    vectors = scorer.node_vectors(batch)[len(batch.words) :]
    saturated = np.abs(vectors) > 0.99
    scores = scorer.scores(batch)[batch.candidates]
    costs = (config.kappa * batch.cost).astype(scores.dtype)[batch.candidates]
    losses, weights = WEIGHTS[config.objective](
        scores, costs, batch.gold, batch.mask, config.tie
    )
    reached: set[int] = set()
    todo = batch.root[batch.candidates[weights != 0]].tolist()
    while todo:
        node = todo.pop()
        if node not in reached and batch.left[node] >= 0:
            reached.add(node)
            todo += [child for child in (batch.left[node], batch.right[node]) if child >= 0]
    return {
        "saturated": saturated.mean(),
        "dead_units": int(saturated.all(axis=0).sum()),
        "magnitude": np.abs(vectors).mean(),
        "loss": losses.mean(),
        "violated": (losses > 0).mean(),
        "nodes": len(vectors),
        "differentiated": len(reached),
    }


@pytest.mark.parametrize("objective", ["hinge", "mmi"])
def test_activations_are_those_of_the_sample_after_the_epoch(objective: str) -> None:
    config = small_config(telemetry=True, objective=objective, learning_rate=0.5, averaging=False)
    state = run(config, epochs=1)
    (record,) = state.telemetry
    expected = sample_record(state.parameters, config)
    nodes, sample = record["activations"]["nodes"], record["sample"]
    assert nodes["saturated"] > 0.01  # the rate is high
    for quantity in ("saturated", "dead_units", "magnitude"):
        assert nodes[quantity] == pytest.approx(expected[quantity], rel=1e-4)
    assert nodes["observations"] == sample["nodes"] == expected["nodes"]
    assert (nodes["units"], sample["sentences"]) == (5, COUNT)
    assert sample["differentiated"] == expected["differentiated"]
    assert sample["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    if objective == "hinge":
        assert 0 < sample["differentiated"] < sample["nodes"]
        assert sample["violated"] == pytest.approx(expected["violated"])
    else:
        assert sample["differentiated"] > 0.9 * sample["nodes"]  # a probability may be 0
        assert "violated" not in sample and "violated" not in record["updates"]


# -- frozen weights ----------------------------------------------------------------------------


def test_frozen_variables_are_not_observed() -> None:
    config = small_config(telemetry=True, freeze=("vectors", "W"), freeze_epochs=1)
    first, second = run(config, epochs=2).telemetry
    assert list(first["groups"]) == ["v"]
    assert list(second["groups"]) == ["vectors", "W", "v"]
    assert first["updates"]["weight_norm"] == first["groups"]["v"]["updates"]["weight_norm"]


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_frozen_rows_have_no_gradient(optimizer: str) -> None:
    pattern = f"W:{problem().category_pairs.names[1]}"
    frozen = problem().frozen([pattern]).rows["W"]
    config = small_config(
        telemetry=True, freeze=(pattern,), l2=0.1, optimizer=optimizer, learning_rate=0.01
    )
    state = run(config, epochs=1)
    (record,) = state.telemetry
    group = record["groups"]["W"]
    assert len(frozen) and group["dead_rows"] == len(frozen)
    # A single batch: the objective before its step is that of the start.
    whole = run(small_config(telemetry=True, freeze=(pattern,), l2=0.1, batch_size=COUNT), epochs=1)
    (record,) = whole.telemetry
    model = CVG(problem().initial)
    model.freeze(problem().frozen([pattern]))
    expected = record["updates"]["loss"][0] + model.penalty(0.1)
    assert record["updates"]["objective"] == [pytest.approx(expected, rel=1e-5)]


# -- nothing is changed ------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["numba", "tensorflow"])
@pytest.mark.parametrize("settings", [{}, {"l2": 0.0}, {"optimizer": "adam", "l2": 0.0}])
def test_training_is_the_same_to_the_bit(engine: str, settings: dict[str, Any]) -> None:
    without = run(small_config(engine=engine, **settings), epochs=2)
    observed = run(small_config(engine=engine, telemetry=True, **settings), epochs=2)
    assert_same(without, observed)
    assert without.telemetry == [] and len(observed.telemetry) == 2


def test_a_run_that_diverges_is_recorded() -> None:
    """Adam's first step of 1e30 on each weight makes scores that are not finite."""
    config = small_config(telemetry=True, optimizer="adam", learning_rate=1e30, l2=0.0)
    with np.errstate(all="ignore"):
        records = run(config, epochs=2).telemetry
    text = json.dumps(records, allow_nan=False)
    assert json.loads(text) == records
    groups = [group for record in records for group in record["groups"].values()]
    counts = [group["nonfinite_gradients"] + group["histogram"]["nonfinite"] for group in groups]
    assert max(counts) > 0


def test_a_resumed_run_has_the_same_telemetry(tmp_path: Path) -> None:
    config = small_config(telemetry=True)
    whole = run(config, epochs=3)
    file = tmp_path / "state.npz"
    run(config, epochs=1, on_epoch=lambda state: save_state(file, state, "key"))
    state = load_state(file, "key", problem().initial)
    assert state is not None and len(state.telemetry) == 1
    resumed = run(config, epochs=3, state=state)
    assert_same(resumed, whole)
    assert resumed.telemetry == whole.telemetry
    assert [record["epoch"] for record in whole.telemetry] == [1, 2, 3]


def test_the_sample_is_a_part_of_a_large_treebank(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[np.ndarray] = []
    batch = ForestDataset.batch

    def keep(store: ForestDataset, sentences: Any) -> Any:
        chosen.append(np.asarray(sentences))
        return batch(store, sentences)

    monkeypatch.setattr("rnnparse.training.network_telemetry.SAMPLE", 7)
    monkeypatch.setattr(ForestDataset, "batch", keep)
    samples = []
    for seed in (0, 0, 1):
        chosen.clear()
        state = run(small_config(telemetry=True, seed=seed), epochs=1)
        assert state.telemetry[0]["sample"]["sentences"] == 7
        samples.append(chosen[0].tolist())
    assert samples[0] == samples[1] != samples[2]
    assert len(set(samples[0])) == 7 and set(samples[0]) < set(range(COUNT))


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"folds": 2}])
def test_the_model_folder_has_a_line_an_epoch(tmp_path: Path, settings: dict[str, Any]) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 20)
    report = run_all(tmp_path / "with", treebank=treebank, telemetry=True, **settings)
    run_all(tmp_path / "without", treebank=treebank, **settings)
    recorded, plain = (logs(tmp_path / which / "model") for which in ("with", "without"))
    names = ["telemetry"] + [f"telemetry-fold-{i + 1}" for i in range(settings.get("folds", 0))]
    assert set(recorded) - set(plain) == {f"{name}.jsonl" for name in names}
    for name in names:
        curve = name.replace("telemetry-", "").replace("telemetry", "network")
        epochs = [entry["epoch"] for entry in recorded[f"{curve}.jsonl"]]
        assert [record["epoch"] for record in recorded[f"{name}.jsonl"]] == epochs
    assert {name: recorded[name] for name in plain} == plain
    assert model_bytes(tmp_path / "with" / "model") == model_bytes(tmp_path / "without" / "model")
    assert "telemetry" not in json.dumps(report.to_dict()["history"])


def test_scalars_and_histograms_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    board, treebank = tmp_path / "board", write_treebank(tmp_path / "train.mrg", 20)
    run_all(tmp_path, treebank=treebank, telemetry=True, tensorboard=board)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(board / "network"))
    events.Reload()

    def points(tag: str) -> list[Any]:
        return [tensor_util.make_ndarray(e.tensor_proto) for e in events.Tensors(tag)]

    records = logs(tmp_path / "model")["telemetry.jsonl"]
    for tag, member, quantity in (
        ("update_ratio/W", "groups", "update_ratio"),
        ("zero_share/vectors", "groups", "zero_share"),
        ("dead_rows/vectors", "groups", "dead_rows"),
        ("saturated/nodes", "activations", "saturated"),
    ):
        values = [record[member][tag.partition("/")[2]][quantity] for record in records]
        values = [value["mean"] if isinstance(value, dict) else value for value in values]
        np.testing.assert_allclose(np.array(points(tag), float), values, rtol=1e-5)
    shown = [record["sample"]["differentiated"] for record in records]
    assert [int(value) for value in points("sample/differentiated")] == shown
    tags = events.summary_metadata
    for tag, histogram in (
        ("weights/W", records[-1]["groups"]["W"]["histogram"]),
        ("activations/nodes", records[-1]["activations"]["nodes"]["histogram"]),
    ):
        assert tags[tag].plugin_data.plugin_name == "histograms"
        buckets = points(tag)[-1]
        np.testing.assert_array_equal(buckets[:, 2], histogram["counts"])
        np.testing.assert_allclose(buckets[:, 0], histogram["edges"][:-1])


@pytest.mark.parametrize("place", ["board", "board/deeper", "run"])
def test_a_tensorboard_folder_that_cannot_be_made_is_one_line(tmp_path: Path, place: str) -> None:
    """Known before anything is read: the treebank does not exist either."""
    pytest.importorskip("tensorboard")
    (tmp_path / "board").write_text("a file")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "network").write_text("a file")
    settings: dict[str, Any] = {"treebank": write_treebank(tmp_path / "train.mrg", 12)}
    if place != "run":
        settings["treebank"] = str(tmp_path / "none.mrg")
    with pytest.raises(ConfigError, match=f"TensorBoard to .*{place}.*: ") as caught:
        run_all(tmp_path, tensorboard=tmp_path / place, **settings)
    assert "\n" not in str(caught.value)
