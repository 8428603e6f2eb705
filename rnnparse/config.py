"""The settings of a training run, with their checks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from numbers import Integral, Real
from typing import Any

from rnnparse.errors import ConfigError
from rnnparse.losses.names import OBJECTIVES, TIES
from rnnparse.trees.style import DEFAULT_STYLE, TreebankStyle

TARGETS = ("gold", "oracle")
ENGINES = ("numba", "tensorflow")
SCORERS = ("su-rnn", "span")
BACKENDS = ("threads", "loky", "ray", "dask")
_CHOICES = {
    "backend": BACKENDS,
    "target": TARGETS,
    "tie": TIES,
    "engine": ENGINES,
    "scorer": SCORERS,
    "objective": OBJECTIVES,
}

_COUNT = 1_000_000_000

LIMITS: dict[str, tuple[int, int] | tuple[float, float]] = {
    "candidates": (1, 100_000),
    "dim": (1, 10_000),
    **dict.fromkeys(("epochs", "span_epochs", "patience", "batch_size"), (1, _COUNT)),
    **dict.fromkeys(("freeze_epochs", "jackknife", "folds"), (0, _COUNT)),
    "latent_grammars": (0, 64),
    "cycles": (1, 6),
    "seed": (0, 2**63 - 1),
    "n_jobs": (-1, 1024),
    "learning_rate": (1e-30, 1e30),  # in single precision it is neither 0 nor infinite
    **dict.fromkeys(("l2", "kappa"), (0.0, 1e30)),
}
"""The minimum and maximum of each numeric setting; also used by the command line."""

FORMER_NAMES = {"kbest": "candidates", "jobs": "n_jobs"}
"""Settings that had another name in files of earlier versions."""


def with_present_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with former names replaced by present ones.

    Raises:
        ConfigError: a setting has both names.
    """
    for former, present in FORMER_NAMES.items():
        if former in settings and present in settings:
            raise ConfigError(f"{former}: the former name of {present}, which is given too")
    return {FORMER_NAMES.get(name, name): value for name, value in settings.items()}


