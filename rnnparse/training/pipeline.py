"""A training run from treebank to model folder."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from nltk.tree import Tree

from rnnparse.config import TrainingConfig
from rnnparse.divergence import describe
from rnnparse.errors import DivergedError
from rnnparse.evaluation import evaluate
from rnnparse.files import write_json
from rnnparse.grammar.unknown import WordVectors
from rnnparse.inference.decoder import Parse
from rnnparse.inference.forest import candidate_tree
from rnnparse.model_folder import check_place, new_model_folder, write_model
from rnnparse.models.frozen_weights import check_fields
from rnnparse.models.parameters import Parameters
from rnnparse.models.vectors import read_vectors
from rnnparse.parser import Parser
from rnnparse.telemetry.tensorboard import TensorBoardLog
from rnnparse.training.checkpoint import TrainingState, load_state, save_state
from rnnparse.training.data import fingerprint, hold_out, load_clean, require_two
from rnnparse.training.kbest_cache import cache_folder
from rnnparse.training.places import check_places
from rnnparse.training.prepare import Lists, Problem, head_table, make_lists, make_problem
from rnnparse.training.run_directory import Workspace, is_written
from rnnparse.training.trainer import (
    BETAS,
    best_epoch,
    check_optimizer,
    choose,
    f1_of,
    score_all,
    train_network,
)
from rnnparse.trees.cleaning import words
from rnnparse.trees.embedded import embedded_treebank
from rnnparse.version import __version__

_LOG = logging.getLogger("rnnparse")


@dataclass
class TrainingReport:
    """What a run gave; scores in per cent by EVALB's rules on dev (or the folds).

    `diverged` is the epoch in which training diverged, or None; the history ends before it.
    `glued` and `dev_glued` count the sentences that the grammar could not span, whose lists hold
    trees glued from parts; with folds, `dev_glued` counts over all folds.
    """

    model: str
    sentences: int
    dev_sentences: int
    base_f1: float = 0.0
    cvg_f1: float = 0.0
    oracle_f1: float = 0.0
    beta: float = 0.0
    epochs: int = 0
    best_epoch: int = 0
    diverged: int | None = None
    glued: int = 0
    dev_glued: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return dict(vars(self))

    def format_table(self) -> str:
        """The closing table of `rnnparse train`."""
        rows = [
            ("base PCFG F1", f"{self.base_f1:.2f}"),
            ("CVG F1", f"{self.cvg_f1:.2f}"),
            ("oracle F1 of the k-best lists", f"{self.oracle_f1:.2f}"),
            ("weight of log P (beta)", f"{self.beta:g}"),
            ("epochs (best)", f"{self.epochs} ({self.best_epoch})"),
            *([] if self.diverged is None else [("diverged in epoch", str(self.diverged))]),
            ("sentences, train / dev", f"{self.sentences} / {self.dev_sentences}"),
            ("glued lists, train / dev", f"{self.glued} / {self.dev_glued}"),
            *((f"seconds, {stage}", f"{s:.1f}") for stage, s in self.seconds.items()),
            ("seconds in all", f"{sum(self.seconds.values()):.1f}"),
            ("model", self.model),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


class _Run:
    """The stages of one run, with what they share."""

    def __init__(self, config: TrainingConfig, work: Workspace, progress: bool) -> None:
        self.config, self.work, self.progress = config, work, progress
        self.report = TrainingReport("", 0, 0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage."""
        began = time.perf_counter()
        yield
        self.report.seconds[name] = time.perf_counter() - began

    def read(self) -> tuple[list[Tree], list[Tree], WordVectors | None]:
        trees, dev, vectors = read_data(self.config)
        self.report.sentences, self.report.dev_sentences = len(trees), len(dev)
        return trees, dev, vectors

    def lists(self, train: list[Tree], dev: list[Tree], vectors: WordVectors | None) -> Lists:
        cache = cache_folder(self.config.cache)
        return make_lists(
            train, dev, vectors, self.config, cache, jobs=self.config.jobs, progress=self.progress
        )

    def train(
        self, problem: Problem, key: str, name: str, epochs: int | None = None
    ) -> TrainingState:
        """Train the network, saving the state after every epoch under `name`."""
        file = self.work.state_file(name)
        betas = len(BETAS) if problem.tuning else 0
        state = load_state(file, key, problem.initial, betas=betas)
        if state is not None:
            self._log(name, state)  # the run may have ended before it did
        board = TensorBoardLog(self.config.tensorboard, name)

        def on_epoch(state: TrainingState) -> None:
            save_state(file, state, key)
            self._log(name, state)
            board.write(state)

        done = train_network(
            problem.initial,
            problem.store,
            problem.tuning,
            self.config,
            state=state,
            # A fold may lack a row that the whole treebank has.
            frozen=problem.frozen(self.config.freeze, strict=name == "network"),
            epochs=epochs,
            on_epoch=on_epoch,
            progress=self.progress,
            what="SU-RNN" if name == "network" else f"SU-RNN {name}",
        )
        board.close()
        if done.diverged is not None:
            self._log(name, done)  # its telemetry shows how
            self._report_divergence(done.diverged, len(done.history))
        return done

    def _report_divergence(self, entry: Mapping[str, Any], before: int) -> None:
        """Note the epoch in which training diverged; DivergedError if none came before it."""
        epoch = int(entry["epoch"])
        message = describe(self.config, epoch, entry["objective"], before)
        if not before:
            raise DivergedError(message)
        _LOG.warning("%s", message)
        self.report.diverged = min(self.report.diverged or epoch, epoch)

    def _log(self, name: str, state: TrainingState) -> None:
        self.work.log(name, state.history)
        if state.telemetry:
            file = "telemetry" if name == "network" else f"telemetry-{name}"
            self.work.log(file, state.telemetry)

    def parser(self, lists: Lists, problem: Problem, parameters: Parameters, beta: float) -> Parser:
        about = {
            "version": __version__,
            "config": {
                name: value
                for name, value in self.config.to_dict().items()
                if name not in _NOT_DECISIVE
            },
            "dev_scores": {
                name: getattr(self.report, name) for name in ("base_f1", "cvg_f1", "oracle_f1")
            },
            "epoch": self.report.best_epoch,
            "sentences": self.report.sentences,
        }
        return Parser(
            lists.grammar,
            problem.vocabulary,
            problem.keys,
            parameters,
            beta,
            self.config.kbest,
            about,
        )


