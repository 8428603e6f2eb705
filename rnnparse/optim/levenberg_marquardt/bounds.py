"""Bounds on parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Bound = tuple[Any, Any] | None


class Bounds:
    """A lower and an upper bound for each parameter.

    Args:
        bounds: for each variable None, or a lower and an upper bound: numbers, or arrays that
            broadcast to it; -inf and inf mean no bound.
        names, shapes: of the variables.
        dtypes: of the variables; bounds that a dtype cannot represent are rounded inwards.

    Raises:
        ValueError: a bound is NaN or has another shape, or a lower bound is above the upper one.
    """

    def __init__(
        self,
        bounds: Sequence[Bound],
        names: Sequence[str],
        shapes: Sequence[tuple[int, ...]],
        dtypes: Sequence[Any],
    ) -> None:
        if len(bounds) != len(shapes):
            raise ValueError(
                f"bounds has {len(bounds)} entries for {len(shapes)} variables; give a pair or "
                "None for each variable"
            )
        sides = [
            _pair((-np.inf, np.inf) if bound is None else bound, name, shape, dtype)
            for bound, name, shape, dtype in zip(bounds, names, shapes, dtypes, strict=True)
        ]
        self._least = np.concatenate([least for least, _ in sides])
        self._greatest = np.concatenate([greatest for _, greatest in sides])

    def clip(self, parameters: np.ndarray) -> np.ndarray:
        """The nearest point within the bounds, [P]."""
        return np.clip(parameters, self._least, self._greatest)

    def held(self, parameters: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """bool [P]: the parameters at a bound that −gradient would cross."""
        below = (parameters <= self._least) & (gradient > 0)
        return below | ((parameters >= self._greatest) & (gradient < 0))


def _pair(
    bound: tuple[Any, Any], name: str, shape: tuple[int, ...], dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    try:
        least, greatest = (np.broadcast_to(np.asarray(side, np.float64), shape) for side in bound)
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds of {name} must be a pair of numbers, or of arrays that broadcast to "
            f"its shape {shape}, not {bound!r}"
        ) from None
    if not np.all(least <= greatest):
        raise ValueError(
            f"bounds of {name}: a lower bound must not be above its upper bound, and no bound may "
            "be NaN"
        )
    return _inwards(least, dtype, np.inf), _inwards(greatest, dtype, -np.inf)


def _inwards(bound: np.ndarray, dtype: Any, towards: float) -> np.ndarray:
    """The bound as the dtype represents it, rounded inwards; flat, in float64."""
    with np.errstate(over="ignore"):
        stored = bound.ravel().astype(dtype)
    outside = stored < bound.ravel() if towards > 0 else stored > bound.ravel()
    return np.where(outside, np.nextafter(stored, dtype(towards)), stored).astype(np.float64)
