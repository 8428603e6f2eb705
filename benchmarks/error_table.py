"""Where a model's errors come from, and how many attachments it gets right.

    python benchmarks/error_table.py MODEL GOLD [--jobs N] [--words 12]

The distance of the CVG's F1 from 100 is split into what the k-best lists lack (100 - the F1 of
their best trees), and what the network loses in choosing from them. Two causes are looked at apart:

    pruning        lists made by exact search, of the sentences of at most --words words, against
                   those that the parser makes
    unknown words  lists made when each word that training never saw is known to have its gold tag

Scores follow EVALB with COLLINS.prm, after the tags of the gold trees have been pasted in: EVALB
skips sentences whose punctuation is tagged otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from nltk.tree import Tree

from rnnparse import Parser, evaluate, load
from rnnparse.evaluation import score_attachments
from rnnparse.grammar import Emissions, Lexicon
from rnnparse.inference import Decoder, Forest, Search, candidate_tree
from rnnparse.models import ForestDataset, Scorer
from rnnparse.threads import in_order
from rnnparse.training import bracket_counts, f1_of, load_clean
from rnnparse.trees import tags, words


class GoldTagged:
    """A lexicon that knows the gold tags of the unknown words of one sentence."""

    def __init__(self, lexicon: Lexicon, category: np.ndarray, wanted: Sequence[int]) -> None:
        self._lexicon, self._category, self._wanted = lexicon, category, wanted

    def states(self) -> np.ndarray:
        """Those of the lexicon; `Grammar` checks them."""
        return self._lexicon.states()

    def emissions(self, tokens: Sequence[str]) -> Emissions:
        """Those of the lexicon, without states of other tags where a word is unknown."""
        emissions = self._lexicon.emissions(tokens)
        kept = np.ones(len(emissions.symbol), np.bool_)
        for i, token in enumerate(tokens):
            states = slice(emissions.ptr[i], emissions.ptr[i + 1])
            right = self._category[emissions.symbol[states]] == self._wanted[i]
            if not self._lexicon.knows(token) and right.any():
                kept[states] = right
        sizes = np.add.reduceat(kept, emissions.ptr[:-1])
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Emissions(ptr, emissions.symbol[kept], emissions.logp[kept])


@dataclass
class Outcome:
    """Brackets [3] (matched, test, gold) of the PCFG's, the CVG's and the best possible choice."""

    pcfg: np.ndarray
    cvg: np.ndarray
    oracle: np.ndarray

    def f1(self) -> tuple[float, float, float]:
        """In the same order, in per cent."""
        pcfg, cvg, oracle = (float(f1_of(x)) for x in (self.pcfg, self.cvg, self.oracle))
        return pcfg, cvg, oracle


class Bench:
    """A model and gold trees."""

    def __init__(self, parser: Parser, gold: Sequence[Tree], jobs: int) -> None:
        self.parser, self.gold, self.jobs = parser, gold, jobs
        self.names = parser.grammar.pcfg.categories
        self.decoder = Decoder(parser.grammar)
        self.scorer = Scorer(parser.parameters)

    def gold_tagged(self, tree: Tree) -> Decoder:
        """A decoder for one sentence; its rules are laid out but once."""
        pcfg = self.parser.grammar.pcfg
        number = {name: c for c, name in enumerate(self.names)}
        wanted = [number.get(tag, -1) for tag in tags(tree)]
        lexicon: Any = GoldTagged(self.parser.grammar.lexicon, pcfg.category, wanted)
        decoder = copy(self.decoder)
        decoder.grammar = replace(self.parser.grammar, lexicon=lexicon)
        return decoder

    def cvg_choice(self, forest: Forest, tokens: Sequence[str]) -> int:
        """The candidate that the parser gives, as `Parser` chooses it."""
        forms = self.parser.grammar.lexicon.forms
        rows = [self.parser.vocabulary.rows(forms.lookup(tokens))]
        store = ForestDataset.from_forests([forest], rows, self.parser.category_pairs)
        scores = np.asarray(self.scorer.scores(store.batch([0])), np.float64)
        beta = self.parser.beta
        return int(np.argmax(scores + (beta * forest.logp if beta else 0.0)))

    def forests(self, gold_tags: bool = False) -> Iterator[Forest]:
        """The k-best lists of all sentences."""

        def parse(tree: Tree) -> Forest:
            decoder = self.gold_tagged(tree) if gold_tags else self.decoder
            return decoder.parse(words(tree), self.parser.candidates).forest

        return in_order(parse, self.gold, self.jobs)

    def outcome(self, forests: Iterator[Forest]) -> tuple[Outcome, list[Tree], list[Tree]]:
        """What is got out of lists, and the trees of the PCFG and the CVG."""
        sums = Outcome(*(np.zeros(3, np.int64) for _ in range(3)))
        pcfg, cvg = [], []
        for forest, tree in zip(forests, self.gold, strict=True):
            counts = bracket_counts(forest, tree, self.names)
            chosen = self.cvg_choice(forest, words(tree))
            best = int(counts.f1().argmax())
            for total, k in ((sums.pcfg, 0), (sums.cvg, chosen), (sums.oracle, best)):
                total += (counts.matched[k], counts.test[k], counts.gold)
            pcfg.append(candidate_tree(forest, 0, words(tree), self.names))
            cvg.append(candidate_tree(forest, chosen, words(tree), self.names))
        return sums, pcfg, cvg

    def check_pruning(self, limit: int) -> tuple[int, int]:
        """Sentences compared, and how many have another list by exact search."""
        short = [words(tree) for tree in self.gold if len(words(tree)) <= limit]
        exact = Decoder(self.parser.grammar, Search(exact=True))
        pruned, whole = (
            [one.parse(tokens, self.parser.candidates).forest for tokens in short]
            for one in (self.decoder, exact)
        )
        differ = sum(
            len(a.logp) != len(b.logp) or not np.allclose(a.logp, b.logp, rtol=0, atol=1e-9)
            for a, b in zip(pruned, whole, strict=True)
        )
        return len(short), differ

    def unknown(self) -> tuple[int, int]:
        """Unknown words and all words."""
        knows = self.parser.grammar.lexicon.knows
        tokens = [token for tree in self.gold for token in words(tree)]
        return sum(not knows(token) for token in tokens), len(tokens)


def pasted(tree: Tree, gold: Tree) -> Tree:
    """The tree with the gold tree's tags."""
    tree = tree.copy(deep=True)
    for position, tag in zip(tree.treepositions("leaves"), tags(gold), strict=True):
        tree[position[:-1]].set_label(tag)
    return tree


