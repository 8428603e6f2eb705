"""The state of training between two epochs, and its checkpoint file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.array_invariants import GREATEST, PARAMETERS, check
from rnnparse.config import TrainingConfig
from rnnparse.errors import ModelError
from rnnparse.files import parse_json, read_arrays, write_arrays
from rnnparse.json_text import to_json
from rnnparse.models.parameters import Parameters


@dataclass
class TrainingState:
    """What training needs to continue after an epoch, and its results so far.

    Attributes:
        epoch: number of finished epochs.
        history: one dict per epoch: losses, dev F1, seconds.
        parameters: the weights after the last epoch.
        mean: mean of the weights after each epoch from the second on; after the first epoch, the
            weights themselves.
        best: the result of the best epoch so far; see `result`.
        optimizer: the optimizer's variables, in its order.
        telemetry: one record for each observed epoch; see `NetworkTelemetry`.
        diverged: the entry of the epoch in which training diverged, or None. `history` does not
            contain it, and `parameters` and `mean` are meaningless then. Not saved.
        choices: index of the candidate chosen for each dev sentence after the last epoch,
            int64 [S]; None before dev is scored. Not saved.
    """

    epoch: int
    history: list[dict[str, Any]]
    parameters: Parameters
    mean: Parameters
    best: Parameters
    optimizer: list[np.ndarray] = field(default_factory=list)
    telemetry: list[dict[str, Any]] = field(default_factory=list)
    diverged: dict[str, Any] | None = None
    choices: np.ndarray | None = None

    @classmethod
    def start(cls, initial: Parameters) -> TrainingState:
        """The state before the first epoch."""
        return cls(0, [], initial, initial, initial)

    def result(self, config: TrainingConfig) -> Parameters:
        """The weights that this epoch gives: their mean over the epochs, if `averaging` is on."""
        return self.mean if config.averaging else self.parameters


_JSON_FIELDS = ("epoch", "history", "telemetry")


def save_state(path: Path, state: TrainingState, key: str) -> None:
    """Write the state atomically; only a run with the same `key` can continue from it."""
    weights = {"now": state.parameters, "mean": state.mean, "best": state.best}
    arrays = {
        f"{which}_{name}": array
        for which, parameters in weights.items()
        for name, array in parameters._asdict().items()
    }
    arrays |= {f"optimizer_{i}": array for i, array in enumerate(state.optimizer)}
    about = {"key": key, **{name: getattr(state, name) for name in _JSON_FIELDS}}
    arrays["about"] = np.frombuffer(to_json(about).encode("utf-8"), np.uint8)
    write_arrays(path, arrays, durable=True)


def load_state(
    path: Path, key: str, initial: Parameters, *, betas: int = 0
) -> TrainingState | None:
    """Read the state from a file, or return None if there is no file.

    Args:
        path: the file.
        key: as for `save_state`.
        initial: weights with the shapes and the dtype of the run.
        betas: how many weights of log P the run tries after an epoch; 0 without a dev set.

    Raises:
        ModelError: the file is damaged, cannot come from this run, or belongs to a run with other
            data or settings.
    """
    if not path.exists():
        return None
    try:
        arrays = read_arrays(path)
        about = parse_json(arrays.pop("about").tobytes())
        _require(about.keys() == {"key", *_JSON_FIELDS}, "other fields")
        if about["key"] != key:
            raise ModelError(
                f"{path}: this checkpoint belongs to a run with other data or settings; "
                "use the same ones, or train without --resume"
            )
        _check_history(about, betas)
        now, mean, best = (_parameters(arrays, which, initial) for which in ("now", "mean", "best"))
        optimizer = [arrays.pop(f"optimizer_{i}") for i in range(len(arrays))]
        _require(
            all(np.isfinite(array).all() for array in optimizer), "the optimizer is not finite"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: damaged checkpoint ({error}); train without --resume") from error
    return TrainingState(
        about["epoch"], about["history"], now, mean, best, optimizer, about["telemetry"]
    )


def _parameters(arrays: dict[str, np.ndarray], which: str, initial: Parameters) -> Parameters:
    """Take one of the three sets of weights out of the arrays of a file."""
    weights = Parameters(*(arrays.pop(f"{which}_{name}") for name in Parameters._fields))
    check(which, PARAMETERS, weights._asdict())
    for name, array, wanted in zip(Parameters._fields, weights, initial, strict=True):
        fits = array.shape == wanted.shape and array.dtype == wanted.dtype
        _require(fits, f"{which}.{name} has another shape or type")
    return weights


def _check_history(about: Mapping[str, Any], betas: int) -> None:
    """Raise ValueError if no run can have written these records of epochs."""
    epoch, history, telemetry = (about[name] for name in _JSON_FIELDS)
    epochs = [entry["epoch"] for entry in history]
    _require(_is_count(epoch) and epochs == list(range(1, epoch + 1)), "epochs are missing")
    for entry in history:
        names = {"loss", "objective", "seconds", *(("beta", "dev_f1") if betas else ())}
        names |= entry.keys() & {"violated", "initial_objective"}
        _require(all(_is_number(entry[name]) for name in names), "a score is not a number")
        brackets = entry.get("dev_brackets", [])
        _require(isinstance(brackets, list) and len(brackets) == betas, "other brackets")
        for counts in brackets:
            _require(len(counts) == 3 and all(map(_is_count, counts)), "brackets are not counts")
        _require(entry.keys() <= names | {"epoch", "dev_brackets"}, "an unknown score")
    observed = [record["epoch"] for record in telemetry]
    _require(observed == sorted(set(observed) & set(epochs)), "telemetry of other epochs")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= GREATEST


def _require(holds: Any, message: str) -> None:
    if not holds:
        raise ValueError(message)
