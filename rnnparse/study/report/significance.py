"""Whether settings differ beyond chance: over the sentences of the dev set, and over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from rnnparse.study.diagnosis.statistics import student_quantile

Records = Sequence[Mapping[str, Any]]

CLEAR = 4.0
"""Settings that are so many standard errors apart are not drawn for."""


@dataclass(frozen=True)
class Comparison:
    """Dev F1 of one setting minus that of another, in points, each at its best epoch.

    Attributes:
        difference: of the means over the seeds.
        low, high: 95 % confidence interval.
        p_value: two-sided, for the hypothesis that the settings do not differ.
        sentences: that were drawn; 0 where counts by sentence are missing and seeds alone tell.
        seeds: of the first and of the second setting. With one seed each, the interval covers the
            choice of sentences only; other seeds may differ more.
    """

    difference: float
    low: float
    high: float
    p_value: float
    sentences: int
    seeds: tuple[int, int]

    @property
    def within_noise(self) -> bool:
        """Whether the interval has 0 in it."""
        return self.low <= 0 <= self.high

    def describe(self) -> str:
        """The comparison in words."""
        verdict = "within noise" if self.within_noise else "more than noise"
        text = f"{self.difference:+.2f} F1 ({self.low:+.2f} to {self.high:+.2f}), {verdict}"
        return text if min(self.seeds) > 1 else f"{text}; other seeds may differ more"


def best_epoch(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first epoch with the highest dev F1; None if no epoch has one."""
    epochs = [
        {"epoch": number, **epoch}
        for number, epoch in enumerate(record.get("epochs") or [], start=1)
        if epoch.get("dev_f1") is not None
    ]
    return max(epochs, key=lambda epoch: epoch["dev_f1"], default=None)


def compare(
    a: Mapping[str, Any] | Records,
    b: Mapping[str, Any] | Records,
    gold: Sequence[int] | None = None,
    *,
    samples: int = 10_000,
    seed: int = 0,
) -> Comparison | None:
    """Is the difference in dev F1 between two settings more than chance?

    Dev sets are drawn from the sentences with replacement, the same for both settings and all
    seeds; for each, where a setting has several seeds, as many of them are drawn, and their
    deviations stretched by √(S/(S − 1)), as S seeds vary by that much less around their own mean.
    The p-value is the share of draws in which the difference departs from the observed one by at
    least as much as the observed one departs from 0, counting the observed set as one draw.

    Args:
        a, b: a record, or the records of a setting's seeds.
        gold: brackets of each dev sentence, as in `study.json`.
        samples: number of draws. seed: of NumPy's default generator.

    Returns:
        a minus b. Without counts by sentence, Welch's interval over the seeds; None if there are
        not two seeds each, or no dev F1.

    Raises:
        ValueError: a trial was scored on another number of sentences than `gold` has.

    Reference:
        Berg-Kirkpatrick, Burkett & Klein (2012), An Empirical Investigation of Statistical
        Significance in NLP, section 2.1; Davison & Hinkley (1997), Bootstrap Methods and Their
        Application, section 3.8 (nested variation).
    """
    one, other = ([x] if isinstance(x, Mapping) else list(x) for x in (a, b))
    peaks = [[peak for r in side if (peak := best_epoch(r))] for side in (one, other)]
    if not all(peaks):
        return None
    first, second = (_counts(side, gold) for side in peaks)
    if first is None or second is None:
        return _welch(*([epoch["dev_f1"] for epoch in side] for side in peaks))
    rng = np.random.default_rng(seed)
    weights = _weights(first.shape[2], samples, rng)
    drawn = [_drawn_means(_f1(side, weights), rng) for side in (first, second)]
    return _comparison(drawn[0] - drawn[1], first, second)


