"""Least-squares fits of Keras models, against SciPy on the same residuals and by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from rnnparse.optim.levenberg_marquardt.fit import fit_least_squares
from rnnparse.optim.levenberg_marquardt.minimizer import LevenbergMarquardt
from rnnparse.optim.levenberg_marquardt.results import Tolerances

L = keras.layers
Arrays = tuple[np.ndarray, np.ndarray]


@pytest.fixture(autouse=True)
def _same_weights_each_time() -> None:
    keras.utils.set_random_seed(0)


def waves(count: int = 40, outputs: int = 1) -> Arrays:
    x = np.random.default_rng(0).uniform(-1, 1, (count, 2))
    y = np.sin(2 * x @ [[1.0, 2.0], [1.0, -1.0]])[:, :outputs]
    return x, y


class Subclass(keras.Model):
    """A network whose layers are built when it is first called."""

    def __init__(self, outputs: int = 1, dtype: str = "float64") -> None:
        super().__init__(dtype=dtype)
        self.inner, self.outer = L.Dense(4, "tanh", dtype=dtype), L.Dense(outputs, dtype=dtype)

    def call(self, x: Any) -> Any:
        return self.outer(self.inner(x))


def sequential(outputs: int = 1, dtype: str = "float64") -> keras.Model:
    return keras.Sequential([L.Dense(4, "tanh", dtype=dtype), L.Dense(outputs, dtype=dtype)])


def functional(outputs: int = 1, dtype: str = "float64") -> keras.Model:
    x = keras.Input((2,), dtype=dtype)
    hidden = L.Dense(4, "tanh", dtype=dtype)(x)
    return keras.Model(x, L.Dense(outputs, dtype=dtype)(hidden))


def flat(model: keras.Model) -> np.ndarray:
    return np.concatenate([w.ravel() for w in model.get_weights()])


def cost(model: keras.Model, x: Any, y: Any, weight: Any = 1.0, l2: float = 0.0) -> float:
    residuals = np.asarray(model(x)) - y
    squares = np.square(residuals).sum(axis=tuple(range(1, residuals.ndim)))
    return 0.5 * float(np.sum(weight * squares) + l2 * np.square(flat(model)).sum())


def by_scipy(model: keras.Model, x: Any, y: Any, l2: float = 0.0) -> Any:
    """MINPACK on the same residuals, the model's weights as one vector."""
    shapes = [w.shape for w in model.get_weights()]
    cuts = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]
    twin = keras.models.clone_model(model)
    twin.build((None, *x.shape[1:]))

    def residuals(theta: np.ndarray) -> np.ndarray:
        parts = zip(np.split(theta, cuts), shapes, strict=True)
        twin.set_weights([part.reshape(shape) for part, shape in parts])
        return np.append(np.ravel(np.asarray(twin(x)) - y), np.sqrt(l2) * theta)

    tolerances = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-12)
    return scipy.optimize.least_squares(residuals, flat(model), method="lm", **tolerances)


@pytest.mark.parametrize(
    ("make", "outputs"),
    [
        (Subclass, 2),
        *(
            pytest.param(make, outputs, marks=pytest.mark.slow)
            for make, outputs in (
                (sequential, 1),
                (sequential, 2),
                (functional, 1),
                (functional, 2),
                (Subclass, 1),
            )
        ),
    ],
)
def test_models_of_every_kind_are_fitted(make: Any, outputs: int) -> None:
    x, y = waves(outputs=outputs)
    model = make(outputs)
    result = fit_least_squares(model, x, y, epochs=60)
    assert result.cost == pytest.approx(cost(model, x, y), rel=1e-10)
    assert result.cost < 0.02 * 0.5 * np.square(y).sum()
    assert all(step.cost <= step.cost_before for step in result.history)
    # To the bit, as the examples keep their order.
    assert all(one.cost == other.cost_before for one, other in pairwise(result.history))


def test_the_fit_is_where_minpack_ends() -> None:
    """A problem with one minimum that all methods find: y = tanh(a x + b) + c z with noise."""
    x, _ = waves(60)
    y = np.tanh(1.5 * x @ [[1.0], [0.5]] - 0.3) + np.random.default_rng(1).normal(0, 0.1, (60, 1))
    model = keras.Sequential([keras.Input((2,)), L.Dense(1, "tanh", dtype="float64")])
    expected = by_scipy(model, x, y, l2=0.01)
    result = fit_least_squares(model, x, y, l2=0.01)
    assert result.reason in ("gradient", "step", "cost")
    assert result.cost == pytest.approx(expected.cost, rel=1e-8)
    np.testing.assert_allclose(flat(model), expected.x, rtol=1e-6)


