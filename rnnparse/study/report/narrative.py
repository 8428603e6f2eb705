"""What a study has found: codes with values, which `rnnparse.study.report.wording` words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rnnparse.study.diagnosis.advice import Finding, asks_for_shorter_steps
from rnnparse.study.diagnosis.comparison import BATCHES, examples, in_effect
from rnnparse.study.records import canonical
from rnnparse.study.report.results import Results
from rnnparse.study.report.settings import Axis, Setting
from rnnparse.study.schema import HUGE

OTHER_SCALES = {"objective", "kappa", "l2"}
"""Axes that change what the objective is, so that its values do not compare."""

BUDGET = {"epochs", "patience"}
"""Axes that decide how long a trial takes, not what it does."""

_TYPICAL = 2 / 3
"""A value is typical of configurations if so many of them have it, ..."""
_LIFT = 1.4
"""... so many times as many as of all configurations."""
_MOST_NAMES = 3
_MOST_FAILURES = 20


@dataclass(frozen=True)
class Trait:
    """Values of axes that so many of some configurations share; "whole batches" for batches of all
    examples."""

    count: int
    total: int
    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Reason:
    """A diagnosis with its number of configurations, what is typical of them, and an example."""

    label: str
    count: int
    traits: list[Trait]
    example: Setting


@dataclass(frozen=True)
class Failure:
    """An error message, the number of trials that it ended, and the first of them."""

    message: str
    count: int
    setting: Setting
    seed: int


def label_counts(results: Results) -> dict[str, int]:
    """The number of configurations by diagnosis: first converged, then the most frequent."""
    counts = Counter(setting.label for setting in results.settings)
    order = sorted(counts, key=lambda label: (label != "converged", -counts[label]))
    return {label: counts[label] for label in order}


def lead(results: Results) -> Finding:
    """How many configurations have each diagnosis."""
    return Finding("outcomes", counts=label_counts(results), beyond=len(results.beyond))


def basis(results: Results) -> Iterator[Finding]:
    """How many examples there are, and what the first metric is without any training."""
    sizes, baselines = (results.about.get(name) for name in ("sizes", "baselines"))
    if sizes:
        yield Finding("sizes", sizes=sizes)
    if baselines:
        yield Finding("baselines", metric=results.metrics[0].name, values=baselines)


def reasons(results: Results) -> list[Reason]:
    """For each diagnosis, what is typical of its configurations, and the best of them."""
    reasons_ = []
    for label, count in label_counts(results).items():
        settings = [one for one in results.ranking if one.label == label]
        reasons_.append(Reason(label, count, traits(results, settings), settings[0]))
    return reasons_


def traits(results: Results, settings: Sequence[Setting]) -> list[Trait]:
    """The values that many of these configurations share and few others, most frequent first."""
    if len(settings) < 2:
        return []
    groups: dict[int, list[tuple[str, Any]]] = {}
    for axis in (results.axes[i] for i in results.varying):
        values = [canonical(one.effect.get(axis.name)) for one in results.settings]
        value, count = Counter(values[one.place] for one in settings).most_common(1)[0]
        share = count / len(settings)
        if share >= _TYPICAL and share >= _LIFT * values.count(value) / len(values):
            # Batches larger than the training set have an effect that no value names.
            known = [x for x in axis.values if canonical(x) == value]
            groups.setdefault(count, []).append((axis.name, known[0] if known else "whole batches"))
    return [
        Trait(count, len(settings), tuple(groups[count])) for count in sorted(groups, reverse=True)
    ]


# -- the best setting ----------------------------------------------------------------------------


def about_best(results: Results) -> Iterator[Finding]:
    """What is known of the best configuration; nothing without one."""
    best = results.best
    if best is None:
        return
    metrics = range(min(2, len(results.metrics)))
    epochs = max(len(results.records[trial]["epochs"]) for trial in best.trials)
    yield Finding(
        "best_scores",
        scores={results.metrics[m].name: results.score(best, m) for m in metrics},
        seeds=len(best.trials),
        epoch=best.best_epoch,
        epochs=epochs,
    )
    yield Finding("best_diagnosis", label=best.label, advice=best.diagnosis.advice)
    same = results.same(best)
    if same:
        yield Finding("same_in_effect", names=[results.name(one) for one in same[:_MOST_NAMES]])
    near = [one for one in results.near if one not in same]
    if near:
        names = [results.name(one) for one in near[:_MOST_NAMES]]
        yield Finding("within_noise", count=len(near), names=names)


# -- what to bear in mind ------------------------------------------------------------------------


def warnings(results: Results) -> list[Finding]:
    """What limits the findings: missing trials, the grid's edges, noise, scales that differ."""
    missing = [Finding("missing_trials", count=results.missing)] if results.missing else []
    if results.best is None:
        return missing
    parts = (_on_batches, _on_baselines, _on_edges, _on_noise, _on_scales)
    return [*missing, *(finding for part in parts for finding in part(results, results.best))]


