"""Telemetry of steps against plain recomputation, without the parser."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rnnparse._tensorflow import keras, tf
from rnnparse.telemetry.recorder import QUANTITIES, RowGradient, Telemetry
from rnnparse.telemetry.statistics import BINS, activation_statistics, histogram

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.optim.adagrad import AdaGrad  # isort: skip


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def dense(gradient: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A gradient as an array of the variable's shape."""
    if not hasattr(gradient, "indices"):
        return np.asarray(gradient, np.float64)
    whole = np.zeros(shape)
    np.add.at(whole, np.asarray(gradient.indices), np.asarray(gradient.values, np.float64))
    return whole


def expected(gradient: Any, before: np.ndarray, after: np.ndarray) -> list[float]:
    """`QUANTITIES` of an update as a plain count gives them."""
    whole = dense(gradient, before.shape)
    step, weight = (
        np.linalg.norm(np.subtract(after, before, dtype=np.float64)),
        np.linalg.norm(before),
    )
    return [np.linalg.norm(whole), step, weight, step / weight, np.mean(whole == 0)]


def matches(record: dict[str, Any], name: str, updates: list[list[float]]) -> None:
    """The group of a record holds these updates, and their summaries."""
    group = record["groups"][name]
    for quantity, series in zip(QUANTITIES, np.transpose(updates), strict=True):
        np.testing.assert_allclose(group["updates"][quantity], series, rtol=1e-5, atol=1e-7)
        summary = [series.mean(), series.min(), np.median(series), series.max()]
        measured = [group[quantity][which] for which in ("mean", "min", "median", "max")]
        np.testing.assert_allclose(measured, summary, rtol=1e-5, atol=1e-7)


# -- numbers -----------------------------------------------------------------------------------


def gradients_of(kind: str, updates: int) -> list[Any]:
    """Gradients of a [12, 3] variable, with zeros."""
    gradients: list[Any] = []
    for seed in range(updates):
        random = np.random.default_rng(seed)
        values = random.normal(size=(12, 3)).astype("f") * (random.random((12, 3)) < 0.7)
        rows = {
            "dense": np.arange(12),
            "sparse": random.permutation(8)[:4],
            "repeated": random.integers(0, 8, 6),
        }[kind]
        gradients.append(values if kind == "dense" else RowGradient(rows, values[: len(rows)]))
    return gradients


@pytest.mark.parametrize("kind", ["dense", "sparse", "repeated"])
@pytest.mark.parametrize("lazy", [False, True])
def test_numbers_are_those_of_a_plain_count(kind: str, lazy: bool) -> None:
    weights = rng().normal(size=(12, 3)).astype("f")
    telemetry, updates, touched = Telemetry(lazy=lazy), [], np.zeros(12, bool)
    for gradient in gradients_of(kind, 5):
        telemetry.before({"weights": weights}, {"weights": gradient})
        before = weights.copy()
        weights -= 0.1 * dense(gradient, (12, 3))
        telemetry.after({"weights": weights})
        updates.append(expected(gradient, before, weights))
        touched |= (dense(gradient, (12, 3)) != 0).any(axis=1)
    record = telemetry.end_epoch()
    matches(record, "weights", updates)
    group = record["groups"]["weights"]
    assert (group["size"], group["rows"]) == (36, 12)
    assert group["dead_rows"] == (~touched).sum()
    assert group["dead_rows"] > 0 or kind == "dense"
    edges = np.linspace(weights.min(), weights.max(), BINS + 1)
    np.testing.assert_allclose(group["histogram"]["edges"], edges, rtol=1e-4, atol=1e-5)
    assert sum(group["histogram"]["counts"]) == 36


def test_norms_over_all_variables_and_given_numbers() -> None:
    variables = {"a": np.array([3.0, 0.0]), "b": np.array([[4.0]])}
    telemetry = Telemetry()
    telemetry.before(variables, {"a": np.array([1.0, 2.0]), "b": np.array([[2.0]])})
    variables["a"][:] = [3.0, 6.0]
    variables["b"][:] = 12.0
    groups = telemetry.after(variables, loss=0.25)
    telemetry.note(violated=0.5)
    assert groups["a"]["update_norm"] == 6.0 and groups["b"]["gradient_norm"] == 2.0
    assert telemetry.end_epoch(note="mine") == telemetry.records[0]
    record = telemetry.records[0]
    assert record["updates"] == {
        "gradient_norm": [3.0],
        "update_norm": [10.0],
        "weight_norm": [5.0],
        "update_ratio": [2.0],
        "loss": [0.25],
        "violated": [0.5],
    }
    assert (record["epoch"], record["note"]) == (1, "mine")


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd", "momentum", "adam"])
@pytest.mark.parametrize("sparse", [False, True])
def test_keras_variables_are_seen_before_and_after_the_step(optimizer: str, sparse: bool) -> None:
    """Also where a step changes the variable's memory in place, or rows without a gradient."""
    make = {
        "adagrad": lambda: AdaGrad(0.1),
        "sgd": lambda: keras.optimizers.SGD(0.1),
        "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        "adam": lambda: keras.optimizers.Adam(0.1),
    }
    steps, start = make[optimizer](), rng().normal(size=(12, 3)).astype("f")
    variable = keras.Variable(start, name="weights")
    names = {"weights": variable}
    lazy = Telemetry(lazy=optimizer in ("adagrad", "sgd"))
    full, updates = Telemetry(), []
    for gradient in gradients_of("repeated" if sparse else "dense", 4):
        if sparse:
            gradient = tf.IndexedSlices(gradient.values, gradient.indices, (12, 3))
        before = variable.numpy().copy()
        full.before(names, {"weights": gradient})
        lazy.before(names, {"weights": gradient})
        steps.apply([gradient], [variable])
        full.after(names)
        lazy.after(names)
        updates.append(expected(gradient, before, variable.numpy().copy()))
    record = full.end_epoch()
    matches(record, "weights", updates)
    matches(lazy.end_epoch(), "weights", updates)


