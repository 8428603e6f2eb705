"""The trial function of the parser: a training run on forests that all trials share."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.files import read_arrays, write_arrays
from rnnparse.models.frozen_weights import FrozenWeights
from rnnparse.parser_study.convex import CONVEX, Optimum, ScoreVectorProblem, descent_bound
from rnnparse.parser_study.shared_forests import SharedProblem, read_problem
from rnnparse.training.checkpoint import TrainingState
from rnnparse.training.data import fingerprint
from rnnparse.training.dev_selection import DevSet, select_epochs
from rnnparse.training.prepare import Problem
from rnnparse.training.trainer import training_epochs

_LOG = logging.getLogger("rnnparse")
UPDATES = ("objective", "loss", "violated", "gradient_norm", "update_ratio")
"""The telemetry of each update that a curve keeps."""


@dataclass(frozen=True)
class ParserTrial:
    """Trains the network with the settings of a trial; see `Study`.

    The trial trains, scores on dev and stops early exactly as `rnnparse train` does. If only v is
    trained and the objective is convex, it also records the distance to the optimum.

    Args:
        path: the problem file from `prepare_problem`.
        base: settings that all trials share.
    """

    path: Path
    base: TrainingConfig

    def __call__(self, config: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
        """Yield the entries of updates and epochs, for `Curve.add`."""
        settings = training_config(self.base, config, seed)
        problem = _shared(self.path, self.base).for_trial(settings)
        assert problem.dev is not None
        frozen = problem.frozen(settings.freeze)
        convex = _Convex.of(self.path, problem, settings)
        start = TrainingState.start(problem.initial)
        epochs = training_epochs(start, problem.store, settings, frozen=frozen, progress=False)
        for state in select_epochs(epochs, problem.dev, settings):
            yield from _updates(state)
            if state.diverged is not None:  # the updates may not show it yet
                yield {"objective": state.diverged["objective"]}
                return
            yield _epoch(state, problem.dev)
            if convex is not None:
                yield {"convex": convex.after(state)}


def training_config(base: TrainingConfig, config: Mapping[str, Any], seed: int) -> TrainingConfig:
    """The settings of the training run of a trial."""
    given = {**base.to_dict(), **config, "seed": seed, "telemetry": True, "tensorboard": None}
    return TrainingConfig.from_dict(given)


@lru_cache(maxsize=1)
def _shared(path: Path, base: TrainingConfig) -> SharedProblem:
    """The problem; each process reads it once."""
    return read_problem(path, base)


def _updates(state: TrainingState) -> Iterator[dict[str, Any]]:
    """The entries of the updates of the last epoch."""
    series = state.telemetry[-1]["updates"]
    kept = {name: series[name] for name in UPDATES if name in series}
    for values in zip(*kept.values(), strict=True):
        yield dict(zip(kept, values, strict=True))


def _epoch(state: TrainingState, dev: DevSet) -> dict[str, Any]:
    """The entry of the last epoch."""
    entry, seen = state.history[-1], state.telemetry[-1]
    names = ("epoch", "loss", "objective", "violated", "dev_f1", "beta")
    assert state.choices is not None
    return {
        **{name: entry[name] for name in names if name in entry},
        "dev_counts": [
            [int(counts.matched[k]), int(counts.test[k])]
            for k, counts in zip(state.choices, dev.counts, strict=True)
        ],
        "saturation": seen["activations"]["nodes"]["saturated"],
        "weight_norm": seen["updates"]["weight_norm"][-1],
        "seconds": round(entry["seconds"], 3),
    }


class _Convex:
    """The distance to the optimum in a trial that trains only v."""

    def __init__(
        self, task: ScoreVectorProblem, best: Optimum, settings: TrainingConfig, start: np.ndarray
    ) -> None:
        self._task, self._best = task, best
        self._rate = settings.learning_rate if settings.optimizer == "sgd" else None
        self._distance = float(np.linalg.norm(start - best.point))
        self._gaps: list[float] = []
        self._bounds: list[float] = []

    @classmethod
    def of(cls, path: Path, problem: Problem, settings: TrainingConfig) -> _Convex | None:
        """None for settings without a proven lower bound of the optimum."""
        only_v = problem.frozen(settings.freeze) == FrozenWeights(frozenset({"vectors", "W"}), {})
        convex = settings.objective in CONVEX and settings.l2 > 0 and not settings.freeze_epochs
        if not (only_v and convex):
            return None
        start = problem.initial
        task = ScoreVectorProblem(
            problem.store, start, settings.objective, settings.kappa, settings.l2
        )
        return cls(task, _optimum(path, task), settings, start.v)

    def after(self, state: TrainingState) -> dict[str, Any]:
        """The entry after an epoch: gaps to the lower bound, and the theoretical bound on them."""
        gap = self._task.value(state.parameters.v) - self._best.lower_bound
        self._gaps.append(min([gap, *self._gaps[-1:]]))
        if self._rate is not None:
            norms = np.concatenate([seen["updates"]["gradient_norm"] for seen in state.telemetry])
            rates = np.full(len(norms), self._rate)
            self._bounds.append(float(descent_bound(self._distance, norms, rates)[-1]))
        return {
            "optimum": self._best.value,
            "lower_bound": self._best.lower_bound,
            "gap": list(self._gaps),
            "bound": list(self._bounds) or None,
        }


def _optimum(path: Path, task: ScoreVectorProblem) -> Optimum:
    """The optimum of a problem, cached beside its file."""
    key = fingerprint(task.parameters.W, task.objective, task.kappa, task.l2)
    file = path.with_name(f"{path.stem}-optimum-{key}.npz")
    if file.is_file():
        try:
            return _read_optimum(file, task)
        except (OSError, ValueError, KeyError, TypeError):
            _LOG.warning("%s: the optimum in the cache is damaged; computing it again", file)
    best = task.optimum()
    write_arrays(file, {name: np.asarray(value) for name, value in best._asdict().items()})
    return best


def _read_optimum(file: Path, task: ScoreVectorProblem) -> Optimum:
    kept = read_arrays(file)
    value, bound = float(kept["value"]), float(kept["lower_bound"])
    shape, point = task.parameters.v.shape, kept["point"]
    if not bound <= value < np.inf or point.shape != shape or not np.isfinite(point).all():
        raise ValueError("not an optimum of this problem")
    return Optimum(value, bound, point, int(kept["planes"]))
