"""External losses in Keras's `compile`: labels, sample weights, and errors."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from rnnparse.losses.external import ExternalLoss, external_loss
from rnnparse.optim.per_example_model import per_example

Result = tuple[Any, Any]


def by_index(scores: np.ndarray, labels: np.ndarray) -> Result:
    """The score of the label, as a loss."""
    rows, derivative = np.arange(len(labels)), np.zeros_like(scores)
    derivative[rows, labels] = 1
    return scores[rows, labels], derivative


def linear(loss: Any, own: bool = False) -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model = per_example(model) if own else model
    model.compile(keras.optimizers.SGD(1.0), loss, jit_compile=False)
    return model


FEATURES = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
LABELS = np.array([0, 1, 2, 2, 1, 0])


@pytest.mark.parametrize("own", [False, True])
def test_a_keras_loss_keeps_the_labels_as_they_are(own: bool) -> None:
    model, weights = linear(ExternalLoss(by_index), own), np.arange(6.0)
    before = model.get_weights()
    history = model.fit(FEATURES, LABELS, 6, sample_weight=weights, verbose=0).history
    chosen = (FEATURES @ before[0])[np.arange(6), LABELS]
    np.testing.assert_allclose(history["loss"], [np.mean(weights * chosen)], rtol=1e-5)
    expected = before[0] - FEATURES.T @ (weights[:, None] * np.eye(3)[LABELS]) / 6
    np.testing.assert_allclose(model.get_weights()[0], expected, rtol=1e-4, atol=1e-6)


def test_an_index_that_keras_made_a_float_is_explained() -> None:
    model = linear(lambda y, y_pred: external_loss(y_pred, by_index, y, per_example=True))
    with pytest.raises(
        IndexError, match=r"by_index: .*use ExternalLoss.*test_external_keras\.py:\d+\]$"
    ):
        model.fit(FEATURES, LABELS, verbose=0)


def test_a_loss_function_of_keras_has_to_say_whether_it_is_by_examples() -> None:
    model = linear(lambda y, y_pred: external_loss(y_pred, by_index, y))
    with pytest.raises(ValueError, match=r"by_index returns a loss for each.*per_example=True"):
        model.fit(FEATURES, LABELS, verbose=0)


def test_an_external_loss_goes_through_its_config() -> None:
    registered = keras.saving.register_keras_serializable("tests")(by_index)
    loss = ExternalLoss(registered, "sum")
    again = ExternalLoss.from_config(loss.get_config())
    assert again.fn is by_index and again.reduction == "sum" and again.name == "by_index"
