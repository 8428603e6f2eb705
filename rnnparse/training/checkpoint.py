"""The state of a training run between two epochs, and how to go on from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.errors import ModelError
from rnnparse.files import read_arrays, write_arrays
from rnnparse.json_text import to_json
from rnnparse.models.parameters import Parameters


@dataclass
class TrainingState:
    """What training needs to go on.

    Attributes:
        epoch: epochs done.
        history: one dict an epoch: losses, dev F1, seconds.
        parameters: present weights.
        mean: mean of the weights after each epoch from the second on (after the first: its own).
        best: what the best epoch so far gave: its mean or, without averaging, its weights.
        optimizer: the optimiser's variables, in its order.
        telemetry: one record an epoch that was observed; see `NetworkTelemetry`.
        diverged: None, or the entry of the epoch in which training diverged, which is not in
            `history`; the present weights and their mean are of no use then. It is not kept on
            disk.
    """

    epoch: int
    history: list[dict[str, Any]]
    parameters: Parameters
    mean: Parameters
    best: Parameters
    optimizer: list[np.ndarray] = field(default_factory=list)
    telemetry: list[dict[str, Any]] = field(default_factory=list)
    diverged: dict[str, Any] | None = None


_PLAIN = ("epoch", "history", "telemetry")  # what is kept as JSON


def save_state(path: Path, state: TrainingState, key: str) -> None:
    """Write the state atomically; `key` names the run that may go on from it."""
    weights = {"now": state.parameters, "mean": state.mean, "best": state.best}
    arrays = {
        f"{which}_{name}": array
        for which, parameters in weights.items()
        for name, array in parameters._asdict().items()
    }
    arrays |= {f"optimizer_{i}": array for i, array in enumerate(state.optimizer)}
    about = {"key": key, **{name: getattr(state, name) for name in _PLAIN}}
    arrays["about"] = np.frombuffer(to_json(about).encode("utf-8"), np.uint8)
    write_arrays(path, arrays)


def load_state(path: Path, key: str) -> TrainingState | None:
    """The state in a file; None where there is no file.

    Raises:
        ModelError: the file is damaged, or of a run with other data or settings.
    """
    if not path.exists():
        return None
    try:
        arrays = read_arrays(path)
        about = json.loads(arrays["about"].tobytes().decode("utf-8"))
        count = sum(name.startswith("optimizer_") for name in arrays)
        state = TrainingState(
            **{name: about[name] for name in _PLAIN},
            parameters=_parameters(arrays, "now"),
            mean=_parameters(arrays, "mean"),
            best=_parameters(arrays, "best"),
            optimizer=[arrays[f"optimizer_{i}"] for i in range(count)],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: damaged checkpoint ({error}); train without --resume") from error
    if about["key"] != key:
        raise ModelError(
            f"{path}: this checkpoint is of a run with other data or settings; "
            "give the same ones, or train without --resume"
        )
    return state


def _parameters(arrays: Mapping[str, np.ndarray], which: str) -> Parameters:
    return Parameters(*(arrays[f"{which}_{name}"] for name in Parameters._fields))
