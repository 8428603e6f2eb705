"""How long a study with many recorded trials takes to go on.

    python benchmarks/bench_study.py [--trials 10000] [--sentences 316] [--updates 65] [--rounds 3]

Writes records as those of the parser's trials are: five numbers an update, and for each of five
epochs the brackets of every dev sentence (the defaults are WSJ-sample at batches of 256). Seconds
of this process on a processor (user + system) and by the clock, medians over the rounds, of what
`Study.run` does before the first trial starts:

    trials      the trials of the space, in their order
    entries     the records without their curves
    in all      both, and which trials are left

and beside it, what reports do: `load`, all records with their curves (one round).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rnnparse.study import Curve, RecordFile, Space, make_record

SERIES = ("objective", "loss", "violated", "gradient_norm", "update_ratio")


def make_curve(updates: int, sentences: int, rng: np.random.Generator) -> Curve:
    """A curve like one of the parser's."""
    series = {name: np.round(np.exp(rng.standard_normal(updates)), 7).tolist() for name in SERIES}
    epochs = [
        {
            "epoch": epoch,
            "loss": float(rng.random()),
            "objective": float(rng.random()),
            "dev_f1": float(80 + rng.random()),
            "beta": 0.1,
            "dev_counts": np.sort(rng.integers(1, 40, (sentences, 2))).tolist(),
            "seconds": 2.5,
        }
        for epoch in range(1, 6)
    ]
    return Curve(series, epochs)


def measure(function: Callable[[], Any], rounds: int) -> tuple[str, Any]:
    """A line of the table, and what the function gave."""
    cpu, clock = [], []
    for _ in range(rounds):
        began = time.process_time(), time.perf_counter()
        result = function()
        cpu.append(time.process_time() - began[0])
        clock.append(time.perf_counter() - began[1])
    return f"{median(cpu):9.2f}{median(clock):9.2f}", result


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--sentences", type=int, default=316)
    parser.add_argument("--updates", type=int, default=65)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    side = round(options.trials**0.25) + 1
    space = Space({name: range(side) for name in "abcd"})
    with tempfile.TemporaryDirectory() as folder, RecordFile(Path(folder)) as file:
        curves = [make_curve(options.updates, options.sentences, rng) for _ in range(20)]
        for i, trial in enumerate(space.trials()[: options.trials]):
            curve = curves[i % len(curves)]
            record = make_record(trial.config, 0, "finished", curve, seconds=12.5, host="here")
            file.append(record)
        megabytes = file.path.stat().st_size / 1e6
        print(f"{options.trials:,} records, {megabytes:,.0f} MB, of {len(space.trials()):,} trials")
        print(f"{'seconds':<12}{'CPU':>9}{'clock':>9}")
        print(f"{'trials':<12}{measure(space.trials, options.rounds)[0]}")
        print(f"{'entries':<12}{measure(file.entries, options.rounds)[0]}")

        def resume() -> int:
            ended = {entry.id for entry in file.entries()}
            return sum(trial.id not in ended for trial in space.trials())

        line, left = measure(resume, options.rounds)
        print(f"{'in all':<12}{line}   ({left} trials are left)")
        print(f"{'load':<12}{measure(file.load, 1)[0]}")


if __name__ == "__main__":
    main()
