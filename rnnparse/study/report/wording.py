"""The sentences for what a study has found; the codes are those of `narrative` and `causes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rnnparse.study.diagnosis.advice import Finding
from rnnparse.study.report.formatting import (
    counted,
    join,
    percent,
    readable,
    title,
    value_text,
    with_title,
)
from rnnparse.study.report.narrative import Trait
from rnnparse.study.report.significance import Comparison

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


def say(finding: Finding) -> str:
    """The sentence for a finding."""
    return readable(_SENTENCES[finding.code](**finding.values))


def say_traits(traits: Sequence[Trait]) -> str:
    """What is typical of configurations ("all use sgd; 15 of 18 use batch size 1024"), or ""."""
    parts = []
    for trait in traits:
        everyone = "both" if trait.total == 2 else "all"
        who = everyone if trait.count == trait.total else f"{trait.count} of {trait.total}"
        values = [v if v == "whole batches" else with_title(n, v) for n, v in trait.values]
        parts.append(f"{who} use {join(values)}")
    return "; ".join(parts)


def say_difference(comparison: Comparison | None) -> str:
    """How far a configuration is from the best one, with the verdict."""
    if comparison is None:
        return "–"
    difference, low, high = (-x for x in (comparison.difference, comparison.high, comparison.low))
    verdict = "within noise" if comparison.within_noise else f"p = {comparison.p_value:.2g}"
    return f"{difference:+.2f} ({low:+.2f} to {high:+.2f})".replace("-", "−") + f", {verdict}"


def _outcomes(counts: Mapping[str, int], beyond: int) -> str:
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


def _sizes(sizes: Mapping[str, int]) -> str:
    return f"Examples: {join([f'{size:,} in {part}' for part, size in sizes.items()])}."


def _baselines(metric: str, values: Mapping[str, float]) -> str:
    known = join([f"{value:.4g} for {name}" for name, value in values.items()])
    return f"Without training, {title(metric)} is {known}."


def _updates_made(least: int, most: int) -> str:
    return f"Trials made {least if least == most else f'{least} to {most}'} updates."


def _hardly_moved(share: float, **who: Any) -> str:
    moved = f"all updates together moved the weights by less than {100 * share:g} % of their norm"
    return _in_configurations(moved, **who)


def _at_rest(metric: str, epochs: int, **who: Any) -> str:
    return _in_configurations(f"{title(metric)} did not improve in the last {epochs} epochs", **who)


def _in_configurations(
    what: str, count: int, total: int, name: str | None, traits: Sequence[Trait]
) -> str:
    details = name or say_traits(traits)
    return f"In {count} of {counted(total, 'configuration')}, {what}{details and f': {details}'}."


def _penalty_dominates(
    parts: Sequence[tuple[Any, float, float]], of_fall: bool, judge_by: Sequence[str]
) -> str:
    shares = [
        f"{percent(share)} {f'with L2 {value_text(weight)} ' if len(parts) > 1 else ''}"
        f"(lowest loss {loss:.3g})"
        for weight, share, loss in parts
    ]
    fall = " It falls mainly because the weights shrink." if of_fall else ""
    return (
        f"In the median, the L2 term makes up {join(shares)} of the final objective.{fall} "
        f"Compare configurations by {join([title(name) for name in judge_by])} instead."
    )


def _axes_explain(metric: str, axes: Mapping[str, int]) -> str:
    shares = join([f"{title(name)} {share} %" for name, share in axes.items()])
    return (
        f"Of the variance in {title(metric)} between configurations, the axes explain: "
        f"{shares}. The rest comes from interactions and noise."
    )


def _best_scores(scores: Mapping[str, str], seeds: int, epoch: float | None, epochs: int) -> str:
    named = join([f"{title(name)} {score}" for name, score in scores.items()])
    means = f" (means of {seeds} seeds with 95 % intervals)" if seeds > 1 else ""
    best = f" Best epoch: {epoch:g} of {epochs}." if epoch is not None else ""
    return f"Scores: {named}{means}.{best}"


def _within_noise(count: int, names: Sequence[str]) -> str:
    more = f"; and {count - len(names)} more" if count > len(names) else ""
    verb = "is" if count == 1 else "are"
    return (
        f"{counted(count, 'other configuration')} {verb} within noise of the best, so the order "
        f"may be due to chance: {'; '.join(names)}{more}."
    )


def _missing_trials(count: int) -> str:
    return f"{counted(count, 'trial')} {'has' if count == 1 else 'have'} not ended yet."


def _whole_batches(sizes: Sequence[float], examples: int) -> str:
    sizes_ = join([value_text(size) for size in sizes])
    noun = "Batch size" if len(sizes) == 1 else "Batch sizes"
    verb = "covers" if len(sizes) == 1 else "cover"
    return f"{noun} {sizes_} {verb} all {examples} examples: one update per epoch."


def _edge(axis: str, value: float, which: str, next: float | None) -> str:
    further = "" if next is None else f" Try {value_text(next)} too."
    return f"The best {title(axis)}, {value_text(value)}, is the {which} that was tried.{further}"


def _other_scales(axes: Sequence[str]) -> str:
    names = join([title(name) for name in axes])
    return (
        f"Objectives cannot be compared across values of {names}. Compare configurations with the "
        "same value."
    )


_SENTENCES: Mapping[str, Callable[..., str]] = {
    "outcomes": _outcomes,
    "sizes": _sizes,
    "baselines": _baselines,
    "updates_made": _updates_made,
    "hardly_moved": _hardly_moved,
    "at_rest": _at_rest,
    "penalty_dominates": _penalty_dominates,
    "axes_explain": _axes_explain,
    "best_scores": _best_scores,
    "best_diagnosis": "Diagnosis: {label}. {advice}".format,
    "same_in_effect": lambda names: f"Configurations with the same effect: {'; '.join(names)}.",
    "within_noise": _within_noise,
    "missing_trials": _missing_trials,
    "whole_batches": _whole_batches,
    "no_better": lambda metric, than, value: (
        f"No configuration is better than {than} ({title(metric)} {value:.4g})."
    ),
    "edge": _edge,
    "noise_level": (
        "With {sentences} dev sentences, differences in dev F1 below about {half:.2g} are within "
        "noise."
    ).format,
    "one_seed": lambda: (
        "Each configuration has a single trial (one seed). The comparisons account for the choice "
        "of dev sentences; another seed may change scores by more."
    ),
    "other_scales": _other_scales,
}
