"""Real optimizers on problems with known answers, recorded as means over epochs only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

OPTIMIZERS = ("sgd", "momentum", "adam")
UPDATES = 16
"""Updates per epoch."""

Gradient = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]


class Problem(NamedTuple):
    """`gradient(weights, batch)` returns loss and gradient; `start` has the initial weights."""

    name: str
    gradient: Gradient
    start: np.ndarray
    examples: int = 320


@dataclass(frozen=True)
class Run:
    """A record, and what it omits: the loss over all examples before and after training."""

    record: dict[str, Any]
    first: float
    last: float


def regression() -> Problem:
    """Least squares with curvatures that differ by a factor of about a hundred."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(320, 12)) * np.geomspace(1, 0.1, 12)
    y = x @ np.linspace(3, -3, 12) + 0.3 * rng.normal(size=320)

    def gradient(w: np.ndarray, batch: np.ndarray) -> tuple[float, np.ndarray]:
        off = x[batch] @ w - y[batch]
        return float(off @ off) / len(batch), 2 * x[batch].T @ off / len(batch)

    return Problem("regression", gradient, np.zeros(12))


def logistic() -> Problem:
    """Logistic regression on overlapping classes."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(320, 8))
    y = np.sign(x @ rng.normal(size=8) + rng.logistic(size=320))

    def gradient(w: np.ndarray, batch: np.ndarray) -> tuple[float, np.ndarray]:
        margin = y[batch] * (x[batch] @ w)
        share = 1 / (1 + np.exp(np.clip(margin, -500, 500)))
        slope = -(x[batch] * (y[batch] * share)[:, None]).mean(axis=0)
        return float(np.logaddexp(0, -margin).mean()), slope

    return Problem("logistic", gradient, np.zeros(8))


def network() -> Problem:
    """A network with one hidden layer that fits a smooth function."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(320, 4))
    y = 2 * np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    shapes = ((4, 16), (16,))

    def gradient(w: np.ndarray, batch: np.ndarray) -> tuple[float, np.ndarray]:
        hidden, out = w[:64].reshape(shapes[0]), w[64:]
        h = np.tanh(x[batch] @ hidden)
        off = h @ out - y[batch]
        back = (off[:, None] * out) * (1 - h * h)
        by_hidden = 2 * x[batch].T @ back / len(batch)
        return float(off @ off) / len(batch), np.r_[by_hidden.ravel(), 2 * h.T @ off / len(batch)]

    return Problem("network", gradient, 0.4 * rng.normal(size=80))


PROBLEMS = (regression, logistic, network)


def run(problem: Problem, optimizer: str, rate: float, epochs: int, seed: int = 0) -> Run:
    """Train; the record has the mean loss of each epoch, as Keras's `fit` reports it."""
    rng, w = np.random.default_rng(seed), problem.start.copy()
    everything = np.arange(problem.examples)
    first, entries = problem.gradient(w, everything)[0], []
    step = _stepper(optimizer, rate, len(w))
    with np.errstate(all="ignore"):
        for epoch in range(1, epochs + 1):
            losses = []
            for batch in np.array_split(rng.permutation(problem.examples), UPDATES):
                loss, slope = problem.gradient(w, batch)
                losses.append(loss)
                w = w - step(slope)
            mean = float(np.mean(losses))
            entries.append({"epoch": epoch, "loss": mean if abs(mean) < 1e100 else None})
        last = problem.gradient(w, everything)[0]
    config = {"optimizer": optimizer, "learning_rate": rate}
    status = "diverged" if entries[-1]["loss"] is None else "finished"
    record = {"config": config, "seed": seed, "status": status, "updates": {}, "epochs": entries}
    return Run(record, first, last if math.isfinite(last) else math.inf)


def _stepper(optimizer: str, rate: float, size: int) -> Callable[[np.ndarray], np.ndarray]:
    first, second, count = np.zeros(size), np.zeros(size), 0

    def step(slope: np.ndarray) -> np.ndarray:
        nonlocal first, second, count
        count += 1
        if optimizer == "sgd":
            return rate * slope
        if optimizer == "momentum":
            first = 0.9 * first + slope
            return rate * first
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope * slope
        return rate * (first / (1 - 0.9**count)) / (np.sqrt(second / (1 - 0.999**count)) + 1e-7)

    return step


def contradictions(runs: list[Run], labels: list[str]) -> Iterator[tuple[Run, str, str]]:
    """Yield the runs of one study whose label contradicts the loss over all examples.

    Only clear cases count. A loss that ends at twice its start has diverged. If any run lowers the
    loss by a fifth, a run that covers 97 % of that way did not lack updates, diverge or stall. A
    run that covers less than half of it has not converged, and one that covers less than 5 % has
    not diverged either.
    """
    best = min(run.last for run in runs)
    for one, label in zip(runs, labels, strict=True):
        way = (one.first - one.last) / (one.first - best)
        if one.last > 2 * one.first:
            if label != "diverged":
                yield one, label, "diverged"
        elif way > 0.97 and best < 0.8 * one.first:
            if label in ("diverged", "too few updates", "stalled"):
                yield one, label, "went all the way"
        elif way < 0.5 and label == "converged":
            yield one, label, "went less than half the way"
        elif 0 <= way < 0.05 and label == "diverged":
            yield one, label, "went nowhere"
