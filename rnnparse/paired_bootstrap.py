"""Paired bootstrap: is a difference in F1 between systems on one test set more than chance?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_BLOCK = 1_000_000  # numbers held at once


@dataclass(frozen=True)
class F1Difference:
    """F1 of one system minus F1 of another, in points.

    Attributes:
        difference: on the sentences themselves.
        low, high: 95 % confidence interval.
        p_value: two-sided, for the hypothesis that the systems do not differ.
    """

    difference: float
    low: float
    high: float
    p_value: float


def f1_scores(counts: np.ndarray) -> np.ndarray:
    """F1 in per cent of each system, [systems].

    Args:
        counts: of each system and sentence, twice the matched brackets and the brackets of gold and
            test together: [systems, 2, sentences].
    """
    return _f1(counts.sum(axis=2))


def resampled_f1(counts: np.ndarray, samples: int, generator: np.random.Generator) -> np.ndarray:
    """F1 in per cent of each system on the same resampled test sets: [samples, systems].

    Each test set has as many sentences as the original, drawn with replacement.

    Args:
        counts: as for `f1_scores`. samples: number of test sets.
    """
    systems, _, sentences = counts.shape
    columns = np.ascontiguousarray(counts.reshape(-1, sentences).T, np.float64)
    uniform = np.full(sentences, 1.0 / sentences)
    block = max(1, _BLOCK // max(sentences, 2 * systems))
    scores = np.empty((samples, systems))
    for first in range(0, samples, block):
        part = scores[first : first + block]
        weights = generator.multinomial(sentences, uniform, size=len(part))
        part[:] = _f1((weights @ columns).reshape(len(part), systems, 2))
    return scores


def compare(observed: float, resampled: np.ndarray) -> F1Difference:
    """The observed difference with a percentile interval and a two-sided p-value.

    The p-value is the share of resampled differences that depart from the observed one by at least
    as much as the observed one departs from 0. The observed test set counts as one sample.

    Args:
        observed: the difference on the sentences themselves. resampled: differences, [samples].

    Reference:
        Berg-Kirkpatrick, Burkett & Klein (2012), An Empirical Investigation of Statistical
        Significance in NLP, section 2.1.
    """
    # Rounding must not split differences that are equal in exact arithmetic.
    as_far = int((np.abs(resampled - observed) >= abs(observed) - 1e-9).sum())
    low, high = np.percentile(resampled, [2.5, 97.5])
    p_value = (1 + as_far) / (1 + len(resampled))
    return F1Difference(float(observed), float(low), float(high), p_value)


def _f1(sums: np.ndarray) -> np.ndarray:
    """F1 from sums [..., 2] of the counts. A test set without any bracket has F1 0."""
    brackets = sums[..., 1]
    return 100.0 * sums[..., 0] / np.where(brackets > 0, brackets, 1.0)
