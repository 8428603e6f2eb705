"""What a study has found so far, read from its folder: for reports, tables and drawings."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.errors import RnnparseError, StudyError
from rnnparse.study.curve import OBJECTIVES
from rnnparse.study.diagnosis import Diagnosis, diagnose_all
from rnnparse.study.diagnosis.comparison import examples, in_effect
from rnnparse.study.diagnosis.statistics import student_quantile
from rnnparse.study.manifest import read_study
from rnnparse.study.records import RecordFile, canonical, data_hash
from rnnparse.study.report.significance import Comparison, against_best, best_epoch
from rnnparse.study.report.summary import rows

TITLES = {
    "dev_f1": "dev F1",
    "l2": "L2",
    "gap": "best iterate above the optimum",
    "bound": "upper bound on that",
    "update_ratio": "‖update‖ / ‖weights‖",
    "violated": "share of violated examples",
}
"""Names of quantities and axes as people read them, where they are not the names themselves."""

_HIGHER = re.compile(r"acc|auc|f1|f_?measure|precision|recall|bleu|score|iou")
_FIRST = ("dev_f1", "objective", "loss")
_NO_METRICS = ("beta", "saturation", "weight_norm", "violated")
_MOST_METRICS = 6
ROUNDED = 2e-4  # of F1, as a share: what two digits of per cent leave out, and more
_MOST_BEYOND = 12


def title(name: str) -> str:
    """The name of an axis or a quantity as people read it."""
    return TITLES.get(name, name.replace("_", " "))


def text(value: Any) -> str:
    """A value of an axis as people read it."""
    if isinstance(value, str):
        return readable(value)
    return canonical(value).removesuffix(".0") if isinstance(value, float) else canonical(value)


def readable(name: str) -> str:
    """A name of a file as people read it: U+FFFD for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def showing(name: str, value: Any) -> str:
    """A value of an axis with the name of the axis, unless it is a word."""
    return value if isinstance(value, str) else f"{title(name)} {text(value)}"


@dataclass(frozen=True)
class Metric:
    """A number at the end of a trial, by which settings are compared.

    Attributes:
        name: as epochs or updates have it.
        higher: whether more is better.
    """

    name: str
    higher: bool


@dataclass(frozen=True)
class Axis:
    """An axis with the values that occur: numbers by size, others as the space lists them."""

    name: str
    values: tuple[Any, ...]

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in self.values)


