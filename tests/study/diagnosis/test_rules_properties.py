"""Properties of all diagnoses: invariances, divergence, and valid output for any record."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.study.diagnosis import LABELS, Diagnosis, diagnose
from tests.study.diagnosis.synthetic_curves import MAKERS, Setting

records = st.builds(
    lambda label, seed, batch: MAKERS[label](np.random.default_rng(seed), Setting(batch, 6)),
    st.sampled_from(sorted(MAKERS)),
    st.integers(0, 10_000),
    st.sampled_from([256, 1024, 3200]),
)


def scaled(record: dict[str, Any], factor: float) -> dict[str, Any]:
    def times(value: float | None) -> float | None:
        return None if value is None else factor * value

    updates = dict(record["updates"])
    updates["objective"] = [times(value) for value in updates["objective"]]
    epochs = [e | {n: times(e[n]) for n in ("objective", "loss")} for e in record["epochs"]]
    return record | {"updates": updates, "epochs": epochs}


@given(records, st.integers(-40, 40), st.none() | st.floats(0.01, 10))
@settings(max_examples=60, deadline=None)
def test_the_scale_of_the_objective_does_not_matter(
    record: dict[str, Any], power: int, reference: float | None
) -> None:
    factor = 2.0**power
    one = diagnose(record, reference)
    other = diagnose(scaled(record, factor), reference and factor * reference)
    assert one.label == other.label
    relative = ("fall", "gain", "gain_high", "noise", "amplitude", "sign_changes_p", "progress")
    for name in relative:
        assert one.evidence.get(name) == pytest.approx(other.evidence.get(name), nan_ok=True)


def test_the_level_of_the_objective_does_matter() -> None:
    values = np.linspace(1.0, 0.6, 20)
    assert diagnose({"updates": {"objective": values.tolist()}}).label == "improving"
    assert diagnose({"updates": {"objective": (values + 100).tolist()}}).label == "too few updates"


def shuffled(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng) for key in keys}
    return [shuffled(x, rng) for x in value] if isinstance(value, list) else value


@given(records, st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_the_order_of_keys_does_not_matter(record: dict[str, Any], seed: int) -> None:
    assert diagnose(shuffled(record, np.random.default_rng(seed))) == diagnose(record)


@given(records, st.data(), st.sampled_from([None, math.nan, math.inf, -math.inf]))
@settings(max_examples=60, deadline=None)
def test_a_value_that_is_not_finite_means_divergence(
    record: dict[str, Any], data: st.DataObject, value: float | None
) -> None:
    if data.draw(st.booleans()):
        series = record["updates"]["objective"]
        series[data.draw(st.integers(0, len(series) - 1))] = value
    else:
        data.draw(st.sampled_from(record["epochs"]))["loss"] = value
    diagnosis = diagnose(record)
    assert diagnosis.label == "diverged"
    assert "broke" in diagnosis.evidence


numbers = st.none() | st.floats(width=64) | st.floats(0, 10)
series = st.lists(numbers, max_size=40)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "status": st.sampled_from(["finished", "diverged", "interrupted"]),
            "updates": st.dictionaries(
                st.sampled_from(["objective", "loss", "update_ratio", "gradient_norm"]), series
            ),
            "epochs": st.lists(
                st.dictionaries(st.sampled_from(["loss", "objective", "dev_f1"]), numbers),
                max_size=12,
            ),
            "convex": st.none()
            | st.fixed_dictionaries({"optimum": numbers, "gap": series, "bound": series}),
        },
    ),
    st.none() | st.floats(-10, 10),
)
@settings(max_examples=300, deadline=None)
def test_any_record_gets_a_diagnosis_that_json_can_hold(
    record: dict[str, Any], reference: float | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnosis = diagnose(record, reference)
    assert isinstance(diagnosis, Diagnosis)
    assert diagnosis.label in LABELS
    assert diagnosis.advice.endswith(".")
    json.dumps(diagnosis.evidence, allow_nan=False)
