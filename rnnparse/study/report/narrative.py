"""What a study has found, in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from rnnparse.study.diagnosis.advice import asks_for_shorter_steps
from rnnparse.study.diagnosis.comparison import examples
from rnnparse.study.report.layout import best_of, map_axes
from rnnparse.study.report.results import Results, showing, text, title
from rnnparse.study.report.summary import edges, whole_batches

_BECAME = {
    "converged": "converged",
    "improving": "still improved at their end",
    "too few updates": "had too few updates to get anywhere",
    "oscillating": "oscillated",
    "stalled": "stalled",
    "diverged": "diverged",
    "overfitting": "overfitted",
    "failed": "failed",
}
OTHER_SCALES = {"objective", "kappa", "l2"}
"""Axes that change what the objective is, so that its values do not compare."""
_MOST_NAMES = 3
_TYPICAL = 2 / 3
"""A value is typical of a diagnosis if so many of its settings have it, ..."""
_LIFT = 1.4
"""... so many times as many as of all settings."""


def lead(results: Results) -> str:
    """How many settings have each diagnosis."""
    counts = label_counts(results)
    total, added = len(results.settings), len(results.beyond)
    if not total:
        return "No trial has ended yet."
    if len(counts) == 1:
        who = {1: "The only setting", 2: "Both settings"}.get(total, f"All {total} settings")
        return f"{who} {_BECAME[counts[0][0]]}."
    parts = [f"{count} {_BECAME[label]}" for label, count in counts]
    if counts[0][0] != "converged":
        parts.insert(0, "none converged")
    beyond = f", {added} of them beyond the grid" if added else ""
    return f"Of {total} settings{beyond}, {join(parts)}."


def basis(results: Results) -> str:
    """How many examples there are, and what the measure is without any training; or ""."""
    about, found = results.about, []
    sizes = [f"{size:,} for {part}" for part, size in (about.get("sizes") or {}).items()]
    if sizes:
        found.append(f"Examples: {join(sizes)}.")
    measured = title(results.metrics[0].name)
    known = [f"{x:.4g} for {name}" for name, x in (about.get("baselines") or {}).items()]
    if known:
        found.append(f"Without training, {measured} is {join(known)}.")
    return " ".join(found)


def label_counts(results: Results) -> list[tuple[str, int]]:
    """Diagnoses with the number of their settings: the converged ones, then the most frequent."""
    counts = Counter(setting["label"] for setting in results.settings)
    order = sorted(counts, key=lambda label: (label != "converged", -counts[label]))
    return [(label, counts[label]) for label in order]


def reasons(results: Results) -> list[dict[str, Any]]:
    """For each diagnosis its count, what is typical of its settings, and the advice for one."""
    found = []
    for label, count in label_counts(results):
        settings = [i for i, row in enumerate(results.settings) if row["label"] == label]
        example = best_of(_means(results), settings, results.metrics[0])
        found.append(
            {
                "label": label,
                "count": count,
                "typical": typical(results, settings),
                "example": results.name(example) if len(results.settings) > 1 else "",
                "advice": results.diagnosis(example).advice,
            }
        )
    return found


def _means(results: Results) -> list[float | None]:
    return [mean for mean, _ in results.means[0]]


def typical(results: Results, settings: Sequence[int]) -> str:
    """The values that many of these settings share and few of the others; "" if there are none.

    Example: "all have learning rate 0.001; 15 of 18 have batch size 1024".
    """
    if len(settings) < 2:
        return ""
    found = []
    for axis in (results.axes[i] for i in results.varying):
        values = [text(effect.get(axis.name)) for effect in results.effects]
        inside = Counter(values[i] for i in settings)
        value, count = inside.most_common(1)[0]
        share = count / len(settings)
        if share >= _TYPICAL and share >= _LIFT * values.count(value) / len(values):
            original = next((x for x in axis.values if text(x) == value), None)
            whole = original is None  # only batches of all examples have no value of their own
            found.append((count, "whole batches" if whole else showing(axis.name, original)))
    groups: dict[int, list[str]] = {}
    for count, name in found:
        groups.setdefault(count, []).append(name)
    return "; ".join(
        f"{_amount(count, len(settings))} {join(groups[count])}"
        for count in sorted(groups, reverse=True)
    )


def _amount(count: int, total: int) -> str:
    if count < total:
        return f"{count} of {total} have"
    return "both have" if total == 2 else "all have"


def best_card(results: Results) -> dict[str, Any] | None:
    """The best setting, its values, what there is to know of it, and the command to train it."""
    if results.best is None:
        return None
    row = results.settings[results.best]
    axes = sorted(results.axes, key=lambda axis: len(axis.values) == 1)
    trials = row["trials"]
    return {
        "title": f"Best setting by {title(results.metrics[0].name)}",
        "settings": [
            (title(axis.name), text(row["config"][axis.name]), len(axis.values) > 1)
            for axis in axes
            if axis.name in row["config"]
        ],
        "sentences": list(_about_best(results)),
        "command": results.command(trials[0]),
    }


def _about_best(results: Results) -> Iterator[str]:
    assert results.best is not None
    row = results.settings[results.best]
    measured = [
        f"{title(metric.name)} {measure(results, results.best, i)}"
        for i, metric in enumerate(results.metrics[:2])
    ]
    seeds = len(row["trials"])
    scores = ", ".join(measured)
    if row["epoch"] is not None:
        scores += f"; its best epoch is {row['epoch']:g} of {_epochs(results, row)}"
    yield f"{scores}{f' (means of {seeds} seeds, with 95 % intervals)' if seeds > 1 else ''}."
    yield f"Diagnosis: {row['label']}. {results.diagnosis(results.best).advice}"
    same = results.same(results.best)
    if same:
        yield f"The same in effect: {'; '.join(results.name(i) for i in same[:_MOST_NAMES])}."
    near = [i for i, alike in enumerate(results.alike) if alike and i not in same]
    if near:
        yield _near(results, near)


def _epochs(results: Results, row: dict[str, Any]) -> int:
    return max(len(results.records[trial]["epochs"]) for trial in row["trials"])


def _near(results: Results, near: Sequence[int]) -> str:
    """Which settings are within noise of the best."""
    means = _means(results)
    first = sorted(near, key=lambda i: -(means[i] or 0.0))[:_MOST_NAMES]
    named = "; ".join(results.name(i) for i in first)
    more = f"; and {len(near) - len(first)} more" if len(near) > len(first) else ""
    verb = "is" if len(near) == 1 else "are"
    return (
        f"{counted(len(near), 'other setting')} {verb} within noise of it, so that the order may "
        f"be chance: {named}{more}."
    )


def measure(results: Results, setting: int, metric: int) -> str:
    """A metric of a setting, as "87.49 ± 0.31"; F1 has two digits after the point."""
    mean, half = results.means[metric][setting]
    if mean is None:
        return "–"
    digits = 2 if results.metrics[metric].name == "dev_f1" else None
    if half is None:
        return f"{mean:.4g}" if digits is None else f"{mean:.{digits}f}"
    if half == 0:
        return f"{mean:.4g} ± 0" if digits is None else f"{mean:.{digits}f} ± 0"
    if digits is None:
        digits = max(0, min(1 - _magnitude(half), 4 - _magnitude(mean)))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def _magnitude(number: float) -> int:
    """The exponent of a number's first digit."""
    return math.floor(math.log10(abs(number))) if number else 0


