"""What the trials of a study say about each other: the start, the reference and the best rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from rnnparse.study.diagnosis.evidence import Measurements
from rnnparse.study.diagnosis.measurements import Record, Start, measure
from rnnparse.study.records import canonical
from rnnparse.study.schema import is_number
from rnnparse.study.search_space import RATES

CALM = 0.05
"""A run is calm if no epoch exceeds the first by more than this share of it."""
SLOW = 0.5
"""A run is slow if the second epoch is at least this share of the first."""
BATCHES = ("batch_size", "batch")
"""Names of axes that give the number of examples per update."""
SOLVER_AXES = (
    *(*RATES, *BATCHES, "optimizer", "optimiser", "solver", "epochs", "updates", "steps"),
    *("patience", "momentum", "nesterov", "beta_1", "beta_2", "epsilon", "schedule", "warmup"),
    "clipnorm",
)
"""Axes that decide how an objective is minimized, but not which objective."""

Measured = Sequence[Measurements | None]


def measure_all(records: Sequence[Record]) -> list[Measurements | None]:
    """Measure the trials of a study, each compared with the others on its problem.

    Trials are on the same problem if their settings differ only in `SOLVER_AXES`. The reference of
    a problem is the lowest end that any trial fell to. The trial that reached it has none, because
    it may still have far to go.
    """
    problems = [_problem(record) for record in records]
    measured = [measure(record) for record in records]
    starts = _starts(records, problems, measured)
    for i, m in enumerate(measured):
        start = starts[problems[i]]
        if m is not None and not m.start_known and start is not None:
            measured[i] = measure(records[i], start=start)
    lowest: dict[str, tuple[float, int]] = {}
    for i, m in enumerate(measured):
        if m is not None and not m.broke and m.has_fallen:
            lowest[problems[i]] = min(lowest.get(problems[i], (m.end, i)), (m.end, i))
    rates = _best_rates(records, measured)
    for i, m in enumerate(measured):
        if m is not None:
            reference, best = lowest.get(problems[i], (math.nan, i))
            m = m.compared_to(reference) if math.isnan(m.optimum) and best != i else m
            measured[i] = replace(m, best_rate=rates[i])
    return measured


def examples(about: Mapping[str, Any]) -> int | None:
    """The number of training examples that `study.json` states; None if unknown."""
    size: int | None = (about.get("sizes") or {}).get("train")
    return size


def in_effect(name: str, value: Any, size: int | None) -> Any:
    """The effective value of an axis: a batch never has more examples than the training set.

    Args:
        name: of the axis.
        value: of the setting.
        size: the number of training examples, or None if unknown.
    """
    too_large = size and is_number(value) and name in BATCHES and value > size
    return size if too_large else value


def _problem(record: Record) -> str:
    config = record.get("config") or {}
    kept = {name: value for name, value in config.items() if name not in SOLVER_AXES}
    return canonical([kept, record.get("data")])


def _split_rate(record: Record) -> tuple[str, Any, str]:
    """Name and value of the learning rate (empty and None without one), and all other settings."""
    config = dict(record.get("config") or {})
    name = next((name for name in RATES if name in config), "")
    rate = config.pop(name, None)
    return name, rate, canonical([config, record.get("data")])


def _starts(
    records: Sequence[Record], problems: Sequence[str], measured: Measured
) -> dict[str, Start | None]:
    """For each problem the objective before the first update; None if unknown.

    A mean over the first epoch is not the start: a good rate has lowered it by then, and an
    excessive one has raised it. Trials that recorded the start decide, by their median. Otherwise
    the runs with the lowest rate of each optimizer decide, because they change least within an
    epoch: the highest start of those that are calm, and slow if any are.
    """
    members: dict[str, list[int]] = {}
    for i, problem in enumerate(problems):
        members.setdefault(problem, []).append(i)
    return {
        problem: _start([(records[i], measured[i]) for i in places])
        for problem, places in members.items()
    }


def _start(trials: Sequence[tuple[Record, Measurements | None]]) -> Start | None:
    known = [m for _, m in trials if m is not None and m.start_known]
    if known:
        return Start(median(m.start for m in known), median(m.start_error for m in known))
    groups: dict[str, list[tuple[float, Measurements | None]]] = {}
    for record, m in trials:
        _, rate, others = _split_rate(record)
        if is_number(rate):
            groups.setdefault(others, []).append((rate, m))
    lowest = []
    for group in groups.values():
        least = min(rate for rate, _ in group)
        lowest += [m for rate, m in group if rate == least]
    sound = [m for m in lowest if m is not None and not m.broke]
    calm = [m for m in sound if m.curve.max() <= m.curve[0] + CALM * abs(m.curve[0])]
    slow = [m for m in calm if len(m.curve) > 1 and m.curve[1] >= SLOW * m.curve[0]]
    highest = max(slow or calm, key=lambda m: m.start, default=None)
    return None if highest is None else Start(highest.start, highest.start_error)


def _best_rates(records: Sequence[Record], measured: Measured) -> list[str]:
    """For each trial the rate that reached the lowest objective with all other settings equal.

    Seeds are averaged; rates that diverge for any seed are excluded. Empty if it is the trial's
    own rate, or if no rate lowered the objective.
    """
    groups, rates = [], []
    ends: dict[str, dict[str, list[float]]] = {}
    for record, m in zip(records, measured, strict=True):
        name, value, others = _split_rate(record)
        rate = f"{name.replace('_', ' ')} {canonical(value).removesuffix('.0')}" if name else ""
        groups.append(others)
        rates.append(rate)
        if record.get("status") == "diverged" or (m is not None and m.broke):
            ends.setdefault(others, {}).setdefault(rate, []).append(math.inf)
        elif m is not None and m.has_fallen:
            ends.setdefault(others, {}).setdefault(rate, []).append(m.end)
    best: dict[str, str] = {}
    for group, by_rate in ends.items():
        means = {rate: math.fsum(values) / len(values) for rate, values in by_rate.items()}
        rate = min(means, key=means.__getitem__)
        best[group] = rate if math.isfinite(means[rate]) else ""
    chosen = [best.get(group, "") for group in groups]
    return ["" if rate == own else rate for rate, own in zip(chosen, rates, strict=True)]
