"""`rnnparse train`: options reach the run, and the report is printed."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from rnnparse.cli import main
from rnnparse.config import TrainingConfig
from rnnparse.training import pipeline
from rnnparse.trees.style import STYLES

OPTIONS: dict[str, Any] = {
    "dev": "d.mrg",
    "vectors": "v.txt",
    "scorer": "span",
    "latent_grammars": 3,
    "cycles": 2,
    "encoder": "minilm",
    "span_epochs": 6,
    "candidates": 7,
    "dim": 3,
    "epochs": 4,
    "patience": 2,
    "batch_size": 5,
    "learning_rate": 0.5,
    "l2": 0.25,
    "kappa": 0.75,
    "objective": "risk",
    "optimizer": "adam",
    "freeze": "W:NP,*",
    "freeze_epochs": 3,
    "engine": "tensorflow",
    "tie": "uniform",
    "target": "oracle",
    "heads": "left",
    "jackknife": 3,
    "seed": 9,
    "n_jobs": 1,
    "backend": "dask",
    "address": "host:8786",
    "tensorboard": "t",
    "cache": "c",
}


class Report:
    """What a run returns, without a run."""

    def to_dict(self) -> dict[str, Any]:
        return {"cvg_f1": 90.5}

    def format_table(self) -> str:
        return "the table"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TrainingConfig, str, bool, bool]]:
    """The runs that would have begun."""
    given_configs = []

    def train(
        config: TrainingConfig, out: str, *, resume: bool, overwrite: bool, progress: bool
    ) -> Report:
        given_configs.append((config, out, resume, overwrite))
        return Report()

    monkeypatch.setattr(pipeline, "train", train)
    return given_configs


def test_every_setting_has_an_option(runs: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "t.mrg", "--out", "m", "--resume", "--overwrite", "--json"]
    arguments += ["--exact", "--prune-vectors", "--no-averaging", "--telemetry"]
    arguments += ["--treebank-style", "cess"]
    for name, value in OPTIONS.items():
        option = {"heads": "head-rules", "n_jobs": "jobs"}.get(name, name.replace("_", "-"))
        arguments += [f"--{option}", str(value)]
    assert main(arguments) == 0
    flags = {"exact": True, "prune_vectors": True, "averaging": False, "telemetry": True}
    config = TrainingConfig(treebank="t.mrg", style=STYLES["cess"], **flags, **OPTIONS)
    assert runs == [(config, "m", True, True)]
    assert json.loads(capsys.readouterr().out) == {"cvg_f1": 90.5}
    covered = {"treebank", "folds", "style", *flags, *OPTIONS}
    assert covered == {field.name for field in fields(TrainingConfig)}


def test_patterns_of_frozen_weights_add_up(runs: list[Any]) -> None:
    assert main(["train", "--freeze", "vectors", "--freeze", "W:NP,*"]) == 0
    assert runs[0][0] == TrainingConfig(freeze=("vectors", "W:NP,*"))


def test_without_options_the_defaults_of_the_library_hold(
    runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train"]) == 0
    assert runs == [(TrainingConfig(), "model", False, False)]
    out, err = capsys.readouterr()
    assert out == "the table\n" and "rnnparse parse model" in err


def test_folds_take_the_place_of_dev(runs: list[Any]) -> None:
    assert main(["train", "t.mrg", "--folds", "5"]) == 0
    assert runs[0][0] == TrainingConfig(treebank="t.mrg", folds=5)


def test_the_network_beats_the_grammar_it_ranks(trained: Path) -> None:
    report = json.loads((trained / "report.json").read_text(encoding="utf-8"))
    assert report["base_f1"] + 1 < report["cvg_f1"] <= report["oracle_f1"]
    assert set(report["seconds"]) and (report["sentences"], report["dev_sentences"]) == (1600, 200)


def test_commands_of_earlier_studies_still_train(runs: list[Any]) -> None:
    assert main(["train", "--kbest", "7"]) == 0
    assert runs[0][0] == TrainingConfig(candidates=7)