def read_data(
    config: TrainingConfig,
) -> tuple[list[Tree], list[Tree], WordVectors | None]:
    """Training trees, development trees (none with folds) and word vectors of a run."""
    dev: list[Tree] = []
    if config.treebank is None:
        trees = load_clean(str(embedded_treebank("train")))
        if not config.dev and not config.folds:
            dev = load_clean(str(embedded_treebank("dev")))
    else:
        trees = load_clean(config.treebank, config.style)
    if config.dev:
        dev = load_clean(config.dev, config.style)
    elif config.folds:
        require_two(trees)
    elif not dev:
        trees, dev = hold_out(trees, config.seed)
    return trees, dev, read_word_vectors(config)


def read_word_vectors(config: TrainingConfig) -> WordVectors | None:
    """The given word vectors, with a note where they have another size than the model's."""
    if not config.vectors:
        return None
    names, matrix = read_vectors(config.vectors)
    if matrix.shape[1] != config.dim:
        _LOG.warning(
            "%s: vectors of %d components are fitted to --dim %d%s",
            config.vectors,
            matrix.shape[1],
            config.dim,
            " by PCA" if matrix.shape[1] > config.dim else "",
        )
    return WordVectors(tuple(names), matrix)


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
    A run that was stopped at any moment and goes on with `resume` gives the same bytes as one
    that was not.

    Args:
        config: the settings.
        out: the model folder.
        resume: go on from `<out>.partial`; without it, that folder is begun anew.
        overwrite: whether a model at `out` is replaced at the end. Anything else never is.
        progress: whether to show progress bars on standard error.

    Raises:
        RnnparseError: input that cannot be read, a setting that cannot be met, an `out` that is
            in use or cannot be written.
    """
    folder = Path(out).resolve()
    # A run that was killed right at its end has written the model already.
    overwrite = overwrite or (resume and is_written(folder))
    check_place(folder, overwrite)
    check_optimizer(config)
    check_fields(config.freeze)
    check_places(config, folder)
    with closing(Workspace(folder, resume)) as work:
        run = _Run(config, work, progress)
        run.report.model = os.fspath(out)
        parser = _stages(run)
        with new_model_folder(folder, overwrite) as new:
            with run.stage("saving"):
                write_model(parser, new)
            write_json(new / "report.json", run.report.to_dict())
            work.copy_logs(new)
        work.finish()
    return run.report


def _stages(run: _Run) -> Parser:
    """Everything up to the trained parser."""
    config = run.config
    with run.stage("reading"):
        trees, dev, vectors = run.read()
        description = _describe(config, trees, dev, vectors)
        run.work.agree(description)
    with run.stage("grammar and lists"):
        lists = run.lists(trees, dev, vectors)
        run.report.glued, run.report.dev_glued = _glued(lists.train), _glued(lists.dev)
    with run.stage("forests"):
        problem = make_problem(lists, trees, dev, vectors, config)
        problem.frozen(config.freeze)  # an error at once, not after the folds
    key = fingerprint(description)
    with run.stage("SU-RNN"):
        if config.folds:
            parameters, beta = _train_with_folds(run, trees, vectors, problem, key)
        else:
            parameters, beta = _train_with_dev(run, lists, dev, problem, key)
    _warn_of_glued(run.report)
    return run.parser(lists, problem, parameters, beta)


_SOURCES = (
    "treebank",
    "dev",
    "style",
    "vectors",
    "heads",
)  # settings whose content decides, not the name
_NOT_DECISIVE = ("jobs", "cache", "tensorboard", "telemetry")  # without effect on the model


def _describe(
    config: TrainingConfig, trees: list[Tree], dev: list[Tree], vectors: WordVectors | None
) -> dict[str, Any]:
    """All that decides what a run gives, ready for JSON."""
    settings = config.to_dict()
    return {
        "version": __version__,
        "training trees": fingerprint(trees),
        "development trees": fingerprint(dev),
        "word vectors": vectors and fingerprint(vectors.words, vectors.matrix),
        "head rules": fingerprint(head_table(config.heads).to_text()),
        **{name: settings[name] for name in settings if name not in _SOURCES + _NOT_DECISIVE},
    }


def _glued(parses: Sequence[Parse]) -> int:
    return sum(parse.glued for parse in parses)


def _warn_of_glued(report: TrainingReport) -> None:
    if report.glued or report.dev_glued:
        _LOG.warning(
            f"the grammar does not span {report.glued} of {report.sentences} training and "
            f"{report.dev_glued} of {report.dev_sentences} dev sentences: their trees are glued"
        )


def _train_with_dev(
    run: _Run, lists: Lists, dev: list[Tree], problem: Problem, key: str
) -> tuple[Parameters, float]:
    state = run.train(problem, key, "network")
    best = best_epoch(state.history)
    beta = float(state.history[best - 1]["beta"])
    report = run.report
    report.epochs, report.best_epoch, report.beta = len(state.history), best, beta
    report.history = state.history
    assert problem.tuning is not None
    scores = score_all(state.best, problem.tuning.store)
    picks = {
        "base_f1": np.zeros(len(dev), np.int64),
        "cvg_f1": choose(scores, problem.tuning.store, beta),
        "oracle_f1": np.array([int(c.f1().argmax()) for c in problem.tuning.counts]),
    }
    for name, pick in picks.items():
        trees = [
            candidate_tree(parse.forest, int(r), words(tree), lists.grammar.pcfg.categories)
            for parse, r, tree in zip(lists.dev, pick, dev, strict=True)
        ]
        setattr(report, name, evaluate(dev, trees).summary()["f1"] or 0.0)
    return state.best, beta


def _train_with_folds(
    run: _Run, trees: list[Tree], vectors: WordVectors | None, problem: Problem, key: str
) -> tuple[Parameters, float]:
    """Choose epoch and β on all folds together, then train on everything for so many epochs."""
    config = run.config
    folds = min(config.folds, len(trees))
    totals = np.zeros((config.epochs, len(BETAS), 3), np.int64)
    base, oracle = np.zeros(3, np.int64), np.zeros(3, np.int64)
    epochs = config.epochs  # that no fold's training diverged in
    for fold in range(folds):
        held = trees[fold::folds]
        rest = [tree for i, tree in enumerate(trees) if i % folds != fold] or trees
        lists = run.lists(rest, held, vectors)
        run.report.dev_glued += _glued(lists.dev)
        part = make_problem(lists, rest, held, vectors, config)
        assert part.tuning is not None
        state = run.train(part, f"{key}-{fold}", f"fold-{fold + 1}", config.epochs)
        epochs = min(epochs, len(state.history))
        totals[:epochs] += np.array([e["dev_brackets"] for e in state.history[:epochs]])
        for counts in part.tuning.counts:
            best = int(counts.f1().argmax())
            base += (counts.matched[0], counts.test[0], counts.gold)
            oracle += (counts.matched[best], counts.test[best], counts.gold)
    f1 = f1_of(totals[:epochs])
    epoch = int(f1.max(axis=1).argmax())
    final = run.train(replace(problem, tuning=None), key, "network", epoch + 1)
    epoch = len(final.history) - 1  # an earlier one where training diverged now
    at = int(f1[epoch].argmax())
    report = run.report
    report.base_f1, report.oracle_f1 = float(f1_of(base)), float(f1_of(oracle))
    report.cvg_f1, report.beta = float(f1[epoch, at]), BETAS[at]
    report.epochs, report.best_epoch = epochs, epoch + 1
    report.dev_sentences, report.history = len(trees), final.history
    return final.best, BETAS[at]