def test_an_epoch_begins_anew() -> None:
    weights = np.ones((4, 2))
    telemetry = Telemetry(epochs=5)
    for row in (0, 1):
        for _ in range(row + 1):
            telemetry.before({"w": weights}, {"w": RowGradient(np.array([row]), np.ones((1, 2)))})
            telemetry.after({"w": weights})
        telemetry.end_epoch()
    assert [record["epoch"] for record in telemetry.records] == [6, 7]
    assert [record["groups"]["w"]["dead_rows"] for record in telemetry.records] == [3, 3]
    assert [len(r["groups"]["w"]["updates"]["update_norm"]) for r in telemetry.records] == [1, 2]


def test_dead_rows_are_told_from_those_that_the_data_do_not_have() -> None:
    weights = np.ones((5, 2))
    present = np.array([True, True, False, True, False])
    telemetry = Telemetry(present={"w": present})
    rows, values = np.array([0, 3]), np.array([[0.0, 1.0], [0.0, 0.0]])
    telemetry.before({"w": weights}, {"w": RowGradient(rows, values)})
    telemetry.after({"w": weights})
    group = telemetry.end_epoch()["groups"]["w"]
    assert (group["dead_rows"], group["absent_rows"]) == (2, 2)  # 1 and 3: a zero does not count


# -- corners -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_not_finite_is_counted_and_null(lazy: bool) -> None:
    weights = np.ones((3, 2), np.float32)
    telemetry = Telemetry(lazy=lazy)
    bad = np.array([[np.nan, np.inf], [1.0, 0.0]], np.float32)
    for gradient in (np.ones((2, 2), np.float32), bad):
        telemetry.before({"w": weights}, {"w": RowGradient(np.array([0, 1]), gradient)})
        weights[:2] -= gradient
        telemetry.after({"w": weights}, loss=float(gradient.sum()))
    text = json.dumps(telemetry.end_epoch(), allow_nan=False)
    record = json.loads(text)
    assert record == telemetry.records[0]
    group = record["groups"]["w"]
    assert group["nonfinite_gradients"] == 2 and group["histogram"]["nonfinite"] == 2
    assert group["updates"]["gradient_norm"] == [2.0, None]
    assert group["updates"]["update_norm"] == [2.0, None]
    assert group["gradient_norm"] == {"mean": 2.0, "min": 2.0, "median": 2.0, "max": 2.0}
    assert record["updates"]["loss"] == [4.0, None]
    assert group["dead_rows"] == 1


def test_a_variable_without_gradient_is_observed_all_the_same() -> None:
    variables = {"a": np.ones(2), "b": np.ones(2)}
    telemetry = Telemetry()
    telemetry.before(variables, {"a": np.array([3.0, 4.0]), "b": None})
    variables["b"] += 1
    telemetry.after(variables)
    record = telemetry.end_epoch()
    assert record["updates"]["gradient_norm"] == [5.0]
    group = record["groups"]["b"]
    assert group["updates"]["gradient_norm"] == [None] and group["gradient_norm"]["mean"] is None
    assert group["updates"]["update_ratio"] == [1.0] and group["dead_rows"] is None


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2,), (2, 3, 4)])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "bfloat16"])
def test_variables_of_any_shape_and_type(shape: tuple[int, ...], kind: str) -> None:
    variable = keras.Variable(np.full(shape, 2.0), dtype=kind)
    gradient = tf.ones(shape, kind)
    telemetry = Telemetry()
    telemetry.before({"x": variable}, {"x": gradient})
    variable.assign_sub(gradient)
    telemetry.after({"x": variable})
    group = telemetry.end_epoch()["groups"]["x"]
    size = int(np.prod(shape))
    assert group["size"] == sum(group["histogram"]["counts"]) == size
    assert group["updates"]["update_ratio"] == [0.5 if size else None]
    assert group["updates"]["gradient_norm"] == [pytest.approx(np.sqrt(size), rel=1e-5)]


