"""Study folders as the parser's studies leave them, but made up: a quadratic stands for the parser.

Each trial runs its optimiser on a noisy quadratic whose curvatures differ widely, so that rates
that are too great, too small, or just right show what they show in earnest. F1 comes from counts of
brackets a sentence, which are drawn by how far the objective has fallen.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rnnparse.parser_study.grid import Grid
from rnnparse.parser_study.train_command import train_command
from rnnparse.study.curve import Curve
from rnnparse.study.manifest import write_study
from rnnparse.study.records import RECORDS, canonical, data_hash, make_record

QUESTION = {
    "optimizer": ("sgd", "adagrad", "adam"),
    "learning_rate": (0.1, 0.01, 0.001),
    "batch_size": (256, 512, 1024),
    "l2": (0.1, 0.01, 0.001),
}
QUICK = {
    "optimizer": ("sgd", "adagrad", "adam"),
    "learning_rate": (0.1, 0.01, 0.001),
    "batch_size": (100,),
    "l2": (0.001,),
}
TEN_THOUSAND = {
    "optimizer": ("sgd", "momentum", "adagrad", "adam"),
    "learning_rate": tuple(float(f"{10**e:.3g}") for e in np.linspace(-4, 0, 25)),
    "batch_size": (64, 128, 256, 512, 1024),
    "l2": (0.1, 0.03, 0.01, 0.003, 0.001),
    "kappa": (0.05, 0.1),
    "dim": (25, 50),
}
"""With one seed, 10,000 trials."""

_DATA = {"train.mrg": "9f2c" * 16, "dev.mrg": "71ab" * 16}
_VERSIONS = {"rnnparse": "0.1.0", "keras": "3.15.1", "numpy": "2.4.0", "python": "3.11.7"}
_CURVATURES = np.geomspace(0.05, 19.9, 24)
_START = 6.0


class _Path(NamedTuple):
    """What one trial's updates did, a number each."""

    objective: np.ndarray
    loss: np.ndarray
    gradient_norm: np.ndarray
    update_ratio: np.ndarray


