"""Memory and speed of `rnnparse parse` while it parses many short sentences from a pipe.

    python benchmarks/bench_bulk.py MODEL TREES [--sentences 100000] [--jobs 2] [--backend threads]

repeats the sentences of a treebank that have 8 to 12 tokens. In each, one word gets a new number,
so that words keep coming that the model has never seen. After every tenth of the sentences, a row
shows the memory of the process and its children (resident, MB), and the speed since the last row:
sentences per second and CPU milliseconds per sentence. The tokens of every tree are compared with
those of its sentence. The last line compares the memory at the end with that at a tenth.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from rnnparse.training import load_clean
from rnnparse.trees import words
from rnnparse.trees.brackets import unescape_token

PROGRAM = [sys.executable, "-m", "rnnparse"]
SHORTEST, LONGEST = 8, 12  # tokens
MB = 1 << 20
SAMPLES = 10
MORE = 64  # sentences that keep the process busy while the last row is made
TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """What a process and its children have used: wall-clock and CPU seconds, resident MB."""

    seconds: float
    cpu: float
    memory: float


def usage(process: int) -> Usage:
    cpu = memory = 0.0
    for number in [process, *children(process)]:
        # The name of the program, in brackets, may contain spaces.
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        cpu += (int(fields[11]) + int(fields[12])) / TICKS
        memory += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / MB
    return Usage(time.perf_counter(), cpu, memory)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    threads = Path(f"/proc/{process}/task").glob("*/children")
    return [int(number) for path in threads for number in path.read_text().split()]


def varied(treebank: str, count: int) -> Iterator[list[str]]:
    """Sentences of a treebank, over and over, each with a new word."""
    sentences = map(words, load_clean(treebank))
    short = [tokens for tokens in sentences if SHORTEST <= len(tokens) <= LONGEST]
    rng = random.Random(0)
    for number, sentence in enumerate(itertools.islice(itertools.cycle(short), count)):
        tokens = [unescape_token(token) for token in sentence]
        letters = [place for place, token in enumerate(tokens) if token.isalpha()] or [0]
        tokens[rng.choice(letters)] += str(number)
        yield tokens


def feed(stream: TextIO, sentences: Iterator[list[str]]) -> None:
    with stream:
        stream.writelines(" ".join(tokens) + "\n" for tokens in sentences)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="a model folder from rnnparse train")
    parser.add_argument("treebank")
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--backend", default="threads")
    options = parser.parse_args(arguments)
    command = [*PROGRAM, "parse", options.model, "-", "--tokenized"]
    run = subprocess.Popen(
        [*command, "--jobs", options.jobs, "--backend", options.backend],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert run.stdin is not None and run.stdout is not None
    given, compared = (varied(options.treebank, options.sentences + MORE) for _ in range(2))
    threading.Thread(target=feed, args=(run.stdin, given), daemon=True).start()
    step, rows = options.sentences // SAMPLES, [usage(run.pid)]
    print(f"{'sentences':>10} {'MB':>8} {'a second':>9} {'CPU ms each':>12}", flush=True)
    for done, (tokens, line) in enumerate(zip(compared, run.stdout, strict=True), start=1):
        leaves = [unescape_token(part.rstrip(")\n")) for part in line.split() if part[0] != "("]
        if leaves != tokens:
            raise SystemExit(f"sentence {done}: {leaves} is the answer to {tokens}")
        if done % step == 0 and len(rows) <= SAMPLES:
            rows.append(usage(run.pid))
            before, now = rows[-2:]
            speed = step / (now.seconds - before.seconds)
            spent = 1000 * (now.cpu - before.cpu) / step
            print(f"{done:10} {now.memory:8.1f} {speed:9.1f} {spent:12.2f}", flush=True)
    if run.wait():
        raise SystemExit(f"rnnparse parse ended with status {run.returncode}")
    growth = 100 * (rows[-1].memory / rows[1].memory - 1)
    print(f"memory at the end: {growth:+.1f} % of that at a tenth")


if __name__ == "__main__":
    main(sys.argv[1:])
