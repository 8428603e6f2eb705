"""A training run from treebank to model folder."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.divergence import describe
from rnnparse.errors import DivergedError
from rnnparse.evaluation import evaluate
from rnnparse.files import write_json
from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.unknown import WordVectors
from rnnparse.inference.decoder import Parse
from rnnparse.inference.forest import candidate_as
from rnnparse.model_folder import check_place, new_model_folder, write_model
from rnnparse.models.frozen_weights import check_fields
from rnnparse.models.parameters import Parameters
from rnnparse.models.scorer import Scorer
from rnnparse.parser import Parser
from rnnparse.telemetry.tensorboard import TensorBoardLog
from rnnparse.training.checkpoint import TrainingState, load_state, save_state
from rnnparse.training.data import blocks, fingerprint, read_data
from rnnparse.training.dev_selection import (
    BETAS,
    best_epoch,
    choose,
    f1_of,
    score_all,
    select_epochs,
)
from rnnparse.training.kbest_cache import CachedLists, cache_folder
from rnnparse.training.mixture_stage import (
    NO_MIXTURE,
    Candidates,
    Mixture,
    Network,
    Stage,
    fit_mixture,
    is_mixture,
    list_candidates,
    select,
)
from rnnparse.training.prepare import Lists, Problem, head_table, make_lists, make_problem
from rnnparse.training.report import TrainingReport
from rnnparse.training.run_directory import RunDirectory, check_places, is_written
from rnnparse.training.trainer import check_optimizer, training_epochs
from rnnparse.trees.cleaning import words
from rnnparse.trees.node import Node
from rnnparse.version import __version__

if TYPE_CHECKING:
    from nltk.tree import Tree

_LOG = logging.getLogger("rnnparse")

_BY_CONTENT = ("treebank", "dev", "style", "vectors", "heads")
"""Settings that identify a run by the content of the files, not by their names."""

_WITHOUT_EFFECT = ("n_jobs", "backend", "address", "cache", "tensorboard", "telemetry")
"""Settings that do not change the model."""


def train(
    config: TrainingConfig,
    out: str | os.PathLike[str],
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> TrainingReport:
    """Train a parser and write its model folder.

    The state of an unfinished run is kept in `<out>.partial`; k-best lists are kept in the cache.
    A run that was stopped at any moment and continues with `resume` gives the same bytes as one
    that was not.

    Args:
        config: the settings.
        out: the model folder.
        resume: continue from `<out>.partial`; otherwise that folder is cleared first.
        overwrite: whether to replace a model at `out` at the end. Anything else is never replaced.
        progress: whether to show progress bars on standard error.

    Raises:
        RnnparseError: input that cannot be read, a setting that cannot be met, or an `out` that is
            in use or cannot be written.
    """
    folder = Path(out).resolve()
    # A run that was killed right at its end has already written the model.
    overwrite = overwrite or (resume and is_written(folder))
    check_place(folder, overwrite)
    check_optimizer(config)
    check_fields(config.freeze)
    check_places(config, folder)
    with closing(RunDirectory(folder, resume)) as work:
        parser, report = _train_parser(config, work, os.fspath(out), progress)
        with new_model_folder(folder, overwrite) as new:
            with _timed(report.seconds, "saving"):
                write_model(parser, new)
            write_json(new / "report.json", report.to_dict())
            work.copy_logs(new)
        work.finish()
    return report


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - began


def _train_parser(
    config: TrainingConfig, work: RunDirectory, out: str, progress: bool
) -> tuple[Parser, TrainingReport]:
    """All stages up to the trained parser."""
    seconds: dict[str, float] = {}
    with _timed(seconds, "reading"):
        trees, dev, vectors = read_data(config)
        description = work.check_description(_describe(config, trees, dev, vectors))
    with _timed(seconds, "grammar and lists"):
        lists = _lists(trees, dev, vectors, config, progress)
    with _timed(seconds, "forests"):
        problem = make_problem(lists, trees, dev, vectors, config, cache_folder(config.cache))
        problem.frozen(config.freeze)  # an error at once, not after the folds
    run = _Run(config, work, fingerprint(description), progress)
    sentences = len(trees)
    with _timed(seconds, "SU-RNN"):
        if config.folds:
            fitted = _fit_with_folds(run, trees, vectors, problem)
        else:
            fitted = _fit_with_dev(run, lists, dev, problem)
    if is_mixture(config):
        with _timed(seconds, "latent grammars and span scorer"):
            fitted = _mixed(run, trees, dev, vectors, lists.grammar, problem, fitted)
    glued, divided = _partial(lists.train).tolist()
    dev_glued, dev_divided = fitted.dev_partial.tolist()
    report = TrainingReport(
        model=out,
        sentences=sentences,
        dev_sentences=fitted.dev_sentences,
        **fitted.scores,
        beta=fitted.beta,
        epochs=fitted.epochs,
        best_epoch=fitted.best_epoch,
        diverged=fitted.diverged,
        glued=glued,
        dev_glued=dev_glued,
        divided=divided,
        dev_divided=dev_divided,
        seconds=seconds,
        history=fitted.history,
    )
    _warn_of_partial(report)
    return _parser(config, lists, problem, fitted, sentences), report


def _describe(
    config: TrainingConfig, trees: list[Tree], dev: list[Tree], vectors: WordVectors | None
) -> dict[str, Any]:
    """Everything that decides the result of a run, ready for JSON."""
    settings = config.to_dict()
    return {
        "version": __version__,
        "training trees": fingerprint(trees),
        "development trees": fingerprint(dev),
        "word vectors": vectors and fingerprint(vectors.words, vectors.matrix),
        "head rules": fingerprint(head_table(config.heads).to_text()),
        **{n: settings[n] for n in settings if n not in _BY_CONTENT + _WITHOUT_EFFECT},
    }


def _lists(
    train: list[Tree],
    dev: list[Tree],
    vectors: WordVectors | None,
    config: TrainingConfig,
    progress: bool,
) -> Lists:
    cache = cache_folder(config.cache)
    return make_lists(train, dev, vectors, config, cache, n_jobs=config.n_jobs, progress=progress)


def _partial(parses: Sequence[Parse]) -> np.ndarray:
    """int64 [2]: how many sentences have glued trees, and how many of these were divided."""
    if isinstance(parses, CachedLists):  # they need not be read again
        return parses.flags.sum(axis=0)
    flags = [(parse.glued, parse.divided) for parse in parses]
    return np.array(flags, np.int64).reshape(-1, 2).sum(axis=0)


def _warn_of_partial(report: TrainingReport) -> None:
    train, dev = report.glued - report.divided, report.dev_glued - report.dev_divided
    if train or dev:
        _LOG.warning(
            f"the grammar does not span {train} of {report.sentences} training and {dev} of "
            f"{report.dev_sentences} dev sentences: their trees are glued"
        )
    if report.divided or report.dev_divided:
        _LOG.warning(
            f"{report.divided} training and {report.dev_divided} dev sentences exceeded the budget "
            "and were parsed in parts"
        )


@dataclass(frozen=True)
class _Run:
    """What all networks of a run share; `key` identifies data and settings in checkpoints."""

    config: TrainingConfig
    work: RunDirectory
    key: str
    progress: bool

    def stage(self, name: str, fold: int | None = None) -> Stage:
        """Where the mixture of the whole run, or of a fold, is kept."""
        key = self.key if fold is None else f"{self.key}-{fold}"
        return Stage(self.work, name, key, self.progress)


@dataclass(frozen=True)
class _Fitted:
    """The selected weights and β, and how they were selected; fields as in `TrainingReport`.

    Attributes:
        dev_partial: `dev_glued` and `dev_divided`.
    """

    parameters: Parameters
    beta: float
    rnn_weight: float
    scores: dict[str, float]
    epochs: int
    best_epoch: int
    diverged: int | None
    dev_sentences: int
    dev_partial: np.ndarray
    history: list[dict[str, Any]]
    mixture: Mixture = NO_MIXTURE


def _fit_with_dev(run: _Run, lists: Lists, dev: list[Tree], problem: Problem) -> _Fitted:
    """Train once; select epoch and β on dev."""
    state = _train_network(run, problem, run.config, "network", run.key)
    best = best_epoch(state.history)
    beta = float(state.history[best - 1]["beta"])
    assert problem.dev is not None
    choices = {
        "base_f1": np.zeros(len(dev), np.int64),
        "cvg_f1": choose(score_all(state.best, problem.dev.store), problem.dev.store, beta),
        "oracle_f1": np.array([int(c.f1().argmax()) for c in problem.dev.counts]),
    }
    return _Fitted(
        state.best,
        beta,
        1.0,
        {
            name: _evalb_f1(chosen, lists.dev, lists.grammar, dev)
            for name, chosen in choices.items()
        },
        epochs=len(state.history),
        best_epoch=best,
        diverged=_diverged([state]),
        dev_sentences=len(dev),
        dev_partial=_partial(lists.dev),
        history=state.history,
    )


def _mixed(
    run: _Run,
    trees: list[Tree],
    dev: list[Tree],
    vectors: WordVectors | None,
    grammar: Grammar,
    problem: Problem,
    fitted: _Fitted,
) -> _Fitted:
    """Add further grammars and the span scorer; select the weights of all scores.

    With folds, the weights are those selected on the folds, and only the final scorers are trained.
    """
    mixture = fit_mixture(trees, vectors, grammar, run.config, run.stage("network"))
    if run.config.folds:
        return replace(fitted, mixture=mixture)
    network = _network(fitted.parameters, problem)
    listed = list_candidates(grammar, mixture, network, dev, run.config)
    (beta, rnn_weight), *_ = select([listed])
    # The lists of the parser are those of the selected weights.
    listed = list_candidates(grammar, mixture, network, dev, run.config, beta)
    chosen = {
        "cvg_f1": np.array(listed.choices(beta, rnn_weight), np.int64),
        "oracle_f1": np.array([int(counts.f1().argmax()) for counts in listed.counts]),
    }
    scores = {
        name: _evalb_f1(places, listed.parses, grammar, dev) for name, places in chosen.items()
    }
    return replace(
        fitted, mixture=mixture, beta=beta, rnn_weight=rnn_weight, scores=fitted.scores | scores
    )


def _network(parameters: Parameters, problem: Problem) -> Network:
    return Network(Scorer(parameters), problem.vocabulary, problem.category_pairs)


def _evalb_f1(
    chosen: np.ndarray, parses: Sequence[Parse], grammar: Grammar, dev: list[Tree]
) -> float:
    """EVALB's F1 of the chosen candidates [S]."""
    categories = grammar.pcfg.categories
    trees = [
        candidate_as(Node, parse.forest, int(candidate), words(tree), categories)
        for parse, candidate, tree in zip(parses, chosen, dev, strict=True)
    ]
    return evaluate(dev, trees).summary()["f1"] or 0.0