@pytest.mark.parametrize(
    "chunk", [13, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in (1, 1000))]
)
def test_the_steps_are_those_of_the_optimiser_by_hand(chunk: int) -> None:
    """However the Jacobian is cut into blocks."""
    x, y = waves(20, outputs=2)
    model = sequential(2)
    model.build(x.shape)
    start = model.get_weights()
    variables = model.trainable_variables
    optimizer = LevenbergMarquardt(variables)
    residuals = tf.function(lambda: model(x) - y)
    expected = [optimizer.step(residuals) for _ in range(4)]
    weights = flat(model)
    model.set_weights(start)
    result = fit_least_squares(model, x, y, epochs=4, chunk=chunk)
    np.testing.assert_allclose(flat(model), weights, rtol=1e-9)
    assert [s.cost for s in result.history] == pytest.approx([s.cost for s in expected])


def test_weights_count_examples() -> None:
    """An example of weight 2 counts as two, one of weight 0 not at all."""
    x, y = waves()
    weight = np.arange(40) % 3
    model = sequential()
    model.build(x.shape)
    start = model.get_weights()
    result = fit_least_squares(model, x, y, sample_weight=weight, epochs=5)
    weighted = flat(model)
    assert result.cost == pytest.approx(cost(model, x, y, weight), rel=1e-10)
    model.set_weights(start)
    repeated = np.repeat(np.arange(40), weight)
    fit_least_squares(model, x[repeated], y[repeated], epochs=5)
    np.testing.assert_allclose(weighted, flat(model), rtol=1e-7)


@pytest.mark.slow
def test_minibatches_estimate_the_whole_objective() -> None:
    x, y = waves(50)
    model = sequential()
    model.build(x.shape)
    start = model.get_weights()
    whole = cost(model, x, y, l2=0.1)
    settings = {"batch_size": 20, "l2": 0.1, "damping": 1e9, "damping_range": (1e9, 1e15)}
    result = fit_least_squares(model, x, y, epochs=2, **settings)
    assert len(result.history) == 6 and result.reason == "steps"
    # With steps as small as these, the three costs of an epoch average to the whole one.
    average = np.average([step.cost_before for step in result.history[:3]], weights=[20, 20, 10])
    assert average == pytest.approx(whole, rel=1e-5)
    assert result.cost == pytest.approx(cost(model, x, y, l2=0.1), rel=1e-10)
    model.set_weights(start)
    again = fit_least_squares(model, x, y, epochs=2, **settings)
    assert again == result
    other = fit_least_squares(model, x, y, epochs=2, seed=1, **settings)
    assert other.history[0].cost_before != result.history[0].cost_before


def test_minibatches_fit_too() -> None:
    x, y = waves(200)
    result = fit_least_squares(sequential(), x, y, batch_size=50, epochs=15)
    assert result.cost < 0.05 * 0.5 * np.square(y).sum()


def test_frozen_layers_stay_as_they_are() -> None:
    x, y = waves()
    model = sequential()
    model.build(x.shape)
    model.layers[0].trainable = False
    frozen = [w.tobytes() for w in model.layers[0].get_weights()]
    result = fit_least_squares(model, x, y)
    assert [w.tobytes() for w in model.layers[0].get_weights()] == frozen
    hidden = np.append(np.asarray(model.layers[0](x)), np.ones((40, 1)), axis=1)
    best = np.linalg.lstsq(hidden, y)[1]
    assert result.cost == pytest.approx(0.5 * float(best[0]), rel=1e-9)


def test_labels_may_lack_the_last_axis() -> None:
    x, y = waves()
    model = sequential()
    model.build(x.shape)
    before = cost(model, x, y)
    result = fit_least_squares(model, x, y[:, 0], epochs=3)
    assert result.history[0].cost_before == pytest.approx(before, rel=1e-10)
    assert result.cost == pytest.approx(cost(model, x, y), rel=1e-10)


def test_inputs_may_be_nested_and_of_any_dtype() -> None:
    """An embedding of categories beside numbers, as a dict."""
    inputs = {"a": keras.Input((2,), name="a"), "b": keras.Input((), dtype="int32", name="b")}
    joined = L.Concatenate()([inputs["a"], L.Embedding(3, 2)(inputs["b"])])
    model = keras.Model(inputs, L.Dense(1)(L.Dense(3, "tanh")(joined)))
    x, y = waves(30)
    category = np.arange(30) % 3
    y = y[:, 0] + category
    result = fit_least_squares(model, {"a": x, "b": category}, y, epochs=40)
    assert result.cost < 0.05 * result.history[0].cost_before


@pytest.mark.parametrize(
    "kind", ["convolution", pytest.param("recurrence", marks=pytest.mark.slow)]
)
def test_images_and_sequences_are_fitted(kind: str) -> None:
    rng = np.random.default_rng(2)
    if kind == "convolution":
        layers = [L.Conv2D(2, 3, activation="tanh"), L.Flatten(), L.Dense(1)]
        x = rng.standard_normal((12, 4, 4, 1))
    else:
        layers, x = [L.LSTM(3), L.Dense(1)], rng.standard_normal((12, 4, 2))
    result = fit_least_squares(keras.Sequential(layers), x, x.reshape(12, -1).mean(1), epochs=8)
    assert result.cost < 0.1 * result.history[0].cost_before


