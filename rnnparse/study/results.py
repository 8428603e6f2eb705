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

from rnnparse.study.diagnose import LABELS, Diagnosis, diagnose
from rnnparse.study.records import RecordFile, canonical, read_study
from rnnparse.study.trends import student_quantile

TITLES = {
    "dev_f1": "dev F1",
    "l2": "L2",
    "gap": "distance of the best iterate to the optimum",
    "bound": "upper bound on that distance",
    "update_ratio": "‖update‖ / ‖weights‖",
    "violated": "share of violated examples",
}
"""Names of quantities and axes as people read them, where they are not the names themselves."""

_HIGHER = re.compile(r"acc|auc|f1|f_?measure|precision|recall|bleu|score|iou")
_FIRST = ("dev_f1", "objective", "loss")
_NO_METRICS = ("beta", "saturation", "weight_norm", "violated")
_MOST_METRICS = 6


def title(name: str) -> str:
    """The name of an axis or a quantity as people read it."""
    return TITLES.get(name, name.replace("_", " "))


def text(value: Any) -> str:
    """A value of an axis as people read it."""
    return value if isinstance(value, str) else canonical(value)


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
class Setting:
    """The trials that differ in nothing but the seed.

    Attributes:
        config: what they share.
        trials: their places in the records.
        label: the diagnosis that most of them have.
    """

    config: Mapping[str, Any]
    trials: tuple[int, ...]
    label: str


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
    def settings(self) -> list[Setting]:
        """The settings, in the order in which their first trials ended."""
        places: dict[str, list[int]] = {}
        for i, record in enumerate(self.records):
            places.setdefault(canonical(record["config"]), []).append(i)
        return [
            Setting(self.records[trials[0]]["config"], tuple(trials), self._label(trials))
            for trials in places.values()
        ]

    def _label(self, trials: Sequence[int]) -> str:
        labels = [self.diagnoses[i].label for i in trials]
        return max(LABELS, key=labels.count)

    @cached_property
    def axes(self) -> list[Axis]:
        """All axes of the records' configs."""
        listed = self.about["space"]["axes"]
        used: dict[str, dict[str, Any]] = {name: {} for name in listed}
        for record in self.records:
            for name, value in record["config"].items():
                used.setdefault(name, {})[canonical(value)] = value
        return [_axis(name, listed.get(name, ()), found) for name, found in used.items()]

    @cached_property
    def metrics(self) -> list[Metric]:
        """What trials end with: dev F1, objective and loss if they are there, then others."""
        names = dict.fromkeys(_FIRST)
        for record in self.records:
            for epoch in record["epochs"][-1:]:
                names |= dict.fromkeys(name for name, _ in numbers(epoch))
        shown = [name for name in names if name not in _NO_METRICS and self._has(name)]
        return [Metric(name, bool(_HIGHER.search(name.lower()))) for name in shown[:_MOST_METRICS]]

    def _has(self, name: str) -> bool:
        return any(self.value(i, name) is not None for i in range(len(self.records)))

    @cached_property
    def means(self) -> list[list[tuple[float | None, float | None]]]:
        """Of each metric, for each setting: the mean over seeds and half its 95 % interval."""
        return [
            [
                mean_and_half([self.value(trial, metric.name) for trial in setting.trials])
                for setting in self.settings
            ]
            for metric in self.metrics
        ]

    @cached_property
    def best(self) -> int | None:
        """The place of the best setting; None where none has finished."""
        if not self.metrics:
            return None
        sign = -1 if self.metrics[0].higher else 1
        there = [(sign * mean, i) for i, (mean, _) in enumerate(self.means[0]) if mean is not None]
        return min(there)[1] if there else None

    def value(self, trial: int, name: str) -> float | None:
        """What a quantity was at the end of a trial; None for trials that did not finish.

        The objective is the end of the line through the last half of its curve, which single
        updates do not move much.
        """
        record = self.records[trial]
        if record["status"] != "finished":
            return None
        if name == "objective" and "end" in self.diagnoses[trial].evidence:
            return float(self.diagnoses[trial].evidence["end"])
        found = [epoch.get(name) for epoch in record["epochs"][-1:]]
        values = found or record["updates"].get(name, ())[-1:]
        return values[0] if values and isinstance(values[0], (int, float)) else None


def load_results(folder: str | os.PathLike[str]) -> Results:
    """Read a study folder and diagnose its trials.

    Raises:
        StudyError: there is no study, or it is damaged.
    """
    about = read_study(folder)
    records = RecordFile(folder).load()
    return Results(Path(folder), about, records, [diagnose(record) for record in records])


def numbers(epoch: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """The quantities of an epoch that are numbers, but for its own number and its time."""
    for name, value in epoch.items():
        number = value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
        if number and name not in ("epoch", "seconds"):
            yield name, value


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


def mean_and_half(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """The mean of the values that are there, and half its 95 % interval if there are several."""
    there = [value for value in values if value is not None]
    if not there:
        return None, None
    mean = math.fsum(there) / len(there)
    if len(there) == 1:
        return mean, None
    variance = math.fsum((x - mean) ** 2 for x in there) / (len(there) - 1)
    return mean, student_quantile(len(there) - 1) * math.sqrt(variance / len(there))
