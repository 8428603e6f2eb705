"""Synthetic records: curves of each class, with the noise of minibatches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

EXAMPLES = 3200


@dataclass(frozen=True)
class Setting:
    """How the trial would have run.

    Attributes:
        batch: examples an update; epochs: passes over `EXAMPLES`.
        spread: standard deviation of an example's loss over its mean; minibatch means have
            `spread`/√batch of it.
    """

    batch: int = 256
    epochs: int = 20
    spread: float = 0.5

    @property
    def cycle(self) -> int:
        """Updates per epoch."""
        return -(-EXAMPLES // self.batch)

    @property
    def updates(self) -> int:
        """Total number of updates."""
        return self.cycle * self.epochs


def minibatch_noise(rng: np.random.Generator, setting: Setting) -> np.ndarray:
    """Factors [updates] with mean 1: means over batches drawn without replacement in each epoch.

    Losses of examples have a skewed distribution (gamma), as those of sentences do.
    """
    shape = 1 / setting.spread**2
    losses = rng.gamma(shape, 1 / shape, EXAMPLES)
    factors = []
    for _ in range(setting.epochs):
        order = rng.permutation(losses)
        first = np.arange(0, EXAMPLES, setting.batch)
        factors.append(np.add.reduceat(order, first) / np.diff(np.append(first, EXAMPLES)))
    return np.concatenate(factors)


def make_record(
    rng: np.random.Generator,
    setting: Setting,
    mean: np.ndarray,
    ratio: float | np.ndarray,
    f1: np.ndarray | None = None,
) -> dict[str, Any]:
    """A record with this course of the objective [updates], update ratios and dev F1 [epochs]."""
    objective = mean * minibatch_noise(rng, setting)
    ratios = ratio * rng.lognormal(0, 0.1, len(mean))
    parts = objective.reshape(setting.epochs, setting.cycle)
    epochs: list[dict[str, Any]] = [
        {"epoch": i + 1, "objective": float(part.mean()), "loss": float(part.mean())}
        for i, part in enumerate(parts)
    ]
    for i, epoch in enumerate(epochs):
        if f1 is not None:
            epoch["dev_f1"] = float(f1[i])
    return {
        "config": {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": setting.batch},
        "seed": 0,
        "status": "finished",
        "error": None,
        "updates": {"objective": objective.tolist(), "update_ratio": ratios.tolist()},
        "epochs": epochs,
        "convex": None,
    }


def _approach(setting: Setting, start: float, floor: float, budgets: float) -> np.ndarray:
    """An exponential approach; the budget has this many time constants."""
    t = np.arange(setting.updates) / setting.updates
    return floor + (start - floor) * np.exp(-budgets * t)


def _start(rng: np.random.Generator) -> float:
    return float(10 ** rng.uniform(-2, 2))


def _rising_f1(rng: np.random.Generator, setting: Setting) -> np.ndarray:
    t = np.arange(setting.epochs) / setting.epochs
    return 86 - 3 * np.exp(-3 * t) + rng.normal(0, 0.1, setting.epochs)


def converged(rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    """Most of the fall comes early; some approach as a power of time."""
    start = _start(rng)
    floor = start * rng.uniform(0.05, 0.5)
    mean = _approach(setting, start, floor, rng.uniform(10, 30))
    if rng.random() < 0.3:
        t = np.arange(setting.updates) / setting.updates
        mean = floor + (start - floor) / (1 + rng.uniform(60, 200) * t) ** rng.uniform(1, 2)
    ratio = np.maximum(mean / start - floor / start, 0.002) * 0.05
    return make_record(rng, setting, mean, ratio, _rising_f1(rng, setting))


def improving(rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    """The budget ends after 50 to 90 % of the way."""
    start = _start(rng)
    mean = _approach(setting, start, start * rng.uniform(0.0, 0.3), rng.uniform(0.8, 2.3))
    return make_record(rng, setting, mean, 2.0 / setting.updates, _rising_f1(rng, setting))


def too_few_updates(rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    """A line that falls by up to a tenth, with updates that have a small sum."""
    start = _start(rng)
    mean = start * (1 - rng.uniform(0.0, 0.1) * np.arange(setting.updates) / setting.updates)
    ratio = 10 ** rng.uniform(-4, -1.5) / setting.updates
    return make_record(rng, setting, mean, ratio, _rising_f1(rng, setting))


def oscillating(rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    """After a fall it alternates, oscillates in waves, or is chaotic."""
    start = _start(rng)
    level = start * rng.uniform(0.3, 0.9)
    t = np.arange(setting.updates)
    kind = rng.integers(3)
    if kind == 0:
        swing = (-1.0) ** t
    elif kind == 1:
        swing = np.sin(2 * np.pi * t / rng.uniform(2.2, 5) + rng.uniform(0, 6))
    else:
        x = rng.uniform(0.2, 0.8)
        swing = np.empty(len(t))
        for i in t:
            x = 3.7 * x * (1 - x)
            swing[i] = 2.4 * (x - 0.65)
    mean = _approach(setting, start, level, 15) + level * rng.uniform(0.3, 0.6) * swing
    return make_record(rng, setting, mean, rng.uniform(0.05, 0.5), _rising_f1(rng, setting))


def stalled(rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    """It never falls although the weights move, or the updates vanish too early."""
    start = _start(rng)
    flat = np.full(setting.updates, start)
    ratio = np.full(setting.updates, rng.uniform(1, 5) / setting.updates)
    if rng.random() < 0.5:
        ratio = 0.005 * np.geomspace(1, 1e-5, setting.updates)
    return make_record(rng, setting, flat, ratio, _rising_f1(rng, setting))


def diverged(rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    """It grows from the start or after a fall, or is not finite."""
    start = _start(rng)
    t = np.arange(setting.updates) / max(1, setting.updates - 1)
    kind = rng.integers(4)
    mean = _approach(setting, start, start * 0.4, 10)
    if kind == 0:
        mean = start * np.exp(rng.uniform(1, 8) * t)
    elif kind == 1:
        mean = mean + start * np.maximum(0, t - 0.4) * rng.uniform(2, 5)
    record = make_record(rng, setting, mean, rng.uniform(0.1, 0.5), _rising_f1(rng, setting))
    if kind >= 2:
        place = int(rng.integers(1, setting.updates))
        record["updates"]["objective"][place] = None if kind == 2 else float("inf")
    return record


def overfitting(rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    """The objective falls to the end; dev F1 rises and then falls by some points."""
    start = _start(rng)
    mean = _approach(setting, start, start * rng.uniform(0.0, 0.2), rng.uniform(2, 4))
    t = np.arange(setting.epochs) / (setting.epochs - 1)
    peak = rng.uniform(0.2, 0.5)
    f1 = 86 - rng.uniform(3, 6) * np.square(t - peak) / (1 - peak) ** 2
    f1 += rng.normal(0, 0.1, setting.epochs)
    return make_record(rng, setting, mean, 2.0 / setting.updates, f1)


MAKERS: dict[str, Callable[[np.random.Generator, Setting], dict[str, Any]]] = {
    "converged": converged,
    "improving": improving,
    "too few updates": too_few_updates,
    "oscillating": oscillating,
    "stalled": stalled,
    "diverged": diverged,
    "overfitting": overfitting,
}
"""Label → function that makes a record with this label."""
