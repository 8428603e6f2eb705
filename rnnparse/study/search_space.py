"""The trials that axes of any kind span."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, NamedTuple

from rnnparse.errors import ConfigError
from rnnparse.study.curve import plain
from rnnparse.study.records import canonical, trial_id
from rnnparse.study.schema import Wrong, anything

RATES = ("learning_rate", "rate", "lr", "step_size", "eta")
"""Names of axes that are taken for the learning rate, by which trials of one problem may differ."""

_WINDOW = 50
_MOST = 100_000  # runs


class Trial(NamedTuple):
    """One run of the trial function.

    Attributes:
        id: of config and seed; see `rnnparse.study.records.trial_id`.
        config: a value for each axis.
        seed: of all that is random.
    """

    id: str
    config: dict[str, Any]
    seed: int


@dataclass(frozen=True)
class Space:
    """Axes of any kind, for any trial function.

    Attributes:
        axes: lists of values, by name; all combinations are tried.
        seeds: each setting runs once for each.
        fixed: what the trials share besides; it is written down, and a study goes on only with
            the same.

    Raises:
        ConfigError: an axis without values, or named `seed`, a value that JSON cannot hold, or more
            than 100,000 runs.

    Example:
        >>> space = Space({"rate": [0.1, 0.01], "width": [8, 16]}, seeds=(0, 1))
        >>> len(space.trials())
        8
    """

    axes: Mapping[str, Sequence[Any]]
    seeds: Sequence[int] = (0,)
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._make_plain()
        require_few(self.runs())

    def _make_plain(self) -> None:
        """Keep axes, seeds and fixed settings as JSON has them. ConfigError where it cannot."""
        if "seed" in self.axes:
            raise ConfigError("seed is no axis, as settings are compared over seeds: give seeds")
        axes = {name: plain_axis(name, values) for name, values in self.axes.items()}
        seeds = plain_axis("seeds", self.seeds)
        for seed in seeds:
            if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
                raise ConfigError(f"seeds must be whole numbers from 0 on, not {seed!r}")
        fixed = {name: _plain_value(name, value) for name, value in self.fixed.items()}
        for name, value in (("axes", axes), ("seeds", seeds), ("fixed", fixed)):
            object.__setattr__(self, name, value)

    def runs(self) -> int:
        """How many trials there are at most, without making them."""
        return math.prod(map(len, self.axes.values())) * len(self.seeds)

    def trials(self) -> list[Trial]:
        """All trials, in an order in which any first part gives an overview.

        See `overview`. All settings run with the first seed before any runs with the next.
        """
        configs = overview(self.configs())
        return [
            Trial(trial_id(config, seed), config, seed) for seed in self.seeds for config in configs
        ]

    def configs(self) -> list[dict[str, Any]]:
        """All settings, each once."""
        return [
            dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())
        ]

    def to_dict(self) -> dict[str, Any]:
        """The space as `study.json` has it."""
        axes = {name: list(values) for name, values in self.axes.items()}
        return {"axes": axes, "seeds": list(self.seeds), "fixed": dict(self.fixed)}


def require_few(runs: int) -> None:
    """Raise ConfigError for more runs than a study can have."""
    if runs > _MOST:
        raise ConfigError(f"the grid has {runs:,} runs, more than {_MOST:,}; give fewer values")


def overview(configs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings in an order in which few show much: soon each pair of values has met.

    They come in the order of a hash, so as by chance (Bergstra & Bengio 2012), but as long as two
    values of two axes have not been tried together, each time those of the next `_WINDOW` that
    bring most of such pairs.

    Args:
        configs: settings that differ; some may lack an axis that others have.
    """
    texts = [{name: canonical(value) for name, value in config.items()} for config in configs]
    names = dict.fromkeys(name for text in texts for name in text)
    varying = [name for name in names if len({text.get(name) for text in texts}) > 1]
    order = sorted(range(len(configs)), key=lambda i: trial_id(configs[i], 0))

    def pairs(i: int) -> set[tuple[Any, ...]]:
        items = [(name, texts[i].get(name)) for name in varying]
        return set(combinations(items, min(2, len(varying))))

    missing = set().union(*map(pairs, order))
    ordered = []
    while missing:
        place = max(range(min(_WINDOW, len(order))), key=lambda j: len(pairs(order[j]) & missing))
        ordered.append(order.pop(place))
        missing -= pairs(ordered[-1])
    return [configs[i] for i in ordered + order]


def plain_axis(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """The values of an axis as plain ones, without repetition.

    Raises:
        ConfigError: there are none, or JSON cannot hold one.
    """
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise ConfigError(f"{name} must be a list of values, not {values!r}")
    kept = {canonical(found): found for found in (_plain_value(name, value) for value in values)}
    if not kept:
        raise ConfigError(f"{name} has no values")
    return tuple(kept.values())


def _plain_value(name: str, value: Any) -> Any:
    try:
        kept = plain(value)
        anything(kept)
    except (TypeError, Wrong) as error:
        raise ConfigError(f"{name}: {error}") from None
    if kept is None and value is not None:
        raise ConfigError(f"{name}: {reprlib.repr(value)} is not a finite number, or too large")
    return kept
