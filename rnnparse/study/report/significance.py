"""Compare the best configuration with every other: over the dev sentences, over the seeds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from rnnparse.paired_bootstrap import F1Difference, compare, f1_scores, resampled_f1

Epoch = Mapping[str, Any]
"""An epoch of a record; see `rnnparse.study.schema.Epoch`."""

CLEAR = 4.0
"""Configurations that differ by more than this many standard errors are not resampled."""

_QUANTILE = float(ndtri(0.975))


@dataclass(frozen=True)
class Comparison(F1Difference):
    """Dev F1 of the best configuration minus that of another, each at its best epoch.

    Attributes:
        sentences: of the dev set; 0 where counts by sentence are missing and only seeds count.
        seeds: of the best configuration, and of the other. With one seed each, the interval
            covers the choice of dev sentences only; other seeds may differ more.
    """

    sentences: int
    seeds: tuple[int, int]

    @property
    def within_noise(self) -> bool:
        """Whether the interval contains 0."""
        return self.low <= 0 <= self.high


def best_epoch(record: Mapping[str, Any]) -> Epoch | None:
    """The first epoch with the highest dev F1; None if no epoch has one."""
    epochs = [
        {"epoch": number, **epoch}
        for number, epoch in enumerate(record["epochs"], start=1)
        if epoch.get("dev_f1") is not None
    ]
    return max(epochs, key=lambda epoch: epoch["dev_f1"], default=None)


def compare_with_best(
    peaks: Sequence[Sequence[Epoch]],
    best: int,
    gold: Sequence[int] | None = None,
    *,
    samples: int = 2_000,
    seed: int = 0,
) -> list[Comparison | None]:
    """Compare the best configuration by dev F1 with each configuration.

    All configurations are scored on the same resampled dev sets. For each of these, as many seeds
    are drawn as a configuration has. Their deviations from the configuration's mean are stretched
    by √(S/(S − 1)), since S seeds vary by that much less around their own mean. Where the delta
    method separates two configurations by more than `CLEAR` standard errors, its interval replaces
    the resampled one. Without counts by sentence, Welch's test compares the seeds.

    The best of many configurations is partly so by luck. Therefore intervals and p-values are
    adjusted by Bonferroni's method: with a probability of at least 95 %, the truly best
    configuration is within noise of the one that seems best.

    Args:
        peaks: for each configuration, the best epochs of its trials.
        best: the place of the best configuration.
        gold: brackets of each dev sentence, as in `study.json`.
        samples: number of resampled dev sets. seed: of NumPy's default generator.

    Returns:
        For each configuration, the best minus that one; None where they cannot be compared.

    Raises:
        ValueError: a trial was scored on another number of sentences than `gold` has.

    Reference:
        Davison & Hinkley (1997), Bootstrap Methods and Their Application, section 3.8; Hsu (1996),
        Multiple Comparisons: Theory and Methods, chapter 4.
    """
    counts = {i: c for i, side in enumerate(peaks) if (c := _counts(side, gold)) is not None}
    if best in counts:
        compared = {i: _by_delta_method(counts[best], side) for i, side in counts.items()}
        near = [i for i, rough in compared.items() if i != best and not _is_clear(rough)]
        drawn = _resampled_means([counts[i] for i in (best, *near)], samples, seed)
        for i, means in zip(near, drawn[1:], strict=True):
            resampled = compare(compared[i].difference, drawn[0] - means)
            compared[i] = replace(compared[i], **vars(resampled))
    else:
        f1 = [[epoch["dev_f1"] for epoch in side] for side in peaks]
        compared = {i: w for i, side in enumerate(f1) if (w := _by_welchs_test(f1[best], side))}
    adjusted = {i: _simultaneous(one, len(compared) - 1) for i, one in compared.items()}
    return [adjusted.get(i) for i in range(len(peaks))]


def _counts(epochs: Sequence[Epoch], gold: Sequence[int] | None) -> np.ndarray | None:
    """Twice the matched brackets, and gold + test, by seed and sentence: [S, 2, N]; or None."""
    if not epochs or gold is None or not all(epoch.get("dev_counts") for epoch in epochs):
        return None
    counts = np.array([epoch["dev_counts"] for epoch in epochs], np.float64)  # [S, N, 2]
    if counts.shape[1] != len(gold):
        raise ValueError(f"{counts.shape[1]} dev sentences were scored, but gold has {len(gold)}")
    return np.stack([2 * counts[:, :, 0], counts[:, :, 1] + np.asarray(gold)], axis=1)


def _resampled_means(sides: Sequence[np.ndarray], samples: int, seed: int) -> list[np.ndarray]:
    """For each configuration the mean F1 of redrawn seeds on each resampled dev set: [samples]."""
    generator = np.random.default_rng(seed)
    scores = resampled_f1(np.concatenate(sides), samples, generator)
    ends = np.cumsum([len(side) for side in sides])[:-1]
    return [_over_seeds(part, generator) for part in np.split(scores, ends, axis=1)]


def _over_seeds(f1: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    samples, seeds = f1.shape
    means = f1.mean(axis=1)
    if seeds == 1:
        return means
    picks = generator.integers(seeds, size=(samples, seeds))
    redrawn = np.take_along_axis(f1, picks, axis=1).mean(axis=1)
    return means + math.sqrt(seeds / (seeds - 1)) * (redrawn - means)


def _is_clear(rough: Comparison) -> bool:
    error = (rough.high - rough.difference) / _QUANTILE
    return abs(rough.difference) > CLEAR * error


def _by_delta_method(one: np.ndarray, other: np.ndarray) -> Comparison:
    """A comparison by the variance of the sentences' influences and of the seeds' F1."""
    influences, variance = [], 0.0
    for counts in (one, other):
        matched, brackets = counts.mean(axis=0)
        total = max(float(brackets.sum()), 1.0)
        f1 = 100.0 * matched.sum() / total
        influences.append((100.0 * matched - f1 * brackets) / total)
        if len(counts) > 1:
            variance += float(f1_scores(counts).var(ddof=1)) / len(counts)
    variance += float(np.square(influences[0] - influences[1]).sum())
    difference = float(f1_scores(one).mean() - f1_scores(other).mean())
    reach = _QUANTILE * math.sqrt(variance)
    distance = abs(difference) / math.sqrt(variance) if variance else math.inf if difference else 0
    return Comparison(
        difference,
        low=difference - reach,
        high=difference + reach,
        p_value=2 * float(ndtr(-distance)),
        sentences=one.shape[2],
        seeds=(len(one), len(other)),
    )


def _by_welchs_test(one: Sequence[float], other: Sequence[float]) -> Comparison | None:
    """The difference of two means over seeds; None without two seeds each."""
    if min(len(one), len(other)) < 2:
        return None
    from scipy.stats import ttest_ind

    difference = float(np.mean(one) - np.mean(other))
    seeds = (len(one), len(other))
    if not (np.ptp(one) or np.ptp(other)):
        p_value = 0.0 if difference else 1.0
        return Comparison(difference, difference, difference, p_value, 0, seeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one side may have equal values
        test = ttest_ind(one, other, equal_var=False)
    low, high = map(float, test.confidence_interval(0.95))
    return Comparison(difference, low, high, float(test.pvalue), 0, seeds)


def _simultaneous(one: Comparison, others: int) -> Comparison:
    """A comparison as one of many that hold together."""
    if others < 2:
        return one
    wider = float(ndtri(1 - 0.025 / others)) / _QUANTILE
    low, high = (one.difference + wider * (x - one.difference) for x in (one.low, one.high))
    return replace(one, low=low, high=high, p_value=min(1.0, others * one.p_value))