def print_errors(bench: Bench, limit: int) -> tuple[list[Tree], list[Tree]]:
    """The table of errors; returns the trees of the PCFG and the CVG."""
    outcome, pcfg, cvg = bench.outcome(bench.forests())
    base, f1, oracle = outcome.f1()
    evalb = evaluate(bench.gold, [pasted(*pair) for pair in zip(cvg, bench.gold, strict=True)])
    assert abs((evalb.summary()["f1"] or 0.0) - f1) < 1e-9, "EVALB's rules give another F1"
    tagged, _, _ = bench.outcome(bench.forests(gold_tags=True))
    base_known, f1_known, oracle_known = tagged.f1()
    print(f"{'':34}{'now':>8}{'gold tags of unknown words':>28}{'difference':>12}")
    for name, now, known in (
        ("base PCFG F1", base, base_known),
        ("CVG F1", f1, f1_known),
        (f"oracle F1 of {bench.parser.candidates}-best lists", oracle, oracle_known),
        ("errors, 100 - CVG F1", 100 - f1, 100 - f1_known),
        ("  list: 100 - oracle", 100 - oracle, 100 - oracle_known),
        ("  model: oracle - CVG", oracle - f1, oracle_known - f1_known),
    ):
        print(f"{name:34}{now:8.2f}{known:28.2f}{known - now:12.2f}")
    unknown, total = bench.unknown()
    print(f"unknown words: {unknown} of {total} ({100 * unknown / max(total, 1):.1f} %)")
    compared, differ = bench.check_pruning(limit)
    print(
        f"pruning: {differ} of {compared} sentences of at most {limit} words have another list "
        "when nothing is pruned"
    )
    return pcfg, cvg


def print_attachments(gold: Sequence[Tree], pcfg: Sequence[Tree], cvg: Sequence[Tree]) -> None:
    """How many modifiers each puts where the gold tree does, of those that have a choice."""
    ours, theirs = score_attachments(gold, pcfg), score_attachments(gold, cvg)
    print(f"\n{'attachments':14}{'choices':>8}{'PCFG right':>12}{'CVG right':>11}", end="")
    print(f"{'PCFG %':>9}{'CVG %':>8}{'errors left %':>15}")
    rows = [(label, ours.by_label[label], theirs.by_label[label]) for label in ours.by_label]
    rows.append(("all", (ours.correct, ours.total), (theirs.correct, theirs.total)))
    for label, (base, total), (right, _) in rows:
        if total:
            left = f"{100 * (total - right) / (total - base):15.1f}" if base < total else ""
            print(f"{label:14}{total:8}{base:12}{right:11}", end="")
            print(f"{100 * base / total:9.1f}{100 * right / total:8.1f}{left}")


def main() -> None:
    """Parse options, print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("gold", help="a treebank that the model was not trained on")
    parser.add_argument("--jobs", type=int, default=0, help="threads (default: all cores)")
    parser.add_argument("--words", type=int, default=12, help="longest sentences for pruning")
    options = parser.parse_args()
    bench = Bench(load(options.model), load_clean(options.gold), options.jobs)
    print(f"{options.model} on {len(bench.gold)} sentences of {options.gold}")
    pcfg, cvg = print_errors(bench, options.words)
    print_attachments(bench.gold, pcfg, cvg)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
