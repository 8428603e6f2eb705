"""Optimizers by name."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from rnnparse._tensorflow import keras
from rnnparse.errors import ConfigError
from rnnparse.optim.adagrad import AdaGrad


def make_optimizer(name: str, learning_rate: float) -> Any:
    """An optimizer by its name, in upper or lower case.

    Args:
        name: `adagrad` (as in Socher et al. 2013), `keras-adagrad`, `momentum` (SGD with momentum
            0.9), or the name of any other Keras optimizer, such as `adam`.
        learning_rate: α.

    Raises:
        ConfigError: there is no such optimizer; the message lists the known ones.
    """
    known = known_optimizers()
    if name.lower() == "levenberg-marquardt":
        raise ConfigError(
            "the parser is no longer trained by levenberg-marquardt, which took three times as "
            "long as adagrad: use adagrad or adam here, and rnnparse.optim.fit_least_squares for "
            "other Keras models"
        )
    if name.lower() not in known:
        raise ConfigError(f"unknown optimizer {name!r}; known are {', '.join(sorted(known))}")
    return known[name.lower()](learning_rate=learning_rate)


def known_optimizers() -> dict[str, Any]:
    """Constructors of the known optimizers, by name in lower case."""
    known: dict[str, Any] = {
        name.lower(): member
        for name, member in vars(keras.optimizers).items()
        if isinstance(member, type)
        and issubclass(member, keras.optimizers.Optimizer)
        # Exclude the base class, and wrappers around other optimizers.
        and member is not keras.optimizers.Optimizer
        and "learning_rate" in inspect.signature(member).parameters
    }
    known["keras-adagrad"] = known["adagrad"]
    known["momentum"] = partial(keras.optimizers.SGD, momentum=0.9, name="momentum")
    known["adagrad"] = AdaGrad
    return known
