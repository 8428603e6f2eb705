"""Full training on a real treebank, seed by seed: scores, seconds, memory, speed.

    python benchmarks/bench_training.py [--seeds 3] [--shared ../shared] [--work DIR] [options]

Each seed is trained by `rnnparse train` with a fresh cache of lists; then other processes measure
the network's training alone, from the cached lists, and parse dev with the saved model, one
sentence after the other. Options that this script does not know go to `rnnparse train`:
`--dim 50 --epochs 5`. CPU seconds are user + system. Printed are means and standard deviations
over the seeds, and the figures of each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

SCORES = ("base_f1", "cvg_f1", "oracle_f1", "beta", "best_epoch", "epochs")
EPOCHS = 3  # of the network that are measured


def run(command: list[str]) -> tuple[Any, dict[str, float]]:
    """Run a Python program that prints JSON: what it printed, and what it took."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as stream:
        printed = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return json.loads(printed), {
        "wall s": time.perf_counter() - began,
        "CPU s": usage.ru_utime + usage.ru_stime,
        "peak MB": usage.ru_maxrss / 1024,
    }


def train(folder: Path, options: list[str]) -> dict[str, float]:
    """Train a model with the command."""
    command = ["-m", "rnnparse", "train", *options, "--out", str(folder / "model")]
    report, took = run([*command, "--cache", str(folder / "cache"), "--json"])
    return {
        **{name: float(report[name]) for name in SCORES},
        **{f"{stage}, wall s": seconds for stage, seconds in report["seconds"].items()},
        **{f"training in all, {unit}": value for unit, value in took.items()},
    }


def measure_network(folder: Path) -> dict[str, float]:
    """Train the network again from the cached lists of a model."""
    from rnnparse import TrainingConfig, load
    from rnnparse.training import (
        TrainingState,
        load_clean,
        make_lists,
        make_problem,
        read_word_vectors,
        training_epochs,
    )

    config = TrainingConfig.from_dict(load(folder / "model").about["config"])
    trees, vectors = load_clean(str(config.treebank)), read_word_vectors(config)
    lists = make_lists(trees, [], vectors, config, folder / "cache", n_jobs=1, progress=False)
    problem = make_problem(lists, trees, [], vectors, config)
    # The first epoch, which loads TensorFlow and the kernels, is not measured.
    state, config = TrainingState.start(problem.initial), replace(config, epochs=EPOCHS + 1)
    epochs = training_epochs(state, problem.store, config, progress=False)
    clock = [time.process_time() for _ in epochs]
    seconds = (clock[-1] - clock[0]) / EPOCHS
    return {
        "SU-RNN, CPU s an epoch": seconds,
        "SU-RNN, forest nodes a CPU s": len(problem.store.key) / seconds,
        "SU-RNN, the same without preterminals": float((problem.store.key >= 0).sum()) / seconds,
    }


def measure_parsing(folder: Path, dev: str) -> dict[str, float]:
    """Parse the sentences of dev with a saved model."""
    from rnnparse import load
    from rnnparse.training import load_clean
    from rnnparse.trees import escape_token, words

    sentences = [words(tree) for tree in load_clean(dev)]
    began = time.process_time()
    parser = load(folder / "model")
    parser.parse(sentences[0])
    ready = time.process_time()
    results = list(parser.parse_many(sentences))
    seconds = time.process_time() - ready
    whole = [
        words(result.trees[0].tree) == list(map(escape_token, tokens))
        for result, tokens in zip(results, sentences, strict=True)
    ]
    return {
        "loading, first sentence, CPU s": ready - began,
        "parsing, CPU s a sentence": seconds / len(sentences),
        "sentences": float(len(sentences)),
        "with a tree over all tokens": float(sum(whole)),
        "glued": float(sum(result.glued for result in results)),
    }


def print_table(runs: list[dict[str, float]]) -> None:
    """Mean, standard deviation and each seed's figure, row by row."""
    width = max(map(len, runs[0]))
    print(f"{'':{width}}  {'mean':>11} {'sd':>9}   each seed")
    for name in runs[0]:
        values = [figures[name] for figures in runs]
        spread = f"{stdev(values):9.3f}" if len(values) > 1 else " " * 9
        each = "  ".join(f"{value:.6g}" for value in values)
        print(f"{name:{width}}  {mean(values):11.3f} {spread}   {each}")


def main() -> None:
    """Parse options, train seed by seed, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    shared = Path(__file__).resolve().parents[2] / "shared"
    parser.add_argument("--shared", type=Path, default=shared, help=f"default {shared}")
    parser.add_argument("--treebank", help="instead of wsj-sample/train.mrg below --shared")
    parser.add_argument("--dev", help="instead of wsj-sample/dev.mrg below --shared")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on (default 3)")
    parser.add_argument("--work", type=Path, help="keep models and lists here, a folder a seed")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    sample = options.shared / "treebanks" / "wsj-sample"
    treebank = options.treebank or str(sample / "train.mrg")
    dev = options.dev or str(sample / "dev.mrg")
    if options.measure:
        what, folder = options.measure
        network = what == "network"
        measured = measure_network(Path(folder)) if network else measure_parsing(Path(folder), dev)
        print(json.dumps(measured))
        return
    runs = []
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(options.seeds):
            folder = (options.work or Path(temporary)) / f"seed-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            figures = train(folder, [treebank, "--dev", dev, "--seed", str(seed), *rest])
            for what in ("network", "parsing"):
                again = [__file__, "--dev", dev, "--measure", what, str(folder)]
                measured, took = run(again)
                figures |= measured
            figures["parsing, peak MB"] = took["peak MB"]
            print(f"seed {seed}: {json.dumps(figures)}", file=sys.stderr, flush=True)
            runs.append(figures)
    print_table(runs)


if __name__ == "__main__":
    main()
