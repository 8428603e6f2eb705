"""Chart cells that hardly ever span a constituent, predicted from tags and closed for the parser.

After Roark & Hollingshead, "Classifying Chart Cells for Quadratic Complexity Context-Free
Inference" (COLING 2008), and Bodenstab et al., "Beam-Width Prediction for Efficient Context-Free
Parsing" (ACL 2011). A constituent may be an intermediate one of the binarization.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rnnparse.array_invariants import CLOSING, GREATEST, check

BITS = 17  # of the hash of a feature; there are 2**BITS weights


@dataclass(frozen=True)
class CellClosing:
    """A linear classifier of cells: those with a score below the threshold are closed.

    Attributes:
        weights [2**17] float32: of hashed features.
        threshold: the lowest score of an open cell.

    Raises:
        ValueError: the weights violate `rnnparse.array_invariants.CLOSING`; the threshold is not
            finite.
    """

    weights: np.ndarray
    threshold: float

    def __post_init__(self) -> None:
        check("closing", CLOSING, {"weights": self.weights}, H=1 << BITS)
        if not -GREATEST <= self.threshold <= GREATEST:
            raise ValueError(f"closing.threshold is {self.threshold}, not a finite number")
