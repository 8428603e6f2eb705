"""How far the coarse pass of the decoder searches."""

from __future__ import annotations

import numpy as np

from rnnparse.inference.space import Limits

MARGIN, WIDTH, DEPTH = 8.0, 8.0, 20.0  # nats; see `Limits`
MORE = 3.0  # nats; for sentences without a tree within the usual limits
SPREAD = 120.0  # nats times tokens: short sentences are searched further, at little cost


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
