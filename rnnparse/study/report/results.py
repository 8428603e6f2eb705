"""What a study has recorded so far: configurations, their scores, the best."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.errors import StudyError
from rnnparse.study.curve import OBJECTIVES
from rnnparse.study.diagnosis import LABELS, Diagnosis, diagnose_all
from rnnparse.study.diagnosis.comparison import examples, in_effect
from rnnparse.study.diagnosis.statistics import student_quantile
from rnnparse.study.manifest import read_study
from rnnparse.study.records import RecordFile, canonical, data_hash
from rnnparse.study.report.formatting import score_text, with_title
from rnnparse.study.report.settings import Axis, Metric, Score, Setting
from rnnparse.study.report.significance import best_epoch, compare_with_best
from rnnparse.study.schema import is_number

Record = Mapping[str, Any]
"""A trial's record; see `rnnparse.study.schema.Record`."""

ROUNDED = 2e-4
"""A recorded F1 may differ by this share from that of its counts: it has two digits of per cent."""

_HIGHER = re.compile(r"acc|auc|f1|f_?measure|precision|recall|bleu|score|iou")
_FIRST = ("dev_f1", "objective", "loss")
_NO_METRICS = ("beta", "saturation", "weight_norm", "violated")
_MOST_METRICS = 6
_MOST_BEYOND = 12


