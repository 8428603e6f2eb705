"""CPU microseconds (user + system) of a loss and its gradient by the scores, by how it is made.

    python benchmarks/bench_losses.py [--repeats 200]

Medians in graph mode, float32, B examples with K candidates each; in brackets the ratio to the
first column. All but the last are the structured hinge with the tie rule `uniform`, whose
subgradient is that of TensorFlow's maximum: equal to it, which is checked on the way.

    reduce_max      what one writes without this package, differentiated by TensorFlow
    hinge           structured_hinge
    squared         structured_squared_hinge
    external        hinge_weights, in NumPy, through external_loss
    nothing         external_loss of a function that does nothing: what leaving TensorFlow costs
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rnnparse._tensorflow import tf

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.losses import external_loss  # isort: skip
from rnnparse.losses import hinge_weights  # isort: skip
from rnnparse.losses.structured import (  # isort: skip
    structured_hinge,
    structured_squared_hinge,
)

WARM_UP = 10
SIZES = ((25, 10), (25, 100), (25, 1000), (1000, 100))


def microseconds(function: Callable[[], Any], repeats: int) -> float:
    """Median CPU time; the first calls, which trace, do not count."""
    seconds = []
    for _ in range(repeats + WARM_UP):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return 1e6 * float(np.median(seconds[WARM_UP:]))


def plain_hinge(scores: Any, costs: Any, gold: Any, mask: Any, tie: str) -> Any:
    """The hinge by TensorFlow's own maximum."""
    reached = tf.gather(scores, gold, batch_dims=1)
    return tf.reduce_max(tf.where(mask, scores + costs, scores.dtype.min), axis=1) - reached


def external_hinge(scores: Any, costs: Any, gold: Any, mask: Any, tie: str) -> Any:
    """The hinge in NumPy."""
    return external_loss(
        scores, lambda *args: hinge_weights(*args, tie), costs, gold, mask, per_example=True
    )


def nothing(scores: Any, costs: Any, gold: Any, mask: Any, tie: str) -> Any:
    """A loss of zero, with a derivative of zero."""
    return external_loss(scores, lambda s: (np.zeros(len(s)), np.zeros_like(s)), per_example=True)


LOSSES = {
    "reduce_max": plain_hinge,
    "hinge": structured_hinge,
    "squared": structured_squared_hinge,
    "external": external_hinge,
    "nothing": nothing,
}


def differentiated(loss: Callable[..., Any], data: tuple[Any, ...]) -> Callable[[], Any]:
    """The sum of a loss's values and its gradient by the scores, as a graph."""

    def run() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(data[0])
            total = tf.reduce_sum(loss(*data, "uniform"))
        return total, tape.gradient(total, data[0])

    return tf.function(run, autograph=False)


def make_data(B: int, K: int) -> tuple[Any, ...]:
    """Scores, costs, gold columns and a mask that leaves a quarter out."""
    rng = np.random.default_rng(0)
    mask = rng.random((B, K)) < 0.75
    mask[:, 0] = True
    costs = rng.integers(0, 5, (B, K)) * 0.1
    costs[:, 0] = 0
    scores = tf.constant(rng.standard_normal((B, K)), tf.float32)
    return scores, tf.constant(costs, tf.float32), np.zeros(B, np.int32), mask


def main(arguments: list[str]) -> None:
    """Parse options, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200, help="calls a number")
    options = parser.parse_args(arguments)
    print(f"{'B':>5}{'K':>6}" + "".join(f"{name:>18}" for name in LOSSES))
    for B, K in SIZES:
        data = make_data(B, K)
        functions = {name: differentiated(loss, data) for name, loss in LOSSES.items()}
        for name in ("hinge", "external"):
            for one, other in zip(functions["reduce_max"](), functions[name](), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        line, base = f"{B:>5}{K:>6}", 0.0
        for function in functions.values():
            found = microseconds(function, options.repeats)
            base = base or found
            line += f"{found:>11.0f} ({found / base:.2f})"
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
