"""Levenberg–Marquardt against SciPy's `least_squares`: NIST's problems and two networks.

    python benchmarks/bench_least_squares.py [--nist] [--networks] [--seeds 50]

The tables, in Markdown:

    NIST      all 27 certified problems of nonlinear regression, from both starts. `digits` are
              those of the worst parameter that are right, of eleven; `steps` Jacobians;
              `evaluations` those of the residuals; `ended` why. All methods stop at tolerances of
              1e-15 and use derivatives that are exact to rounding.
    networks  ½ Σ r², the median over seeds, after so many steps (Jacobians), and after so many
              evaluations of the residuals. `sinc`: sin(10 π x) / (10 π x) on 1,000 points in −1 … 1
              by a 1-20-1 network of tanh units (61 weights), the problem of the package
              tf-levenberg-marquardt. `small`: sin(3 a) b on 200 points by a 2-5-1 network (21).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rnnparse._tensorflow import tf  # noqa: E402  starts TensorFlow quietly
from rnnparse.optim import LevenbergMarquardt, Tolerances  # noqa: E402
from tests.optim.levenberg_marquardt.nist import PROBLEMS, NistProblem  # noqa: E402

TIGHT = 1e-15
STATUS = {0: "limit", 1: "gradient", 2: "cost", 3: "step", 4: "cost, step"}


class Row(NamedTuple):
    """How one method ended."""

    digits: float
    steps: int
    evaluations: int
    ended: str

    def cells(self) -> str:
        return f"{self.digits:.1f} | {self.steps} | {self.evaluations} | {self.ended}"


def ours(problem: NistProblem, start: int) -> Row:
    b = tf.Variable(problem.starts[start], dtype="float64")
    result = LevenbergMarquardt([b]).minimize(
        lambda: problem.residuals(b.numpy()),
        lambda: problem.jacobian(b.numpy()),
        steps=3000,
        tolerances=Tolerances(TIGHT, TIGHT, TIGHT),
    )
    evaluations = 1 + sum(step.evaluations for step in result.history)
    return Row(problem.digits(b.numpy()), len(result.history), evaluations, result.reason)


def by_scipy(problem: NistProblem, start: int, method: str) -> Row:
    solution = scipy.optimize.least_squares(
        problem.residuals,
        problem.starts[start],
        jac=problem.jacobian,
        method=method,
        x_scale="jac",
        max_nfev=5000,
        **dict.fromkeys(("xtol", "ftol", "gtol"), TIGHT),
    )
    ended = STATUS[solution.status]
    return Row(problem.digits(solution.x), solution.njev, solution.nfev, ended)


def nist() -> None:
    """A line for each problem and start."""
    columns = "digits | steps | evaluations | ended"
    groups = " | ".join(f"{method}: {columns}" for method in ("rnnparse", "`lm`", "`trf`"))
    print(f"| problem | level | start | {groups} |")
    print("|---" * 15 + "|")
    for problem in PROBLEMS.values():
        for start in (0, 1):
            rows = [ours(problem, start)]
            rows += [by_scipy(problem, start, method) for method in ("lm", "trf")]
            name = f"{problem.name} | {problem.difficulty} | {start + 1}"
            print(f"| {name} | {' | '.join(row.cells() for row in rows)} |", flush=True)


class Network:
    """A layer of tanh units and a linear one, with derivatives by hand."""

    def __init__(self, x: np.ndarray, y: np.ndarray, hidden: int, seed: int) -> None:
        self.x, self.y, self.inputs, self.hidden = x, y, x.shape[1], hidden
        rng = np.random.default_rng(seed)
        lower, upper = np.sqrt(6 / (self.inputs + hidden)), np.sqrt(6 / (hidden + 1))
        kernel = rng.uniform(-lower, lower, self.inputs * hidden)
        self.start = np.concatenate(
            [kernel, np.zeros(hidden), rng.uniform(-upper, upper, hidden), [0.0]]
        )

    def layers(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        cut = self.inputs * self.hidden
        units = self.x @ b[:cut].reshape(self.inputs, -1) + b[cut : cut + self.hidden]
        return np.tanh(units), b[cut + self.hidden : -1], b[-1]

    def residuals(self, b: np.ndarray) -> np.ndarray:
        units, weights, bias = self.layers(b)
        return units @ weights + bias - self.y

    def jacobian(self, b: np.ndarray) -> np.ndarray:
        units, weights, _ = self.layers(b)
        inner = (1 - units**2) * weights
        kernel = (self.x[:, :, None] * inner[:, None, :]).reshape(len(self.x), -1)
        return np.concatenate([kernel, inner, units, np.ones((len(self.x), 1))], axis=1)


def network(name: str, seed: int) -> Network:
    if name == "sinc":
        x = np.linspace(-1, 1, 1000)[:, None]
        return Network(x, np.sinc(10 * x[:, 0]), 20, seed)
    x = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    return Network(x, np.sin(3 * x[:, 0]) * x[:, 1], 5, seed)


class Trace:
    """The lowest cost so far, by steps and by evaluations."""

    def __init__(self) -> None:
        self.best = np.inf
        self.by_steps: list[float] = []
        self.by_evaluations: list[float] = []

    def evaluated(self, residuals: np.ndarray) -> np.ndarray:
        self.best = min(self.best, 0.5 * float(residuals @ residuals))
        self.by_evaluations.append(self.best)
        return residuals

    def differentiated(self, jacobian: np.ndarray, steps: int) -> np.ndarray:
        self.by_steps.append(self.best)
        if len(self.by_steps) > steps:
            raise StopIteration
        return jacobian


def traced(problem: Network, method: str, steps: int) -> Trace:
    trace = Trace()

    def jacobian(b: np.ndarray) -> np.ndarray:
        return trace.differentiated(problem.jacobian(b), steps)

    def residuals(b: np.ndarray) -> np.ndarray:
        return trace.evaluated(problem.residuals(b))

    try:
        if method == "ours":
            b = tf.Variable(problem.start, dtype="float64")
            LevenbergMarquardt([b]).minimize(
                lambda: residuals(b.numpy()),
                lambda: jacobian(b.numpy()),
                steps=steps + 1,
                tolerances=Tolerances(0.0, 0.0, 0.0),
            )
        else:
            settings: dict[str, Any] = dict.fromkeys(("xtol", "ftol", "gtol"), TIGHT)
            scipy.optimize.least_squares(
                residuals, problem.start, jac=jacobian, method=method, x_scale="jac",
                max_nfev=100 * steps, **settings,
            )  # fmt: skip
    except StopIteration:
        pass
    return trace


def at(values: list[float], count: int) -> float:
    return values[min(count, len(values) - 1)]


def networks(seeds: int) -> None:
    """A line for each network and method."""
    counts = (25, 50, 100, 200)
    heads = [f"{count} steps" for count in counts] + [
        f"{2 * count} evaluations" for count in counts
    ]
    print(f"| network | method | {' | '.join(heads)} |")
    print("|---" * (2 + len(heads)) + "|")
    for name in ("sinc", "small"):
        for method in ("ours", "lm", "trf"):
            traces = [traced(network(name, seed), method, counts[-1]) for seed in range(seeds)]
            cells = [np.median([at(t.by_steps, count) for t in traces]) for count in counts]
            cells += [
                np.median([at(t.by_evaluations, 2 * count) for t in traces]) for count in counts
            ]
            line = " | ".join(f"{cell:.1e}" for cell in cells)
            print(f"| {name} | {method} | {line} |", flush=True)


def main(arguments: list[str]) -> None:
    """Parse options, run, print."""
    parse = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parse.add_argument("--nist", action="store_true", help="NIST's problems alone")
    parse.add_argument("--networks", action="store_true", help="the networks alone")
    parse.add_argument("--seeds", type=int, default=50)
    options = parse.parse_args(arguments)
    with np.errstate(all="ignore"):
        if options.nist or not options.networks:
            nist()
        if options.networks or not options.nist:
            networks(options.seeds)


if __name__ == "__main__":
    main(sys.argv[1:])
