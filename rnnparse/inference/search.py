"""How far the decoder searches, and what it may spend on a sentence."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from math import isqrt
from types import TracebackType

import numpy as np

from rnnparse.inference.space import Limits

MARGIN, WIDTH, DEPTH = 9.0, 9.0, 20.0  # nats; see `Limits`
MORE = 3.0  # nats; for sentences without a tree within the usual limits
SPREAD = 36.0  # nats times tokens: short sentences are searched further, at little cost
BYTES_PER_CELL = 6000  # of the chart, at most, measured on newspaper text
POLL = 0.05  # seconds between two looks at the clock


@dataclass(frozen=True)
class Search:
    """The search of a `Decoder`, and the budget of a sentence.

    A sentence that exceeds the budget is parsed in parts. Its trees then join the constituents of
    the parts under the root, and `Parse.divided` is True.

    Attributes:
        exact: whether to fill the whole chart of the grammar instead of a pruned one. Time then
            grows with the cube of the length: 0.1 s for 50 tokens, 10 s for 250.
        max_length: most tokens that are parsed at once.
        max_seconds: most seconds for a sentence, None for no limit. With a limit, trees depend on
            the speed of the machine.
        max_memory: most megabytes for the chart of a sentence, None for no limit.

    Raises:
        ValueError: a number is not positive.
    """

    exact: bool = False
    max_length: int = 400
    max_seconds: float | None = None
    max_memory: float | None = 1000.0

    def __post_init__(self) -> None:
        for name in ("max_length", "max_seconds", "max_memory"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value!r}")

    @property
    def longest(self) -> int:
        """Most tokens that are parsed at once within `max_length` and `max_memory`."""
        if self.max_memory is None:
            return self.max_length
        cells = int(self.max_memory * 1e6 / BYTES_PER_CELL)
        return max(1, min(self.max_length, isqrt(2 * cells)))


def limits_for(n: int, least: float) -> Limits:
    """The limits of the coarse pass for a sentence of n tokens.

    Args:
        least: the threshold of `rnnparse.grammar.CellClosing`.
    """
    more = SPREAD / (n + 4)
    return Limits(MARGIN + more, WIDTH + more, DEPTH + more, least - more)


def wide_limits(n: int) -> Limits:
    """The limits for a sentence without a tree within the usual ones."""
    usual = limits_for(n, -np.inf)
    return Limits(usual.margin + MORE, usual.width + MORE, np.inf, -np.inf)


class Deadline:
    """A context with a stop flag for kernels, set when the time is up or another flag is set.

    Args:
        seconds: None for no deadline.
        stop: the other flag, uint8 [1].
    """

    def __init__(self, seconds: float | None, stop: np.ndarray) -> None:
        self.flag = stop if seconds is None else np.zeros(1, np.uint8)
        self._other, self._ended = stop, threading.Event()
        self._end = time.monotonic() + (seconds or 0.0)

    def __enter__(self) -> Deadline:
        if self.flag is not self._other:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(POLL):
            if self._other[0] or time.monotonic() > self._end:
                self.flag[0] = 1
                return