def _on_batches(results: Results, best: Setting) -> Iterator[Finding]:
    size = examples(results.about)
    for axis in results.axes:
        if axis.name == "batch_size" and axis.numeric and size is not None:
            yield from whole_batches(axis.values, size)


def whole_batches(batch_sizes: Sequence[Any], examples: int) -> Iterator[Finding]:
    """Which batch sizes take all examples at once, if they differ from the number of examples."""
    whole = [size for size in batch_sizes if size >= examples]
    if whole and max(batch_sizes) != examples:
        yield Finding("whole_batches", sizes=whole, examples=examples)


def _on_baselines(results: Results, best: Setting) -> Iterator[Finding]:
    """That the best configuration is no better than the least that comes without training."""
    baselines, metric = results.about.get("baselines") or {}, results.metrics[0]
    if baselines:
        name, value = max(baselines.items(), key=lambda pair: metric.rank(pair[1]))
        if metric.rank(best.mean) >= metric.rank(value):
            yield Finding("no_better", metric=metric.name, than=name, value=value)


def _on_edges(results: Results, best: Setting) -> Iterator[Finding]:
    """The numeric axes on whose edge the best configuration lies, with all else equal."""
    shorter = asks_for_shorter_steps(best.label, best.diagnosis.evidence)
    added = best.place in {setting.place for setting in results.beyond}
    for axis in (results.axes[i] for i in results.varying):
        fixed = {k: v for k, v in best.config.items() if k != axis.name and k not in BUDGET}
        values: tuple[Any, ...] = tuple(
            setting.config.get(axis.name)
            for setting in results.settings
            if fixed.items() <= setting.config.items()
        )
        if Axis(axis.name, values).numeric and not (added and axis.name in BUDGET):
            size = examples(results.about)
            yield from edge(axis.name, best.config[axis.name], values, size, shorter)


def edge(
    name: str, value: float, tried: Sequence[float], size: int | None, lower_rate: bool = False
) -> Iterator[Finding]:
    """Whether a value is the highest or lowest of those tried, and which value to try next.

    Neither 0 beside positive values nor a batch of all examples counts as an edge.

    Args:
        name: of the axis. value: the best. tried: all values.
        size: how many examples there are, or None; no batch is larger.
        lower_rate: whether the diagnosis asks for a lower rate; then the highest rate
            does not count as an edge.
    """
    numbers = sorted({in_effect(name, other, size) for other in tried})
    value = in_effect(name, value, size)
    if len(numbers) < 2:
        return
    if value == numbers[-1]:
        if not ((lower_rate and name == "learning_rate") or (name in BATCHES and value == size)):
            further = _beyond(name, value, numbers[-2], size)
            yield Finding("edge", axis=name, value=value, which="highest", next=further)
    elif value == numbers[0] and not (value == 0 and numbers[1] > 0):
        further = _beyond(name, value, numbers[1], size)
        yield Finding("edge", axis=name, value=value, which="lowest", next=further)


def _beyond(name: str, value: float, neighbour: float, size: int | None) -> float | None:
    """The value as far from one as its neighbour is, on the other side, by a factor."""
    if value <= 0 or neighbour <= 0:
        return None
    following = float(f"{min(value * (value / neighbour), HUGE):.3g}")
    following = max(1, round(following)) if isinstance(value, int) else following
    following = in_effect(name, following, size)
    return None if following in (value, 0) else following


def _on_noise(results: Results, best: Setting) -> Iterator[Finding]:
    """How small a difference the dev set can show, and whether seeds count in it."""
    others = [x.comparison for x in results.settings if x.place != best.place and x.comparison]
    if others and others[0].sentences:
        half = median((comparison.high - comparison.low) / 2 for comparison in others)
        if half > 0:
            yield Finding("noise_level", sentences=others[0].sentences, half=half)
    if others and all(min(comparison.seeds) == 1 for comparison in others):
        yield Finding("one_seed")


def _on_scales(results: Results, best: Setting) -> Iterator[Finding]:
    axes = [a.name for a in results.axes if a.name in OTHER_SCALES and len(a.values) > 1]
    if axes and results.metrics[0].name in ("objective", "loss"):
        yield Finding("other_scales", axes=axes)


def failures(results: Results) -> list[Failure]:
    """Errors with the number of trials that they ended, the most frequent first."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for trial, record in enumerate(results.records):
        if record["error"]:
            message = f"{record['status']}: {record['error']['type']}: {record['error']['message']}"
            counts[message] += 1
            first.setdefault(message, trial)
    return [
        Failure(
            message,
            count,
            next(one for one in results.settings if first[message] in one.trials),
            results.records[first[message]]["seed"],
        )
        for message, count in counts.most_common(_MOST_FAILURES)
    ]