def _fit_with_folds(
    run: _Run, trees: list[Tree], vectors: WordVectors | None, problem: Problem
) -> _Fitted:
    """Select epoch and weights on all folds together, then train on all trees that long."""
    config = run.config
    folds = min(config.folds, len(trees))
    to_the_end = replace(config, patience=config.epochs)
    states: list[TrainingState] = []
    tunings: list[Candidates] = []
    base, oracle = np.zeros(3, np.int64), np.zeros(3, np.int64)
    dev_partial = np.zeros(2, np.int64)
    for fold, block in enumerate(blocks(len(trees), folds)):
        held = trees[block.start : block.stop]
        rest = [*trees[: block.start], *trees[block.stop :]] or trees
        lists = _lists(rest, held, vectors, config, run.progress)
        dev_partial += _partial(lists.dev)
        part = make_problem(lists, rest, held, vectors, config, cache_folder(config.cache))
        assert part.dev is not None
        states.append(
            _train_network(run, part, to_the_end, f"fold-{fold + 1}", f"{run.key}-{fold}")
        )
        if is_mixture(config):
            stage = run.stage(f"fold-{fold + 1}", fold)
            mixture = fit_mixture(rest, vectors, lists.grammar, config, stage)
            network = _network(states[-1].best, part)
            tunings.append(list_candidates(lists.grammar, mixture, network, held, config))
        for counts in part.dev.counts:
            best = int(counts.f1().argmax())
            base += (counts.matched[0], counts.test[0], counts.gold)
            oracle += (counts.matched[best], counts.test[best], counts.gold)
    epochs = min(len(state.history) for state in states)  # in which no fold diverged
    brackets = [[e["dev_brackets"] for e in state.history[:epochs]] for state in states]
    f1 = f1_of(np.sum(brackets, axis=0))
    selected = int(f1.max(axis=1).argmax())
    final = _train_network(
        run, replace(problem, dev=None), replace(config, epochs=selected + 1), "network", run.key
    )
    last = len(final.history) - 1  # before `selected` if training diverged now
    beta = int(f1[last].argmax())
    f1s = {"base_f1": f1_of(base), "cvg_f1": f1[last, beta], "oracle_f1": f1_of(oracle)}
    weights = (BETAS[beta], 1.0)
    if tunings:
        weights, f1s["cvg_f1"], f1s["oracle_f1"] = select(tunings)
    return _Fitted(
        final.best,
        *weights,
        {name: float(value) for name, value in f1s.items()},
        epochs=epochs,
        best_epoch=last + 1,
        diverged=_diverged([*states, final]),
        dev_sentences=len(trees),
        dev_partial=dev_partial,
        history=final.history,
    )