def warnings(results: Results) -> list[str]:
    """What to bear in mind: the grid's edges, noise, missing trials, what does not compare."""
    found = []
    missing = expected_trials(results) - len(results.records)
    if missing > 0:
        found.append(f"{counted(missing, 'trial')} of the space did not end yet.")
    if results.best is None:
        return found
    sizes = results.about.get("sizes") or {}
    batches = [axis.values for axis in results.axes if axis.name == "batch_size" and axis.numeric]
    if batches and "train" in sizes:
        found += filter(None, [whole_batches(batches[0], sizes["train"])])
    found += _no_better(results, results.best)
    diagnosis, row = results.diagnosis(results.best), results.settings[results.best]
    shorter = asks_for_shorter_steps(diagnosis.label, diagnosis.evidence)
    found += [
        f"{_spaced(edge)}."
        for edge in edges(
            results.about["space"], row, lower_rate=shorter, size=examples(results.about)
        )
    ]
    if len(results.settings) > 1:
        found += _noise_warnings(results)
    vary = [a.name for a in results.axes if a.name in OTHER_SCALES and len(a.values) > 1]
    if results.metrics[0].name in ("objective", "loss") and vary:
        names = join([title(name) for name in vary])
        found.append(f"Objectives with another {names} do not compare: look at each by itself.")
    return found


