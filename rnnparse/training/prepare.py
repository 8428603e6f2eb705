"""From trees to the data of the network: grammar, k-best forests, targets and vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.grammar.grammar import Grammar, estimate
from rnnparse.grammar.pcfg import category_names
from rnnparse.grammar.unknown import WordVectors
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.forest import Forest, ForestBuilder, nodes_of
from rnnparse.inference.search import Search
from rnnparse.losses.cost import candidate_spans, labelled_spans, span_costs
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.frozen_weights import FrozenWeights, find_frozen
from rnnparse.models.parameters import Parameters, initial_parameters
from rnnparse.models.vectors import reduce_dimension
from rnnparse.models.vocabulary import Vocabulary
from rnnparse.training.candidate_brackets import BracketCounts, bracket_counts
from rnnparse.training.data import fingerprint
from rnnparse.training.dev_selection import DevSet
from rnnparse.training.kbest_cache import candidate_lists
from rnnparse.trees.cleaning import words
from rnnparse.trees.heads import HeadTable

if TYPE_CHECKING:
    from nltk.tree import Tree

PAIR_COUNT = 3  # category pairs of fewer nodes in the training targets share the back-off weights
VERSION = 4  # of the cached lists: raise it when the same grammar gives other lists


@dataclass(frozen=True)
class Lists:
    """The candidate lists of the training and dev sentences, and the grammar of the parser."""

    grammar: Grammar
    train: list[Parse]
    dev: list[Parse]


@dataclass(frozen=True)
class Problem:
    """What the network is trained on: forests with targets, vocabulary and initial weights."""

    vocabulary: Vocabulary
    category_pairs: CategoryPairs
    initial: Parameters
    store: ForestDataset
    dev: DevSet | None

    def frozen(self, patterns: Sequence[str], strict: bool = True) -> FrozenWeights:
        """The weights that match patterns; see `find_frozen`."""
        names = {
            "vectors": self.vocabulary.classes + self.vocabulary.words,
            "W": self.category_pairs.names,
            "v": self.category_pairs.names,
        }
        return find_frozen(patterns, names, strict)


def head_table(name: str) -> HeadTable:
    """The head table for the setting `heads`: english, left, right, or a file."""
    builtin = {"english": HeadTable.english, "left": HeadTable.left, "right": HeadTable.right}
    return builtin[name]() if name in builtin else HeadTable.load(name)


def make_lists(
    train: list[Tree],
    dev: list[Tree],
    vectors: WordVectors | None,
    config: TrainingConfig,
    cache: Path,
    *,
    n_jobs: int,
    progress: bool,
) -> Lists:
    """Estimate the grammar and parse all sentences, or read their lists from the cache."""
    heads = head_table(config.heads)

    def grammar_of(trees: list[Tree]) -> Grammar:
        return estimate(trees, heads, vectors=vectors, seed=config.seed)

    grammar = grammar_of(train)
    # The key covers the grammar itself, so a change in how it is estimated is not missed.
    key = fingerprint(VERSION, config.candidates, config.exact, *grammar.to_arrays().values())

    def lists(
        trees: list[Tree], decoder: Callable[[], Decoder], name: str, what: str
    ) -> list[Parse]:
        return candidate_lists(
            [words(tree) for tree in trees],
            decoder,
            config.candidates,
            categories=len(grammar.pcfg.categories),
            folder=cache / key / f"{name}-{fingerprint(trees)}",
            n_jobs=n_jobs,
            backend=config.backend,
            address=config.address,
            progress=progress,
            what=what,
        )

    search = Search(exact=config.exact)
    own = Decoder(grammar, search)
    dev_lists = lists(dev, lambda: own, "own", "dev lists") if dev else []
    if not config.jackknife:
        return Lists(grammar, lists(train, lambda: own, "own", "training lists"), dev_lists)
    folds = min(config.jackknife, len(train))
    parses: dict[int, Parse] = {}
    for fold in range(folds):
        others = [tree for i, tree in enumerate(train) if i % folds != fold] or train

        def decoder(others: list[Tree] = others) -> Decoder:
            return Decoder(_with_categories(grammar_of(others), grammar), search)

        what = f"training lists {fold + 1}/{folds}"
        made = lists(train[fold::folds], decoder, f"fold-{fold}-of-{folds}", what)
        parses |= dict(zip(range(fold, len(train), folds), made, strict=True))
    return Lists(grammar, [parses[i] for i in range(len(train))], dev_lists)


def _with_categories(grammar: Grammar, model: Grammar) -> Grammar:
    """The grammar with its categories numbered as in another grammar that has all of them."""
    pcfg, names = grammar.pcfg, model.pcfg.categories
    place = np.array([names.index(name) for name in pcfg.categories], np.int32)
    partial = pcfg.partial
    basic = pcfg.category - partial * len(pcfg.categories)
    category = (place[basic] + partial * len(names)).astype(np.int32)
    return replace(grammar, pcfg=replace(pcfg, categories=names, category=category))


def make_problem(
    lists: Lists,
    train: Sequence[Tree],
    dev: Sequence[Tree],
    vectors: WordVectors | None,
    config: TrainingConfig,
) -> Problem:
    """Make targets, costs, vocabulary, category pairs and starting weights of the network."""
    categories = lists.grammar.pcfg.categories
    examples = [
        _example(parse.forest, tree, lists.grammar, config.target)
        for parse, tree in zip(lists.train, train, strict=True)
    ]
    sentences = [words(tree) for tree in train]
    vocabulary = Vocabulary.build(
        sentences, () if vectors is None else vectors.words, prune=config.prune_vectors
    )
    forests = [forest for forest, _, _ in examples]
    targets = [one_tree(forest, gold) for forest, gold, _ in examples]
    category_pairs = CategoryPairs.from_forests(category_names(categories), targets, PAIR_COUNT)
    store = ForestDataset.from_forests(
        forests,
        [vocabulary.rows(tokens) for tokens in sentences],
        category_pairs,
        [costs for *_, costs in examples],
        [gold for _, gold, _ in examples],
    )
    return Problem(
        vocabulary,
        category_pairs,
        start(vocabulary, category_pairs, vectors, config),
        store,
        _dev_set(lists, dev, vocabulary, category_pairs) if dev else None,
    )


def start(
    vocabulary: Vocabulary,
    category_pairs: CategoryPairs,
    vectors: WordVectors | None,
    config: TrainingConfig,
) -> Parameters:
    """Starting weights: the given word vectors or random ones, and random other weights."""
    given: np.ndarray | int = len(vocabulary)
    if vectors is not None:
        matrix = reduce_dimension(vectors.matrix, config.dim, config.seed)
        given = vocabulary.initial_vectors(vectors.words, matrix, config.seed)
    return initial_parameters(category_pairs, given, config.dim, seed=config.seed)


def _dev_set(
    lists: Lists, dev: Sequence[Tree], vocabulary: Vocabulary, category_pairs: CategoryPairs
) -> DevSet:
    forests = [parse.forest for parse in lists.dev]
    forms = lists.grammar.lexicon.forms
    rows = [vocabulary.rows(forms.lookup(words(tree))) for tree in dev]
    store = ForestDataset.from_forests(forests, rows, category_pairs)
    return DevSet(store, dev_counts(lists, dev))


def dev_counts(lists: Lists, dev: Sequence[Tree]) -> list[BracketCounts]:
    """Bracket counts of all candidates of the dev sentences."""
    categories = lists.grammar.pcfg.categories
    return [
        bracket_counts(parse.forest, tree, categories)
        for parse, tree in zip(lists.dev, dev, strict=True)
    ]


def _example(
    forest: Forest, tree: Tree, grammar: Grammar, target: str
) -> tuple[Forest, int, np.ndarray]:
    """A training forest with its target, the target's index, and Δ of each candidate (κ = 1)."""
    categories = grammar.pcfg.categories
    counted = np.arange(2 * len(categories) + 1) < len(categories)
    if target == "oracle":
        gold = int(np.argmax(bracket_counts(forest, tree, categories).f1()))
        spans = candidate_spans(forest, gold, counted)
    else:
        builder = ForestBuilder(categories, grammar.heads, forest)
        gold = builder.add(tree, float("-inf"))
        forest = builder.forest()
        number = {name: c for c, name in enumerate(categories)}
        spans = np.array(
            [(number[label], start, end) for label, start, end in labelled_spans(tree)], np.int32
        ).reshape(-1, 3)
    return forest, gold, span_costs(forest, spans, counted)


def one_tree(forest: Forest, candidate: int) -> Forest:
    """A forest of one candidate only."""
    nodes = np.array(nodes_of(forest, candidate))
    place = np.full(len(forest.cat), -1, np.int32)
    place[nodes] = np.arange(len(nodes))
    left, right = forest.left[nodes], forest.right[nodes]
    return Forest(
        forest.cat[nodes],
        np.where(left >= 0, place[left], -1).astype(np.int32),
        np.where(right >= 0, place[right], -1).astype(np.int32),
        forest.start[nodes],
        forest.end[nodes],
        np.array([len(nodes) - 1], np.int32),
        forest.logp[candidate : candidate + 1],
    )
