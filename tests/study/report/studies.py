"""Small studies for the tests of reports: results in memory, and folders of any function."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnparse.parser_study.grid import Grid
from rnnparse.study.curve import Curve
from rnnparse.study.diagnosis import diagnose_all
from rnnparse.study.manifest import write_study
from rnnparse.study.records import RECORDS, data_hash, make_record
from rnnparse.study.report.results import Results
from rnnparse.study.search_space import Space
from tests.study.made_up import QUESTION

Curves = Callable[[dict[str, Any], int], Curve]


def results(
    records: Sequence[dict[str, Any]],
    axes: Mapping[str, Sequence[Any]] | None = None,
    space: Space | None = None,
    **about: Any,
) -> Results:
    """Results of records in memory."""
    space = space or Space(axes or _axes_of(records))
    whole = {"name": "made up", "gold": None, "space": space.to_dict(), **about}
    return Results(Path(), whole, records, diagnose_all(records))


def _axes_of(records: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    configs = [record["config"] for record in records]
    names = dict.fromkeys(name for config in configs for name in config)
    values = {name: [config.get(name) for config in configs] for name in names}
    return {name: [*{json.dumps(x): x for x in seen}.values()] for name, seen in values.items()}


def trial(
    config: dict[str, Any],
    *objective: float,
    seed: int = 0,
    f1: Sequence[float] = (),
    status: str = "finished",
    updates: Mapping[str, Sequence[float]] | None = None,
    **epoch: Any,
) -> dict[str, Any]:
    """A record: its objective by update, and an epoch for each F1, the first with more in it."""
    series = {"objective": list(objective) or [0.5**t for t in range(20)], **(updates or {})}
    epochs: list[dict[str, Any]] = [{"epoch": i, "dev_f1": x} for i, x in enumerate(f1, 1)]
    if epoch:
        epochs[:1] = [{"epoch": 1, **(epochs[0] if epochs else {}), **epoch}]
    error = {"type": "ValueError", "message": "no"} if status == "failed" else None
    return make_record(config, seed, status, Curve(series, epochs), error=error)


def plain_study(
    folder: Path, axes: Mapping[str, Sequence[Any]], curves: Curves, **about: Any
) -> Path:
    """The folder of a study of a function: `curves(config, seed)` gives each trial's."""
    space, seconds = Space(axes, about.pop("seeds", (0,))), about.pop("seconds", 0.0)
    known = {"name": folder.name, "created": "2026-01-02T03:04:05+00:00", "versions": {}}
    trials = {"trials": [trial.id for trial in space.trials()]}
    whole = {"space": space.to_dict(), "data": None, "gold": None, "command": None}
    write_study(folder, {**known, **trials, **whole, **about})
    with open(folder / RECORDS, "w", encoding="utf-8") as file:
        for one in space.trials():
            curve = curves(one.config, one.seed)
            status = "diverged" if curve.diverged() else "finished"
            shared = {"data": data_hash(about.get("data", {})), "seconds": seconds}
            record = make_record(one.config, one.seed, status, curve, **shared)
            file.write(json.dumps(record) + "\n")
    return folder


def seeds_study(folder: Path, count: int, spread: float = 0.1) -> Path:
    """A study of an accuracy near 1 whose seeds differ."""

    def run(config: dict[str, float], seed: int) -> Curve:
        values = [min(1.0, config["x"] + spread * (seed % 2) * (i % 3) / 2) for i in range(8)]
        return Curve({}, [{"val_accuracy": value} for value in values])

    return plain_study(folder, {"x": [0.8, 0.9]}, run, seeds=tuple(range(count)))


def growing_study(folder: Path) -> Path:
    """A study with a trial that diverges, and one that does not."""
    return plain_study(
        folder,
        {"factor": [0.9, 2.0], "kind": ["a"]},
        lambda config, seed: Curve({"objective": [config["factor"] ** i for i in range(30)]}),
    )


def further_settings(count: int) -> list[dict[str, Any]]:
    """Settings of the question's grid with more epochs."""
    first = {name: values[0] for name, values in Grid(QUESTION).axes.items()}
    values = itertools.product((256, 512, 1024), ("adam", "sgd"), (0.01, 0.1, 0.001))
    names = ("batch_size", "optimizer", "learning_rate")
    return [
        {**first, **dict(zip(names, chosen, strict=True)), "epochs": 9, "patience": 4}
        for chosen in itertools.islice(values, count)
    ]
