"""The `rnnparse train` command that repeats a trial of a study."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rnnparse.config import TrainingConfig, with_present_names
from rnnparse.study.diagnosis.advice import DAMPED


def train_command(
    config: Mapping[str, Any],
    *,
    seed: int | None = None,
    fixed: Mapping[str, Any] | None = None,
    out: str = "model",
) -> str:
    """The `rnnparse train` command that trains with the settings of a trial.

    Args:
        config: of the trial; the command names all its values, even defaults.
        seed: of the trial.
        fixed: settings that all trials share; the command omits defaults.
        out: folder for the model.

    Raises:
        ConfigError: an unknown setting.

    Example:
        >>> train_command({"optimizer": "adam", "learning_rate": 0.001, "l2": 1e-05}, seed=1)
        'rnnparse train --optimizer adam --learning-rate 0.001 --l2 1e-05 --seed 1 --out model'
    """
    config = with_present_names(config)
    given = with_present_names(fixed or {}) | config
    if seed is not None:
        given["seed"] = seed
    settings = TrainingConfig.from_dict(given).to_dict()
    defaults = TrainingConfig().to_dict()
    words = ["rnnparse", "train"]
    if settings["treebank"] is not None:
        words.append(settings["treebank"])
    for name in given:
        if name in config or settings.get(name) != defaults.get(name):
            words += _OPTIONS.get(name, _option)(name, settings[name])
    return shlex.join([*words, "--out", out])


def with_commands(
    about: Mapping[str, Any], records: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """`study.json` with the commands of all trials of the parser.

    Earlier versions did not write them. Other studies have no grid with `rates`, and stay as they
    are.
    """
    known = about.get("commands") or {}
    missing = [
        record
        for record in records
        if record["id"] not in known and record["config"].get("optimizer") != DAMPED
    ]
    if not missing or "rates" not in about["space"]:
        return about
    fixed = about["space"].get("fixed", {})
    commands = {
        record["id"]: train_command(record["config"], seed=record["seed"], fixed=fixed)
        for record in missing
    }
    return {**about, "commands": {**known, **commands}}


def _option(name: str, value: Any) -> list[str]:
    return [f"--{name.replace('_', '-')}", _word(value)]


def _switch(name: str, value: Any) -> list[str]:
    return [f"--{name.replace('_', '-')}"] if value else []


def _repeated(name: str, values: Any) -> list[str]:
    return [word for value in values for word in (f"--{name}", value)]


def _style(name: str, value: Any) -> list[str]:
    return [word for key in value for word in _STYLE.get(key, _list)(key, value[key])]


def _list(name: str, values: Any) -> list[str]:
    # With =, since the first value may begin with a hyphen.
    return [f"--{name}={','.join(values)}"]


_STYLE: dict[str, Callable[[str, Any], list[str]]] = {
    "encoding": _option,
    "strict": _switch,
    "lemmas": _switch,
    "separators": lambda name, values: _list("label-separators", values),
}

_OPTIONS: dict[str, Callable[[str, Any], list[str]]] = {
    "treebank": lambda name, value: [],
    "averaging": lambda name, value: [] if value else ["--no-averaging"],
    "heads": lambda name, value: _option("head_rules", value),
    "freeze": _repeated,
    "style": _style,
    "exact": _switch,
    "prune_vectors": _switch,
    "telemetry": _switch,
}


def _word(value: Any) -> str:
    """A value as the command line parses it; floats in their shortest form."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
