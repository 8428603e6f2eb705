"""Why the configurations of a study end as they do: length of trials, updates, L2, axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rnnparse.study.curve import OBJECTIVES
from rnnparse.study.diagnosis.advice import DOMINANT, RESTED
from rnnparse.study.diagnosis.statistics import shares_of_variance
from rnnparse.study.records import canonical
from rnnparse.study.report.formatting import counted, join, percent, readable, title, value_text
from rnnparse.study.report.narrative import OTHER_SCALES, typical
from rnnparse.study.report.results import Results
from rnnparse.study.report.settings import Setting

HARDLY_MOVED = 0.01
"""Updates whose lengths sum up to less than this share of the weights' length are reported."""

_LEAST_SETTINGS = 8
_LEAST_SHARE = 0.005


def causes(results: Results) -> list[str]:
    """What the diagnoses have in common, and which axes matter."""
    parts = (_on_updates, _on_steps, _on_penalty, _on_dev, _on_axes)
    return [finding for part in parts for finding in part(results)]


def _known(results: Results, name: str) -> dict[int, Any]:
    """A piece of evidence, by the places of the configurations that have it."""
    values = {one.place: one.diagnosis.evidence.get(name) for one in results.settings}
    return {place: value for place, value in values.items() if value is not None}


def _on_updates(results: Results) -> Iterator[str]:
    """How many updates runs made, where that is too few for some."""
    if not any(one.label == "too few updates" for one in results.settings):
        return
    units = _known(results, "unit")
    counts = [int(n) for i, n in _known(results, "values").items() if units.get(i) == "update"]
    if counts:
        least, most = min(counts), max(counts)
        yield f"Trials made {least if least == most else f'{least} to {most}'} updates."


def _on_steps(results: Results) -> Iterator[str]:
    """The configurations whose updates hardly moved the weights."""
    travelled = _known(results, "travelled")
    short = [results.settings[i] for i, way in travelled.items() if way < HARDLY_MOVED]
    most = f"{100 * HARDLY_MOVED:g} %"
    moved = f"all updates together moved the weights by less than {most} of their norm"
    yield from _in_configurations(results, moved, short)


def _on_penalty(results: Results) -> Iterator[str]:
    """How much of the objective is the L2 term, for each L2 weight, and what the loss does."""
    shares, ends = _known(results, "l2_share"), _known(results, "loss_end")
    if not shares or float(np.median(list(shares.values()))) < DOMINANT:
        return
    weights = next((axis.values for axis in results.axes if axis.name == "l2"), (None,))
    groups = {
        f" with L2 {value_text(weight)}": [
            i for i in shares if results.settings[i].config.get("l2") == weight
        ]
        for weight in weights
    }
    groups = {which: own for which, own in groups.items() if own}
    parts = [
        f"{percent(float(np.median([shares[i] for i in own])))}{which if len(groups) > 1 else ''} "
        f"(lowest loss {min(ends[i] for i in own):.3g})"
        for which, own in groups.items()
    ]
    falls = list(_known(results, "l2_share_of_fall").values())
    of_fall = bool(falls) and float(np.median(falls)) >= DOMINANT
    shrink = " It falls mainly because the weights shrink." if of_fall else ""
    judge_by = ["loss", *(m.title for m in results.metrics[:1] if m.name not in OBJECTIVES)]
    yield readable(
        f"In the median, the L2 term makes up {join(parts)} of the final objective.{shrink} "
        f"Compare configurations by {join(judge_by)} instead."
    )


def _on_dev(results: Results) -> Iterator[str]:
    """The configurations whose dev F1, or else validation loss, no longer improved."""
    since = _known(results, "dev_since_best")
    scored = any("dev_f1" in epoch for record in results.records for epoch in record["epochs"])
    rested = [results.settings[i] for i, epochs in since.items() if epochs >= RESTED]
    metric = title("dev_f1") if scored else "validation loss"
    rest = f"{metric} did not improve in the last {RESTED} epochs"
    yield from _in_configurations(results, rest, rested)


def _in_configurations(results: Results, what: str, settings: Sequence[Setting]) -> Iterator[str]:
    """How many configurations do something, and what is typical of them; nothing for none."""
    if settings:
        alone = len(settings) == 1
        which = results.name(settings[0]) if alone else typical(results, settings)
        total = counted(len(results.settings), "configuration")
        yield readable(f"In {len(settings)} of {total}, {what}{which and f': {which}'}.")


def _on_axes(results: Results) -> Iterator[str]:
    """How much of the variance between the configurations each axis explains."""
    shares = sorted(axis_shares(results).items(), key=lambda pair: -pair[1])
    shares = [(name, share) for name, share in shares if share >= _LEAST_SHARE]
    if shares:
        percents = [round(100 * share) for _, share in shares]
        percents[0] -= max(0, sum(percents) - 100)  # rounding adds nothing to the whole
        names = [title(name) for name, _ in shares]
        parts = join([f"{name} {share} %" for name, share in zip(names, percents, strict=True)])
        yield readable(
            f"Of the variance in {results.metrics[0].title} between configurations, the axes "
            f"explain: {parts}. The rest comes from interactions and noise."
        )


def axis_shares(results: Results) -> dict[str, float]:
    """The share of the variance between configurations that each axis explains.

    See `shares_of_variance`. Outliers are moved to three quartile distances beyond the quartiles,
    so that a configuration which diverges does not decide everything. Configurations beyond the
    grid do not count, as their axes vary together. Of configurations that do the same, one counts.

    Returns:
        By axis; empty with few configurations, a single axis, or metrics that do not compare.
    """
    axes = [results.axes[i] for i in results.varying]
    if results.metrics[0].name in ("objective", "loss") and OTHER_SCALES & {a.name for a in axes}:
        return {}
    beyond = {setting.place for setting in results.beyond}
    means: dict[str, float] = {}
    effects: dict[str, Mapping[str, Any]] = {}
    for one in results.settings:
        if one.mean is not None and one.place not in beyond:
            key = canonical(one.effect)
            effects.setdefault(key, one.effect)
            means.setdefault(key, one.mean)
    if len(means) < _LEAST_SETTINGS:
        return {}
    columns = {a.name: [canonical(e.get(a.name)) for e in effects.values()] for a in axes}
    columns = {name: c for name, c in columns.items() if 1 < len(set(c)) < len(means)}
    if len(columns) < 2:
        return {}
    values = np.array([*means.values()])
    low, high = np.percentile(values, [25, 75])
    reach = 3 * (high - low) or np.inf  # Tukey's outer fences
    clipped = np.clip(values, low - reach, high + reach).tolist()
    return dict(zip(columns, shares_of_variance([*columns.values()], clipped), strict=True))
