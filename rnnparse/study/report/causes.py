"""Why the configurations of a study end as they do: length of trials, updates, L2, axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rnnparse.study.curve import OBJECTIVES
from rnnparse.study.diagnosis.advice import DOMINANT, RESTED, Finding
from rnnparse.study.diagnosis.statistics import shares_of_variance
from rnnparse.study.records import canonical
from rnnparse.study.report.narrative import OTHER_SCALES, traits
from rnnparse.study.report.results import Results
from rnnparse.study.report.settings import Setting

HARDLY_MOVED = 0.01
"""Updates whose lengths sum up to less than this share of the weights' length are reported."""

_LEAST_SETTINGS = 8
_LEAST_SHARE = 0.005


def causes(results: Results) -> list[Finding]:
    """What the diagnoses have in common, and which axes matter."""
    parts = (_on_updates, _on_steps, _on_penalty, _on_dev, _on_axes)
    return [finding for part in parts for finding in part(results)]


def _known(results: Results, name: str) -> dict[int, Any]:
    """A piece of evidence, by the places of the configurations that have it."""
    values = {one.place: one.diagnosis.evidence.get(name) for one in results.settings}
    return {place: value for place, value in values.items() if value is not None}


def _on_updates(results: Results) -> Iterator[Finding]:
    """How many updates runs made, where that is too few for some."""
    if not any(one.label == "too few updates" for one in results.settings):
        return
    units = _known(results, "unit")
    counts = [int(n) for i, n in _known(results, "values").items() if units.get(i) == "update"]
    if counts:
        yield Finding("updates_made", least=min(counts), most=max(counts))


def _on_steps(results: Results) -> Iterator[Finding]:
    """The configurations whose updates hardly moved the weights."""
    travelled = _known(results, "travelled")
    short = [results.settings[i] for i, way in travelled.items() if way < HARDLY_MOVED]
    if short:
        yield Finding("hardly_moved", share=HARDLY_MOVED, **_who(results, short))


def _on_penalty(results: Results) -> Iterator[Finding]:
    """How much of the objective is the L2 term, for each L2 weight, and what the loss does."""
    shares, ends = _known(results, "l2_share"), _known(results, "loss_end")
    if not shares or float(np.median(list(shares.values()))) < DOMINANT:
        return
    weights = next((axis.values for axis in results.axes if axis.name == "l2"), (None,))
    parts = []
    for weight in weights:
        own = [i for i in shares if results.settings[i].config.get("l2") == weight]
        if own:
            share = float(np.median([shares[i] for i in own]))
            parts.append((weight, share, min(ends[i] for i in own)))
    falls = list(_known(results, "l2_share_of_fall").values())
    yield Finding(
        "penalty_dominates",
        parts=parts,
        of_fall=bool(falls) and float(np.median(falls)) >= DOMINANT,
        judge_by=["loss", *(m.name for m in results.metrics[:1] if m.name not in OBJECTIVES)],
    )


def _on_dev(results: Results) -> Iterator[Finding]:
    """The configurations whose dev F1, or else validation loss, no longer improved."""
    since = _known(results, "dev_since_best")
    scored = any("dev_f1" in epoch for record in results.records for epoch in record["epochs"])
    rested = [results.settings[i] for i, epochs in since.items() if epochs >= RESTED]
    if rested:
        metric = "dev_f1" if scored else "validation loss"
        yield Finding("at_rest", metric=metric, epochs=RESTED, **_who(results, rested))


def _who(results: Results, settings: Sequence[Setting]) -> dict[str, Any]:
    """The number of these configurations and of all, and what is typical of them, or a name."""
    return {
        "count": len(settings),
        "total": len(results.settings),
        "name": results.name(settings[0]) if len(settings) == 1 else None,
        "traits": traits(results, settings),
    }


def _on_axes(results: Results) -> Iterator[Finding]:
    """How much of the variance between the configurations each axis explains."""
    shares = sorted(axis_shares(results).items(), key=lambda pair: -pair[1])
    shares = [(name, share) for name, share in shares if share >= _LEAST_SHARE]
    if shares:
        percents = [round(100 * share) for _, share in shares]
        percents[0] -= max(0, sum(percents) - 100)  # rounding adds nothing to the whole
        names = [name for name, _ in shares]
        metric = results.metrics[0].name
        yield Finding("axes_explain", metric=metric, axes=dict(zip(names, percents, strict=True)))


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
