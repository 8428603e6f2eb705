"""CPU time (user + system) and memory of the base parser.

    python benchmarks/bench_decode.py TRAIN DEV [--vectors FILE] [--kbest 1 100] [--join 300]

estimates a grammar from TRAIN and parses the sentences of DEV: milliseconds a sentence for each
size of the lists, nodes of a forest and how many sentences were glued. --join N adds a sentence
of N tokens, made of the first ones of DEV. Chart is the Viterbi pass alone.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

from rnnparse.grammar import Grammar, WordVectors, estimate
from rnnparse.inference import Decoder, inside_chart, rule_arrays
from rnnparse.models import read_vectors
from rnnparse.trees import HeadTable, clean, read_trees


def seconds(action: Callable[[], object]) -> float:
    """CPU seconds that an action takes."""
    start = time.process_time()
    action()
    return time.process_time() - start


def memory() -> str:
    return f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"


def time_lists(decoder: Decoder, sentences: list[list[str]], k: int) -> None:
    """Print what lists of k trees cost."""
    nodes = glued = 0
    start = time.process_time()
    for tokens in sentences:
        parse = decoder.parse(tokens, k)
        nodes += len(parse.forest.cat)
        glued += parse.glued
    spent = (time.process_time() - start) / len(sentences)
    print(
        f"k = {k}: {1000 * spent:.1f} ms a sentence, {nodes / len(sentences):.0f} nodes, "
        f"{glued} glued"
    )


def time_charts(grammar: Grammar, sentences: list[list[str]]) -> None:
    """Print what the Viterbi pass costs."""
    rules, go_on = rule_arrays(grammar.pcfg), np.zeros(1, np.uint8)
    emissions = [grammar.lexicon.emissions(tokens) for tokens in sentences]

    def fill_all() -> None:
        for e in emissions:
            inside_chart(len(e.ptr) - 1, e.ptr, e.symbol, e.logp, rules, go_on)

    inside_chart(1, emissions[0].ptr[:2], emissions[0].symbol, emissions[0].logp, rules, go_on)
    print(f"chart: {1000 * seconds(fill_all) / len(sentences):.1f} ms a sentence")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("--vectors")
    parser.add_argument("--trees", type=int, help="estimate from the first so many trees")
    parser.add_argument("--kbest", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--join", type=int, nargs="*", default=[])
    options = parser.parse_args(arguments)
    given = itertools.islice(read_trees(options.train), options.trees)
    trees = [tree for tree in map(clean, given) if tree is not None]
    vectors = None
    if options.vectors:
        words, matrix = read_vectors(options.vectors)
        vectors = WordVectors(tuple(words), matrix)
    start = time.process_time()
    grammar = estimate(trees, HeadTable.english(), vectors=vectors)
    pcfg = grammar.pcfg
    print(f"estimate: {time.process_time() - start:.1f} s, {len(trees)} trees, {memory()}")
    print(f"{len(pcfg.symbols)} symbols, {len(pcfg.binary)} binary, {len(pcfg.unary)} unary rules")
    dev = [tree.leaves() for tree in map(clean, read_trees(options.dev)) if tree is not None]
    decoder = Decoder(grammar)
    print(f"first sentence: {seconds(lambda: decoder.parse(dev[0], 2)):.2f} s (kernels load)")
    time_charts(grammar, dev)
    for k in options.kbest:
        time_lists(decoder, dev, k)
    tokens = [token for sentence in dev for token in sentence]
    for n in options.join:
        spent = seconds(lambda n=n: decoder.parse(tokens[:n], max(options.kbest)))
        print(f"{n} tokens: {spent:.1f} s, {memory()}")


if __name__ == "__main__":
    main(sys.argv[1:])
