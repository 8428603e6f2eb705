"""A time limit for kernels."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import numpy as np

POLL = 0.05  # seconds between two looks at the clock


class Deadline:
    """A context with a stop flag for kernels, set when the time is up or another flag is set.

    Args:
        seconds: None for no deadline.
        stop: the other flag, uint8 [1].

    Raises:
        MemoryError: no thread can be started (on entry).
    """

    def __init__(self, seconds: float | None, stop: np.ndarray) -> None:
        self.flag = stop if seconds is None else np.zeros(1, np.uint8)
        self._other, self._ended = stop, threading.Event()
        self._end = time.monotonic() + (seconds or 0.0)

    def __enter__(self) -> Deadline:
        if self.flag is not self._other:
            try:
                threading.Thread(target=self._watch, daemon=True).start()
            except RuntimeError:  # the system has no thread or no memory left
                raise MemoryError("no thread can be started") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()

    def _watch(self) -> None:
        left = self._end - time.monotonic()
        while not self._ended.wait(min(POLL, max(0.0, left))):
            left = self._end - time.monotonic()
            if self._other[0] or left <= 0:
                self.flag[0] = 1
                return
