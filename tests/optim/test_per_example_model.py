"""How per-example models are made, compiled and saved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.adagrad import AdaGrad
from rnnparse.optim.per_example_model import PerExampleModel, clip_each

layers = keras.layers
X = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
LABELS = np.random.default_rng(1).integers(0, 3, 6)


def functional() -> PerExampleModel:
    inputs = keras.Input((4,))
    return PerExampleModel(inputs, layers.Dense(3)(inputs))


def cross_entropy(**options: Any) -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)


def test_one_class_serves_functional_models_and_subclasses(tmp_path: Any) -> None:
    model = functional()

    class Own(PerExampleModel):
        def __init__(self, units: int) -> None:
            super().__init__()
            self.dense = layers.Dense(units)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    for one in (model, Own(3)):
        assert isinstance(one, PerExampleModel)
        one.compile("adagrad", cross_entropy(), per_example=[clip_each(1.0)])
        one.train_on_batch(X, LABELS)
        assert one.predict(X, verbose=0).shape == (6, 3)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again, PerExampleModel) and again.compiled
    np.testing.assert_allclose(again(X), model(X))


@pytest.mark.slow
def test_clipping_makes_training_robust_to_outliers() -> None:
    """Half a percent of wild targets: the mean is pulled away, the clipped mean is not."""
    rng = np.random.default_rng(0)
    x, truth = rng.standard_normal((400, 3)), np.array([[1.0], [-2.0], [0.5]])
    y = x @ truth
    y[::200] = 1e3
    errors = []
    for chain in ([], [clip_each(1.0)]):
        model = PerExampleModel(inputs := keras.Input((3,)), layers.Dense(1)(inputs))
        model.compile(AdaGrad(0.5), "mse", per_example=chain)
        model.fit(x, y, batch_size=40, epochs=20, verbose=0)
        errors.append(float(np.abs(model.get_weights()[0] - truth).max()))
    assert errors[1] < 0.1 < errors[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk": 0}, "chunk must be .*, not 0"),
        ({"reduction": "median"}, "unknown reduction 'median'; known are mean, sum"),
        ({"jit_compile": True}, "omit jit_compile"),
        ({"loss": lambda y, p: tf.reduce_mean(p)}, "loss '<lambda>' returns one value for the"),
        (
            {"loss": cross_entropy(reduction="mean_with_sample_weight")},
            "weights of the whole batch",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    model = functional()
    with pytest.raises(ConfigError, match=message):
        model.compile(**{"loss": cross_entropy(), **options})
        model.fit(X, LABELS, sample_weight=np.ones(6), verbose=0)


def test_several_replicas_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    two = SimpleNamespace(num_replicas_in_sync=2)
    monkeypatch.setattr(PerExampleModel, "distribute_strategy", two)
    with pytest.raises(ConfigError, match="several replicas"):
        functional().compile("sgd", "mse")
