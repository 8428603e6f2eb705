"""Products of latent grammars: F1, oracle F1, CPU time of training and parsing.

    python benchmarks/bench_latent.py TRAIN [--vectors FILE] [--candidates 100] [--folds 5]
        [--first 5] [--grammars 8] [--cycles 5]

TRAIN is divided into contiguous folds. Each one's sentences are parsed by the grammars of the
others; --first 2 does this for the first two only. All scores are by EVALB's rules with
COLLINS.prm, over the sentences of all these folds.

Rows: the grammar; its max-rule trees; one latent grammar after each cycle; the product of several
latent grammars of one cycle less, which differ in the seed, and the product of these and the
grammar. F1 is that of the best candidate, oracle F1 that of the candidate with the best F1.
Training is the CPU seconds per fold for all grammars of the row, without the grammar itself (given
in the first row). CPU ms is the time per sentence to parse and list candidates; "one" is that for
the best tree alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

import numpy as np
from nltk.tree import Tree

from rnnparse.grammar import Grammar, LatentGrammar, WordVectors, estimate
from rnnparse.grammar.latent import latent_cycles
from rnnparse.inference import Decoder, ProductDecoder
from rnnparse.inference.decoder import Part
from rnnparse.inference.max_rule import Posteriors
from rnnparse.inference.projection import Projection
from rnnparse.models import read_vectors
from rnnparse.threads import in_order
from rnnparse.training import bracket_counts, f1_of, load_clean
from rnnparse.trees import HeadTable, words


class LatentOnly(ProductDecoder):
    """The product without the grammar itself, which only says which rules to consider."""

    def _posteriors(self, part: Part, projection: Projection) -> list[Posteriors]:
        return super()._posteriors(part, projection)[1:]


@dataclass
class Row:
    """What one kind of parser gives, over all folds."""

    training: float = 0.0
    first: np.ndarray = field(default_factory=lambda: np.zeros(3))
    oracle: np.ndarray = field(default_factory=lambda: np.zeros(3))
    seconds: float = 0.0
    seconds_of_one: float = 0.0

    def line(self, name: str, sentences: int, folds: int) -> str:
        return (
            f"{name:24}{f1_of(self.first):8.2f}{f1_of(self.oracle):11.2f}"
            f"{self.training / folds:14.1f}{1000 * self.seconds / sentences:10.2f}"
            f"{1000 * self.seconds_of_one / sentences:8.2f}"
        )


def parse_all(decoder: Decoder | ProductDecoder, trees: Sequence[Tree], k: int, row: Row) -> None:
    """Add the candidates of a fold's sentences to a row."""
    sentences = [words(tree) for tree in trees]
    decoder.parse(sentences[0], k)  # loads or compiles the kernels
    start = time.process_time()
    parses = list(in_order(lambda tokens: decoder.parse(tokens, k), sentences, 1))
    row.seconds += time.process_time() - start
    start = time.process_time()
    list(in_order(lambda tokens: decoder.parse(tokens, 1), sentences, 1))
    row.seconds_of_one += time.process_time() - start
    for tree, parse in zip(trees, parses, strict=True):
        counts = bracket_counts(parse.forest, tree, decoder.grammar.pcfg.categories)
        matched, test = np.asarray(counts.matched), np.asarray(counts.test)
        best = int(np.argmax(2 * matched / np.maximum(test + counts.gold, 1)))
        for total, place in ((row.first, 0), (row.oracle, best)):
            total += (matched[place], test[place], counts.gold)


def cycles_of(
    trees: Sequence[Tree], grammar: Grammar, seed: int, cycles: int
) -> list[tuple[LatentGrammar, float]]:
    """The latent grammar after each cycle, and the CPU seconds until then."""
    made, start = [], time.process_time()
    grammars = latent_cycles(trees, grammar.heads, grammar.pcfg.categories, seed=seed)
    for latent in islice(grammars, cycles):
        made.append((latent, time.process_time() - start))
    return made


def run_fold(
    rows: dict[str, Row],
    train: Sequence[Tree],
    held: Sequence[Tree],
    vectors: WordVectors | None,
    options: argparse.Namespace,
) -> None:
    """Add the results of a fold to the rows."""

    def add(name: str, decoder: Decoder | ProductDecoder, seconds: float) -> None:
        row = rows.setdefault(name, Row())
        row.training += seconds
        parse_all(decoder, held, options.candidates, row)

    start = time.process_time()
    grammar = estimate(train, HeadTable.english(), vectors=vectors)
    add("grammar", Decoder(grammar), time.process_time() - start)
    add("grammar, max-rule", ProductDecoder(grammar, []), 0.0)
    chosen: list[tuple[LatentGrammar, float]] = []
    for seed in range(options.grammars):
        made = cycles_of(train, grammar, seed, options.cycles if seed == 0 else options.cycles - 1)
        for cycle, (latent, seconds) in enumerate(made, start=1):
            if seed == 0:
                add(f"1 latent, cycle {cycle}", LatentOnly(grammar, [latent]), seconds)
        chosen.append(made[options.cycles - 2])
    for count in (c for c in (1, 2, 4, 8, 16) if c <= options.grammars):
        latents, seconds = zip(*chosen[:count], strict=True)
        add(f"{count} latent", LatentOnly(grammar, latents), sum(seconds))
        add(f"grammar and {count} latent", ProductDecoder(grammar, latents), sum(seconds))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("--vectors")
    for name, default in (("candidates", 100), ("folds", 5), ("first", 5), ("grammars", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--cycles", type=int, default=5)
    options = parser.parse_args(arguments)
    vectors = None
    if options.vectors:
        names, matrix = read_vectors(options.vectors)
        vectors = WordVectors(tuple(names), matrix)
    trees = load_clean(options.train)
    bounds = [len(trees) * i // options.folds for i in range(options.folds + 1)]
    rows: dict[str, Row] = {}
    folds = list(pairwise(bounds))[: options.first]
    for a, b in folds:
        run_fold(rows, trees[:a] + trees[b:], trees[a:b], vectors, options)
    sentences = sum(b - a for a, b in folds)
    print(f"{sentences} sentences in {len(folds)} folds, k = {options.candidates}")
    print(f"{'':24}{'F1':>8}{'oracle F1':>11}{'CPU s train':>14}{'CPU ms':>10}{'one':>8}")
    for name, row in rows.items():
        print(row.line(name, sentences, len(folds)))


if __name__ == "__main__":
    main(sys.argv[1:])
