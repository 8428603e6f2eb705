"""A Keras network fitted by Levenberg–Marquardt and by Adam; `bench_least_squares.py` adds SciPy.

    python benchmarks/bench_levenberg_marquardt.py

Prints ½ Σ r² of a network of 2-20-20-1 units on 2,000 points without noise after 5 and 20 CPU
seconds, tracing included: the median of three seeds.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rnnparse._tensorflow import keras

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.optim import fit_least_squares  # isort: skip


def fitted(kind: str, seed: int, budget: float) -> float:
    """½ Σ r² of a network after about `budget` CPU seconds."""
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (2000, 2)).astype(np.float32)
    y = np.sin(3 * x[:, :1]) * x[:, 1:]
    layers = [keras.layers.Dense(20, "tanh"), keras.layers.Dense(20, "tanh")]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    start = time.process_time()

    def over(*_: Any) -> bool:
        return time.process_time() - start >= budget

    if kind == "LM":
        fit_least_squares(model, x, y, epochs=10**6, callbacks=[over], progress=False)
    else:
        model.compile(optimizer=keras.optimizers.Adam(float(kind.split()[1])), loss="mse")
        while not over():
            model.fit(x, y, epochs=10, batch_size=32, verbose=0)
    return 0.5 * float(np.square(np.asarray(model(x)) - y, dtype=np.float64).sum())


def main() -> None:
    """A line for each method."""
    budgets = (5.0, 20.0)
    print(f"{'CPU s':<12}" + "".join(f"{budget:>12.0f}" for budget in budgets))
    for kind in ("LM", "Adam 0.001", "Adam 0.01"):
        costs = [np.median([fitted(kind, s, budget) for s in range(3)]) for budget in budgets]
        print(f"{kind:<12}" + "".join(f"{cost:>12.2e}" for cost in costs), flush=True)


if __name__ == "__main__":
    main()
