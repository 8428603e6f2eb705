"""Training curves and telemetry for TensorBoard."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.errors import ConfigError, MissingExtraError
from rnnparse.files import make_writable

CURVES = ("loss", "objective", "violated", "dev_f1", "beta", "seconds")

_CONSTANT = ("size", "rows", "observations", "units")  # numbers in records that never change


def require_tensorboard(folder: str | None) -> None:
    """Check that logs can be written to a folder, if one is given.

    Raises:
        MissingExtraError: TensorBoard is not installed.
        ConfigError: the folder cannot be created or written to.
    """
    if folder is None:
        return
    if importlib.util.find_spec("tensorboard") is None:
        raise MissingExtraError("tensorboard", "tensorboard")
    _make_folder(Path(folder))


def _make_folder(folder: Path) -> None:
    try:
        os.fspath(folder).encode("utf-8")  # TensorFlow accepts no other names
        make_writable(folder)
    except (OSError, UnicodeError) as error:
        if isinstance(error, UnicodeError):
            reason: str | None = "its name is not UTF-8"
        else:
            reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise ConfigError(
            f"cannot write logs for TensorBoard to {folder}: {reason}; choose another folder"
        ) from error


class TensorBoardLog:
    """Writes one point per epoch for each curve; does nothing without a folder."""

    def __init__(self, folder: str | None, name: str) -> None:
        self._writer = None
        if folder is not None:
            from rnnparse._tensorflow import tf

            place = Path(folder) / name
            _make_folder(place)
            self._writer = tf.summary.create_file_writer(str(place))

    def write(self, entry: Mapping[str, Any], record: Mapping[str, Any] | None = None) -> None:
        """Add an epoch.

        Args:
            entry: `epoch`, and a number for each of `CURVES`, if it is known.
            record: telemetry of the epoch, from `Telemetry.end_epoch`.
        """
        if self._writer is None:
            return
        from rnnparse._tensorflow import tf

        with self._writer.as_default(step=entry["epoch"]):
            for curve in CURVES:
                if curve in entry:
                    tf.summary.scalar(curve, entry[curve])
            if record is not None:
                write_record(record)

    def close(self) -> None:
        """Flush the log."""
        if self._writer is not None:
            self._writer.close()


def write_record(record: Mapping[str, Any]) -> None:
    """Write a record of `Telemetry` to TensorFlow's current summary writer.

    The tags are `QUANTITY/NAME`, so that TensorBoard shows a quantity of all variables together.
    They have the mean of each quantity over the updates of the epoch, and the counts. Histograms
    have the tags `weights/NAME` and `activations/NAME`.

    Example:
        >>> with tf.summary.create_file_writer("logs").as_default():
        ...     write_record(telemetry.end_epoch())
    """
    from rnnparse._tensorflow import tf

    step = record["epoch"]
    for tag, value in _scalars(record):
        tf.summary.scalar(tag, value, step)
    kinds = {"weights": record["groups"], "activations": record.get("activations", {})}
    for kind, members in kinds.items():
        for name, member in members.items():
            _write_histogram(f"{kind}/{name}", member["histogram"], step)


def _scalars(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Tags and values of all scalars of a record."""
    for members in (record["groups"], record.get("activations", {})):
        for name, member in members.items():
            for quantity, value in member.items():
                number = value.get("mean") if isinstance(value, Mapping) else value
                if number is not None and quantity not in _CONSTANT:
                    yield f"{quantity}/{name}", number
    for quantity, value in record.get("sample", {}).items():
        if value is not None:
            yield f"sample/{quantity}", value


def _write_histogram(tag: str, histogram: Mapping[str, Any], step: int) -> None:
    """Write a histogram from its counts; `tf.summary.histogram` takes only the values."""
    from tensorboard.plugins.histogram.metadata import (  # type: ignore[import-untyped]
        create_summary_metadata,
    )

    from rnnparse._tensorflow import tf

    edges = np.array(histogram["edges"], np.float64)
    if len(edges):
        buckets = np.stack([edges[:-1], edges[1:], histogram["counts"]], axis=1)
        tf.summary.write(tag, buckets, step, create_summary_metadata(tag, None))