def _no_better(results: Results, best: int) -> Iterator[str]:
    """That the best setting is no better than the least that comes without training."""
    baselines = results.about.get("baselines") or {}
    mean, metric = results.means[0][best][0], results.metrics[0]
    if not baselines or mean is None:
        return
    sign = 1 if metric.higher else -1
    name, value = min(baselines.items(), key=lambda pair: sign * pair[1])
    if sign * mean <= sign * value:
        yield f"No setting is better than {name}, which has {title(metric.name)} {value:.4g}."


def _spaced(sentence: str) -> str:
    """A sentence that begins with an axis, whose name becomes that which people read."""
    name, colon, rest = sentence.partition(":")
    return f"{title(name)}{colon}{rest}"


def _noise_warnings(results: Results) -> Iterator[str]:
    others = [found for i, found in enumerate(results.compared) if i != results.best and found]
    if others and others[0].sentences:
        half = median((found.high - found.low) / 2 for found in others)
        if half > 0:
            yield (
                f"On {others[0].sentences} dev sentences, differences in dev F1 below about "
                f"{half:.2g} cannot be told from noise."
            )
    if others and all(min(found.seeds) == 1 for found in others):
        yield (
            "Settings have one seed each: the comparisons allow for the choice of sentences, but "
            "another seed may change more."
        )


def expected_trials(results: Results) -> int:
    """How many trials the study has; those that there are, where `study.json` does not tell."""
    return len(results.about.get("trials", results.records))


def best_of_each(results: Results) -> dict[str, Any] | None:
    """The best setting of each value of the map's rows, with its distance to the best of all."""
    rows, _ = map_axes(results)
    if rows < 0 or results.best is None:
        return None
    axis = results.axes[rows]
    others = [results.axes[i] for i in results.varying if i != rows]
    metrics = range(min(2, len(results.metrics)))
    lines = []
    for value in axis.values:
        settings = [
            i for i, row in enumerate(results.settings) if row["config"].get(axis.name) == value
        ]
        i = best_of(_means(results), settings, results.metrics[0])
        row = results.settings[i]
        lines.append(
            {
                "cells": [text(value), *(text(row["config"].get(a.name)) for a in others)],
                "metrics": [measure(results, i, m) for m in metrics],
                "label": row["label"],
                "difference": _difference(results, i),
            }
        )
    return {
        "axis": title(axis.name),
        "heads": [title(a.name) for a in (axis, *others)],
        "metrics": [title(results.metrics[m].name) for m in metrics],
        "lines": lines,
        "compared": any(results.compared),
    }


def _difference(results: Results, setting: int) -> str:
    """What a setting loses against the best, with the verdict."""
    found = results.compared[setting]
    if setting == results.best:
        return "the best"
    if found is None:
        return "–"
    verdict = "within noise" if found.within_noise else f"p = {found.p_value:.2g}"
    low, high = -found.high, -found.low
    text = f"{-found.difference:+.2f} ({low:+.2f} to {high:+.2f}), {verdict}"
    return text.replace("-", "−")


def failures(results: Results) -> list[dict[str, Any]]:
    """Errors with the number of trials that they ended, the most frequent first."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for trial, record in enumerate(results.records):
        if record["error"]:
            message = f"{record['status']}: {record['error']['type']}: {record['error']['message']}"
            counts[message] += 1
            first.setdefault(message, trial)
    return [
        {"error": message, "count": count, "first": _trial_name(results, first[message])}
        for message, count in counts.most_common(20)
    ]


def _trial_name(results: Results, trial: int) -> str:
    setting = next(i for i, row in enumerate(results.settings) if trial in row["trials"])
    return f"{results.name(setting)}, seed {results.records[trial]['seed']}"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def join(parts: Sequence[str]) -> str:
    """Parts of a sentence with commas and an "and"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
