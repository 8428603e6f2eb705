"""Mutations of studies: `study.json`, its records, and grids in TOML."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.cli.study_show import show
from rnnparse.parser_study.grid import Grid
from rnnparse.parser_study.study import plateau_settings
from rnnparse.study.curve import Curve
from rnnparse.study.manifest import STUDY, read_study, write_study
from rnnparse.study.records import RECORDS, RecordFile, data_hash, make_record, trial_id
from rnnparse.study.report.csv_table import write_csv
from rnnparse.study.report.hparams import write_hparams
from rnnparse.study.report.page import write_report
from rnnparse.study.report.results import load_results
from rnnparse.study.search_space import Space
from rnnparse.study.study import Study
from tests.fuzz.commands import strict_json
from tests.fuzz.harness import Target
from tests.fuzz.text_mutations import mutate_file
from tests.study.made_up import study_folder

GRID, PLAIN, TOML = "grid", "plain", "grid.toml"

_TOML = """\
preset = "question"

[grid]
learning_rate = {sgd = "log:1e-4:1:9", default = [0.1, 0.01]}
optimizer = ["sgd", "adam"]
batch_size = [25, 256]
l2 = "0.1,lin:0:0.5:6"
objective = "hinge"
epochs = 2
seeds = [0, 1, 2]

[training]
candidates = 50
freeze = ["v", "W:NP"]
heads = "left"
"""

_TEXTS = ("", "x", "learning_rate", "\ud800", "\udce9", "\0", "<b>&'\"", "a" * 5000, "adam", "NaN")
_HARD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 100, 0.5, -0.5, 1e-9, 1e99, -1e99, 1e101, 1e300, 5e-324),
    *(2**31, 2**63, 2**64, 10**99, 10**120, -(10**50), float("nan"), float("inf"), -float("inf")),
    *(*_TEXTS, "2026-01-02", "finished", "diverged", "failed", "out of memory"),
    *([], {}, [[]], [{}], [None], [0, 1], [[1, 2]], [[2, 1]], ["x"], {"": 1}, {"x": []}),
    *([1.0, 0.5, None, 0.1], [1.0] * 300, [1e90, 1e99], {"type": "E", "message": "m"}),
)
_RAW = ("1e999", "9" * 5000, "[" * 3000, "-0", "01", "1.", "'x'", "{,}", '"\\ud83d"', "Infinity")


def make_study(folder: Path) -> None:
    """A grid of the parser's, a study of a plain function, and a grid in TOML."""
    axes = {"optimizer": ("sgd", "adam"), "learning_rate": (0.1, 0.001), "batch_size": (300,)}
    failing = {"failed": {"optimizer": "adam", "learning_rate": 0.001}}
    made = study_folder(
        folder / GRID, axes, seeds=(0, 1), sentences=4, examples=600, failing=failing
    )
    about = read_study(made)
    more = {"sizes": {"train": 600, "dev": 4}, "baselines": {"the grammar alone": 80.0}}
    metric = {"name": "dev_f1", "maximize": True}
    kept = {name: value for name, value in about.items() if name != "format"}
    write_study(made, {**kept, **more, "metric": metric})
    _make_plain(folder / PLAIN)
    (folder / TOML).write_text(_TOML, encoding="utf-8")


def _make_plain(folder: Path) -> None:
    space = Space({"rate": [0.1, 0.01, 1e-6], "kind": ["a", None], "n": [1, 2]}, fixed={"x": [1]})
    write_study(
        folder,
        {
            **{"name": "plain", "created": "2026-01-02T03:04:05+00:00", "versions": {"numpy": "2"}},
            **{"space": space.to_dict(), "data": {"train": "0"}, "gold": None, "command": None},
        },
    )
    with RecordFile(folder) as file:
        for trial in space.trials():
            rate = trial.config["rate"]
            loss = [float(x) for x in 0.1 + np.exp(-rate * np.arange(12)) * trial.config["n"]]
            epochs = [
                {"epoch": i, "loss": x, "val_loss": x + 0.01 * i, "accuracy": 1 - x, "note": "n"}
                for i, x in enumerate(loss, 1)
            ]
            updates: dict[str, list[float | None]] = {"objective": [x for x in loss for _ in "abc"]}
            convex = {"optimum": 0.1, "gap": loss, "bound": [2 * x for x in loss]}
            curve = [Curve({}, epochs), Curve(updates), Curve(updates, epochs, convex)]
            chosen = curve[len(trial.id.strip("0123456789")) % 3]
            data = data_hash({"train": "0"})
            file.append(make_record(trial.config, 0, "finished", chosen, data=data, seconds=1.5))


def mutate_study(folder: Path, rng: random.Random) -> None:
    """Change one of the three in some places, or put something else for a file; the others go."""
    kept = rng.choice((GRID, GRID, PLAIN, PLAIN, TOML))
    for name in {GRID, PLAIN, TOML} - {kept}:
        shutil.rmtree(folder / name) if name != TOML else (folder / name).unlink()
    if kept == TOML:
        hard = (b"[1]", b"1979-05-27", b"{a = 1}", b'"log:1:1:3"', b"[[]]", b"inf", b"true")
        mutate_file(folder / kept, rng, hard)
        return
    for _ in range(min(6, 1 + int(rng.expovariate(1)))):
        rng.choice(_CHANGES)(folder / kept, rng)
    if rng.random() < 0.2:
        _change_kind(folder / kept, rng)