@dataclass(frozen=True)
class Results:
    """The records of a study, and what follows from them.

    Attributes:
        folder: of the study.
        about: `study.json`.
        records: in the order in which the trials ended.
        diagnoses: one for each record.
    """

    folder: Path
    about: Mapping[str, Any] = field(repr=False)
    records: Sequence[Record] = field(repr=False)
    diagnoses: Sequence[Diagnosis] = field(repr=False)

    @cached_property
    def missing(self) -> int:
        """How many trials of the space have no record; 0 for studies that do not list them."""
        return len(set(self.about.get("trials") or ()) - {record["id"] for record in self.records})

    @cached_property
    def metrics(self) -> list[Metric]:
        """What trials end with, at least one: first what the study compares them by.

        Where `study.json` does not say, that is dev F1, the objective or the loss. More is taken to
        be better for names that contain accuracy, F1 or the like.
        """
        metric = self.about.get("metric") or {}
        first = {metric["name"]: bool(metric["maximize"])} if metric else {}
        names = dict.fromkeys([*first, *_FIRST])
        for record in self.records:
            for epoch in record["epochs"][-1:]:
                names |= dict.fromkeys(name for name, _ in numbers(epoch))
        metrics = [
            Metric(name, first.get(name, bool(_HIGHER.search(name.lower()))))
            for name in names
            if name not in _NO_METRICS
            and any(self.value(trial, name) is not None for trial in range(len(self.records)))
        ]
        return metrics[:_MOST_METRICS] or [Metric("objective", False)]

    def value(self, trial: int, name: str) -> float | None:
        """A metric of a trial; None if it did not finish.

        Dev F1 is that of the best epoch, whose weights training keeps. The objective (or the loss
        without one) is the end of the line through the last half of its curve, which single updates
        hardly move. Other metrics are those of the last epoch, or update.
        """
        record = self.records[trial]
        if record["status"] != "finished":
            return None
        if name == "dev_f1":
            return (best_epoch(record) or {}).get(name)
        evidence = self.diagnoses[trial].evidence
        if name == _judged(record) and "end" in evidence:
            return float(evidence["end"])
        last = [epoch[name] for epoch in record["epochs"][-1:] if name in epoch]
        values = last or record["updates"].get(name, ())[-1:]
        return values[0] if values and isinstance(values[0], (int, float)) else None

    @cached_property
    def settings(self) -> list[Setting]:
        """All configurations, in the order in which their first trials ended."""
        places: dict[str, list[int]] = {}
        for place, record in enumerate(self.records):
            places.setdefault(canonical(record["config"]), []).append(place)
        settings = [self._setting(i, trials) for i, trials in enumerate(places.values())]
        best = self._best_of(settings)
        if best is None or self.metrics[0].name != "dev_f1":
            return settings
        peaks = [self._peaks(setting.trials) for setting in settings]
        compared = compare_with_best(peaks, best.place, self.about.get("gold"))
        return [replace(one, comparison=compared[one.place]) for one in settings]

    def _setting(self, place: int, trials: Sequence[int]) -> Setting:
        counts = Counter(self.diagnoses[i].label for i in trials)
        label = max(LABELS, key=lambda label: counts[label])
        config = dict(self.records[trials[0]]["config"])
        size = examples(self.about)
        epochs = [epoch["epoch"] for epoch in self._peaks(trials)]
        return Setting(
            place,
            config,
            {name: in_effect(name, value, size) for name, value in config.items()},
            tuple(trials),
            next(self.diagnoses[i] for i in trials if self.diagnoses[i].label == label),
            tuple(self._score(trials, metric.name) for metric in self.metrics),
            float(np.median(epochs)) if epochs else None,
        )

    def _peaks(self, trials: Sequence[int]) -> list[Record]:
        """The best epochs of the trials that finished."""
        finished = (self.records[i] for i in trials if self.records[i]["status"] == "finished")
        return [peak for record in finished if (peak := best_epoch(record)) is not None]

    def _score(self, trials: Sequence[int], name: str) -> Score:
        values = [value for i in trials if (value := self.value(i, name)) is not None]
        n = len(values)
        if n < 2:
            return Score(values[0] if values else None, None)
        error = float(np.std(values, ddof=1)) / math.sqrt(n)
        return Score(math.fsum(values) / n, student_quantile(n - 1) * error)

    def _best_of(self, settings: Sequence[Setting]) -> Setting | None:
        scored = [setting for setting in settings if setting.mean is not None]
        return min(scored, key=lambda one: self.metrics[0].rank(one.mean), default=None)

    @cached_property
    def near(self) -> list[Setting]:
        """The other configurations within noise of the best one, the best of them first."""
        return [one for one in self.ranking if self.verdict(one) == "within noise"]

    def verdict(self, setting: Setting) -> str:
        """Whether a configuration is the "best" or "within noise" of it; "" for others."""
        if setting is self.best:
            return "best"
        compared = setting.comparison
        return "within noise" if compared and compared.within_noise else ""

    @cached_property
    def best(self) -> Setting | None:
        """The best configuration by the first metric; None if no configuration has one."""
        return self._best_of(self.settings)

    @cached_property
    def ranking(self) -> list[Setting]:
        """The configurations, the best first; those without a score last."""
        return sorted(self.settings, key=lambda one: self.metrics[0].rank(one.mean))

    @cached_property
    def axes(self) -> list[Axis]:
        """All axes of the records' configs; None is the value where a config lacks one."""
        listed = self.about["space"]["axes"]
        configs = [setting.config for setting in self.settings]
        used: dict[str, dict[str, Any]] = {name: {} for name in listed}
        for name in (name for config in configs for name in config):
            used.setdefault(name, {})
        for config in configs:
            for name, values in used.items():
                values[canonical(config.get(name))] = config.get(name)
        return [_axis(name, listed.get(name, ()), values) for name, values in used.items()]

    @cached_property
    def varying(self) -> list[int]:
        """The places of the axes that tell configurations apart.

        An axis that varies together with an earlier one, as the patience does with the epochs, is
        left out.
        """
        groups: dict[tuple[int, ...], int] = {}
        for i in range(len(self.axes)):
            places = self.places(i)
            first = {place: number for number, place in enumerate(dict.fromkeys(places))}
            groups.setdefault(tuple(first[place] for place in places), i)
        return [i for i in groups.values() if len(self.axes[i].values) > 1]

    def places(self, axis: int) -> list[int]:
        """For each configuration, the place of its value among those of an axis."""
        name, values = self.axes[axis].name, self.axes[axis].values
        order = {canonical(value): place for place, value in enumerate(values)}
        return [order[canonical(setting.config.get(name))] for setting in self.settings]

    @cached_property
    def beyond(self) -> list[Setting]:
        """The few configurations that were added to a grid, such as the best ones with more epochs.

        They have a value that no configuration of the grid has. They are listed beside the map
        grid, in the order of the axes' values. If they are many, they belong to the map, and this
        list is empty.
        """
        further = {canonical(config) for config in self.about["space"].get("further") or ()}
        if not further:
            return []
        added = [canonical(one.config) in further for one in self.settings]
        columns = [self.places(i) for i in range(len(self.axes))]
        known = [{x for x, new in zip(column, added, strict=True) if not new} for column in columns]
        beyond = [
            one
            for one, new in zip(self.settings, added, strict=True)
            if new and any(c[one.place] not in own for c, own in zip(columns, known, strict=True))
        ]
        if len(beyond) > min(_MOST_BEYOND, len(self.settings) - 1):
            return []
        return sorted(beyond, key=lambda one: [columns[i][one.place] for i in self.varying])

    def same(self, setting: Setting) -> list[Setting]:
        """The other configurations that do the same as one."""
        return [
            other
            for other in self.settings
            if other.effect == setting.effect and other.place != setting.place
        ]

    def command(self, trial: int) -> str | None:
        """The command that trains as in a trial, if the study has one."""
        return (self.about.get("commands") or {}).get(self.records[trial]["id"])

    def name(self, setting: Setting) -> str:
        """What tells a configuration from the others."""
        names = [self.axes[i].name for i in self.varying]
        parts = [with_title(name, setting.config[name]) for name in names if name in setting.config]
        return ", ".join(parts) or "the only configuration"

    def score(self, setting: Setting, metric: int) -> str:
        """A metric of a configuration, as "87.49 ± 0.31"."""
        score = setting.scores[metric]
        return score_text(score.mean, score.half, self.metrics[metric].digits)


