"""The command that trains a parser with the settings of a trial."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from rnnparse.config import TrainingConfig
from rnnparse.study.grid import AXES

_FLAGS = {"heads": "--head-rules"}
_SWITCHES = {"averaging": "--no-averaging", "prune_vectors": "--prune-vectors"}
_NOT_GIVEN = ("treebank", "jobs", "telemetry", "tensorboard", "cache")


def train_command(about: Mapping[str, Any], config: Mapping[str, Any], seed: int) -> str | None:
    """The `rnnparse train` command for a trial.

    Args:
        about: `study.json`.
        config: the trial's settings. seed: its seed.

    Returns:
        The command, quoted for a shell, or None for studies of other things than the parser.
    """
    if "rates" not in about["space"]:
        return None
    from rnnparse.study.parser_trial import training_config

    base = TrainingConfig.from_dict(about["space"]["fixed"])
    settings = training_config(base, config, seed).to_dict()
    words = ["rnnparse", "train"]
    if settings["treebank"] is not None:
        words.append(settings["treebank"])
    return shlex.join([*words, *_options(settings), "--out", "model"])


def _options(settings: Mapping[str, Any]) -> Iterator[str]:
    """Options for all axes of grids, and for what is not as usual."""
    defaults = TrainingConfig().to_dict()
    for name, value in settings.items():
        if name in _NOT_GIVEN or (name not in (*AXES, "seed") and value == defaults[name]):
            continue
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        if name in _SWITCHES:
            yield _SWITCHES[name]
        elif isinstance(value, list):
            for part in value:
                yield from (flag, part)
        else:
            yield from (flag, str(value))