@dataclass(frozen=True)
class Results:
    """A study's records with what they mean.

    Attributes:
        folder: of the study.
        about: `study.json`.
        records: in the order in which the trials ended.
        diagnoses: of each.
    """

    folder: Path
    about: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    diagnoses: Sequence[Diagnosis]

    @cached_property
    def settings(self) -> list[dict[str, Any]]:
        """A row for each setting; see `rnnparse.study.report.summary.rows`."""
        return rows(self.records, self.diagnoses)

    def diagnosis(self, setting: int) -> Diagnosis:
        """Of a setting: that of its first trial which has the setting's label."""
        row = self.settings[setting]
        trials = (self.diagnoses[trial] for trial in row["trials"])
        return next(found for found in trials if found.label == row["label"])

    @cached_property
    def axes(self) -> list[Axis]:
        """All axes of the records' configs; None is the value where a config lacks one."""
        listed = self.about["space"]["axes"]
        configs = [record["config"] for record in self.records]
        used: dict[str, dict[str, Any]] = {name: {} for name in listed}
        for name in (name for config in configs for name in config):
            used.setdefault(name, {})
        for config in configs:
            for name in used:
                value = config.get(name)
                used[name][canonical(value)] = value
        return [_axis(name, listed.get(name, ()), found) for name, found in used.items()]

    @cached_property
    def varying(self) -> list[int]:
        """The places of the axes that tell settings apart.

        An axis that varies as one before it does, like the patience with the epochs, adds nothing.
        """
        groups: dict[tuple[int, ...], int] = {}
        for i, axis in enumerate(self.axes):
            numbers: dict[str, int] = {}
            values = [canonical(row["config"].get(axis.name)) for row in self.settings]
            groups.setdefault(tuple(numbers.setdefault(x, len(numbers)) for x in values), i)
        return [i for i in groups.values() if len(self.axes[i].values) > 1]

    @cached_property
    def beyond(self) -> list[int]:
        """The few settings that were tried beyond a grid, such as the best ones with more epochs.

        They stand beside a map of the grid, in the order of the axes' values; where they are many,
        they belong to the map, and there are none here.
        """
        further = set(map(canonical, self.about["space"].get("further", ())))
        configs = [row["config"] for row in self.settings]
        found = [i for i, config in enumerate(configs) if canonical(config) in further]
        if len(found) > min(_MOST_BEYOND, len(configs) - 1):
            return []
        axes = [self.axes[i] for i in self.varying]
        order = [{canonical(value): i for i, value in enumerate(axis.values)} for axis in axes]

        def place(setting: int) -> list[int]:
            values = [canonical(configs[setting].get(axis.name)) for axis in axes]
            return [places[value] for places, value in zip(order, values, strict=True)]

        return sorted(found, key=place)

    @cached_property
    def metrics(self) -> list[Metric]:
        """What trials end with, at least one: first what the study compares them by.

        Where `study.json` does not tell, that is dev F1, or objective, or loss. What is accuracy,
        F1 or the like is taken to be better if it is more, as Keras does.
        """
        measure = self.about.get("metric") or {}
        first = {measure["name"]: bool(measure["maximize"])} if measure else {}
        names = dict.fromkeys([*first, *_FIRST])
        for record in self.records:
            for epoch in record["epochs"][-1:]:
                names |= dict.fromkeys(name for name, _ in numbers(epoch))
        found = [
            Metric(name, first.get(name, bool(_HIGHER.search(name.lower()))))
            for name in names
            if name not in _NO_METRICS and self._has(name)
        ]
        return found[:_MOST_METRICS] or [Metric("objective", False)]

    def _has(self, name: str) -> bool:
        return any(self.value(i, name) is not None for i in range(len(self.records)))

    @cached_property
    def means(self) -> list[list[tuple[float | None, float | None]]]:
        """Of each metric, for each setting: the mean over seeds and half its 95 % interval."""
        return [[self._mean(row, metric.name) for row in self.settings] for metric in self.metrics]

    def _mean(self, row: Mapping[str, Any], name: str) -> tuple[float | None, float | None]:
        values = [self.value(trial, name) for trial in row["trials"]]
        there = [value for value in values if value is not None]
        n = len(there)
        if n < 2:
            return (there[0] if there else None), None
        half = student_quantile(n - 1) * float(np.std(there, ddof=1)) / math.sqrt(n)
        return math.fsum(there) / n, half

    def value(self, trial: int, name: str) -> float | None:
        """What a trial gave; None if it did not finish.

        Dev F1 is that of the best epoch, as a training run keeps that; the objective (or the loss
        without one) is the end of the line through the last half of its curve, which single
        updates do not move much; others are those of the last epoch, or update.
        """
        record = self.records[trial]
        if record["status"] != "finished":
            return None
        if name == "dev_f1":
            return (best_epoch(record) or {}).get(name)
        if name == _judged(record) and "end" in self.diagnoses[trial].evidence:
            return float(self.diagnoses[trial].evidence["end"])
        found = [epoch[name] for epoch in record["epochs"][-1:] if name in epoch]
        values = found or record["updates"].get(name, ())[-1:]
        return values[0] if values and isinstance(values[0], (int, float)) else None

    @cached_property
    def best(self) -> int | None:
        """The place of the setting that is best by the first metric; None where none has it."""
        sign = -1 if self.metrics[0].higher else 1
        there = [(sign * mean, i) for i, (mean, _) in enumerate(self.means[0]) if mean is not None]
        return min(there)[1] if there else None

    @cached_property
    def compared(self) -> list[Comparison | None]:
        """The best setting against each, by dev F1; None where that is not possible."""
        if self.metrics[0].name != "dev_f1":
            return [None] * len(self.settings)
        return against_best(self.settings, self.records, self.about["gold"])

    @cached_property
    def alike(self) -> list[bool]:
        """Of each setting, whether the best is better within noise only."""
        return [
            i != self.best and found is not None and found.within_noise
            for i, found in enumerate(self.compared)
        ]

    def command(self, trial: int) -> str | None:
        """The command that repeats a trial; None where the study knows none."""
        commands: Mapping[str, str] = self.about.get("commands", {})
        return commands.get(self.records[trial]["id"])

    @cached_property
    def effects(self) -> list[dict[str, Any]]:
        """Of each setting, what its values come to: equal where settings do the same."""
        size = examples(self.about)
        configs = [row["config"] for row in self.settings]
        return [{k: in_effect(k, value, size) for k, value in c.items()} for c in configs]

    def same(self, setting: int) -> list[int]:
        """The other settings that do the same as one."""
        keys = [canonical(effect) for effect in self.effects]
        return [i for i, key in enumerate(keys) if key == keys[setting] and i != setting]

    def name(self, setting: int) -> str:
        """What tells a setting from the others."""
        config = self.settings[setting]["config"]
        axes = [self.axes[i] for i in self.varying]
        parts = [showing(axis.name, config[axis.name]) for axis in axes if axis.name in config]
        return ", ".join(parts) or "the only setting"