def against_best(
    rows: Sequence[Mapping[str, Any]],
    records: Records,
    gold: Sequence[int] | None = None,
    *,
    samples: int = 2_000,
    seed: int = 0,
) -> list[Comparison | None]:
    """The best setting by dev F1 compared with each setting, as by `compare`.

    All are judged on the same draws. Where the delta method puts two settings more than `CLEAR`
    standard errors apart, its interval stands in for the draws.

    The best of many is so partly by luck. Therefore intervals are wider, and p-values greater, as
    Bonferroni has it for the number of the others: the setting that is truly best is within noise
    of the one that seems to be with a probability of 95 % at least.

    Args:
        rows: of `rnnparse.study.report.summary.rows`. records: of the study.
        gold: as for `compare`.

    Returns:
        For each row the best minus that row; None where no comparison is possible.

    Reference:
        Hsu (1996), Multiple Comparisons: Theory and Methods, chapter 4 (with the best).
    """
    compared = _against_best(rows, records, gold, samples, seed)
    others = sum(found is not None for found in compared) - 1
    return [found and _simultaneous(found, others) for found in compared]


def _simultaneous(found: Comparison, others: int) -> Comparison:
    """One of so many comparisons, all of which are to hold together."""
    if others < 2:
        return found
    wider = NormalDist().inv_cdf(1 - 0.025 / others) / NormalDist().inv_cdf(0.975)
    low, high = (found.difference + wider * (x - found.difference) for x in (found.low, found.high))
    return replace(found, low=low, high=high, p_value=min(1.0, others * found.p_value))


def _against_best(
    rows: Sequence[Mapping[str, Any]],
    records: Records,
    gold: Sequence[int] | None,
    samples: int,
    seed: int,
) -> list[Comparison | None]:
    means = [row["dev_f1"]["mean"] for row in rows]
    if all(mean is None for mean in means):
        return [None] * len(rows)
    top = max((i for i, mean in enumerate(means) if mean is not None), key=lambda i: means[i])
    peaks = [
        [peak for i in row["trials"] if _finished(records[i]) and (peak := best_epoch(records[i]))]
        for row in rows
    ]
    counts = [_counts(side, gold) if side else None for side in peaks]
    best = counts[top]
    if best is None:
        values = [[epoch["dev_f1"] for epoch in side] for side in peaks]
        return [_welch(values[top], side) if side else None for side in values]
    rng = np.random.default_rng(seed)
    weights = _weights(best.shape[2], samples, rng)
    drawn = _drawn_means(_f1(best, weights), rng)
    compared: list[Comparison | None] = []
    for i, side in enumerate(counts):
        if side is None:
            compared.append(None)
            continue
        rough = _by_delta_method(best, side)
        if i == top or abs(rough.difference) > CLEAR * (rough.high - rough.difference) / 1.96:
            compared.append(rough)
        else:
            others = _drawn_means(_f1(side, weights), rng)
            compared.append(_comparison(drawn - others, best, side))
    return compared


def indistinguishable(
    rows: Sequence[Mapping[str, Any]],
    records: Records,
    gold: Sequence[int] | None = None,
    *,
    samples: int = 2_000,
) -> list[int]:
    """Which settings are within noise of the best: places in `rows`, the best first.

    With a probability of 95 % at least, the truly best is among them; see `against_best`.
    """
    compared = against_best(rows, records, gold, samples=samples)
    near = [i for i, found in enumerate(compared) if found is not None and found.within_noise]
    return sorted(near, key=lambda i: -rows[i]["dev_f1"]["mean"])


def _finished(record: Mapping[str, Any]) -> bool:
    return bool(record["status"] == "finished")


def _counts(epochs: Records, gold: Sequence[int] | None) -> np.ndarray | None:
    """Twice the matched brackets, and gold + test, by seed and sentence: [S, 2, N]; or None."""
    if gold is None or not all(epoch.get("dev_counts") for epoch in epochs):
        return None
    counts = np.array([epoch["dev_counts"] for epoch in epochs], np.float64)  # [S, N, 2]
    if counts.shape[1] != len(gold):
        raise ValueError(f"{counts.shape[1]} dev sentences were scored, but gold has {len(gold)}")
    return np.stack([2 * counts[:, :, 0], counts[:, :, 1] + np.asarray(gold)], axis=1)


