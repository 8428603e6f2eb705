from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError


def test_a_config_goes_through_json() -> None:
    config = TrainingConfig(treebank="a", dim=50, l2=0.0, prune_vectors=True, exact=True)
    assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_config_of_an_earlier_version_gets_defaults() -> None:
    settings = TrainingConfig(dim=50).to_dict()
    del settings["exact"]
    assert TrainingConfig.from_dict(settings) == TrainingConfig(dim=50)


def test_paths_and_numpy_numbers_become_plain_values() -> None:
    config = TrainingConfig(
        treebank=Path("a") / "b",  # type: ignore[arg-type]
        candidates=np.int64(7),  # type: ignore[arg-type]
        learning_rate=np.float32(0.5),  # type: ignore[arg-type]
        kappa=1,
    )
    values = json.loads(json.dumps(config.to_dict()))
    assert (values["treebank"], values["candidates"]) == (str(Path("a/b")), 7)
    assert values["learning_rate"] == 0.5
    assert config == TrainingConfig(
        treebank=str(Path("a/b")), candidates=7, learning_rate=0.5, kappa=1.0
    )


def test_patterns_are_a_tuple_within_and_a_list_in_json() -> None:
    config = TrainingConfig(freeze=["W", "v:NP"])  # type: ignore[arg-type]
    assert config.freeze == ("W", "v:NP") and config.to_dict()["freeze"] == ["W", "v:NP"]
    assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert TrainingConfig(freeze="vectors").freeze == ("vectors",)  # type: ignore[arg-type]


def test_unknown_settings_are_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown settings epoch, k; known are.* epochs, "):
        TrainingConfig.from_dict({"k": 1, "epoch": 2})


@pytest.mark.parametrize(
    "values",
    [
        {"candidates": 0},
        {"candidates": 1.5},
        {"candidates": "10"},
        {"dim": -1},
        {"epochs": True},
        {"patience": None},
        {"l2": -1e-9},
        {"l2": float("nan")},
        {"kappa": float("inf")},
        {"learning_rate": 0.0},
        {"learning_rate": "0.1"},
        {"seed": -1},
        {"n_jobs": -2},
        {"folds": 1},
        {"jackknife": 1},
        {"jackknife": -2},
        {"folds": 3, "dev": "dev.mrg"},
        {"engine": "jax"},
        {"tie": "last"},
        {"target": "best"},
        {"optimizer": None},
        {"treebank": 3},
        {"prune_vectors": 1},
        {"averaging": "yes"},
        {"exact": None},
        {"objective": "likelihood"},
        {"freeze": [3]},
        {"freeze_epochs": -1},
        {"candidates": 10**20},
        {"candidates": 10**5000},
        {"dim": 10**6},
        {"epochs": 10**20},
        {"batch_size": 10**20},
        {"n_jobs": 100_000},
        {"folds": 10**20},
        {"seed": 2**63},
        {"seed": -(10**5000)},
        {"learning_rate": 1e40},
        {"learning_rate": 1e-40},
        {"l2": 1e31},
        {"l2": 10**5000},
        {"treebank": 10**5000},
        {"freeze_epochs": 2},
    ],
)
def test_values_out_of_range_are_errors_that_name_the_setting(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        TrainingConfig.from_dict(values)


def test_folds_and_jackknife_may_be_left_out() -> None:
    assert TrainingConfig(folds=0, jackknife=0) == TrainingConfig()


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        TrainingConfig().dim = 3  # type: ignore[misc]


def test_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(TrainingConfig()) == "TrainingConfig()"
    config = TrainingConfig("a.mrg", dim=5, freeze=("W",))
    assert repr(config) == "TrainingConfig(treebank='a.mrg', dim=5, freeze=('W',))"
    assert eval(repr(config)) == config


def test_settings_of_earlier_versions_are_read() -> None:
    config = TrainingConfig.from_dict({"kbest": 7, "jobs": 2})
    assert config == TrainingConfig(candidates=7, n_jobs=2)


def test_a_setting_with_its_former_and_present_name_is_refused() -> None:
    assert TrainingConfig.from_dict({"kbest": 7}).candidates == 7
    with pytest.raises(ConfigError, match="kbest: the former name of candidates"):
        TrainingConfig.from_dict({"kbest": 7, "candidates": 8})
