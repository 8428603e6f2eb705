"""What a study has found, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rnnparse.study.diagnosis.advice import asks_for_shorter_steps
from rnnparse.study.diagnosis.comparison import BATCHES, examples, in_effect
from rnnparse.study.records import canonical
from rnnparse.study.report.formatting import (
    counted,
    join,
    readable,
    title,
    value_text,
    with_title,
)
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
_OUTCOMES = {
    "converged": "converged",
    "improving": "improved until the end",
    "too few updates": "made too few updates",
    "oscillating": "oscillated",
    "stalled": "stalled",
    "diverged": "diverged",
    "overfitting": "overfitted",
    "failed": "failed",
}
_MOST_NAMES = 3
_MOST_FAILURES = 20


@dataclass(frozen=True)
class Reason:
    """A diagnosis with its number of configurations, what is typical of them, and an example."""

    label: str
    count: int
    typical: str
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


def lead(results: Results) -> str:
    """How many configurations have each diagnosis."""
    return outcomes(label_counts(results), len(results.beyond))


def outcomes(counts: Mapping[str, int], beyond: int) -> str:
    """How many configurations have each label, and how many of all are beyond the grid."""
    total = sum(counts.values())
    if not total:
        return "No trial has ended yet."
    if len(counts) == 1:
        who = {1: "The only configuration", 2: "Both configurations"}
        subject = who.get(total, f"All {total} configurations")
        return f"{subject} {_OUTCOMES[next(iter(counts))]}."
    parts = [f"{count} {_OUTCOMES[label]}" for label, count in counts.items()]
    if "converged" not in counts:
        parts.insert(0, "none converged")
    added = f" ({beyond} beyond the grid)" if beyond else ""
    return f"Of {total} configurations{added}, {join(parts)}."


def basis(results: Results) -> Iterator[str]:
    """How many examples there are, and what the first metric is without any training."""
    sizes, baselines = (results.about.get(name) for name in ("sizes", "baselines"))
    if sizes:
        parts = join([f"{size:,} in {part}" for part, size in sizes.items()])
        yield readable(f"Examples: {parts}.")
    if baselines:
        known = join([f"{value:.4g} for {name}" for name, value in baselines.items()])
        yield readable(f"Without training, {results.metrics[0].title} is {known}.")


def reasons(results: Results) -> list[Reason]:
    """For each diagnosis, what is typical of its configurations, and the best of them."""
    reasons_ = []
    for label, count in label_counts(results).items():
        settings = [one for one in results.ranking if one.label == label]
        reasons_.append(Reason(label, count, typical(results, settings), settings[0]))
    return reasons_


def typical(results: Results, settings: Sequence[Setting]) -> str:
    """The values that many of these configurations share and few others, most frequent first.

    Such as "all use sgd; 15 of 18 use batch size 1024"; "" if there are none.
    """
    total = len(settings)
    if total < 2:
        return ""
    groups: dict[int, list[str]] = {}
    for axis in (results.axes[i] for i in results.varying):
        values = [canonical(one.effect.get(axis.name)) for one in results.settings]
        value, count = Counter(values[one.place] for one in settings).most_common(1)[0]
        share = count / total
        if share >= _TYPICAL and share >= _LIFT * values.count(value) / len(values):
            # Batches larger than the training set have an effect that no value names.
            known = [with_title(axis.name, x) for x in axis.values if canonical(x) == value]
            groups.setdefault(count, []).append(known[0] if known else "whole batches")
    everyone = "both" if total == 2 else "all"
    return "; ".join(
        f"{everyone if count == total else f'{count} of {total}'} use {join(groups[count])}"
        for count in sorted(groups, reverse=True)
    )


# -- the best setting ----------------------------------------------------------------------------


def about_best(results: Results) -> Iterator[str]:
    """What is known of the best configuration; nothing without one."""
    best = results.best
    if best is None:
        return
    named = join([f"{m.title} {results.score(best, i)}" for i, m in enumerate(results.metrics[:2])])
    seeds = len(best.trials)
    means = f" (means of {seeds} seeds with 95 % intervals)" if seeds > 1 else ""
    epochs = max(len(results.records[trial]["epochs"]) for trial in best.trials)
    epoch = "" if best.best_epoch is None else f" Best epoch: {best.best_epoch:g} of {epochs}."
    yield readable(f"Scores: {named}{means}.{epoch}")
    yield readable(f"Diagnosis: {best.label}. {best.diagnosis.advice}")
    same = results.same(best)
    if same:
        yield f"Configurations with the same effect: {_names(results, same)}."
    near = [one for one in results.near if one not in same]
    if near:
        count, verb = len(near), "is" if len(near) == 1 else "are"
        more = f"; and {count - _MOST_NAMES} more" if count > _MOST_NAMES else ""
        yield (
            f"{counted(count, 'other configuration')} {verb} within noise of the best, so the "
            f"order may be due to chance: {_names(results, near)}{more}."
        )


def _names(results: Results, settings: Sequence[Setting]) -> str:
    return readable("; ".join(results.name(one) for one in settings[:_MOST_NAMES]))


# -- what to bear in mind ------------------------------------------------------------------------


def warnings(results: Results) -> list[str]:
    """What limits the findings: missing trials, the grid's edges, noise, scales that differ."""
    count = results.missing
    missing = [f"{counted(count, 'trial')} {'has' if count == 1 else 'have'} not ended yet."]
    parts = (_on_batches, _on_baselines, _on_edges, _on_noise, _on_scales)
    best = results.best
    found = [] if best is None else [x for part in parts for x in part(results, best)]
    return [*(missing if count else []), *found]


