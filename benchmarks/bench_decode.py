"""Pruned against exact search: CPU time, F1, oracle F1 and search errors of candidate lists.

    python benchmarks/bench_decode.py TRAIN [DEV] [--vectors FILE] [--candidates 100] [--folds 5]

estimates a grammar from TRAIN and lists the candidates of DEV, by pruned and by exact search in
turns. Without DEV, TRAIN is divided into contiguous folds: each one's sentences are listed by the
grammar of the others. So settings of the search are chosen on sentences that no score is reported
on.

CPU ms is the median over the repetitions, for a sentence. F1 is that of the most probable
candidate, oracle F1 that of the best one, by EVALB's rules with COLLINS.prm. A search error is a
sentence whose best tree by pruned search has a lower probability than the best tree of all.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from nltk.tree import Tree

from rnnparse.grammar import Grammar, WordVectors, estimate
from rnnparse.inference import Decoder, Search
from rnnparse.models import read_vectors
from rnnparse.threads import in_order
from rnnparse.training import bracket_counts, f1_of, load_clean
from rnnparse.trees import HeadTable, words


@dataclass
class Outcome:
    """What one kind of search gives, over all folds."""

    seconds: list[float] = field(default_factory=list)
    first: np.ndarray = field(default_factory=lambda: np.zeros(3))
    oracle: np.ndarray = field(default_factory=lambda: np.zeros(3))
    best: list[float] = field(default_factory=list)
    candidates: int = 0
    glued: int = 0

    def row(self, name: str, sentences: int) -> str:
        return (
            f"{name:8}{1000 * statistics.median(self.seconds) / sentences:10.2f}"
            f"{f1_of(self.first):9.2f}{f1_of(self.oracle):11.2f}"
            f"{self.candidates / sentences:13.1f}{self.glued:8}"
        )


def list_candidates(
    decoder: Decoder, trees: list[Tree], k: int, repeat: int, outcome: Outcome
) -> list[float]:
    """Add the lists of a fold to an outcome; returns the CPU seconds of each repetition."""
    sentences = [words(tree) for tree in trees]
    spent = []
    for _ in range(repeat):
        start = time.process_time()
        parses = list(in_order(lambda tokens: decoder.parse(tokens, k), sentences, 1))
        spent.append(time.process_time() - start)
    for tree, parse in zip(trees, parses, strict=True):
        counts = bracket_counts(parse.forest, tree, decoder.grammar.pcfg.categories)
        matched, test = np.asarray(counts.matched), np.asarray(counts.test)
        best = int(np.argmax(2 * matched / np.maximum(test + counts.gold, 1)))
        for total, place in ((outcome.first, 0), (outcome.oracle, best)):
            total += (matched[place], test[place], counts.gold)
        outcome.best.append(float(parse.forest.logp[0]))
        outcome.candidates += len(matched)
        outcome.glued += parse.glued
    return spent


def compare(parts: list[tuple[Grammar, list[Tree]]], k: int, repeat: int) -> None:
    """Print the table for grammars and the trees to parse with each."""
    pruned, exact = Outcome(), Outcome()
    spent: dict[bool, list[float]] = {False: [0.0] * repeat, True: [0.0] * repeat}
    for grammar, trees in parts:
        for is_exact, outcome in ((False, pruned), (True, exact)):
            decoder = Decoder(grammar, Search(exact=is_exact))
            decoder.parse(words(trees[0]), 2)  # loads or compiles the kernels
            seconds = list_candidates(decoder, trees, k, repeat, outcome)
            spent[is_exact] = [a + b for a, b in zip(spent[is_exact], seconds, strict=True)]
    pruned.seconds, exact.seconds = spent[False], spent[True]
    count = sum(len(trees) for _, trees in parts)
    print(f"{count} sentences, k = {k}")
    print(f"{'search':8}{'CPU ms':>10}{'F1':>9}{'oracle F1':>11}{'candidates':>13}{'glued':>8}")
    print(pruned.row("pruned", count))
    print(exact.row("exact", count))
    errors = np.array(pruned.best) < np.array(exact.best) - 1e-6
    ratio = statistics.median(exact.seconds) / statistics.median(pruned.seconds)
    print(f"search errors: {100 * errors.mean():.1f} %; exact / pruned time: {ratio:.2f}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("dev", nargs="?")
    parser.add_argument("--vectors")
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    vectors = None
    if options.vectors:
        names, matrix = read_vectors(options.vectors)
        vectors = WordVectors(tuple(names), matrix)

    def grammar_of(trees: list[Tree]) -> Grammar:
        return estimate(trees, HeadTable.english(), vectors=vectors)

    trees = load_clean(options.train)
    if options.dev:
        parts = [(grammar_of(trees), load_clean(options.dev))]
    else:
        bounds = [len(trees) * i // options.folds for i in range(options.folds + 1)]
        parts = [
            (grammar_of(trees[:a] + trees[b:]), trees[a:b])
            for a, b in pairwise(bounds)
        ]
    compare(parts, options.candidates, options.repeat)


if __name__ == "__main__":
    main(sys.argv[1:])