@pytest.mark.parametrize(
    "gradient",
    [
        np.ones((4, 2)),
        np.ones(6),
        RowGradient(np.array([0, 1]), np.ones((3, 2))),
        RowGradient(np.array([0, 0]), np.ones((2, 3))),
    ],
)
def test_gradients_of_other_shapes_are_refused(gradient: Any) -> None:
    with pytest.raises(ValueError, match=r"must have the shape \((3|2), 2\), not"):
        Telemetry().before({"w": np.ones((3, 2))}, {"w": gradient})


def test_a_name_is_that_of_one_variable() -> None:
    telemetry, weights = Telemetry(), np.ones((3, 2))
    telemetry.before({"w": weights}, {"w": weights})
    with pytest.raises(ValueError, match=r"variable must have the shape \(3, 2\), not \(3, 3\)"):
        telemetry.after({"w": np.ones((3, 3))})
    telemetry.after({"w": weights})
    with pytest.raises(ValueError, match=r"variable must have the shape \(3, 2\), not \(2,\)"):
        telemetry.before({"w": np.ones(2)}, {})


def test_weights_of_zero_have_no_ratio() -> None:
    telemetry, weights = Telemetry(), np.zeros(3)
    telemetry.before({"w": weights}, {"w": np.ones(3)})
    weights += 1
    telemetry.after({"w": weights})
    assert telemetry.end_epoch()["updates"]["update_ratio"] == [None]


def test_an_epoch_without_updates_is_a_record_too() -> None:
    record = Telemetry().end_epoch()
    assert record == {"epoch": 1, "updates": {}, "groups": {}}


def test_telemetry_needs_no_parser_and_no_tensorflow() -> None:
    code = (
        "import numpy, sys\n"
        "from rnnparse.telemetry.recorder import Telemetry\n"
        "telemetry, weights = Telemetry(), {'w': numpy.ones(3)}\n"
        "telemetry.before(weights, {'w': numpy.ones(3)}); telemetry.after(weights)\n"
        "telemetry.end_epoch(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"tensorflow", "keras", "nltk"} & loaded
    ours = {name.removeprefix("rnnparse.") for name in loaded if name.startswith("rnnparse.")}
    numbers = {"telemetry", "telemetry.statistics", "telemetry.recorder"}
    assert ours == {"_lazy", "compiled", "files", "json_text", "threads", "version"} | numbers


# -- histograms and activations ----------------------------------------------------------------

VALUES = arrays(
    np.float64,
    st.integers(0, 30),
    elements=st.floats(width=64, allow_nan=True, allow_infinity=True),
)


@given(VALUES)
def test_a_histogram_counts_every_finite_value_once(values: np.ndarray) -> None:
    counted = histogram(values)
    finite = values[np.isfinite(values)]
    assert counted["nonfinite"] == len(values) - len(finite)
    assert sum(counted["counts"]) == len(finite)
    if len(finite):
        edges = counted["edges"]
        assert edges == sorted(edges) and len(edges) == BINS + 1 == len(counted["counts"]) + 1
        assert edges[0] <= finite.min() and finite.max() <= edges[-1]


@given(arrays(np.float32, st.integers(1, 50), elements=st.floats(-2, 2, width=32)))
def test_a_histogram_is_that_of_numpy(values: np.ndarray) -> None:
    counted = histogram(values)
    counts, _ = np.histogram(values.astype(np.float64), np.array(counted["edges"]))
    assert counted["counts"] == counts.tolist()


def test_activations_by_a_plain_count() -> None:
    values = np.tanh(rng().normal(0, 2, (50, 6)))
    values[:, 1] = 0.3  # constant
    values[:, 2] = np.where(values[:, 2] > 0, 0.999, -0.995)  # saturated, at either end
    values[:, 3] = 0.995
    values[0, 3] = 0.9
    statistics = activation_statistics(values)
    assert (statistics["observations"], statistics["units"], statistics["dead_units"]) == (50, 6, 2)
    assert statistics["saturated"] == np.mean([abs(x) > 0.99 for x in values.ravel()])
    assert statistics["magnitude"] == pytest.approx(np.abs(values).mean())
    assert sum(statistics["histogram"]["counts"]) == 300
    loose = activation_statistics(values.reshape(5, 10, 6), threshold=0.5)
    assert loose["saturated"] > statistics["saturated"] and loose["observations"] == 50


@pytest.mark.parametrize(("rows", "dead"), [(0, 0), (1, 1)])
def test_few_activations(rows: int, dead: int) -> None:
    """One observation says nothing of a unit that it does not find saturated."""
    statistics = activation_statistics(np.array([[0.5, 0.999]])[:rows])
    assert (statistics["observations"], statistics["dead_units"]) == (rows, dead)
    telemetry = Telemetry()
    telemetry.add_activations("few", np.array([[0.5, 0.999]])[:rows])
    record = telemetry.end_epoch()["activations"]["few"]
    assert record["saturated"] == (0.5 if rows else None)
    json.dumps(record, allow_nan=False)
