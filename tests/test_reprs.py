"""Objects that people print or see in an error say what they hold."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from rnnparse._tensorflow import tf
from rnnparse.losses import ExternalLoss
from rnnparse.optim import (
    FrozenRows,
    LevenbergMarquardt,
    clip_each,
    drop_nonfinite,
    normalize_each,
    sign,
    weight_each,
)
from rnnparse.telemetry import Telemetry, TelemetryCallback


def hardest(losses: tf.Tensor) -> tf.Tensor:
    return tf.cast(losses >= tf.reduce_max(losses), losses.dtype)


def squared(predictions: np.ndarray, labels: np.ndarray) -> Any:
    return np.sum((predictions - labels) ** 2, axis=1), 2 * (predictions - labels)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (clip_each(0.5), "clip_each(norm=0.5)"),
        (
            [drop_nonfinite(), normalize_each(), sign()],
            "[drop_nonfinite(), normalize_each(), sign()]",
        ),
        (weight_each(hardest), "weight_each(hardest)"),
        (weight_each(np.ones(8)), "weight_each(ndarray)"),
        (ExternalLoss(partial(squared)), "ExternalLoss(squared, reduction='sum_over_batch_size')"),
        (TelemetryCallback("fit.jsonl"), "TelemetryCallback(records=0, file='fit.jsonl')"),
        (TelemetryCallback(), "TelemetryCallback(records=0, file=None)"),
    ],
)
def test_objects_show_their_arguments(shown: object, text: str) -> None:
    assert repr(shown) == text


def test_objects_show_the_size_of_what_they_hold() -> None:
    table, bias = tf.Variable(tf.zeros([5, 3])), tf.Variable(tf.zeros([3]))
    frozen = FrozenRows([(table, [0, 1]), (table, [1, 4]), (bias, [2]), (bias, [])])
    assert repr(frozen) == "FrozenRows(rows=4, variables=2)"
    minimizer = LevenbergMarquardt([table, bias], damping=0.001)
    assert repr(minimizer) == "LevenbergMarquardt(parameters=18, damping=0.001)"
    telemetry = Telemetry(lazy=True, epochs=4)
    telemetry.end_epoch()
    assert repr(telemetry) == "Telemetry(records=1, lazy=True)"
