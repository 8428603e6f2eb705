"""Monitoring of least-squares fits: a progress bar, Keras callbacks, and functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tqdm import tqdm

from rnnparse._tensorflow import keras

_SECONDS = 2.0  # before the bar appears

Function = Callable[[int, dict[str, float]], Any]
Callback = Any  # of Keras, or a function


class FitMonitor:
    """Calls callbacks like `keras.Model.fit`, and collects the logs.

    Attributes:
        logs: lists with one number per epoch, by name.

    Args:
        model: the model of the callbacks; `model.stop_training` ends the fit.
        callbacks: Keras callbacks, or functions of an epoch (counted from 0) and its logs, which
            end the fit by returning True.
        epochs: maximum number of epochs.
        steps: steps per epoch.
        progress: whether to show a bar on standard error once a fit takes more than 2 seconds.

    Raises:
        ValueError: a callback is neither of these.
    """

    def __init__(
        self,
        model: keras.Model,
        callbacks: Sequence[Callback],
        epochs: int,
        steps: int,
        progress: bool,
    ) -> None:
        self._functions: list[Function] = []
        of_keras = []
        for callback in callbacks:
            if isinstance(callback, keras.callbacks.Callback):
                of_keras.append(callback)
            elif callable(callback):
                self._functions.append(callback)
            else:
                raise ValueError(
                    "callbacks must be Keras callbacks or functions of (epoch, logs), not "
                    f"{callback!r}"
                )
        self.logs: dict[str, list[float]] = {}
        self._model, self._steps = model, steps
        self._list = keras.callbacks.CallbackList(
            of_keras, model=model, epochs=epochs, steps=steps, verbose=0
        )
        self._bar = tqdm(total=epochs * steps, unit="step", delay=_SECONDS, disable=not progress)

    def __enter__(self) -> FitMonitor:
        self._model.stop_training = False
        self._list.on_train_begin()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._bar.close()
        if kind is None:
            self._list.on_train_end({name: values[-1] for name, values in self.logs.items()})

    def before_step(self, epoch: int, step: int) -> None:
        if step == 0:
            self._list.on_epoch_begin(epoch)
        self._list.on_train_batch_begin(step)

    def after_step(self, step: int, loss: float) -> None:
        self._list.on_train_batch_end(step, {"loss": loss})
        self._bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
        self._bar.update()

    def after_epoch(self, epoch: int, logs: dict[str, float]) -> bool:
        """Whether to stop."""
        for name, value in logs.items():
            self.logs.setdefault(name, []).append(value)
        self._list.on_epoch_end(epoch, dict(logs))
        asked = [function(epoch, dict(logs)) is True for function in self._functions]
        return any(asked) or bool(self._model.stop_training)