@dataclass(frozen=True, repr=False)
class TrainingConfig:
    """The settings of a training run. They decide its result, together with the input files.

    Attributes:
        treebank: file, folder, glob or `nltk:NAME`; None for the embedded treebank.
        dev: trees for tuning; None to hold out a tenth of the treebank.
        vectors: file of word vectors in GloVe's format, or None.
        candidates: length of the candidate list of a sentence.
        scorer: what ranks the candidates: `su-rnn`, the network of the paper; or `span`, which adds
            the scores of labelled spans.
        latent_grammars: number of grammars with latent substates that score trees together with
            the base PCFG.
        cycles: of splitting and merging the substates of these grammars.
        encoder: folder or package of a pre-trained encoder, whose token vectors the span scorer
            uses; None to learn from the treebank alone.
        span_epochs: number of passes of the span scorer over the training set.
        dim: n, the size of word and phrase vectors.
        epochs: maximum number of passes over the training set.
        patience: number of epochs without a better dev F1 after which training stops.
        batch_size: sentences per step.
        learning_rate: α.
        l2: λ of λ/2 (‖W‖² + ‖v‖²).
        kappa: κ, the margin for each wrong labelled span.
        averaging: whether the model gets the mean of the weights over the epochs, instead of the
            weights after one epoch.
        objective: `hinge`, the structured hinge; `squared-hinge`, its square; `perceptron`, the
            hinge without a margin; `mmi`, −log of the target's probability among the candidates;
            `risk`, the expected margin.
        optimizer: `adagrad` as in the paper, or another Keras optimizer by name; see
            `rnnparse.optim.make_optimizer`.
        engine: `numba` (fast on a CPU) or `tensorflow`.
        tie: which of several maximizers the subgradient follows: first, uniform or gold.
        target: the tree that training favours: the `gold` tree, or the `oracle`, which is the best
            candidate.
        freeze: patterns of weights that are not trained: `vectors`, `W`, `v`, or rows of them, such
            as `W:NP,*`.
        freeze_epochs: number of epochs for which `freeze` applies; 0 for all.
        heads: english, left, right, or a file of head rules.
        jackknife: 0 makes the training lists with the grammar of the whole training set; N > 1
            splits it into N parts and parses each one with a grammar of the other parts.
        exact: whether candidate lists come from an exact search, which takes many times as long as
            the usual one.
        folds: 0 tunes on dev; N > 1 tunes by N-fold cross-validation on the training set, and then
            trains on all of it.
        prune_vectors: whether to keep only the given word vectors of words in the training set.
        seed: seed of all random numbers.
        n_jobs: number of threads or other workers; 0 or -1 for one per processor core.
        backend: what makes candidate lists: `threads`; `loky` for processes on this machine; or
            `ray` or `dask` for a cluster.
        address: of a cluster that runs; None starts one on this machine.
        telemetry: whether to log gradients, updates and activations of every epoch; see
            `rnnparse.training.network_telemetry`.
        tensorboard: folder for TensorBoard logs, or None.
        cache: folder for k-best lists, or None for the user's cache folder.
        style: the conventions of treebank and dev, or a mapping of its attributes.

    Paths may be `pathlib.Path` objects and numbers NumPy scalars; both are converted to built-in
    types.

    Raises:
        ConfigError: a value has the wrong type or is out of range.
    """

    treebank: str | None = None
    dev: str | None = None
    vectors: str | None = None
    scorer: str = "su-rnn"
    latent_grammars: int = 0
    cycles: int = 4
    encoder: str | None = None
    span_epochs: int = 12
    candidates: int = 100
    dim: int = 25
    epochs: int = 12
    patience: int = 5
    batch_size: int = 25
    learning_rate: float = 0.02
    l2: float = 1e-4
    kappa: float = 0.1
    averaging: bool = True
    objective: str = "hinge"
    optimizer: str = "adagrad"
    engine: str = "numba"
    tie: str = "first"
    target: str = "gold"
    freeze: tuple[str, ...] = ()
    freeze_epochs: int = 0
    heads: str = "english"
    jackknife: int = 0
    exact: bool = False
    folds: int = 0
    prune_vectors: bool = False
    seed: int = 0
    n_jobs: int = 0
    backend: str = "threads"
    address: str | None = None
    telemetry: bool = False
    tensorboard: str | None = None
    cache: str | None = None
    style: TreebankStyle = DEFAULT_STYLE

    def __repr__(self) -> str:
        """The settings that differ from their defaults."""
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"TrainingConfig({', '.join(given)})"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = _converted(field.name, str(field.type), getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        for name in LIMITS:
            _check_limits(name, getattr(self, name))
        for name in ("jackknife", "folds"):
            _require(getattr(self, name) != 1, f"{name} must be 0 or at least 2")
        _require(not (self.folds and self.dev), "give either folds or dev, not both")
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            _require(value in known, f"{name} must be one of {', '.join(known)}")
        check_address(self.backend, self.address)
        _require(
            self.encoder is None or self.scorer == "span",
            "an encoder is used by the span scorer alone; set scorer to span",
        )
        _require(
            bool(self.freeze) or not self.freeze_epochs,
            "freeze_epochs needs freeze, which names the weights",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """Make a config from a mapping, which may have names of earlier versions.

        Raises:
            ConfigError: a key is unknown, or a value has the wrong type or is out of range.
        """
        values = with_present_names(values)
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(
                f"unknown settings {', '.join(unknown)}; known are {', '.join(sorted(known))}"
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """The settings as a dict of JSON types; `style` has only what differs from the default."""
        settings = {**asdict(self), "freeze": list(self.freeze), "style": self.style.to_dict()}
        if not settings["style"]:
            del settings["style"]
        return settings


def check_address(backend: str, address: str | None) -> None:
    """Raise ConfigError if there is an address for workers that have none."""
    _require(
        address is None or backend in ("ray", "dask"),
        f"an address is for --backend ray or dask, not for {backend}",
    )


def _converted(name: str, kind: str, value: Any) -> Any:
    """Convert a value to the type that its field declares."""
    if value is None and kind.endswith("| None"):
        return None
    shown = shown_number(value) if isinstance(value, int) else repr(value)
    if kind == "bool":
        _require(isinstance(value, bool), f"{name} must be true or false, not {shown}")
    elif kind == "int":
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        _require(whole, f"{name} must be a whole number, not {shown}")
        value = int(value)
    elif kind == "float":
        number = isinstance(value, Real) and not isinstance(value, bool)
        _require(number and _is_finite(value), f"{name} must be a finite number, not {shown}")
        value = float(value)
    elif kind == "TreebankStyle":
        value = value if isinstance(value, TreebankStyle) else TreebankStyle.from_dict(value)
    elif kind.startswith("tuple"):
        value = (value,) if isinstance(value, str) else value
        several = isinstance(value, (list, tuple)) and all(isinstance(x, str) for x in value)
        _require(several, f"{name} must be a list of strings, not {shown}")
        value = tuple(value)
    else:
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        _require(isinstance(value, str), f"{name} must be text, not {shown}")
    return value


def _is_finite(number: Real) -> bool:
    try:
        return isfinite(number)
    except OverflowError:  # an int beyond all floats
        return False


def _check_limits(name: str, value: float) -> None:
    low, high = LIMITS[name]
    shown = shown_number(value)
    if low == 0:
        _require(value >= 0, f"{name} must not be negative, but is {shown}")
    elif isinstance(low, float):
        _require(value > 0, f"{name} must be positive, not {shown}")
    _require(value >= low, f"{name} must be at least {shown_number(low)}, not {shown}")
    _require(value <= high, f"{name} must be at most {shown_number(high)}, not {shown}")


def shown_number(number: float) -> str:
    """Format a number for a message. Python does not format an int of thousands of digits."""
    if isinstance(number, float):
        return f"{number:g}"
    bits = number.bit_length()
    return str(number) if bits <= 128 else f"a number of {bits} bits"


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)
