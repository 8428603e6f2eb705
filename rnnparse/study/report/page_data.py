"""What the page of a report reads: columns of numbers, and a line of curves for each trial."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from rnnparse.study.diagnosis import EVIDENCE, LABELS, RULES
from rnnparse.study.diagnosis.statistics import bin_edges, downsample, student_quantile
from rnnparse.study.records import canonical
from rnnparse.study.report.formatting import TITLES
from rnnparse.study.report.layout import first_drawn, laid_out, map_axes
from rnnparse.study.report.results import Record, Results, series
from rnnparse.study.schema import STATUSES

MOST_POINTS = 100
"""The points of a curve; a study of many trials has fewer."""
_ALL_POINTS = 400_000
_ORDER = (
    *("dev_f1", "objective", "loss", "violated", "gradient_norm", "update_ratio"),
    *("gap", "bound"),
)

Json = dict[str, Any]


def script_json(value: Any) -> str:
    """JSON that is safe in a script element whatever it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("-->", "--\\u003e")


class ReportData:
    """The data of a report.

    Args:
        results: of the study.
    """

    def __init__(self, results: Results) -> None:
        self.results, self.records = results, results.records
        self.points = max(12, min(MOST_POINTS, _ALL_POINTS // max(1, len(self.records))))
        self.setting = {trial: one.place for one in results.settings for trial in one.trials}
        self.series = {
            kind: _names(name for record in self.records for name in series(record, kind))
            for kind in ("updates", "epochs")
        }

    @cached_property
    def lengths(self) -> dict[str, list[int]]:
        """The greatest length of each configuration's curves."""
        lengths = {kind: [0] * len(self.results.settings) for kind in self.series}
        for kind, longest in lengths.items():
            for trial, record in enumerate(self.records):
                own = max(map(len, series(record, kind).values()), default=0)
                longest[self.setting[trial]] = max(longest[self.setting[trial]], own)
        return lengths

    @property
    def binned(self) -> bool:
        """Whether the page has bins of a curve in place of its values."""
        return any(n > self.points for lengths in self.lengths.values() for n in lengths)

    def study(self) -> Json:
        """What the scripts read when the page opens."""
        results = self.results
        lengths = {n for lengths in self.lengths.values() for n in lengths if n}
        rows, columns = map_axes(results)
        seeds = sorted({record["seed"] for record in self.records})
        return {
            "axes": [
                {
                    "name": axis.name,
                    # Keys are in the order in which they are shown elsewhere.
                    "values": [json.loads(canonical(value)) for value in axis.values],
                    "numeric": axis.numeric,
                }
                for axis in results.axes
            ],
            "metrics": [
                {"title": m.title, "higher": m.maximize, "digits": m.digits}
                for m in results.metrics
            ],
            "varying": results.varying,
            "seeds": seeds,
            "quantiles": [round(student_quantile(n), 3) for n in range(1, len(seeds))],
            "labels": LABELS,
            "rules": RULES,
            "statuses": STATUSES,
            "meanings": EVIDENCE,
            "titles": TITLES,
            "bounds": {"gap": "bound"},
            "higher": [metric.name for metric in results.metrics if metric.maximize],
            **self.series,
            "edges": {n: bin_edges(n, self.points) for n in sorted(lengths)},
            "settings": self._settings(),
            "trials": self._trials(),
            "errors": {
                trial: f"{record['error']['type']}: {record['error']['message']}"
                for trial, record in enumerate(self.records)
                if record["error"]
            },
            "best": results.best and results.best.place,
            "map": {"rows": rows, "columns": columns, "axes": laid_out(results)},
            "beyond": [setting.place for setting in results.beyond],
            "shown": [setting.place for setting in first_drawn(results)],
        }

    def _settings(self) -> Json:
        settings = self.results.settings
        metrics = range(len(self.results.metrics))
        return {
            "config": [self.results.places(axis) for axis in range(len(self.results.axes))],
            "label": [LABELS.index(setting.label) for setting in settings],
            "metrics": [
                {
                    "mean": [setting.scores[m].mean for setting in settings],
                    "text": [self.results.score(setting, m) for setting in settings],
                }
                for m in metrics
            ],
            "alike": [int(self.results.verdict(one) == "within noise") for one in settings],
            **self.lengths,
        }

    def _trials(self) -> Json:
        return {
            "id": [record["id"] for record in self.records],
            "setting": [self.setting[trial] for trial in range(len(self.records))],
            "seed": [record["seed"] for record in self.records],
            "status": [STATUSES.index(record["status"]) for record in self.records],
            "label": [LABELS.index(diagnosis.label) for diagnosis in self.results.diagnoses],
            "seconds": [round(training_seconds(record), 3) for record in self.records],
        }

    def details(self) -> Iterator[str]:
        """A line for each trial: advice, evidence, curves, and the command that repeats it."""
        for trial, record in enumerate(self.records):
            diagnosis, setting = self.results.diagnoses[trial], self.setting[trial]
            line: Json = {
                "advice": diagnosis.advice,
                "evidence": {
                    name: value if isinstance(value, str) else float(f"{value:.4g}")
                    for name, value in diagnosis.evidence.items()
                },
                "command": self.results.command(trial),
            }
            for kind in self.series:
                edges = bin_edges(self.lengths[kind][setting], self.points)
                curves = series(record, kind)
                line[kind] = {name: downsample(values, edges) for name, values in curves.items()}
            if len(self.results.settings[setting].trials) > 1:
                line["metrics"] = [self.results.value(trial, m.name) for m in self.results.metrics]
            yield script_json(line)


def training_seconds(record: Record) -> float:
    """How long a trial's epochs took; if they are not timed, the whole trial.

    The first trial of a process also loads packages, which says nothing about a configuration.
    """
    seconds = [epoch.get("seconds") for epoch in record["epochs"]]
    if not seconds or None in seconds:
        return float(record["seconds"])
    return math.fsum(seconds)


def _names(names: Iterator[str]) -> list[str]:
    """The different names, the usual ones first."""
    all_names = dict.fromkeys(names)
    known = [name for name in _ORDER if name in all_names]
    return list(dict.fromkeys([*known, *all_names]))