def _weights(sentences: int, samples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each sentence is drawn: [samples, sentences]."""
    uniform = np.full(sentences, 1.0 / sentences)
    return rng.multinomial(sentences, uniform, size=samples).astype(np.float64)


def _f1(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """F1 in per cent of each draw and seed, [samples, S]; 0 where a draw has no bracket."""
    seeds, parts, sentences = counts.shape
    sums = weights @ counts.reshape(-1, sentences).T
    matched, brackets = sums.reshape(-1, seeds, parts).transpose(2, 0, 1)
    return 100.0 * matched / np.where(brackets > 0, brackets, 1.0)


def _drawn_means(f1: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each draw of sentences the mean F1 of seeds drawn anew: [samples] from [samples, S]."""
    samples, seeds = f1.shape
    means = f1.mean(axis=1)
    if seeds == 1:
        return means
    picks = rng.integers(seeds, size=(samples, seeds))
    redrawn = np.take_along_axis(f1, picks, axis=1).mean(axis=1)
    return means + math.sqrt(seeds / (seeds - 1)) * (redrawn - means)


def _comparison(drawn: np.ndarray, one: np.ndarray, other: np.ndarray) -> Comparison:
    observed = _mean_f1(one) - _mean_f1(other)
    # Differences equal in exact arithmetic must not be split by rounding.
    as_far = int((np.abs(drawn - observed) >= abs(observed) - 1e-9).sum())
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Comparison(
        difference=observed,
        low=float(low),
        high=float(high),
        p_value=(1 + as_far) / (1 + len(drawn)),
        sentences=one.shape[2],
        seeds=(len(one), len(other)),
    )


def _whole_f1(counts: np.ndarray) -> np.ndarray:
    """F1 in per cent of each seed, [S], on the sentences themselves."""
    return _f1(counts, np.ones((1, counts.shape[2])))[0]


def _mean_f1(counts: np.ndarray) -> float:
    return float(_whole_f1(counts).mean())


def _by_delta_method(one: np.ndarray, other: np.ndarray) -> Comparison:
    """The same by the variance of the sentences' influences and of the seeds' F1."""
    influences, seeds = [], 0.0
    for counts in (one, other):
        matched, brackets = counts.mean(axis=0)
        whole = max(float(brackets.sum()), 1.0)
        f1 = 100.0 * matched.sum() / whole
        influences.append((100.0 * matched - f1 * brackets) / whole)
        by_seed = _whole_f1(counts)
        seeds += float(by_seed.var(ddof=1)) / len(by_seed) if len(by_seed) > 1 else 0.0
    variance = float(np.square(influences[0] - influences[1]).sum()) + seeds
    difference = _mean_f1(one) - _mean_f1(other)
    return _normal(difference, math.sqrt(variance), one.shape[2], (len(one), len(other)))


def _normal(difference: float, error: float, sentences: int, seeds: tuple[int, int]) -> Comparison:
    """A comparison by a normal distribution with this standard error."""
    distance = abs(difference) / error if error else math.inf if difference else 0.0
    return Comparison(
        difference=difference,
        low=difference - 1.96 * error,
        high=difference + 1.96 * error,
        p_value=math.erfc(distance / math.sqrt(2)),
        sentences=sentences,
        seeds=seeds,
    )


def _welch(one: Sequence[float], other: Sequence[float]) -> Comparison | None:
    """The difference of two means over seeds, with Welch's interval.

    The p-value is that of a normal distribution with the same interval.
    """
    if min(len(one), len(other)) < 2:
        return None
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (one, other)]
    down = sum(part**2 / (len(s) - 1) for part, s in zip(parts, (one, other), strict=True))
    freedom = sum(parts) ** 2 / down if down else 1.0
    error = math.sqrt(sum(parts)) * student_quantile(freedom) / 1.96
    return _normal(float(np.mean(one) - np.mean(other)), error, 0, (len(one), len(other)))
