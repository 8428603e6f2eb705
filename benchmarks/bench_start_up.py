"""Seconds that commands take to start, next to those of `python -c "import numpy"`.

    python benchmarks/bench_start_up.py MODEL [--runs 7]

Each command has little to do: one sentence, or one tree. The table shows medians over runs that
alternate between the commands, wall-clock and CPU seconds (user and system), and the CPU seconds as
a multiple of those of the reference. The first row is a single run that compiles all that it needs.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = [sys.executable, "-m", "rnnparse"]
REFERENCE = "import numpy"
SENTENCE = "They ate udon with forks.\n"
TREE = "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN udon))) (. .)))\n"


def seconds(command: list[str], cache: Path) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a process that keeps compiled code in a folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def commands(model: str, folder: Path) -> dict[str, list[str]]:
    """The command lines by their names in the table."""
    sentences, trees = folder / "sentences", folder / "trees.mrg"
    sentences.write_text(SENTENCE, encoding="utf-8")
    trees.write_text(TREE, encoding="utf-8")
    own = {
        "parse": ["parse", model, str(sentences)],
        "evaluate": ["evaluate", model, str(trees)],
        "evalb": ["evalb", str(trees), str(trees)],
        "info": ["info", model],
        "--version": ["--version"],
        "--help": ["--help"],
    }
    listed = {name: [*PROGRAM, *arguments] for name, arguments in own.items()}
    return {REFERENCE: [sys.executable, "-c", REFERENCE], **listed}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="a model folder from rnnparse train")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listed = commands(options.model, folder)
        first = seconds(listed["parse"], folder / "cache")
        for command in listed.values():  # compile, and read files into memory
            seconds(command, folder / "cache")
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in listed}
        for _ in range(options.runs):
            for name, command in listed.items():
                runs[name].append(seconds(command, folder / "cache"))
    rows = {"parse, first run": first}
    for name, times in runs.items():
        wall, cpu = (statistics.median(values) for values in zip(*times, strict=True))
        rows[name] = wall, cpu
    print(f"{'':<18}{'wall s':>8}{'CPU s':>8}{'ratio':>8}")
    for name, (wall, cpu) in rows.items():
        print(f"{name:<18}{wall:>8.2f}{cpu:>8.2f}{cpu / rows[REFERENCE][1]:>8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
