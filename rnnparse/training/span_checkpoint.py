"""The checkpoint file of the training of a span scorer; see `rnnparse.training.checkpoint`."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.errors import ModelError
from rnnparse.files import parse_json, read_arrays, write_arrays
from rnnparse.json_text import to_json
from rnnparse.models.span_parameters import SpanParameters
from rnnparse.training.span_training import SpanState

_JSON_FIELDS = ("epoch", "history")
_SCORES = {"loss", "violated", "seconds"}


def save_span_state(path: Path, state: SpanState, key: str) -> None:
    """Write the state atomically; only a run with the same `key` can continue from it.

    The tables of words and tags are not saved: the run makes them again from its data.
    """
    arrays = {f"spans_{name}": array for name, array in state.parameters._asdict().items()}
    arrays |= {f"optimizer_{i}": array for i, array in enumerate(state.optimizer)}
    about = {"key": key, **{name: getattr(state, name) for name in _JSON_FIELDS}}
    arrays["about"] = np.frombuffer(to_json(about).encode("utf-8"), np.uint8)
    write_arrays(path, arrays, durable=True)


def load_span_state(path: Path, key: str, start: SpanState) -> SpanState | None:
    """Read the state from a file, or return None if there is no file.

    Args:
        path: the file.
        key: as for `save_span_state`.
        start: the state in which the run starts.

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
        _check_history(about)
        names = SpanParameters._fields
        parameters = SpanParameters(*(arrays.pop(f"spans_{name}") for name in names))
        parameters.check(start.features)
        for name, array, wanted in zip(names, parameters, start.parameters, strict=True):
            fits = array.shape == wanted.shape and array.dtype == wanted.dtype
            _require(fits, f"spans.{name} has another shape or type")
        optimizer = [arrays.pop(f"optimizer_{i}") for i in range(len(arrays))]
        _require(
            all(np.isfinite(array).all() for array in optimizer), "the optimizer is not finite"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: damaged checkpoint ({error}); train without --resume") from error
    return SpanState(about["epoch"], about["history"], start.features, parameters, optimizer)


def _check_history(about: Mapping[str, Any]) -> None:
    """Raise ValueError if no run can have written these records of epochs."""
    epoch, history = about["epoch"], about["history"]
    _require(type(epoch) is int and epoch >= 0, "the epoch is not a count")
    numbers = [entry["epoch"] for entry in history]
    _require(numbers == list(range(1, epoch + 1)), "epochs are missing")
    for entry in history:
        names = _SCORES | ({"initial_loss"} if entry["epoch"] == 1 else set())
        _require(entry.keys() == names | {"epoch"}, "other scores")
        for name in names:
            number = type(entry[name]) in (int, float) and isfinite(entry[name])
            _require(number, "a score is not a number")


def _require(holds: Any, message: str) -> None:
    if not holds:
        raise ValueError(message)
