"""Memory of training the network: forests in a file, of which batches are read, or in memory.

    python benchmarks/bench_memory.py [--sentences 1000,10000,40000] [--epochs 1]

Forests are synthetic, of 100 candidates and some 500 nodes (see synthetic_forests.py); 1,000 of
them are repeated. Each row is a process of its own. Columns:

    peak MB         the resident memory of the process at its highest, TensorFlow included
    CPU s           of an epoch, user + system
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from synthetic_forests import CATEGORIES, Generator

from rnnparse import TrainingConfig
from rnnparse.models import CategoryPairs, ForestDataset, initial_parameters
from rnnparse.models.forest_file import ForestFile
from rnnparse.training import TrainingState, training_epochs

WORDS = 47_000
DISTINCT = 1000


def datasets(sentences: int) -> tuple[Iterator[ForestDataset], CategoryPairs]:
    """Forests of so many sentences, up to 1,000 at a time, and their category pairs."""
    generator, rng = Generator(0), np.random.default_rng(0)
    forests = [generator.forest() for _ in range(min(sentences, DISTINCT))]
    rows = [np.minimum(rng.zipf(1.2, int(f.end.max())), WORDS - 1) for f in forests]
    costs = [rng.integers(1, 9, len(f.root)) * (np.arange(len(f.root)) > 0) for f in forests]
    pairs = CategoryPairs.from_forests(CATEGORIES, forests, min_count=4)
    starts = range(0, sentences, DISTINCT)
    sizes = [min(DISTINCT, sentences - start) for start in starts]
    return (
        ForestDataset.from_forests(forests[:n], rows[:n], pairs, costs[:n]) for n in sizes
    ), pairs


def joined(parts: Iterator[ForestDataset]) -> ForestDataset:
    """All parts in memory."""
    every = list(parts)
    arrays = {name: np.concatenate([getattr(p, name) for p in every]) for name in vars(every[0])}
    for name in ("node_offsets", "root_offsets"):
        sizes = np.concatenate([np.diff(getattr(part, name)) for part in every])
        arrays[name] = np.concatenate([[0], np.cumsum(sizes)])
    every.clear()
    return ForestDataset(**arrays)


def measure(place: str, sentences: int, epochs: int) -> dict[str, float]:
    """Make forests and train, in this process."""
    parts, pairs = datasets(sentences)
    with tempfile.TemporaryDirectory() as folder:
        store = ForestFile(parts, Path(folder)) if place == "file" else joined(parts)
        state = TrainingState.start(initial_parameters(pairs, WORDS, 25))
        clock = [time.process_time()]
        for _ in training_epochs(state, store, TrainingConfig(epochs=epochs), progress=False):
            clock.append(time.process_time())
    return {
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "CPU s": float(np.mean(np.diff(clock))),
    }


def main() -> None:
    """Parse options, measure in other processes, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sentences", default="1000,10000,40000")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        place, sentences = options.measure
        print(json.dumps(measure(place, int(sentences), options.epochs)))
        return
    print(f"{'forests in':10} {'sentences':>9} {'peak MB':>8} {'CPU s':>8}")
    for sentences in options.sentences.split(","):
        for place in ("file", "memory"):
            command = [__file__, "--epochs", str(options.epochs), "--measure", place, sentences]
            printed = subprocess.run([sys.executable, *command], check=True, capture_output=True)
            row = json.loads(printed.stdout)
            figures = f"{row['peak MB']:8.0f} {row['CPU s']:8.1f}"
            print(f"{place:10} {int(sentences):9,} {figures}", flush=True)


if __name__ == "__main__":
    main()