def _train_network(
    run: _Run, problem: Problem, config: TrainingConfig, name: str, key: str
) -> TrainingState:
    """Train a network, or continue training it; the state is saved under `name` every epoch.

    Raises:
        DivergedError: training diverged in the first epoch.
    """
    file, work = run.work.state_file(name), run.work
    betas = len(BETAS) if problem.dev else 0
    state = load_state(file, key, problem.initial, betas=betas)
    if state is None:
        state = TrainingState.start(problem.initial)
    else:
        _log(work, name, state)  # the run may have been killed before it did
    training = training_epochs(
        state,
        problem.store,
        config,
        # A fold may lack a row that the whole treebank has.
        frozen=problem.frozen(config.freeze, strict=name == "network"),
        progress=run.progress,
        what="SU-RNN" if name == "network" else f"SU-RNN {name}",
    )
    epochs = select_epochs(training, problem.dev, config, state.history)
    with closing(TensorBoardLog(config.tensorboard, name)) as board:
        for state in epochs:
            if state.diverged is None:
                save_state(file, state, key)
                observed = [r for r in state.telemetry[-1:] if r["epoch"] == state.epoch]
                board.write(state.history[-1], *observed)
            _log(work, name, state)
    if state.diverged is not None:
        _report_divergence(config, state)
    return state


