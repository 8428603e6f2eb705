"""Grids of training settings of the parser."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rnnparse.config import TrainingConfig, with_present_names
from rnnparse.errors import ConfigError
from rnnparse.files import on_digits, open_regular
from rnnparse.models.frozen_weights import check_fields
from rnnparse.parser_study.axis_values import parse_values
from rnnparse.study.records import canonical
from rnnparse.study.search_space import Space, plain_axis

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OPTIMIZERS = ("sgd", "momentum", "adagrad", "keras-adagrad", "adam")
"""The named optimizers: `adagrad` as in the paper, `momentum` with 0.9. Any of Keras is allowed."""

AXES = (
    *("optimizer", "learning_rate", "batch_size", "l2", "kappa", "dim"),
    *("objective", "tie", "epochs"),
)
"""The axes of a grid, in their order in configs."""

PRESETS: dict[str, dict[str, Any]] = {
    "question": {
        "optimizer": ("sgd", "adagrad", "adam"),
        "learning_rate": (0.1, 0.01, 0.001),
        "batch_size": (256, 512, 1024),
        "l2": (0.1, 0.01, 0.001),
    },
    "quick": {
        "optimizer": ("sgd", "adagrad", "adam"),
        "learning_rate": {
            "sgd": (1.0, 0.3, 0.1),
            "adagrad": (0.1, 0.03, 0.01),
            "adam": (0.03, 0.01, 0.003),
        },
        "batch_size": (25,),
        "epochs": (4,),
    },
}
"""Axes, by the name of the preset.

