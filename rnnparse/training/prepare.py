"""From trees to the data of the network: grammar, k-best forests, targets and vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.grammar.grammar import Grammar, estimate
from rnnparse.grammar.pcfg import category_names
from rnnparse.grammar.unknown import WordVectors
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.forest import Forest, ForestBuilder, forest_of
from rnnparse.inference.search import Search
from rnnparse.losses.cost import candidate_spans, labelled_spans, span_costs
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.forest_file import ForestFile, Forests
from rnnparse.models.frozen_weights import FrozenWeights, find_frozen
from rnnparse.models.parameters import Parameters, initial_parameters
from rnnparse.models.vectors import reduce_dimension
from rnnparse.models.vocabulary import Vocabulary
from rnnparse.training.candidate_brackets import BracketCounts, bracket_counts
from rnnparse.training.data import blocks, fingerprint
from rnnparse.training.dev_selection import DevSet
from rnnparse.training.kbest_cache import CachedLists, candidate_lists
from rnnparse.trees.cleaning import words
from rnnparse.trees.heads import HeadTable

if TYPE_CHECKING:
    from nltk.tree import Tree

_LOG = logging.getLogger("rnnparse")
AT_ONCE = 200  # sentences whose forests are written to a file at once
PAIR_COUNT = 3  # category pairs of fewer nodes in the training targets share the back-off weights
VERSION = 4  # of the cached lists: raise it when the same grammar gives other lists


@dataclass(frozen=True)
class Lists:
    """The candidate lists of the training and dev sentences, and the grammar of the parser.

    Those of the training sentences may be read from the cache as they are needed.
    """

    grammar: Grammar
    train: Sequence[Parse]
    dev: Sequence[Parse]


@dataclass(frozen=True)
class Problem:
    """What the network is trained on: forests with targets, vocabulary and initial weights.

    The forests of the training sentences may be in a file; those of dev are in memory.
    """

    vocabulary: Vocabulary
    category_pairs: CategoryPairs
    initial: Parameters
    store: Forests
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
    """Estimate the grammar and parse all sentences whose lists are not in the cache.

    The lists of the training sentences stay in the cache until they are used.
    """
    heads = head_table(config.heads)

    def grammar_of(trees: list[Tree]) -> Grammar:
        return estimate(trees, heads, vectors=vectors, seed=config.seed)

    grammar = grammar_of(train)
    # The key covers the grammar itself, so a change in how it is estimated is not missed.
    key = fingerprint(VERSION, config.candidates, config.exact, *grammar.to_arrays().values())

    def lists(
        trees: list[Tree], decoder: Callable[[], Decoder], name: str, what: str
    ) -> CachedLists:
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
    # Dev lists are needed again after training, when the cache may be gone.
    dev_lists = list(lists(dev, lambda: own, "own", "dev lists")) if dev else []
    if not config.jackknife:
        return Lists(grammar, lists(train, lambda: own, "own", "training lists"), dev_lists)
    folds = min(config.jackknife, len(train))
    made: list[CachedLists] = []
    for fold, block in enumerate(blocks(len(train), folds)):
        others = [*train[: block.start], *train[block.stop :]] or train

        def decoder(others: list[Tree] = others) -> Decoder:
            return Decoder(with_categories(grammar_of(others), grammar), search)

        what = f"training lists {fold + 1}/{folds}"
        name = f"fold-{fold}-of-{folds}"
        made.append(lists(train[block.start : block.stop], decoder, name, what))
    return Lists(grammar, CachedLists.joined(made), dev_lists)


def with_categories(grammar: Grammar, model: Grammar) -> Grammar:
    """A grammar with its categories numbered as in another one, which has all of them."""
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
    folder: Path | None = None,
) -> Problem:
    """Make targets, costs, vocabulary, category pairs and starting weights of the network.

    Args:
        lists: of the trees of both parts.
        train, dev: cleaned trees.
        vectors: the given word vectors, or None.
        config: the settings.
        folder: for a temporary file of the training forests, from which training reads batches;
            None to have them in memory. If the file cannot be written, they are in memory, too.
    """
    vocabulary = Vocabulary.build(
        map(words, train), () if vectors is None else vectors.words, prune=config.prune_vectors
    )
    best = _best(lists, train) if config.target == "oracle" else None
    category_pairs = CategoryPairs.from_forests(
        category_names(lists.grammar.pcfg.categories), _targets(lists, train, best), PAIR_COUNT
    )

    def dataset(part: slice) -> ForestDataset:
        examples = [
            _example(parse.forest, tree, lists.grammar, None if best is None else best[i])
            for i, parse, tree in zip(
                range(len(train))[part], lists.train[part], train[part], strict=True
            )
        ]
        return ForestDataset.from_forests(
            [forest for forest, _, _ in examples],
            [vocabulary.rows(words(tree)) for tree in train[part]],
            category_pairs,
            [costs for *_, costs in examples],
            [gold for _, gold, _ in examples],
        )

    return Problem(
        vocabulary,
        category_pairs,
        start(vocabulary, category_pairs, vectors, config),
        _forests(dataset, len(train), folder),
        _dev_set(lists, dev, vocabulary, category_pairs) if dev else None,
    )


def _forests(
    dataset: Callable[[slice], ForestDataset], sentences: int, folder: Path | None
) -> Forests:
    """The forests of all sentences in a file in `folder`, or in memory if that is impossible."""
    if folder is not None:
        parts = (dataset(slice(i, i + AT_ONCE)) for i in range(0, sentences, AT_ONCE))
        try:
            return ForestFile(parts, folder)
        except OSError as error:
            _LOG.warning(
                "cannot write the forests to the folder %s (%s); keeping them in memory",
                folder,
                error.strerror,
            )
    return dataset(slice(0, sentences))


def _best(lists: Lists, trees: Sequence[Tree]) -> list[int]:
    """The candidate with the highest F1 of each training sentence."""
    categories = lists.grammar.pcfg.categories
    return [
        int(np.argmax(bracket_counts(parse.forest, tree, categories).f1()))
        for parse, tree in zip(lists.train, trees, strict=True)
    ]


def _targets(lists: Lists, trees: Sequence[Tree], best: list[int] | None) -> Iterator[Forest]:
    """The targets as forests of one tree each: the given candidates, or the gold trees."""
    if best is not None:
        for parse, candidate in zip(lists.train, best, strict=True):
            yield forest_of(parse.forest, [candidate])
        return
    for tree in trees:
        builder = ForestBuilder(lists.grammar.pcfg.categories, lists.grammar.heads)
        builder.add(tree, 0.0)
        yield builder.forest()


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
    forest: Forest, tree: Tree, grammar: Grammar, best: int | None = None
) -> tuple[Forest, int, np.ndarray]:
    """A training forest with its target, the target's index, and Δ of each candidate (κ = 1).

    The target is the candidate `best`, or else the gold tree.
    """
    categories = grammar.pcfg.categories
    counted = np.arange(2 * len(categories) + 1) < len(categories)
    if best is not None:
        return forest, best, span_costs(forest, candidate_spans(forest, best, counted), counted)
    builder = ForestBuilder(categories, grammar.heads, forest)
    gold = builder.add(tree, float("-inf"))
    forest = builder.forest()
    number = {name: c for c, name in enumerate(categories)}
    spans = np.array(
        [(number[label], start, end) for label, start, end in labelled_spans(tree)], np.int32
    ).reshape(-1, 3)
    return forest, gold, span_costs(forest, spans, counted)
