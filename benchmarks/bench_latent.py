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
in the first row). CPU ms is the time per sentence to parse and list candidates. While it runs,
standard error shows F1 over the folds up to then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import numpy as np
from nltk.tree import Tree

from rnnparse.grammar import Grammar, LatentGrammar, WordVectors, estimate
from rnnparse.grammar.latent import latent_cycles
from rnnparse.inference import Decoder, Forest, ProductDecoder
from rnnparse.inference.decoder import Part, Parts
from rnnparse.inference.max_rule import Posteriors
from rnnparse.inference.product import NEAR
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

    def add(self, tree: Tree, forest: Forest, categories: Sequence[str]) -> None:
        """Count the brackets of a sentence's first and best candidate."""
        counts = bracket_counts(forest, tree, categories)
        matched, test = np.asarray(counts.matched), np.asarray(counts.test)
        best = int(np.argmax(2 * matched / np.maximum(test + counts.gold, 1)))
        for total, place in ((self.first, 0), (self.oracle, best)):
            total += (matched[place], test[place], counts.gold)

    def line(self, name: str, sentences: int, folds: int) -> str:
        return (
            f"{name:24}{f1_of(self.first):8.2f}{f1_of(self.oracle):11.2f}"
            f"{self.training / folds:14.1f}{1000 * self.seconds / sentences:10.2f}"
        )


def timed(function: Callable[[Any], Any], items: Sequence[Any]) -> tuple[list[Any], float]:
    """The results of a function on another thread, and its CPU seconds after a first call."""
    list(in_order(function, items[:1], 1))  # loads or compiles the kernels
    start = time.process_time()
    results = list(in_order(function, items, 1))
    return results, time.process_time() - start


@dataclass
class Fold:
    """The sentences of a fold.

    Attributes:
        trees: theirs.
        parts: the parts of each; the grammar is the same for all rows.
        seconds: the CPU time that took.
    """

    trees: Sequence[Tree]
    parts: list[Parts]
    seconds: float

    def parse(self, decoder: ProductDecoder, k: int, row: Row) -> None:
        """Add the candidates of all sentences to a row."""

        def listed(sentence: tuple[Tree, Parts]) -> Forest:
            tree, (parts, _) = sentence
            if len(parts) > 1:
                return decoder.parse(words(tree), k).forest
            return decoder._hypergraph(parts[0]).k_best(None, k)

        forests, seconds = timed(listed, list(zip(self.trees, self.parts, strict=True)))
        row.seconds += self.seconds + seconds
        for tree, forest in zip(self.trees, forests, strict=True):
            row.add(tree, forest, decoder.grammar.pcfg.categories)


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

    def add(name: str, decoder: ProductDecoder, seconds: float) -> None:
        row = rows.setdefault(name, Row())
        row.training += seconds
        fold.parse(decoder, options.candidates, row)
        print(f"{name}: F1 {f1_of(row.first):.2f} up to now", file=sys.stderr, flush=True)

    row, start = rows.setdefault("grammar", Row()), time.process_time()
    grammar = estimate(train, HeadTable.english(), vectors=vectors)
    row.training += time.process_time() - start
    plain, sentences = Decoder(grammar), [words(tree) for tree in held]
    parses, seconds = timed(lambda tokens: plain.parse(tokens, options.candidates), sentences)
    row.seconds += seconds
    for tree, parse in zip(held, parses, strict=True):
        row.add(tree, parse.forest, grammar.pcfg.categories)
    fold = Fold(held, *timed(lambda tokens: plain.parts(tokens, NEAR), sentences))
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
    print(f"{'':24}{'F1':>8}{'oracle F1':>11}{'CPU s train':>14}{'CPU ms':>10}")
    for name, row in rows.items():
        print(row.line(name, sentences, len(folds)))


if __name__ == "__main__":
    main(sys.argv[1:])
