"""Where training starts, for records that do not tell: those of epochs alone.

The first mean over an epoch is no start: a rate that is good has brought it down by then, and one
that is too great has brought it up. But all trials of a problem start from the same weights, or
from weights drawn alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from rnnparse.study.diagnosis.evidence import Findings
from rnnparse.study.diagnosis.measurements import Start
from rnnparse.study.records import canonical
from rnnparse.study.search_space import RATES

CALM = 0.05
"""A run is calm if no epoch is above the first by this share of it."""
SLOW = 0.5
"""A run is slow if the second epoch has this share of the first, or more."""

Found = Sequence[Findings | None]


def starts_of_problems(
    records: Sequence[Mapping[str, Any]], problems: Sequence[str], measured: Found
) -> list[Start | None]:
    """For each trial that tells of epochs only, what the objective was before its first update.

    Trials of the problem that tell it are believed, by their median. Else the lowest rate with all
    else equal says most: it changes least within the first epoch. Of several such runs, as of
    several optimisers, the highest counts, if it is calm, and slow where any is.

    Args:
        records: of a study. problems: of each, equal where their objectives compare.
        measured: of each, by itself.

    Returns:
        None for trials that know their start, and where nothing tells it.
    """
    starts: dict[str, Start | None] = {}
    for problem in set(problems):
        members = [i for i, name in enumerate(problems) if name == problem]
        starts[problem] = _told(measured, members) or _guessed(records, measured, members)
    return [
        None if found is None or found.objective.start_known else starts[problem]
        for found, problem in zip(measured, problems, strict=True)
    ]


def _told(measured: Found, members: Sequence[int]) -> Start | None:
    there = [found.objective for i in members if (found := measured[i]) is not None]
    known = [objective for objective in there if objective.start_known]
    if not known:
        return None
    return Start(median(o.start for o in known), median(o.start_error for o in known))


def _guessed(
    records: Sequence[Mapping[str, Any]], measured: Found, members: Sequence[int]
) -> Start | None:
    groups: dict[str, list[tuple[float, int]]] = {}
    for i in members:
        config = dict(records[i].get("config") or {})
        name = next((name for name in RATES if name in config), None)
        rate = config.pop(name) if name else None
        if isinstance(rate, (int, float)) and not isinstance(rate, bool):
            groups.setdefault(canonical(config), []).append((rate, i))
    runs = list(_lowest(groups, measured))
    slow = [run for run in runs if len(run.curve) > 1 and run.curve[1] >= SLOW * run.curve[0]]
    if not runs:
        return None
    highest = max(slow or runs, key=lambda run: run.start)
    return Start(highest.start, highest.start_error)


def _lowest(groups: Mapping[str, Sequence[tuple[float, int]]], measured: Found) -> Iterator[Any]:
    """The objectives of the calm runs with the lowest rate of each group."""
    for group in groups.values():
        least = min(rate for rate, _ in group)
        for rate, i in group:
            found = measured[i]
            if rate > least or found is None or found.broke:
                continue
            curve = found.objective.curve
            if curve.max() <= curve[0] + CALM * abs(curve[0]):
                yield found.objective


BATCHES = ("batch_size", "batch")
"""Names of axes that say how many examples an update takes."""


def examples(about: Mapping[str, Any]) -> int | None:
    """How many examples a study trains on, as `study.json` has it; None if unknown."""
    size: int | None = (about.get("sizes") or {}).get("train")
    return size


def in_effect(name: str, value: Any, size: int | None) -> Any:
    """A value of an axis as far as it decides what a trial does.

    A batch takes no more examples than there are.

    Args:
        name: of the axis. value: of a setting. size: how many examples there are, or None.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return size if size and number and name in BATCHES and value > size else value