def _on_batches(results: Results, best: Setting) -> Iterator[str]:
    size = examples(results.about)
    for axis in results.axes:
        if axis.name == "batch_size" and axis.numeric and size is not None:
            yield from whole_batches(axis.values, size)


def whole_batches(batch_sizes: Sequence[Any], examples: int) -> Iterator[str]:
    """Which batch sizes take all examples at once, if they differ from the number of examples."""
    whole = [value_text(size) for size in batch_sizes if size >= examples]
    if whole and max(batch_sizes) != examples:
        noun, verb = ("size", "covers") if len(whole) == 1 else ("sizes", "cover")
        yield f"Batch {noun} {join(whole)} {verb} all {examples} examples: one update per epoch."


def _on_baselines(results: Results, best: Setting) -> Iterator[str]:
    """That the best configuration is no better than the least that comes without training."""
    baselines, metric = results.about.get("baselines") or {}, results.metrics[0]
    if baselines:
        name, value = max(baselines.items(), key=lambda pair: metric.rank(pair[1]))
        if metric.rank(best.mean) >= metric.rank(value):
            than = readable(f"{name} ({metric.title} {value:.4g})")
            yield f"No configuration is better than {than}."


def _on_edges(results: Results, best: Setting) -> Iterator[str]:
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
) -> Iterator[str]:
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
        if (lower_rate and name == "learning_rate") or (name in BATCHES and value == size):
            return
        which, following = "highest", _beyond(name, value, numbers[-2], size)
    elif value == numbers[0] and not (value == 0 and numbers[1] > 0):
        which, following = "lowest", _beyond(name, value, numbers[1], size)
    else:
        return
    further = "" if following is None else f" Try {value_text(following)} too."
    best = f"The best {title(name)}, {value_text(value)},"
    yield readable(f"{best} is the {which} that was tried.{further}")


def _beyond(name: str, value: float, neighbour: float, size: int | None) -> float | None:
    """The value as far from one as its neighbour is, on the other side, by a factor."""
    if value <= 0 or neighbour <= 0:
        return None
    following = float(f"{min(value * (value / neighbour), HUGE):.3g}")
    following = max(1, round(following)) if isinstance(value, int) else following
    following = in_effect(name, following, size)
    return None if following in (value, 0) else following


def _on_noise(results: Results, best: Setting) -> Iterator[str]:
    """How small a difference the dev set can show, and whether seeds count in it."""
    others = [x.comparison for x in results.settings if x.place != best.place and x.comparison]
    if others and (sentences := others[0].sentences):
        half = median((comparison.high - comparison.low) / 2 for comparison in others)
        if half > 0:
            yield (
                f"With {sentences} dev sentences, differences in dev F1 below about {half:.2g} are "
                "within noise."
            )
    if others and all(min(comparison.seeds) == 1 for comparison in others):
        yield (
            "Each configuration has a single trial (one seed). The comparisons account for the "
            "choice of dev sentences; another seed may change scores by more."
        )


def _on_scales(results: Results, best: Setting) -> Iterator[str]:
    axes = [a.title for a in results.axes if a.name in OTHER_SCALES and len(a.values) > 1]
    if axes and results.metrics[0].name in ("objective", "loss"):
        yield (
            f"Objectives cannot be compared across values of {join(axes)}. Compare configurations "
            "with the same value."
        )


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
