"""Levenberg–Marquardt against MINPACK, Adam and AdaGrad.

    python benchmarks/bench_levenberg_marquardt.py [--treebank FILE] [--sentences 500] [--passes 12]

The parts of the table, all in CPU time:

    NIST         certified problems, from both starts. `steps` are Jacobians, `tries` evaluations of
                 the residuals besides; `digits` those of the worst parameter that are right; `ms`
                 the median of five runs, without tracing. SciPy is least_squares(method="lm") with
                 exact derivatives by complex steps.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize

from rnnparse.config import TrainingConfig
from rnnparse.models.cvg import CVG
from rnnparse.models.objective import loss_of_scores
from rnnparse.models.tf import keras, tf
from rnnparse.training.data import load_clean
from rnnparse.training.prepare import Problem, make_lists, make_problem
from rnnparse.training.steps import make_step
from rnnparse.trees.embedded import embedded_treebank

# After models.tf, so that TensorFlow starts quietly.
from rnnparse.optim.convergence import MinimizeResult  # isort: skip
from rnnparse.optim.least_squares import fit_least_squares  # isort: skip
from rnnparse.optim.levenberg_marquardt import LevenbergMarquardt  # isort: skip

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.optim.nist import PROBLEMS, NistProblem  # noqa: E402

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


def cpu(function: Callable[[], Any], runs: int = 5) -> float:
    """Median CPU milliseconds."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        function()
        times.append(1e3 * (time.process_time() - start))
    return float(np.median(times))


def digits(found: np.ndarray, problem: NistProblem) -> float:
    """−log₁₀ of the largest relative error; NIST certifies eleven digits."""
    error = np.max(np.abs(found / np.array(problem.certified) - 1))
    return min(11.0, float(-np.log10(max(error, 1e-11))))


def by_scipy(problem: NistProblem, start: int) -> Any:
    def jacobian(b: np.ndarray) -> np.ndarray:
        steps = b + 1e-30j * np.eye(len(b))
        columns = [problem.model(problem.x, np.exp, *step).imag for step in steps]
        return np.stack(columns, axis=1) / 1e-30

    with np.errstate(all="ignore"):
        return scipy.optimize.least_squares(
            lambda b: problem.model(problem.x, np.exp, *b) - problem.y,
            problem.starts[start],
            jac=jacobian,
            method="lm",
            max_nfev=5000,
            **dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15),
        )


class Ours:
    """One of NIST's problems; each call solves it from the beginning."""

    def __init__(self, problem: NistProblem, start: int) -> None:
        self.start = problem.starts[start]
        self.b = tf.Variable(self.start, dtype="float64")
        self.optimizer = LevenbergMarquardt([self.b])
        self.fresh = self.optimizer.state()
        x, y = tf.constant(problem.x), tf.constant(problem.y)
        self.residuals = tf.function(lambda: problem.model(x, tf.exp, *tf.unstack(self.b)) - y)

    def __call__(self) -> MinimizeResult:
        self.b.assign(self.start)
        self.optimizer.restore(self.fresh)
        return self.optimizer.minimize(self.residuals)


def nist() -> None:
    """A line for each problem and start."""
    print(f"{'NIST':<18}{'ours: steps':>13} tries digits    ms{'SciPy: steps':>17} tries digits")
    for name, problem in PROBLEMS.items():
        for start in (0, 1):
            solve = Ours(problem, start)
            history = solve().history
            found = by_scipy(problem, start)
            right, theirs = digits(solve.b.numpy(), problem), digits(found.x, problem)
            print(
                f"  {name + f', start {start + 1}':<16}{len(history):>13}"
                f"{sum(step.tries for step in history):>6}{right:>7.1f}"
                f"{cpu(solve):>6.0f}{found.njev:>17}{found.nfev:>6}{theirs:>7.1f}",
                flush=True,
            )


def fitted(kind: str, seed: int, budget: float) -> float:
    """½ Σ r² of a network after about `budget` CPU seconds."""
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (2000, 2)).astype(np.float32)
    y = np.sin(3 * x[:, :1]) * x[:, 1:]
    layers = [keras.layers.Dense(20, "tanh"), keras.layers.Dense(20, "tanh")]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    damping, start = 1e-3, time.process_time()
    if kind != "LM":
        model.compile(optimizer=keras.optimizers.Adam(float(kind.split()[1])), loss="mse")
    while time.process_time() - start < budget:
        if kind == "LM":
            # Some steps at a time, to look at the clock; the scale starts afresh.
            result = fit_least_squares(model, x, y, epochs=25, damping=damping)
            damping = max(result.history[-1].damping, 1e-12)
        else:
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
    nist()
    networks((5.0, 20.0))
    parser(options)


if __name__ == "__main__":
    main(sys.argv[1:])