def _log(work: RunDirectory, name: str, state: TrainingState) -> None:
    work.log(name, state.history)
    if state.telemetry:
        work.log("telemetry" if name == "network" else f"telemetry-{name}", state.telemetry)


def _report_divergence(config: TrainingConfig, state: TrainingState) -> None:
    """Warn that training diverged; raise DivergedError if no epoch came before that."""
    assert state.diverged is not None
    before = len(state.history)
    message = describe(config, state.epoch, state.diverged["objective"], before)
    if not before:
        raise DivergedError(message)
    _LOG.warning("%s", message)


def _diverged(states: Sequence[TrainingState]) -> int | None:
    """The first epoch in which any of the networks diverged, or None."""
    return min((state.epoch for state in states if state.diverged is not None), default=None)


def _parser(
    config: TrainingConfig, lists: Lists, problem: Problem, fitted: _Fitted, sentences: int
) -> Parser:
    settings = config.to_dict()
    about = {
        "version": __version__,
        "config": {name: settings[name] for name in settings if name not in _WITHOUT_EFFECT},
        "dev_scores": fitted.scores,
        "epoch": fitted.best_epoch,
        "sentences": sentences,
    }
    encoder = fitted.mixture.encoder
    return Parser(
        lists.grammar,
        problem.vocabulary,
        problem.category_pairs,
        fitted.parameters,
        fitted.beta,
        config.candidates,
        about,
        fitted.mixture.latent,
        fitted.mixture.spans,
        fitted.rnn_weight,
        config.encoder if encoder else None,
        encoder.checksum if encoder else None,
    )