`question` has 81 settings. `quick` takes less than two minutes; its learning rates are those at
which the loss falls in range tests.
"""

_DEFAULTS = TrainingConfig(epochs=5)
_OF_RUNS = ("seed", "n_jobs", "backend", "address", "tensorboard")
_OF_MIXTURES = ("scorer", "latent_grammars", "cycles", "encoder", "span_epochs")
_SHARED = tuple(
    field.name
    for field in fields(TrainingConfig)
    if field.name not in (*AXES, *_OF_RUNS, *_OF_MIXTURES)  # a study trains the SU-RNN alone
)
_OPTIONS = (*AXES, "seeds")
_LONGEST = 2**20  # bytes of a file


@dataclass(frozen=True)
class Grid(Space):
    """A grid of training settings.

    Attributes:
        axes: values for each of `AXES`; an axis that is not given has only the default.
        seeds: every setting runs once with each.
        fixed: settings of `TrainingConfig` that all trials share, such as `candidates`.
        rates: learning rates of single optimizers, which replace those of the axis.
        further: settings beyond the grid, such as the best ones with more epochs. Those that are
            in the grid are dropped.

    Each setting also has a `patience`: that of `fixed`, or by default its number of epochs, with
    which training never stops early.

    Raises:
        ConfigError: an unknown axis or setting, a value of the wrong type or out of range, or
            more than 100,000 trials.

    Example:
        >>> grid = Grid.from_options({"learning_rate": "log:1e-4:1:9"}, preset="question")
        >>> len(grid.trials())
        243
    """

    rates: Mapping[str, Sequence[float]] = field(default_factory=dict)
    further: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        _require_known("axis", self.axes, AXES)
        axes = {name: self.axes.get(name, (getattr(_DEFAULTS, name),)) for name in AXES}
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "fixed", with_present_names(self.fixed))
        self._make_plain()
        axes = {name: _checked(name, values) for name, values in self.axes.items()}
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "rates", self._checked_rates())
        _require_known("training setting", self.fixed, _SHARED)
        check_fields(TrainingConfig.from_dict(self.fixed).freeze)
        self._require_few()
        if self.further:
            for setting in self.further:
                check_setting(setting)
            own = {canonical(config) for config in replace(self, further=()).configs()}
            beyond = tuple(dict(s) for s in self.further if canonical(s) not in own)
            object.__setattr__(self, "further", beyond)

    @classmethod
    def from_options(
        cls,
        options: Mapping[str, Any],
        *,
        preset: str | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> Grid:
        """Make a grid from the options of a user.

        Args:
            options: values by axis, or by `seeds`; None counts as not given. A value is a single
                value, a list, or text that `rnnparse.parser_study.axis_values` parses.
                `learning_rate` may be a mapping from optimizers to values, with `default` for all
                other optimizers.
            preset: one of `PRESETS`, which replaces the defaults.
            fixed: settings that all trials share.

        Raises:
            ConfigError: as for `Grid`, or an unknown preset.
        """
        given = _given(options)
        _require_known("axis", given, _OPTIONS)
        rates: dict[str, Any] = {}
        if isinstance(given.get("learning_rate"), Mapping):
            rates = dict(given.pop("learning_rate"))
            if "default" in rates:
                given["learning_rate"] = rates.pop("default")
        axes = {name: _read(name, value) for name, value in given.items()}
        seeds = axes.pop("seeds", (0,))
        own = {name: _read("learning_rate", value) for name, value in rates.items()}
        if preset not in (None, *PRESETS):
            raise ConfigError(f"preset must be one of {', '.join(PRESETS)}, not {preset!r}")
        usual = dict(PRESETS[preset]) if preset else {}
        if isinstance(usual.get("learning_rate"), Mapping):
            each = usual.pop("learning_rate")
            if "learning_rate" not in axes:
                named = axes.get("optimizer", usual["optimizer"])
                own = {name: each[name] for name in named if name in each} | own
        return cls({**usual, **axes}, seeds, fixed or {}, own)

    @classmethod
    def from_toml(
        cls, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None
    ) -> Grid:
        """Read a grid from a file such as

            preset = "question"     # for axes that are not given

            [grid]
            learning_rate = "log:1e-4:1:9"
            batch_size = [256, 1024]
            seeds = [0, 1, 2]

            [training]              # settings that all trials share
            candidates = 50

        Args:
            path: of the file.
            options: as for `from_options`; they override those of the file.

        Raises:
            ConfigError: as for `from_options`, or the file is not TOML; the message names file and
                line.
            OSError: the file cannot be read.
        """
        text = _text_of(Path(path))
        try:
            tables = _tables(text)
            _require_known("key", tables, ("preset", "grid", "training"))
            grid, fixed = (_table(tables, name) for name in ("grid", "training"))
            given = {**grid, **_given(options or {})}
            return cls.from_options(given, preset=tables.get("preset"), fixed=fixed)
        except ConfigError as error:
            raise ConfigError(f"{path}:{_line_of(str(error), text)} {error}") from None

    def configs(self) -> list[dict[str, Any]]:
        """All settings, each once."""
        configs = {}
        for config in super().configs():
            own = self.rates.get(config["optimizer"])
            for rate in own or (config["learning_rate"],):
                setting = {**config, "learning_rate": rate}
                setting["patience"] = self.fixed.get("patience", setting["epochs"])
                configs[canonical(setting)] = setting
        configs |= {canonical(setting): dict(setting) for setting in self.further}
        return list(configs.values())

    def with_present_names(self, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """See `Space.with_present_names`."""
        return with_present_names(fixed)

    def to_dict(self) -> dict[str, Any]:
        """The grid as `study.json` stores it."""
        rates = {name: list(values) for name, values in self.rates.items()}
        further = [dict(setting) for setting in self.further]
        return {**super().to_dict(), "rates": rates, "further": further}

    def size(self) -> int:
        """An upper bound of the number of trials, without making them."""
        axes = dict(self.axes)
        names, shared = axes.pop("optimizer"), axes.pop("learning_rate")
        pairs = sum(len(self.rates.get(name, shared)) for name in names)
        settings = pairs * math.prod(map(len, axes.values())) + len(self.further)
        return settings * len(self.seeds)

    def _checked_rates(self) -> dict[str, tuple[Any, ...]]:
        rates = {}
        for name, values in self.rates.items():
            optimizer = _checked("optimizer", (name,))[0]
            if optimizer not in self.axes["optimizer"]:
                raise ConfigError(
                    f"learning_rate: values for {optimizer}, which is not among the optimizers"
                )
            rates[optimizer] = _checked("learning_rate", plain_axis("learning_rate", values))
        return rates


def check_setting(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a setting that no grid can have."""
    names = (*AXES, "patience")
    _require_known("setting of a grid", config, names)
    if missing := [name for name in names if name not in config]:
        raise ConfigError(f"a setting of a grid lacks {', '.join(missing)}")
    TrainingConfig.from_dict(config)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _read(name: str, value: Any) -> tuple[Any, ...]:
    """Values from text, from a list that may contain text, or from a single value."""
    kind = int if name == "seeds" else type(getattr(_DEFAULTS, name))
    values: list[Any] = []
    try:
        for part in value if isinstance(value, (list, tuple)) else [value]:
            values += parse_values(part, kind) if isinstance(part, str) else [part]
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    return tuple(values)


def _checked(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """The values of an axis as `TrainingConfig` stores them, without repetition."""
    checked = [getattr(TrainingConfig.from_dict({name: value}), name) for value in values]
    if name == "optimizer":
        checked = [value.lower() for value in checked]
        for value in checked:
            if value not in OPTIMIZERS:
                from rnnparse.optim.optimizers import make_optimizer

                make_optimizer(value, _DEFAULTS.learning_rate)
    return plain_axis(name, checked)


def _require_known(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(f"{name}: no such {what}; known are {', '.join(known)}")


def _text_of(path: Path) -> str:
    with open_regular(path) as file:
        content = file.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise ConfigError(f"{path}: a grid must not have more than {_LONGEST:,} bytes")
    try:
        # TOML forbids a single \r, which universal newlines would accept.
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8, as TOML must be; convert the file: {error}"
        ) from None


def _tables(text: str) -> dict[str, Any]:
    """The content of a TOML file. Raises ConfigError if Python cannot parse it."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError("it is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(on_digits(error)) from None


def _table(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{name} must be a table: write [{name}] on its own line")
    return table


def _line_of(message: str, text: str) -> str:
    """The number, with a colon, of the line that sets the name that begins a message; or ''."""
    name = re.escape(re.split(r"[ :]", message)[0])
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*\[?\s*[\"']?{name}[\"']?\s*[=\].]", line):
            return f"{number}:"
    return ""
