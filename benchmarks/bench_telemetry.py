"""What telemetry adds to the CPU seconds (user + system) of an epoch of the network's training.

    python benchmarks/bench_telemetry.py [--treebank FILE] [--vectors FILE --dim 50] [--rounds 5]

Epochs with and without telemetry take turns in one process, each from the same weights; printed are
medians over the rounds. Telemetry changes no weight, which is checked.

    as by default     L2 gives W and v dense gradients; AdaGrad
    without L2        all gradients are sparse, and only their rows are read
    Adam              rows move without a gradient, so that all weights are read
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from rnnparse import TrainingConfig
from rnnparse.training import (
    Problem,
    TrainingState,
    cache_folder,
    load_clean,
    make_lists,
    make_problem,
    read_word_vectors,
    training_epochs,
)
from rnnparse.trees import embedded_treebank

CASES = {
    "as by default": {},
    "without L2": {"l2": 0.0},
    "Adam": {"optimizer": "adam", "learning_rate": 0.001},
}


def make(config: TrainingConfig) -> Problem:
    """The forests of a treebank, from the user's cache of lists if they are there."""
    trees = load_clean(str(config.treebank))
    vectors = read_word_vectors(config)
    cache = cache_folder(None)
    lists = make_lists(trees, [], vectors, config, cache, n_jobs=0, progress=True)
    return make_problem(lists, trees, [], vectors, config)


def seconds(problem: Problem, config: TrainingConfig) -> tuple[float, list[np.ndarray]]:
    """CPU seconds of the second epoch (the first loads what has to be loaded), and the weights."""
    state, config = TrainingState.start(problem.initial), replace(config, epochs=2)
    clock = [
        time.process_time()
        for _ in training_epochs(state, problem.store, config, progress=False)
    ]
    return clock[1] - clock[0], list(state.parameters)


def measure(name: str, problem: Problem, config: TrainingConfig, rounds: int) -> str:
    """A line of the table."""
    times: dict[bool, list[float]] = {False: [], True: []}
    weights = {}
    for _ in range(rounds):
        for telemetry in times:
            took, weights[telemetry] = seconds(problem, replace(config, telemetry=telemetry))
            times[telemetry].append(took)
    assert all(np.array_equal(a, b) for a, b in zip(weights[False], weights[True], strict=True))
    without, with_it = median(times[False]), median(times[True])
    return f"{name:<16}{without:9.2f}{with_it:9.2f}{100 * (with_it / without - 1):8.0f} %"


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--treebank", type=Path, default=embedded_treebank("train"))
    parser.add_argument("--vectors")
    parser.add_argument("--dim", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    config = TrainingConfig(treebank=options.treebank, vectors=options.vectors, dim=options.dim)
    problem = make(config)
    sizes = ", ".join(f"{n} {a.size:,}" for n, a in problem.initial._asdict().items())
    print(f"{len(problem.store)} sentences; weights: {sizes}")
    print(f"{'CPU s an epoch':<16}{'without':>9}{'with':>9}{'added':>10}")
    for name, settings in CASES.items():
        print(measure(name, problem, replace(config, **settings), options.rounds), flush=True)


if __name__ == "__main__":
    main()
