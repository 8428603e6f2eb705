"""The names of objectives and tie rules; without NumPy, so that settings can be checked at once."""

from __future__ import annotations

OBJECTIVES = ("hinge", "squared-hinge", "perceptron", "mmi", "risk")
"""The objectives that `rnnparse train --objective` takes; `score_gradients` computes them."""

MARGINS = ("hinge", "squared-hinge", "perceptron")
"""Objectives that are 0 if the target leads by its margin."""

TIES = ("first", "uniform", "gold")
"""Rules for which of several tied candidates a subgradient follows; see `hinge_weights`."""
