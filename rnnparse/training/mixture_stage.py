"""Latent grammars and span scorer of a training run, and the weights of all scores."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from rnnparse.config import TrainingConfig
from rnnparse.encoder import Encoder, cached_vectors, load_encoder, token_vectors
from rnnparse.errors import DivergedError
from rnnparse.grammar.grammar import Grammar, estimate
from rnnparse.grammar.latent import LatentGrammar, estimate_latent
from rnnparse.grammar.unknown import WordVectors
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import Forest
from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.search import Search
from rnnparse.mixture import MixtureDecoder, MixtureParse
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.scorer import Scorer
from rnnparse.models.span_features import SpanFeatures
from rnnparse.models.span_parameters import SpanModel, initial_span_parameters
from rnnparse.models.vocabulary import Vocabulary
from rnnparse.threads import in_order, job_count
from rnnparse.training.candidate_brackets import BracketCounts, bracket_counts
from rnnparse.training.data import blocks
from rnnparse.training.dev_selection import f1_of
from rnnparse.training.kbest_cache import cache_folder
from rnnparse.training.prepare import head_table, with_categories
from rnnparse.training.run_directory import RunDirectory
from rnnparse.training.span_checkpoint import load_span_state, save_span_state
from rnnparse.training.span_examples import SpanExample
from rnnparse.training.span_training import SpanSettings, SpanState, span_epochs
from rnnparse.trees.cleaning import words

if TYPE_CHECKING:
    from nltk.tree import Tree

_LOG = logging.getLogger("rnnparse")
JACKKNIFE = 5  # blocks, each parsed with a grammar of the others for the span scorer
WINDOW = 9.0  # nats; of the hypergraphs that train the span scorer
FIRST_BETA = 0.2  # of the candidate lists on which the weights are chosen
BETAS = (0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0)
RNN_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Weights that are tried: of the mean score of the grammars, and of the SU-RNN."""


@dataclass(frozen=True)
class Mixture:
    """The latent grammars and the span scorer of a model.

    Attributes:
        latent: the grammars.
        spans: the span scorer, or None.
        encoder: gives the token vectors that the span scorer uses, or None.
    """

    latent: tuple[LatentGrammar, ...] = ()
    spans: SpanModel | None = None
    encoder: Encoder | None = None


NO_MIXTURE = Mixture()


@dataclass(frozen=True)
class Stage:
    """Where the state of a mixture is kept while a run is unfinished.

    Attributes:
        work: the folder of the run.
        name: of the part of the run: `network`, or a fold.
        key: identifies data and settings.
        progress: whether to show progress bars.
    """

    work: RunDirectory
    name: str
    key: str
    progress: bool


@dataclass(frozen=True)
class Network:
    """A trained SU-RNN."""

    scorer: Scorer
    vocabulary: Vocabulary
    category_pairs: CategoryPairs

    def scores(self, forest: Forest, forms: Sequence[str]) -> np.ndarray:
        """float64 [K]: the scores of all candidates of a sentence of words as in the lexicon."""
        rows = self.vocabulary.rows(forms)
        return self.scorer.forest_scores(forest, rows, self.category_pairs).astype(np.float64)


def train_latent(
    trees: Sequence[Tree], grammar: Grammar, config: TrainingConfig, progress: bool
) -> tuple[LatentGrammar, ...]:
    """Train the grammars with latent substates, each from its own seed, in parallel."""

    def train(number: int) -> LatentGrammar:
        names, seed = grammar.pcfg.categories, config.seed * 1000 + number
        return estimate_latent(trees, grammar.heads, names, cycles=config.cycles, seed=seed)

    grammars = in_order(train, range(config.latent_grammars), job_count(config.n_jobs))
    bar = tqdm(
        grammars,
        desc="latent grammars",
        total=config.latent_grammars,
        disable=not progress or not config.latent_grammars,
    )
    return tuple(bar)