def study_folder(
    folder: Path,
    axes: Mapping[str, Sequence[Any]] = QUICK,
    *,
    seeds: Sequence[int] = (0,),
    sentences: int = 60,
    examples: int = 3000,
    name: str = "made up",
    failing: Mapping[str, Mapping[str, Any]] | None = None,
    further: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write a study folder of the axes' trials and return it.

    Args:
        folder: where; made if it is not there.
        axes: of a grid.
        seeds: of the trials.
        sentences: of the development set.
        examples: of the training set; they decide how many updates an epoch has.
        name: of the study.
        failing: settings by status, such as {"failed": {"optimizer": "adam"}}: trials with these
            end so, without a curve.
        further: settings beyond the grid, as of a `Grid`.
    """
    space = Grid(axes, seeds, further=further)
    trials = space.trials()
    generator = np.random.default_rng(0)
    gold = generator.integers(4, 40, sentences)
    about = {
        "name": name,
        "space": space.to_dict(),
        "created": "2026-01-02T03:04:05+00:00",
        "versions": _VERSIONS,
        "data": _DATA,
        "gold": gold.tolist(),
        "command": f"rnnparse study run --out {folder.name}",
        "trials": [trial.id for trial in trials],
        "commands": {trial.id: train_command(trial.config, seed=trial.seed) for trial in trials},
    }
    write_study(folder, about)
    with open(folder / RECORDS, "w", encoding="utf-8") as file:
        for record in records(space, gold, examples, failing or {}):
            file.write(json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n")
    return folder


def records(
    space: Grid,
    gold: np.ndarray,
    examples: int = 3000,
    failing: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[dict[str, Any]]:
    """The records of a space's trials."""
    for trial in space.trials():
        config = trial.config
        shared = {"data": data_hash(_DATA), "versions": _VERSIONS, "host": "made-up"}
        status = _failure(config, failing or {})
        if status is not None:
            error = {"type": "ValueError", "message": f"no {config['optimizer']} <b>today</b>"}
            yield make_record(
                config, trial.seed, status, Curve(), error=error, seconds=0.4, **shared
            )
            continue
        curve, status = run(config, trial.seed, gold, examples)
        seconds = sum(epoch["seconds"] for epoch in curve.epochs)
        yield make_record(config, trial.seed, status, curve, seconds=seconds, **shared)


def run(config: Mapping[str, Any], seed: int, gold: np.ndarray, examples: int) -> tuple[Curve, str]:
    """The curve of a trial, and how it ended."""
    generator = np.random.default_rng([seed, zlib.crc32(canonical(config).encode())])
    per_epoch = -(-examples // config["batch_size"])
    epochs = config["epochs"]
    path = _descend(config, per_epoch * epochs, generator)
    curve = Curve()
    for step in range(len(path.objective)):
        loss = path.loss[step]
        curve.add(
            {
                "objective": _rounded(path.objective[step]),
                "loss": _rounded(loss),
                "violated": _rounded(min(1.0, 0.15 + loss / _START)),
                "gradient_norm": _rounded(path.gradient_norm[step]),
                "update_ratio": _rounded(path.update_ratio[step]),
            }
        )
        if curve.diverged(last=1):
            return curve, "diverged"
        if (step + 1) % per_epoch == 0:
            part = slice(step + 1 - per_epoch, step + 1)
            curve.add(_epoch(path, part, (step + 1) // per_epoch, config, gold, generator))
    return curve, "finished"


def _descend(config: Mapping[str, Any], steps: int, generator: np.random.Generator) -> _Path:
    rate, l2, kind = config["learning_rate"], config["l2"], config["optimizer"]
    # The optimum lies at 1 along each axis, the start beyond it, so that the weights matter.
    weights = np.full(len(_CURVATURES), 1.0) + np.sqrt(2 * _START / 24 / _CURVATURES)
    noise = 12.0 / np.sqrt(config["batch_size"])
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    rows = []
    with np.errstate(all="ignore"):
        for step in range(1, steps + 1):
            excess = 0.5 * float(_CURVATURES @ (weights - 1) ** 2)
            loss = 0.3 + excess + 0.05 * noise * generator.standard_normal()
            objective = loss + l2 / 2 * float(weights @ weights)
            gradient = _CURVATURES * (weights - 1) + l2 * weights
            gradient += noise * np.sqrt(_CURVATURES / 30) * generator.standard_normal(len(weights))
            update = _update(kind, rate, gradient, first, second, step)
            ratio = np.linalg.norm(update) / np.linalg.norm(weights)
            rows.append((objective, loss, float(np.linalg.norm(gradient)), float(ratio)))
            weights = weights + update
    return _Path(*np.array(rows).T)


def _update(
    kind: str,
    rate: float,
    gradient: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    step: int,
) -> np.ndarray:
    """The step of an optimiser; its two states are changed in place."""
    if kind == "momentum":
        first *= 0.9
        first -= rate * gradient
        return first.copy()
    if kind == "adagrad":
        second += gradient**2
        return -rate * gradient / np.sqrt(second)
    if kind == "adam":
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        scale = np.sqrt(second / (1 - 0.999**step)) + 1e-7
        return -rate * first / (1 - 0.9**step) / scale
    return -rate * gradient


def _epoch(
    path: _Path,
    part: slice,
    number: int,
    config: Mapping[str, Any],
    gold: np.ndarray,
    generator: np.random.Generator,
) -> dict[str, Any]:
    loss = float(path.loss[part].mean())
    learned = np.exp(-max(loss - 0.3, 0.0))
    overfitted = max(0.0, 0.005 - config["l2"]) * 4 * learned * max(0, number - 2)
    quality = 0.845 + 0.06 * learned - overfitted
    test = np.maximum(gold + generator.integers(-2, 3, len(gold)), 1)
    matched = generator.binomial(np.minimum(test, gold), min(quality, 1.0))
    return {
        "epoch": number,
        "objective": _rounded(path.objective[part].mean()),
        "loss": _rounded(loss),
        "dev_f1": round(float(200 * matched.sum() / (gold.sum() + test.sum())), 2),
        "dev_counts": np.stack([matched, test], axis=1).tolist(),
        "saturation": 0.1,
        "seconds": round(0.4 + 100 / config["batch_size"], 3),
    }


def _failure(config: Mapping[str, Any], failing: Mapping[str, Mapping[str, Any]]) -> str | None:
    for status, setting in failing.items():
        if all(config.get(name) == value for name, value in setting.items()):
            return status
    return None


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")
