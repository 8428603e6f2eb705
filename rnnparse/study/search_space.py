"""The search space of a study: axes of settings, and the trials that they span."""

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
from rnnparse.study.schema import Wrong, check_any

RATES = ("learning_rate", "rate", "lr", "step_size", "eta")
"""Names by which an axis is recognised as the learning rate."""

_WINDOW = 50
_MOST = 100_000  # trials


class Trial(NamedTuple):
    """One run of the trial function: a configuration with a seed.

    Attributes:
        id: hash of config and seed; see `rnnparse.study.records.trial_id`.
        config: a value for each axis.
        seed: of all random numbers.
    """

    id: str
    config: dict[str, Any]
    seed: int

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration and the seed."""
        return {**self.config, "seed": self.seed}


def varying(trials: Sequence[Trial]) -> list[str]:
    """The names of the settings, and of the seed, in which trials differ."""
    settings = [trial.settings for trial in trials]
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({str(values.get(name)) for values in settings}) > 1]


@dataclass(frozen=True)
class Space:
    """A search space for any trial function.

    Attributes:
        axes: lists of values, by name; all combinations are tried.
        seeds: every setting runs once with each.
        fixed: settings that all trials share. They are recorded, and a study resumes only with
            the same ones.

    Raises:
        ConfigError: an axis without values or named `seed`, a value that JSON cannot hold, or more
            than 100,000 trials.

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
        self._require_few()

    def _make_plain(self) -> None:
        """Store axes, seeds and fixed settings in plain types."""
        if "seed" in self.axes:
            raise ConfigError("seed cannot be an axis, since results are pooled over it: use seeds")
        axes = {name: plain_axis(name, values) for name, values in self.axes.items()}
        seeds = plain_axis("seeds", self.seeds)
        for seed in seeds:
            if type(seed) is not int or seed < 0:
                raise ConfigError(f"seeds must be non-negative whole numbers, not {seed!r}")
        fixed = {name: _plain_value(name, value) for name, value in self.fixed.items()}
        for name, value in (("axes", axes), ("seeds", seeds), ("fixed", fixed)):
            object.__setattr__(self, name, value)

    def _require_few(self) -> None:
        count = self.size()
        if count > _MOST:
            raise ConfigError(
                f"the grid has {count:,} trials, more than {_MOST:,}; give fewer values"
            )

    def size(self) -> int:
        """An upper bound of the number of trials, without making them."""
        return math.prod(map(len, self.axes.values())) * len(self.seeds)

    def trials(self) -> list[Trial]:
        """All trials, ordered so that any first part gives an overview; see `overview`.

        All settings run with the first seed before any runs with the next.
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

    def with_present_names(self, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Fixed settings from `study.json`; subclasses rename those with a former name."""
        return dict(fixed)

    def to_dict(self) -> dict[str, Any]:
        """The space as `study.json` stores it."""
        axes = {name: list(values) for name, values in self.axes.items()}
        return {"axes": axes, "seeds": list(self.seeds), "fixed": dict(self.fixed)}


def overview(configs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings in an order whose first part covers as many pairs of values as possible.

    The order is that of a hash, so effectively random (Bergstra & Bengio 2012). But as long as two
    values of two axes have not occurred together, the next setting is that of the next `_WINDOW`
    which adds most of such pairs.

    Args:
        configs: distinct settings; some may lack an axis that others have.
    """
    values = [{name: canonical(value) for name, value in config.items()} for config in configs]
    names = dict.fromkeys(name for config in values for name in config)
    varying = [name for name in names if len({config.get(name) for config in values}) > 1]
    order = sorted(range(len(configs)), key=lambda i: trial_id(configs[i], 0))

    def pairs(i: int) -> set[tuple[Any, ...]]:
        items = [(name, values[i].get(name)) for name in varying]
        return set(combinations(items, min(2, len(varying))))

    missing = set().union(*map(pairs, order))
    ordered = []
    while missing:
        place = max(range(min(_WINDOW, len(order))), key=lambda j: len(pairs(order[j]) & missing))
        ordered.append(order.pop(place))
        missing -= pairs(ordered[-1])
    return [configs[i] for i in ordered + order]


def plain_axis(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """The values of an axis in plain types, without repetition.

    Raises:
        ConfigError: there are none, or JSON cannot hold one.
    """
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise ConfigError(f"{name} must be a list of values, not {values!r}")
    distinct = {canonical(x): x for x in (_plain_value(name, value) for value in values)}
    if not distinct:
        raise ConfigError(f"{name} has no values")
    return tuple(distinct.values())


def _plain_value(name: str, value: Any) -> Any:
    try:
        kept = plain(value)
        check_any(kept)
    except (TypeError, Wrong) as error:
        raise ConfigError(f"{name}: {error}") from None
    if kept is None and value is not None:
        raise ConfigError(f"{name}: {reprlib.repr(value)} is not a finite number, or too large")
    return kept
