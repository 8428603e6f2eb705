"""Where a training run writes: checked before any work begins, not found wrong after it."""

from __future__ import annotations

from pathlib import Path

from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.telemetry.tensorboard import require_tensorboard
from rnnparse.training.kbest_cache import cache_folder


def check_places(config: TrainingConfig, out: Path) -> None:
    """Check the folders beside the model that a run writes to, and make them.

    Args:
        config: the settings.
        out: the model folder, resolved.

    Raises:
        ConfigError: a folder lies in the model folder, which is written as a whole at the end, or
            in the folder of the unfinished run; or it cannot be written to.
        MissingExtraError: TensorBoard is not installed.
    """
    for name in ("tensorboard", "cache"):
        given = getattr(config, name)
        if given is None:
            continue
        place = Path(given).resolve()
        for taken in (out, out.with_name(out.name + ".partial")):
            if place.is_relative_to(taken):
                raise ConfigError(
                    f"the {name} folder {given} lies inside {taken}, where only the model may be; "
                    f"give another folder with --{name}"
                )
    require_tensorboard(config.tensorboard)
    cache_folder(config.cache)
