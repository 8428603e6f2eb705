"""Seconds and memory to parse sentences of 50 to 2,000 tokens, each in a process of its own.

    python benchmarks/bench_long_sentences.py MODEL TREEBANK [--lengths 50 100] [--exact]

A sentence is made of the first sentences of TREEBANK. Kinds:

    joined      the sentences one after another, with their full stops
    commas      the same with commas instead of full stops within, as in a very long sentence
    numbers     1 2 3 …, as in a table

Columns:

    wall, CPU   seconds to parse the sentence, after a short one that loads the kernels
    peak        MB, of the whole process
    search      MB, by how much the sentence raised the peak
    tree        whole, glued or divided
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import rnnparse
from rnnparse.training import load_clean
from rnnparse.trees import words

KINDS = ("joined", "commas", "numbers")


def tokens_of(kind: str, treebank: str, length: int) -> list[str]:
    """A sentence of `length` tokens; the treebank is repeated if it is too short."""
    if kind == "numbers":
        return [str(number) for number in range(1, length + 1)]
    tokens = [token for tree in load_clean(treebank) for token in words(tree)]
    tokens = (tokens * -(-length // len(tokens)))[:length]
    if kind == "commas":
        tokens = ["," if token == "." else token for token in tokens[:-1]] + ["."]
    return tokens


def peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def measure(model: str, treebank: str, kind: str, length: int, exact: bool) -> str:
    """A row of the table, for a sentence parsed in this process."""
    parser = rnnparse.load(model, search=rnnparse.Search(exact=exact))
    tokens = tokens_of(kind, treebank, length)
    list(parser.parse_many([tokens[:20]]))
    before, cpu, wall = peak(), time.process_time(), time.perf_counter()
    (result,) = parser.parse_many([tokens])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert len(result.trees[0].tree.leaves()) == length
    tree = "divided" if result.divided else "glued" if result.glued else "whole"
    memory = f"{peak():.0f} | {peak() - before:.0f}"
    return f"| {kind} | {length:,} | {wall:.2f} | {cpu:.2f} | {memory} | {tree} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("treebank")
    lengths = [50, 100, 200, 400, 800, 2000]
    parser.add_argument("--lengths", type=int, nargs="+", default=lengths)
    parser.add_argument("--exact", action="store_true", help="search the whole chart")
    parser.add_argument("--only", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(measure(args.model, args.treebank, args.only, args.lengths[0], args.exact))
        return
    print("| kind | tokens | wall, s | CPU, s | peak, MB | search, MB | tree |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for kind in KINDS:
        for length in args.lengths:
            options = ["--only", kind, "--lengths", str(length), *["--exact"] * args.exact]
            command = [sys.executable, __file__, args.model, args.treebank, *options]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