def jackknifed_hypergraphs(
    trees: Sequence[Tree],
    grammar: Grammar,
    vectors: WordVectors | None,
    config: TrainingConfig,
    progress: bool,
) -> list[tuple[int, HypergraphArrays]]:
    """The likely trees of each sentence under a grammar that has not seen it.

    Returns:
        The number of each sentence that need not be divided, and its hypergraph.
    """
    heads, made = head_table(config.heads), []
    search = Search(exact=config.exact)
    bar = tqdm(total=len(trees), desc="hypergraphs", unit="sentence", disable=not progress)
    with bar:
        for block in blocks(len(trees), min(JACKKNIFE, len(trees))):
            others = [*trees[: block.start], *trees[block.stop :]] or trees
            own = estimate(others, heads, vectors=vectors, seed=config.seed)
            decoder = Decoder(with_categories(own, grammar), search)

            def parts(i: int, decoder: Decoder = decoder) -> list[HypergraphArrays]:
                graphs = decoder.hypergraphs(words(trees[i]), window=WINDOW)
                return [graph.arrays() for _, graph in graphs]

            for i, graphs in zip(
                block, in_order(parts, block, job_count(config.n_jobs)), strict=True
            ):
                if len(graphs) == 1:
                    made.append((i, graphs[0]))
                bar.update()
    return made


def fit_mixture(
    trees: Sequence[Tree],
    vectors: WordVectors | None,
    grammar: Grammar,
    config: TrainingConfig,
    stage: Stage,
) -> Mixture:
    """Train the latent grammars and the span scorer on a training set.

    Args:
        trees: cleaned ones.
        vectors: the given word vectors, or None.
        grammar: estimated from the trees.
        config: the settings.
        stage: where the unfinished state is kept.
    """
    latent = train_latent(trees, grammar, config, stage.progress)
    spans = encoder = None
    if config.scorer == "span":
        encoder = load_encoder(config.encoder) if config.encoder else None
        spans = _train_spans(trees, vectors, grammar, encoder, config, stage)
    return Mixture(latent, spans, encoder if spans else None)


def _train_spans(
    trees: Sequence[Tree],
    vectors: WordVectors | None,
    grammar: Grammar,
    encoder: Encoder | None,
    config: TrainingConfig,
    stage: Stage,
) -> SpanModel | None:
    """The span scorer, or None if no sentence of the training set has a tree in the hypergraphs."""
    pcfg, forms = grammar.pcfg, grammar.lexicon.forms
    number = {name: c for c, name in enumerate(pcfg.categories)}
    graphs = jackknifed_hypergraphs(trees, grammar, vectors, config, stage.progress)
    if not graphs:
        _LOG.warning("no training sentence can be parsed in one part: there is no span scorer")
        return None
    n_jobs, encoded = job_count(config.n_jobs), None
    if encoder is not None:
        sentences = [words(tree) for tree in trees]
        encoded = cached_vectors(
            encoder, sentences, cache_folder(config.cache), n_jobs=n_jobs, progress=stage.progress
        )
    examples = []
    for i, graph in graphs:
        source = None if encoded is None else partial(encoded.__getitem__, i)
        example = SpanExample.of(graph, trees[i], number, source)
        examples.append(replace(example, tokens=forms.lookup(example.tokens)))
    tags = np.unique(pcfg.category[grammar.lexicon.states()]).tolist()
    tables = SpanFeatures.build(
        (example.tokens for example in examples), tags, grammar.lexicon.tagger.vectors
    )
    size = None if encoded is None else (encoded[0].shape[1], encoded[0].shape[2])
    initial = initial_span_parameters(
        tables, len(pcfg.categories), encoder=size, treebank=size is None, seed=config.seed
    )
    settings = SpanSettings(config.span_epochs, seed=config.seed)
    file, key = stage.work.state_file(f"spans-{stage.name}"), stage.key
    start = SpanState.start(tables, initial)
    state = load_span_state(file, key, start) or start
    for now in span_epochs(state, examples, settings, n_jobs=n_jobs, progress=stage.progress):
        if now.diverged is not None:
            raise DivergedError(f"training of the span scorer diverged in epoch {now.epoch}")
        save_span_state(file, now, key)
    return SpanModel(state.parameters, tables)