Source = str | os.PathLike[str] | Results
"""A study's folder, or what `load_results` has read from it."""


def load_results(study: Source) -> Results:
    """Read a study folder and diagnose its trials. (`Results` are returned unchanged.)

    If a trial has several records, as after files were concatenated, the last one counts.

    Raises:
        StudyError: there is no study, it is damaged, or records belong to other data.
    """
    if isinstance(study, Results):
        return study
    about = read_study(study)
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    file, data = RecordFile(study), data_hash(about["data"])
    kept: dict[str, Record] = {}
    for record in file:
        problem = _problem(record, about["gold"], data)
        if problem is not None:
            raise StudyError(
                f"{file.path}: trial {record['id']} does not belong to this study: {problem}; "
                "remove its line"
            )
        kept[record["id"]] = _sharing(record, pairs)
    records = list(kept.values())
    return Results(Path(study), about, records, diagnose_all(records))


def _problem(record: Record, gold: Sequence[int] | None, data: str | None) -> str | None:
    """Why a record cannot belong to a study; None if it can."""
    if record["data"] != data:
        return "it is of other data"
    for epoch in record["epochs"] if gold is not None else ():
        counts = epoch.get("dev_counts") or ()
        if counts and len(counts) != len(gold or ()):
            return f"it was scored on {len(counts)} sentences, but gold has {len(gold or ())}"
        if any(matched > most for (matched, _), most in zip(counts, gold or (), strict=False)):
            return "it matches more brackets than gold has"
        if counts and not _is_f1(epoch.get("dev_f1"), counts, gold or ()):
            return f"dev_f1 of epoch {epoch['epoch']:g} does not agree with its dev_counts"
    return None


def _is_f1(f1: float | None, counts: Sequence[Sequence[int]], gold: Sequence[int]) -> bool:
    """Whether a number is the F1 of counts, in per cent or as a share, perhaps rounded."""
    matched, test = map(sum, zip(*counts, strict=True))
    share = 2 * matched / max(1, test + sum(gold))
    return f1 is not None and min(abs(f1 - 100 * share) / 100, abs(f1 - share)) <= ROUNDED


def _sharing(record: dict[str, Any], pairs: dict[tuple[int, int], tuple[int, int]]) -> Record:
    """A record that shares equal pairs of counts with others.

    That divides the memory of ten thousand trials of 316 sentences by four.
    """
    for epoch in record["epochs"]:
        counts = epoch.get("dev_counts")
        if counts:
            epoch["dev_counts"] = [pairs.setdefault(pair, pair) for pair in map(tuple, counts)]
    return record


def numbers(epoch: Record) -> Iterator[tuple[str, float | None]]:
    """The quantities of an epoch that are numbers, except its own number and its time."""
    for name, value in epoch.items():
        if (value is None or is_number(value)) and name not in ("epoch", "seconds"):
            yield name, value


def series(record: Record, kind: str) -> Mapping[str, Sequence[float | None]]:
    """The curves of a record by name: of its `updates`, or of its `epochs`."""
    if kind == "updates":
        updates: Mapping[str, Sequence[float | None]] = record["updates"]
        return updates
    epochs = [dict(numbers(epoch)) for epoch in record["epochs"]]
    names = dict.fromkeys(name for epoch in epochs for name in epoch)
    curves = {name: [epoch.get(name) for epoch in epochs] for name in names}
    convex = record["convex"] or {}
    return curves | {name: convex[name] for name in ("gap", "bound") if convex.get(name)}


def _judged(record: Record) -> str:
    """The curve that the diagnosis looks at."""
    parts = (record["updates"], *record["epochs"])
    return next((name for name in OBJECTIVES if any(name in part for part in parts)), "")


def _axis(name: str, listed: Sequence[Any], used: Mapping[str, Any]) -> Axis:
    order = dict.fromkeys([*map(canonical, listed), *used])
    axis = Axis(name, tuple(used[key] for key in order if key in used))
    return Axis(name, tuple(sorted(axis.values))) if axis.numeric else axis
