"""`Search`: how far the decoder searches, and what it may spend on a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from numbers import Integral, Real

LIMITS: dict[str, tuple[int, int] | tuple[float, float]] = {
    "max_length": (1, 10**9),
    "max_seconds": (1e-3, 1e9),
    "max_memory": (1.0, 1e9),
}
"""The minimum and maximum of each number; also used by the command line."""

BYTES_PER_CELL, EXACT_BYTES_PER_CELL = 1500, 20_000
"""Peak memory of a search, per span of tokens.

With a grammar of 2,928 trees of newspaper text (the WSJ sample) and lists of 100 trees, joined
sentences of 200 to 1,600 tokens took 375 to 850 bytes per span in one process each, beyond 30 MB;
an exact search of 100 to 300 tokens took 12,100 to 16,500.
"""

BYTES_PER_EDGE, MOST_EDGES = 60, 1_000_000
"""Peak memory per edge of the pruned coarse chart, and the most edges, which take 0.2 s.

Sentences of the WSJ sample have at most 12,530 edges, joined ones at most 572,000. Where all trees
are equally good, as in a table of numbers, nothing can be pruned, and the number of edges grows
with the cube of the length: 90 numbers have 1.7 million with a grammar of 60 trees, 360 have 78
million, at 44 to 57 bytes each.
"""


@dataclass(frozen=True)
class Search:
    """The search for the trees of a sentence, and its budget.

    A sentence that exceeds the budget is parsed in parts. Its only tree then joins the constituents
    of the parts under the root, and is flagged as divided.

    Attributes:
        exact: whether to fill the whole chart of the grammar instead of a pruned one. Time then
            grows with the cube of the length: 0.1 s for 50 tokens, 10 s for 250.
        max_length: most tokens that are parsed at once.
        max_seconds: most seconds for a sentence, None for no limit. With a limit, trees depend on
            the speed of the machine.
        max_memory: most megabytes for the chart of a sentence, None for no limit.

    Raises:
        TypeError: a value has another type.
        ValueError: a number is outside `LIMITS`.
    """

    exact: bool = False
    max_length: int = 400
    max_seconds: float | None = None
    max_memory: float | None = 1000.0

    def __post_init__(self) -> None:
        if not isinstance(self.exact, bool):
            raise TypeError(f"exact must be true or false, not {self.exact!r}")
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if value is None and name != "max_length":
                continue
            kind = Integral if name == "max_length" else Real
            if not isinstance(value, kind) or isinstance(value, bool):
                what = "a whole number" if kind is Integral else "a number or None"
                raise TypeError(f"{name} must be {what}, not {value!r}")
            if not low <= float(value) <= high:
                raise ValueError(f"{name} must be from {low:,} to {high:,}, not {value}")

    @property
    def longest(self) -> int:
        """Most tokens that are parsed at once within `max_length` and `max_memory`."""
        if self.max_memory is None:
            return self.max_length
        size = EXACT_BYTES_PER_CELL if self.exact else BYTES_PER_CELL
        cells = int(self.max_memory * 1e6 / size)
        return max(1, min(self.max_length, isqrt(2 * cells)))

    @property
    def most_edges(self) -> int:
        """Most edges of the pruned coarse chart within `max_memory` and a short time."""
        if self.max_memory is None:
            return MOST_EDGES
        return min(MOST_EDGES, int(self.max_memory * 1e6 / BYTES_PER_EDGE))