@dataclass(frozen=True)
class Candidates:
    """Candidate lists of held-out sentences with all scores.

    Attributes:
        parses: of each sentence.
        counts: brackets of its candidates.
        rnn: the SU-RNN's scores of its candidates.
        grammars: number of grammars whose scores are added.
        has_spans: whether there is a span scorer.
    """

    parses: Sequence[MixtureParse]
    counts: Sequence[BracketCounts]
    rnn: Sequence[np.ndarray]
    grammars: int
    has_spans: bool

    def weights(self) -> list[tuple[float, float]]:
        """The weights (β, of the SU-RNN) to try, in the order of the grid."""
        rnn = RNN_WEIGHTS if self.has_spans else (1.0,)
        return [(beta / self.grammars, weight) for beta in BETAS for weight in rnn]

    def choices(self, beta: float, rnn_weight: float) -> list[int]:
        """The candidate of each sentence with the best score."""
        return [
            int(np.argmax(parse.span_score + beta * parse.forest.logp + rnn_weight * rnn))
            for parse, rnn in zip(self.parses, self.rnn, strict=True)
        ]

    def oracle(self) -> np.ndarray:
        """Matched, test and gold brackets of the best candidates: int64 [3]."""
        best = [(c, int(c.f1().argmax())) for c in self.counts]
        return np.sum([(c.matched[i], c.test[i], c.gold) for c, i in best], axis=0)

    def brackets(self) -> np.ndarray:
        """Matched, test and gold brackets of the chosen trees: int64 [weights, 3]."""
        totals = []
        for beta, rnn_weight in self.weights():
            chosen = zip(self.counts, self.choices(beta, rnn_weight), strict=True)
            totals.append(np.sum([(c.matched[i], c.test[i], c.gold) for c, i in chosen], axis=0))
        return np.array(totals, np.int64)


def list_candidates(
    grammar: Grammar,
    mixture: Mixture,
    network: Network,
    trees: Sequence[Tree],
    config: TrainingConfig,
    beta: float | None = None,
) -> Candidates:
    """List and score the candidates of held-out trees.

    Args:
        grammar, mixture, network: score the candidates.
        trees: cleaned ones.
        config: the settings.
        beta: weight of the grammars' score by which the best candidates are listed; None for one
            in the middle of those that are tried.
    """
    grammars, categories = 1 + len(mixture.latent), grammar.pcfg.categories
    beta = FIRST_BETA / grammars if beta is None else beta
    search = Search(exact=config.exact)
    decoder = MixtureDecoder(grammar, mixture.latent, mixture.spans, beta, search)

    def scored(tree: Tree) -> tuple[MixtureParse, BracketCounts, np.ndarray]:
        tokens = words(tree)
        vectors = None
        if mixture.encoder is not None:
            vectors = token_vectors(mixture.encoder, [tokens])[0]
        parse = decoder.parse(tokens, config.candidates, vectors)
        rnn = network.scores(parse.forest, grammar.lexicon.forms.lookup(tokens))
        return parse, bracket_counts(parse.forest, tree, categories), rnn

    made = list(in_order(scored, trees, job_count(config.n_jobs)))
    parses, counts, rnn = zip(*made, strict=True)
    return Candidates(parses, counts, rnn, grammars, mixture.spans is not None)


def select(parts: Sequence[Candidates]) -> tuple[tuple[float, float], float, float]:
    """The weights (β, of the SU-RNN) with the best F1 on all parts together.

    Returns:
        The weights, their F1, and that of the best candidates.
    """
    weights = parts[0].weights()
    brackets = np.sum([part.brackets() for part in parts], axis=0)
    place = best_weights(weights, brackets)
    oracle = np.sum([part.oracle() for part in parts], axis=0)
    return weights[place], float(f1_of(brackets)[place]), float(f1_of(oracle))


def best_weights(weights: Sequence[tuple[float, float]], brackets: np.ndarray) -> int:
    """The place of the weights with the best F1, as the mean over them and their neighbours.

    One setting of many is the best by chance; the mean of its neighbourhood is less so.

    Args:
        weights: a grid, the second weight running fastest.
        brackets: [weights, 3]; summed over the folds, if there are any.
    """
    columns = len({weight for _, weight in weights})
    f1 = f1_of(brackets).reshape(-1, columns)
    padded = np.pad(f1, 1, constant_values=np.nan)
    around = [
        padded[i : i + f1.shape[0], j : j + f1.shape[1]] for i in range(3) for j in range(3)
    ]
    return int(np.nanmean(around, axis=0).argmax())


def is_mixture(config: TrainingConfig) -> bool:
    """Whether a run trains more than the base PCFG and the SU-RNN."""
    return config.scorer == "span" or config.latent_grammars > 0
