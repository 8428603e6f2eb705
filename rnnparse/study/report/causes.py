"""Why the settings of a study end as they do, all together: length of runs, steps, L2, axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rnnparse.study.curve import OBJECTIVES
from rnnparse.study.diagnosis.advice import DOMINANT, RESTED
from rnnparse.study.diagnosis.statistics import shares_of_variance
from rnnparse.study.records import canonical
from rnnparse.study.report.narrative import OTHER_SCALES, counted, join, typical
from rnnparse.study.report.results import Results, text, title

HARDLY_MOVED = 0.01
"""Updates whose lengths sum up to less than this share of the weights' length are told of."""
_LEAST_SETTINGS = 8
_LEAST_SHARE = 0.005


def causes(results: Results) -> list[str]:
    """Sentences on what the diagnoses have in common and on which axes matter; maybe none."""
    parts = (_on_updates, _on_steps, _on_penalty, _on_dev, _on_axes)
    return [sentence for part in parts for sentence in part(results)]


def _known(results: Results, name: str) -> dict[int, Any]:
    """A piece of evidence, of the settings that have it."""
    found = {i: results.diagnosis(i).evidence.get(name) for i in range(len(results.settings))}
    return {i: value for i, value in found.items() if value is not None}


def _on_updates(results: Results) -> Iterator[str]:
    """How many updates runs made, where that is too few for some."""
    if not any(row["label"] == "too few updates" for row in results.settings):
        return
    units = _known(results, "unit")
    counts = [n for i, n in _known(results, "values").items() if units.get(i) == "update"]
    if counts:
        least, most = int(min(counts)), int(max(counts))
        yield f"Runs made {least if least == most else f'{least} to {most}'} updates."


def _on_steps(results: Results) -> Iterator[str]:
    """The settings whose updates hardly moved the weights."""
    travelled = _known(results, "travelled")
    short = [i for i, way in travelled.items() if way < HARDLY_MOVED]
    if not short:
        return
    yield (
        f"In {_counted(results, short)} all updates together moved the weights by less than "
        f"{100 * HARDLY_MOVED:g} % of their length{_who(results, short)}."
    )


def _on_penalty(results: Results) -> Iterator[str]:
    """How much of the objective is the L2 term, for each L2 weight, and what the loss does."""
    shares = _known(results, "l2_share")
    if not shares or float(np.median(list(shares.values()))) < DOMINANT:
        return
    weights = next((axis.values for axis in results.axes if axis.name == "l2"), ())
    by_weight: dict[str, list[int]] = {text(weight): [] for weight in weights}
    for i in shares:
        by_weight.setdefault(text(results.settings[i]["config"].get("l2")), []).append(i)
    by_weight = {weight: settings for weight, settings in by_weight.items() if settings}
    ends = _known(results, "loss_end")
    parts = []
    for weight, settings in by_weight.items():
        named = f" with L2 {weight}" if len(by_weight) > 1 else ""
        lowest = min(ends[i] for i in settings)
        parts.append(f"{_percent([shares[i] for i in settings])}{named} (lowest loss {lowest:.3g})")
    falls = list(_known(results, "l2_share_of_fall").values())
    mostly = bool(falls) and float(np.median(falls)) >= DOMINANT
    reason = ": its fall is mostly that of the weights' length" if mostly else ""
    measured = [title(m.name) for m in results.metrics[:1] if m.name not in OBJECTIVES]
    yield (
        f"In the median, the L2 term ends as {join(parts)} of the objective{reason}, so judge "
        f"settings by {join(['loss', *measured])}."
    )


def _percent(shares: Sequence[float]) -> str:
    """The median of shares, which is all only where it is."""
    share = float(np.median(shares))
    return f"{100 * share:.3g} %" if share < 0.9995 else f"{100 * share:.4g} %"


def _on_dev(results: Results) -> Iterator[str]:
    """The settings whose dev F1, or else validation loss, has come to rest."""
    since = _known(results, "dev_since_best")
    scored = any("dev_f1" in epoch for record in results.records for epoch in record["epochs"])
    what = "dev F1 had not risen" if scored else "validation loss had not fallen"
    at_rest = [i for i, epochs in since.items() if epochs >= RESTED]
    if at_rest:
        yield (
            f"In {_counted(results, at_rest)} {what} for {RESTED} epochs or more at the "
            f"end{_who(results, at_rest)}."
        )


def _counted(results: Results, settings: Sequence[int]) -> str:
    return f"{len(settings)} of {counted(len(results.settings), 'setting')}"


def _who(results: Results, settings: Sequence[int]) -> str:
    """What is typical of these settings, after a colon; or the name of the only one."""
    if len(settings) == 1:
        return f": {results.name(settings[0])}"
    found = typical(results, settings)
    return f": {found}" if found else ""


def _on_axes(results: Results) -> Iterator[str]:
    """How much of the differences between the settings each axis explains."""
    shares = sorted(axis_shares(results).items(), key=lambda pair: -pair[1])
    told = [(name, share) for name, share in shares if share >= _LEAST_SHARE]
    if not told:
        return
    whole = _whole_percents([share for _, share in told])
    parts = [f"{title(name)} {share} %" for (name, _), share in zip(told, whole, strict=True)]
    yield (
        f"Of the differences in {title(results.metrics[0].name)} between the settings, the axes "
        f"explain: {join(parts)}; the rest lies in how they act together, and in noise."
    )


def _whole_percents(shares: Sequence[float]) -> list[int]:
    """Shares in whole per cent, which add up to no more than 100 as the shares do not either."""
    percents = [round(100 * share) for share in shares]
    if sum(percents) > 100:
        percents[0] -= sum(percents) - 100
    return percents


def axis_shares(results: Results) -> dict[str, float]:
    """What share of the variance between the settings each axis explains, by `shares_of_variance`.

    Outliers are drawn in to three quartile distances beyond the quartiles, so that a setting which
    diverges does not decide all. Only the grid itself counts, not the settings that were added for
    what came of it, as their axes go together. Of settings that do the same, one counts.

    Returns:
        By axis; empty with few settings, a single axis, or metrics that do not compare.
    """
    axes = [results.axes[i] for i in results.varying]
    if results.metrics[0].name in ("objective", "loss") and OTHER_SCALES & {a.name for a in axes}:
        return {}
    there: dict[str, tuple[dict[str, Any], float]] = {}
    for i, (effect, (mean, _)) in enumerate(zip(results.effects, results.means[0], strict=True)):
        if mean is not None and i not in results.beyond:
            there.setdefault(canonical(effect), (effect, mean))
    if len(there) < _LEAST_SETTINGS:
        return {}
    columns = {axis.name: [canonical(e.get(axis.name)) for e, _ in there.values()] for axis in axes}
    columns = {name: c for name, c in columns.items() if 1 < len(set(c)) < len(there)}
    if len(columns) < 2:
        return {}
    shares = shares_of_variance(
        [*columns.values()], _drawn_in([mean for _, mean in there.values()])
    )
    return dict(zip(columns, shares, strict=True))


def _drawn_in(values: Sequence[float]) -> list[float]:
    """Values with their outliers at Tukey's outer fences."""
    low, high = np.percentile(values, [25, 75])
    reach = 3 * (high - low)
    if not reach:
        return list(values)
    return [float(value) for value in np.clip(values, low - reach, high + reach)]
