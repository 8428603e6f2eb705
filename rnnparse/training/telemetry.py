"""Training curves for TensorBoard."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from rnnparse.errors import MissingExtraError
from rnnparse.training.checkpoint import TrainingState

CURVES = ("loss", "objective", "violated", "dev_f1", "beta", "seconds")


def require_tensorboard(folder: str | None) -> None:
    """Raise MissingExtraError where a folder is given and TensorBoard is not installed."""
    if folder is not None and importlib.util.find_spec("tensorboard") is None:
        raise MissingExtraError("tensorboard", "tensorboard")


class TensorBoardLog:
    """Writes one point an epoch for each curve; does nothing where no folder is given."""

    def __init__(self, folder: str | None, name: str) -> None:
        self._writer = None
        if folder is not None:
            from rnnparse.models.tf import tf

            self._writer = tf.summary.create_file_writer(str(Path(folder) / name))

    def write(self, state: TrainingState) -> None:
        """Add the last epoch."""
        if self._writer is None:
            return
        from rnnparse.models.tf import tf

        entry = state.history[-1]
        with self._writer.as_default(step=entry["epoch"]):
            for curve in CURVES:
                if curve in entry:
                    tf.summary.scalar(curve, entry[curve])

    def close(self) -> None:
        """Flush the log."""
        if self._writer is not None:
            self._writer.close()