Source = str | os.PathLike[str] | Results
"""A study's folder, or what `load_results` has read from it."""


def load_results(study: Source) -> Results:
    """Read a study folder and diagnose its trials; results are given back as they are.

    Of several records of a trial, as where files were put together, the last counts.

    Raises:
        StudyError: there is no study, it is damaged, or records are of other data.
    """
    if isinstance(study, Results):
        return study
    about = read_study(study)
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    file, data = RecordFile(study), data_hash(about["data"])
    kept: dict[str, dict[str, Any]] = {}
    for record in file:
        try:
            _check_belongs(record, about, data)
        except RnnparseError as error:
            raise StudyError(
                f"{file.path}: the trial {record['id']} is none of this study: {error}; remove its "
                "line"
            ) from None
        kept[record["id"]] = _shared(record, pairs)
    records = list(kept.values())
    return Results(Path(study), about, records, diagnose_all(records))


def _check_belongs(record: Mapping[str, Any], about: Mapping[str, Any], data: str | None) -> None:
    """Raise an error where a record cannot be one of a study."""
    if record["data"] != data:
        raise StudyError("it is of other data")
    gold = about["gold"]
    for epoch in record["epochs"] if gold is not None else ():
        counts = epoch.get("dev_counts") or ()
        if counts and len(counts) != len(gold):
            raise StudyError(f"it was scored on {len(counts)} sentences, but gold has {len(gold)}")
        if any(matched > most for (matched, _), most in zip(counts, gold, strict=False)):
            raise StudyError("more brackets are matched than gold has")
        if counts and not _is_f1(epoch.get("dev_f1"), counts, gold):
            raise StudyError(f"dev_f1 of epoch {epoch['epoch']:g} is not that of its dev_counts")


def _is_f1(f1: float | None, counts: Sequence[Sequence[int]], gold: Sequence[int]) -> bool:
    """Whether a number is the F1 of counts, in per cent or as a share, rounded at most."""
    matched, test = map(sum, zip(*counts, strict=True))
    share = 2 * matched / max(1, test + sum(gold))
    return f1 is not None and min(abs(f1 - 100 * share) / 100, abs(f1 - share)) <= ROUNDED


def _shared(
    record: dict[str, Any], pairs: dict[tuple[int, int], tuple[int, int]]
) -> dict[str, Any]:
    """A record whose counts by sentence share their pairs with others: few differ, many are alike.

    Ten thousand trials of 316 sentences take a quarter of the memory then.
    """
    for epoch in record["epochs"]:
        counts = epoch.get("dev_counts")
        if counts:
            epoch["dev_counts"] = [pairs.setdefault(pair, pair) for pair in map(tuple, counts)]
    return record


def numbers(epoch: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """The quantities of an epoch that are numbers, but for its own number and its time."""
    for name, value in epoch.items():
        number = value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
        if number and name not in ("epoch", "seconds"):
            yield name, value


def _judged(record: Mapping[str, Any]) -> str:
    """The curve that the diagnosis looks at."""
    there = (record["updates"], *record["epochs"])
    return next((name for name in OBJECTIVES if any(name in part for part in there)), "")


def series(record: Mapping[str, Any], kind: str) -> Mapping[str, Sequence[float | None]]:
    """The curves of a record by name: of its `updates`, or of its `epochs`."""
    if kind == "updates":
        return record["updates"]
    epochs = [dict(numbers(epoch)) for epoch in record["epochs"]]
    names = dict.fromkeys(name for epoch in epochs for name in epoch)
    found = {name: [epoch.get(name) for epoch in epochs] for name in names}
    convex = record["convex"] or {}
    return found | {name: convex[name] for name in ("gap", "bound") if convex.get(name)}


def _axis(name: str, listed: Sequence[Any], used: Mapping[str, Any]) -> Axis:
    order = dict.fromkeys([*(canonical(value) for value in listed), *used])
    axis = Axis(name, tuple(used[key] for key in order if key in used))
    return Axis(name, tuple(sorted(axis.values))) if axis.numeric else axis
