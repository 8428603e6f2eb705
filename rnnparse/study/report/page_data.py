"""What the page of a report reads: columns of numbers, and a line of curves for each trial."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rnnparse.study.diagnosis import EVIDENCE, LABELS, RULES
from rnnparse.study.diagnosis.statistics import bin_edges, downsample
from rnnparse.study.records import canonical
from rnnparse.study.report.layout import beside, best_of, map_axes, place_of_values
from rnnparse.study.report.results import TITLES, Results, series, title
from rnnparse.study.schema import STATUSES

MOST_POINTS = 100
"""A curve is drawn with so many points, or fewer in a study of many trials."""
_ALL_POINTS = 400_000
_FIRST_LINES = 6
_DIGITS = {"dev_f1": 2}
_ORDER = (
    *("dev_f1", "objective", "loss", "violated", "gradient_norm", "update_ratio"),
    *("gap", "bound"),
)


def script_json(value: Any) -> str:
    """JSON that can stand in a script element whatever it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("-->", "--\\u003e")


class ReportData:
    """The data of a report.

    Args:
        results: of the study.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.points = max(12, min(MOST_POINTS, _ALL_POINTS // max(1, len(results.records))))
        self.series = {
            kind: _names(name for r in results.records for name in series(r, kind))
            for kind in ("updates", "epochs")
        }
        self.lengths = {kind: self._lengths(kind) for kind in self.series}

    def _lengths(self, kind: str) -> list[int]:
        """The greatest length of each setting's curves."""
        records = self.results.records
        return [
            max(
                (
                    len(x)
                    for trial in setting["trials"]
                    for x in series(records[trial], kind).values()
                ),
                default=0,
            )
            for setting in self.results.settings
        ]

    def study(self) -> dict[str, Any]:
        """What is read when the page opens."""
        results = self.results
        lengths = {n for kind in self.lengths for n in self.lengths[kind]}
        return {
            "axes": [
                {"name": axis.name, "values": _canonical(axis.values), "numeric": axis.numeric}
                for axis in results.axes
            ],
            "metrics": [
                {"title": title(m.name), "higher": m.higher, "digits": _DIGITS.get(m.name)}
                for m in results.metrics
            ],
            "varying": results.varying,
            "seeds": sorted({record["seed"] for record in results.records}),
            "labels": LABELS,
            "rules": RULES,
            "statuses": STATUSES,
            "meanings": EVIDENCE,
            "titles": TITLES,
            "bounds": {"gap": "bound"},
            "higher": [metric.name for metric in results.metrics if metric.higher],
            **self.series,
            "edges": {n: bin_edges(n, self.points) for n in sorted(lengths) if n},
            "settings": self._settings(),
            "trials": self._trials(),
            "errors": dict(self._errors()),
            "best": results.best,
            "map": dict(zip(("rows", "columns"), map_axes(results), strict=True)),
            "beyond": results.beyond,
            "shown": self._shown(),
        }

    def _settings(self) -> dict[str, Any]:
        results = self.results
        places = [
            {canonical(value): place for place, value in enumerate(axis.values)}
            for axis in results.axes
        ]
        metrics = [
            {"mean": [mean for mean, _ in pairs], "half": [half for _, half in pairs]}
            for pairs in results.means
        ]
        return {
            "config": [
                [place[canonical(s["config"].get(axis.name))] for s in results.settings]
                for axis, place in zip(results.axes, places, strict=True)
            ],
            "label": [LABELS.index(setting["label"]) for setting in results.settings],
            "metrics": metrics,
            "alike": [int(alike) for alike in results.alike],
            **self.lengths,
        }

    def _trials(self) -> dict[str, Any]:
        records, settings = self.results.records, self.results.settings
        of = {trial: i for i, setting in enumerate(settings) for trial in setting["trials"]}
        return {
            "id": [record["id"] for record in records],
            "setting": [of[trial] for trial in range(len(records))],
            "seed": [record["seed"] for record in records],
            "status": [STATUSES.index(record["status"]) for record in records],
            "label": [LABELS.index(found.label) for found in self.results.diagnoses],
            "seconds": [round(training_seconds(record), 3) for record in records],
        }

    def _errors(self) -> Iterator[tuple[int, str]]:
        for trial, record in enumerate(self.results.records):
            if record["error"]:
                yield trial, f"{record['error']['type']}: {record['error']['message']}"

    def _shown(self) -> list[int]:
        """The settings that are drawn at first: the best of each row of the map, or all of one.

        Of many rows, those whose best are best; of many columns of one row, every so many.
        """
        results, best = self.results, self.results.best
        if best is None:
            return list(range(min(1, len(results.settings))))
        rows, _ = map_axes(results)
        if rows < 0:
            found = beside(results, best)
            step = -(-len(found) // _FIRST_LINES)
            return found[found.index(best) % step :: step]
        groups: dict[int, list[int]] = {}
        for setting, place in enumerate(place_of_values(results, rows)):
            groups.setdefault(place, []).append(setting)
        means, metric = [mean for mean, _ in results.means[0]], results.metrics[0]
        found = [best_of(means, groups[place], metric) for place in sorted(groups)]
        sign = -1 if metric.higher else 1
        ranked = sorted(found, key=lambda i: (means[i] is None, sign * (means[i] or 0.0)))
        return [setting for setting in found if setting in ranked[:_FIRST_LINES]]

    def details(self) -> Iterator[str]:
        """A line for each trial: advice, evidence, curves, and the command to train it."""
        of = self._trials()["setting"]
        edges: dict[int, list[int]] = {}
        for trial, record in enumerate(self.results.records):
            line: dict[str, Any] = {
                "advice": self.results.diagnoses[trial].advice,
                "evidence": {
                    name: value if isinstance(value, str) else float(f"{value:.4g}")
                    for name, value in self.results.diagnoses[trial].evidence.items()
                },
            }
            for kind in self.series:
                n = self.lengths[kind][of[trial]]
                cut = edges.setdefault(n, bin_edges(n, self.points))
                line[kind] = {
                    name: downsample(found, cut) for name, found in series(record, kind).items()
                }
            if len(self.results.settings[of[trial]]["trials"]) > 1:
                line["metrics"] = [self.results.value(trial, m.name) for m in self.results.metrics]
            line["command"] = self.results.command(trial)
            yield script_json(line)


def training_seconds(record: Mapping[str, Any]) -> float:
    """How long a trial's epochs took; all of it where they do not tell.

    The first trial of a process begins with loading its packages, which says nothing of a setting.
    """
    seconds = [epoch.get("seconds") for epoch in record["epochs"]]
    if not seconds or None in seconds:
        return float(record["seconds"])
    return math.fsum(seconds)


def _canonical(values: Sequence[Any]) -> list[Any]:
    """Values of an axis with their keys in the order in which they are shown elsewhere."""
    return [json.loads(canonical(value)) for value in values]


def _names(found: Iterator[str]) -> list[str]:
    names = dict.fromkeys(found)
    known = [name for name in _ORDER if name in names]
    return [*known, *(name for name in names if name not in known)]