def _change_about(folder: Path, rng: random.Random) -> None:
    path = folder / STUDY
    text = _changed(path.read_text("utf-8", "replace"), rng, lambda value: None)
    path.write_text(text, encoding="utf-8", errors="replace")


def _change_record(folder: Path, rng: random.Random) -> None:
    lines = (folder / RECORDS).read_text("utf-8", "replace").splitlines(keepends=True)
    if not lines:
        return
    place = rng.randrange(len(lines))
    lines[place] = _changed(lines[place], rng, _with_id if rng.random() < 0.7 else _as_it_is) + "\n"
    (folder / RECORDS).write_text("".join(lines), encoding="utf-8", errors="replace")


def _as_it_is(value: Any) -> None:
    pass


def _with_id(record: Any) -> None:
    """Give a record the id of its settings, so that no check of that hides what comes after."""
    try:
        record["id"] = trial_id(record["config"], record["seed"])
    except Exception:  # it has no settings any more
        return


def _changed(text: str, rng: random.Random, finish: Callable[[Any], None]) -> str:
    """JSON with a value changed somewhere in it."""
    try:
        value = json.loads(text)
        where = _places(value)
    except (ValueError, RecursionError):
        return text
    if not where:
        return text
    holder, key = rng.choice(where)
    kind = rng.randrange(8)
    raw = None
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice((*_TEXTS, "loss", "objective", "dev_f1"))] = rng.choice(_HARD)
    elif kind == 2 and isinstance(holder, list):
        holder.insert(key, rng.choice(_HARD))
    elif kind == 3:
        other, name = rng.choice(where)
        holder[key] = json.loads(json.dumps(other[name]))
    elif kind == 4:
        holder[key], raw = "RAW", rng.choice(_RAW)
    elif kind == 5 and isinstance(holder[key], (int, float)):
        holder[key] = rng.choice((-1, 0, 1e-30, 1e30, 2, 1e-3)) * holder[key]
    else:
        holder[key] = rng.choice(_HARD)
    finish(value)
    written = json.dumps(value, separators=(",", ":"))
    return written if raw is None else written.replace('"RAW"', raw)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value: its holder, and the key there."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, (dict, list)):
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))[:20]
            places += [(holder, key) for key in keys]
            waiting += [holder[key] for key in keys]
    return places


def _change_bytes(folder: Path, rng: random.Random) -> None:
    mutate_file(folder / rng.choice((STUDY, RECORDS)), rng, (b'{"id":"', b",", b":", b"null"))


def _change_lines(folder: Path, rng: random.Random) -> None:
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    rng.shuffle(lines)
    kept = lines[: rng.randrange(len(lines) + 1)] + lines[: rng.choice((0, 0, 1, 3))]
    (folder / RECORDS).write_bytes(b"".join(kept) + rng.choice((b"", b"", b"\0" * 99, b'{"id":"0')))


def _change_kind(folder: Path, rng: random.Random) -> None:
    """Put a pipe, a folder or a device in the place of a file, or a file of something else."""
    path = folder / rng.choice((STUDY, RECORDS, ".lock", "report.html", "hparams", "map.svg"))
    path.unlink(missing_ok=True)
    kind = rng.randrange(5)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to("/dev/zero")
    elif kind == 3:
        path.write_text("mine\n")


_CHANGES: tuple[Callable[[Path, random.Random], None], ...] = (
    *(_change_about,) * 6,
    *(_change_record,) * 9,
    *(_change_bytes, _change_bytes, _change_lines),
)


def check_study(folder: Path) -> None:
    """Read what there is; show it, report on it, and go on with it, but for new trials."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        if (folder / TOML).exists():
            strict_json(json.dumps(Grid.from_toml(folder / TOML).to_dict(), allow_nan=False))
        for name in (GRID, PLAIN):
            if (folder / name).exists():
                _check_folder(folder / name)


def _check_folder(folder: Path) -> None:
    results = load_results(folder)
    printed = io.StringIO()
    with redirect_stdout(printed):
        show(results, rows=100, advice=True)
    printed.getvalue().encode("utf-8", "surrogateescape")
    printed = io.StringIO()
    with redirect_stdout(printed):
        show(results, as_json=True)
    strict_json(printed.getvalue()).keys()
    write_report(results)
    write_csv(results)
    if results.records and int(results.records[0]["id"], 16) % 8 == 0:
        write_hparams(results)
    _go_on(folder)


def _go_on(folder: Path) -> None:
    """What a study does before its first trial, and what the parser's do after the last."""
    about = read_study(folder)
    metric = about.get("metric") or {"name": "objective", "maximize": False}
    kind = Grid if "rates" in about["space"] else Space
    names = {field.name for field in fields(kind)}
    space = kind(**{name: value for name, value in about["space"].items() if name in names})
    options = {"metric": metric["name"], "maximize": metric["maximize"]}
    study = Study(space, print, folder, data=about["data"], n_jobs=1, **options)
    study.check()
    with study.file:
        study.plan()
    ids = {trial.id for trial in study.trials}
    records = [record for record in study.records() if record["id"] in ids]
    if isinstance(space, Grid):
        plateau_settings(records, about["gold"], 9, 1)


# An optimizer of Keras loads TensorFlow, which takes its time.
STUDIES = (Target("study", make_study, mutate_study, check_study, seconds=90.0),)
