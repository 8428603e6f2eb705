"""The configurations of a study with their scores, and what tells them apart: metrics and axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rnnparse.study import schema
from rnnparse.study.diagnosis import Diagnosis
from rnnparse.study.report.formatting import title
from rnnparse.study.report.significance import Comparison


class Metric(schema.Metric, frozen=True):
    """A number at the end of a trial, by which configurations are compared."""

    @property
    def title(self) -> str:
        """The name as people read it."""
        return title(self.name)

    @property
    def digits(self) -> int | None:
        """Digits after the decimal point; None for as many as are significant."""
        return 2 if self.name == "dev_f1" else None


@dataclass(frozen=True)
class Axis:
    """An axis with the values that occur: numbers by size, others as the space lists them."""

    name: str
    values: tuple[Any, ...]

    @property
    def title(self) -> str:
        """The name as people read it."""
        return title(self.name)

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(map(schema.is_number, self.values))


@dataclass(frozen=True)
class Score:
    """A metric of a configuration: the mean over its finished trials, None if there are none.

    Attributes:
        half: half the mean's 95 % interval (Student's t); None with fewer than two trials.
    """

    mean: float | None
    half: float | None


@dataclass(frozen=True)
class Setting:
    """Trials that differ only in their seed.

    Attributes:
        place: in `Results.settings`.
        config: a value for each axis.
        effect: what these values amount to; equal for configurations that do the same.
        trials: places of the trials in `Results.records`.
        diagnosis: the most frequent one of the trials, the worst of equally frequent ones: that of
            the first trial that has it.
        scores: for each of `Results.metrics`.
        best_epoch: median of the epochs with the best dev F1, or None.
        comparison: the best configuration minus this one; None where they cannot be compared.
    """

    place: int
    config: Mapping[str, Any]
    effect: Mapping[str, Any]
    trials: tuple[int, ...]
    diagnosis: Diagnosis
    scores: tuple[Score, ...]
    best_epoch: float | None
    comparison: Comparison | None = None

    @property
    def label(self) -> str:
        """The label of the diagnosis."""
        return self.diagnosis.label

    @property
    def mean(self) -> float | None:
        """The mean of the first metric."""
        return self.scores[0].mean
