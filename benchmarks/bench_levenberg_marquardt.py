"""Levenberg–Marquardt against Adam and AdaGrad; `bench_least_squares.py` has SciPy beside it.

    python benchmarks/bench_levenberg_marquardt.py [--treebank FILE] [--sentences 500] [--passes 12]

The parts of the table, all in CPU time:

    Keras        ½ Σ r² of a network of 2-20-20-1 units on 2,000 points without noise, after about
                 so many seconds, tracing included; the median of three seeds
    parser       J(v) = 1/m Σ r² + λ/2 ‖v‖² for the violations r, with W and the word vectors
                 frozen, before and after each pass over the sentences, by the optimiser, its rate
                 or damping, and its batch size; then seconds for all passes

The parser trains on WSJ-sample where it is there, else on the embedded treebank.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse._tensorflow import keras
from rnnparse.config import TrainingConfig
from rnnparse.models.cvg import CVG
from rnnparse.models.objective import loss_of_scores
from rnnparse.training.data import load_clean
from rnnparse.training.prepare import Problem, make_lists, make_problem
from rnnparse.training.steps import make_step
from rnnparse.trees.embedded import embedded_treebank

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.optim.least_squares import fit_least_squares  # isort: skip

ROOT = Path(__file__).resolve().parents[1]

NEWSPAPER = ROOT.parent / "shared/treebanks/wsj-sample/train.mrg"
LM = "levenberg-marquardt"
STEPS = [
    # optimiser, batch size (0: all sentences), rate or damping
    (LM, 0, 1e-3),
    (LM, 25, 100.0),
    ("adagrad", 25, 0.05),
    ("adagrad", 25, 0.1),
    ("adagrad", 25, 0.2),
    ("adagrad", 0, 0.1),
]


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


def networks(budgets: tuple[float, ...]) -> None:
    """A line for each method."""
    print(f"{'Keras, CPU s':<20}" + "".join(f"{budget:>12.0f}" for budget in budgets))
    for kind in ("LM", "Adam 0.001", "Adam 0.01"):
        costs = [np.median([fitted(kind, s, budget) for s in range(3)]) for budget in budgets]
        print(f"  {kind:<18}" + "".join(f"{cost:>12.2e}" for cost in costs), flush=True)


def make(options: argparse.Namespace, config: TrainingConfig) -> Problem:
    """Lists of the first sentences."""
    default = NEWSPAPER if NEWSPAPER.exists() else embedded_treebank("train")
    trees = load_clean(str(options.treebank or default))[: options.sentences]
    with tempfile.TemporaryDirectory() as cache:
        lists = make_lists(trees, [], None, config, Path(cache), jobs=0, progress=False)
    return make_problem(lists, trees, [], None, config)


def parser(options: argparse.Namespace) -> None:
    """A line for each optimiser, batch size and rate."""
    settings = {"objective": "squared-hinge", "freeze": ("W", "vectors"), "l2": options.l2}
    problem = make(options, TrainingConfig(kbest=50))
    store, frozen = problem.store, problem.frozen(("W", "vectors"))
    everything = store.batch(np.arange(len(store)))
    print(
        f"parser: {len(store)} sentences, {len(problem.keys)} keys, n = "
        f"{problem.initial.dim}, λ = {options.l2}"
    )
    for optimizer, size, rate in STEPS:
        config = TrainingConfig(**settings, optimizer=optimizer, learning_rate=rate)
        model = CVG(problem.initial)
        step = make_step(model, config, frozen)
        seconds, line = 0.0, ""
        for epoch in range(options.passes + 1):
            losses = loss_of_scores(everything, np.asarray(model(everything)), "squared-hinge")[0]
            line += f"{losses.mean() + model.penalty(options.l2):8.4f}"
            order = np.random.default_rng(epoch).permutation(len(store))
            began = time.process_time()
            for start in range(0, len(order) if epoch < options.passes else 0, size or len(order)):
                step(store.batch(order[start : start + (size or len(order))]))
            seconds += time.process_time() - began
        name = f"{'LM' if optimizer == LM else optimizer} {rate:g}, {size or 'all'}"
        print(f"  {name:<20}{line}{seconds:8.1f} s", flush=True)


def main(arguments: list[str]) -> None:
    """Parse options, run, print."""
    parse = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parse.add_argument("--treebank", help="file of trees")
    parse.add_argument("--sentences", type=int, default=500)
    parse.add_argument("--passes", type=int, default=12)
    parse.add_argument("--l2", type=float, default=0.001)
    options = parse.parse_args(arguments)
    networks((5.0, 20.0))
    parser(options)


if __name__ == "__main__":
    main(sys.argv[1:])