def test_layers_run_as_in_prediction() -> None:
    """No dropout, and batch normalisation keeps its statistics."""
    x, y = waves()
    normalise = L.BatchNormalization()
    model = keras.Sequential([L.Dense(4, "tanh"), normalise, L.Dropout(0.5), L.Dense(1)])
    result = fit_least_squares(model, x, y, epochs=10)
    assert all(step.accepted for step in result.history)
    np.testing.assert_array_equal(normalise.moving_mean.numpy(), np.zeros(4))
    assert not np.array_equal(normalise.gamma.numpy(), np.ones(4))


def test_float32_models_end_at_a_minimum() -> None:
    x, _ = waves()
    y = x @ [[1.0], [2.0]] + 3
    model = keras.Sequential([L.Dense(1)])
    result = fit_least_squares(model, x, y)
    assert result.reason in ("gradient", "step", "cost", "stalled") and result.cost < 1e-10
    assert {w.dtype for w in model.get_weights()} == {np.dtype("float32")}


def test_an_interrupted_fit_keeps_the_last_accepted_step(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = waves()
    model = sequential()
    kept: list[Any] = []
    evaluate = LevenbergMarquardt._evaluate
    calls = 0

    def interrupted(self: Any, residuals: Any, parameters: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise KeyboardInterrupt
        return evaluate(self, residuals, parameters)

    monkeypatch.setattr(LevenbergMarquardt, "_evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_least_squares(
            model, x, y, callbacks=[lambda epoch, logs: kept.append(model.get_weights())]
        )
    assert calls == 8 and len(kept) >= 2
    for now, before in zip(model.get_weights(), kept[-1], strict=True):
        assert now.tobytes() == before.tobytes()


def test_tolerances_end_a_fit() -> None:
    x, y = waves()
    result = fit_least_squares(sequential(), x, y, tolerances=Tolerances(cost=0.5))
    assert result.reason == "cost" and len(result.history) < 20


# -- what is refused ---------------------------------------------------------------------------


def test_predictions_are_never_broadcast_to_the_labels() -> None:
    x, y = waves()
    for labels in (y.repeat(2, axis=1), y[:, 0].repeat(40).reshape(40, 40), y[:, :, None]):
        with pytest.raises(ValueError, match=r"targets have shape .*predictions .*'N', 1"):
            fit_least_squares(sequential(), x, labels)


def test_arrays_that_do_not_match_are_refused() -> None:
    x, y = waves()
    cases: list[tuple[Any, Any, Any, str]] = [
        (x, y[1:], None, "same length"),
        (x, y, np.ones(39), "same length"),
        (x, y, np.ones((40, 1)), "same length"),
        (x, y, -np.ones(40), "not negative; that of example 0"),
    ]
    for data, labels, weight, message in cases:
        with pytest.raises(ValueError, match=message):
            fit_least_squares(sequential(), data, labels, sample_weight=weight)


def test_what_is_no_array_of_examples_is_refused() -> None:
    x, y = waves()
    for data in (x[:0], x.tolist(), [], tf.data.Dataset.from_tensor_slices((x, y))):
        with pytest.raises(ValueError, match=r"x must be an array \[N, …\]"):
            fit_least_squares(sequential(), data, y)


def test_losses_of_the_model_are_refused() -> None:
    x, y = waves()
    regularised = keras.Sequential([L.Dense(1, kernel_regularizer="l2")])
    with pytest.raises(ValueError, match="l2="):
        fit_least_squares(regularised, x, y)
    constrained = keras.Sequential([L.Dense(1, kernel_constraint="non_neg")])
    with pytest.raises(ValueError, match=r"constraints are not supported.*kernel"):
        fit_least_squares(constrained, x, y)


def test_a_model_of_several_outputs_or_without_weights_is_refused() -> None:
    x, y = waves()
    inputs = keras.Input((2,))
    several = keras.Model(inputs, [L.Dense(1)(inputs), L.Dense(1)(inputs)])
    for labels in (y, [y, y], {"one": y}):
        with pytest.raises(ValueError, match="single output"):
            fit_least_squares(several, x, labels)
    frozen = sequential()
    frozen.trainable = False
    with pytest.raises(ValueError, match="at least one variable"):
        fit_least_squares(frozen, x, y)


@pytest.mark.parametrize("settings", [{"epochs": 0}, {"batch_size": 0}, {"chunk": 0}])
def test_settings_out_of_range_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        fit_least_squares(sequential(), *waves(), **settings)
