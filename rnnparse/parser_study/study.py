"""Studies of the parser: a grid of training settings on one treebank."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rnnparse.config import TrainingConfig
from rnnparse.files import make_writable
from rnnparse.parser_study.grid import Grid
from rnnparse.parser_study.shared_forests import hashes, prepare_problem
from rnnparse.parser_study.train_command import train_command
from rnnparse.parser_study.trial import ParserTrial
from rnnparse.study.diagnosis import diagnose_all
from rnnparse.study.manifest import read_study
from rnnparse.study.records import LOCK, RecordFile
from rnnparse.study.report.formatting import counted
from rnnparse.study.report.narrative import whole_batches
from rnnparse.study.report.results import Results
from rnnparse.study.report.settings import Setting
from rnnparse.study.report.wording import say
from rnnparse.study.study import Plan, Study
from rnnparse.training.data import read_data
from rnnparse.trees.cleaning import words

LOSS_AXES = ("objective", "kappa")
"""Axes that change the loss function: losses with different values are not comparable."""

# CPU seconds, measured in 2024 on 3,253 sentences of the Penn Treebank: per word and epoch with 100
# candidates per sentence, a constant and a part per vector component; per word of k-best lists; per
# update.
_WORD, _COMPONENT, _LIST = 5e-6, 3.3e-7, 1.4e-3
_UPDATE = {"sgd": 0.005, "adagrad": 0.008, "adam": 0.02}
_OTHER_UPDATE = 0.01

START_SECONDS = 5.0
"""About how long a process takes to load TensorFlow."""


class Size(NamedTuple):
    """The size of the data of a study.

    Attributes:
        sentences: number of training sentences.
        words: number of words in both parts.
        data: hashes of the parts; None if unknown.
    """

    sentences: int
    words: int
    data: dict[str, str] | None = None


@dataclass(frozen=True)
class ParserStudy:
    """A study of a grid. It may train the best configurations again until dev F1 stops rising.

    Args:
        grid: the settings; its `fixed` settings name the treebank, the dev part and so on.
        folder: of the study.
        cache: folder for k-best lists and forests, which all workers must be able to read; None
            for the user's cache folder.
        plateau: 0, or the maximal number of epochs of a second part, which trains the best setting
            of each optimizer again, until dev F1 has not risen for `patience` epochs.
        backend, n_jobs, address, command, retry: as for `Study`; the second part retries nothing.

    Example:
        >>> grid = Grid.from_options({}, preset="quick", fixed={"treebank": "mine.mrg"})
        >>> records = ParserStudy(grid, "study").run()
    """

    grid: Grid
    folder: str | os.PathLike[str]
    cache: str | None = None
    plateau: int = 0
    backend: str = "processes"
    n_jobs: int = 0
    address: str | None = None
    command: str | None = None
    retry: bool = False

    @property
    def config(self) -> TrainingConfig:
        """The settings that all trials share."""
        here: dict[str, Any] = {"n_jobs": self.n_jobs if self.backend == "processes" else 0}
        if self.cache is not None:
            here["cache"] = self.cache
        return TrainingConfig.from_dict(
            {"dim": self.grid.axes["dim"][0], **self.grid.fixed, **here}
        )

    def run(
        self, progress: bool = True, note: Callable[[str], None] = lambda text: None
    ) -> list[dict[str, Any]]:
        """Make the forests, unless they are in the cache, and run the trials without a record.

        Args:
            progress: show progress on standard error.
            note: called with a line about each next step.

        Returns:
            The records of all trials.

        Raises:
            RnnparseError: the data cannot be read; or as for `Study.run`.
            KeyboardInterrupt: on Ctrl-C; the records so far are kept.
        """
        # What would stop the study stops it now, not after the lists are made.
        folder = Path(self.folder)
        is_new = not folder.exists()
        make_writable(folder)
        if is_new:
            folder.rmdir()
        elif (folder / LOCK).exists():
            with RecordFile(folder):
                pass
        problem = prepare_problem(self.config, progress)
        known = ("data", "sizes", "gold", "baselines")
        about: dict[str, Any] = {name: getattr(problem, name) for name in known}
        study = self._study(self.grid, problem.path, retry=self.retry, **about)
        for finding in whole_batches(self.grid.axes["batch_size"], problem.sizes["train"]):
            note(f"note: {say(finding)}")
        plan = study.plan()
        note(f"{counted(len(plan.trials), 'trial')} to go, {plan.ended} have ended")
        records = study.run(progress)
        if self.plateau:
            note(f"the best configuration of each optimizer again, for up to {self.plateau} epochs")
            further = plateau_settings(records, problem.gold, self.plateau, self.config.patience)
            grid = replace(self.grid, further=further)
            records = self._study(grid, problem.path, **about).run(progress)
        return records

    def size(self) -> Size:
        """Read the data to measure their size. Raises RnnparseError if they cannot be read."""
        trees, dev, vectors = read_data(self.config)
        count = sum(len(words(tree)) for tree in [*trees, *dev])
        return Size(len(trees), count, hashes(trees, dev, vectors))

    def plan(self, size: Size) -> tuple[Plan, float]:
        """What `run` would do, and an upper bound of the seconds that the second part takes.

        Estimates are based on the trials that have ended, or else on `training_seconds`.

        Raises:
            StudyError: the folder has a study of other data or settings.
        """
        candidates = self.config.candidates

        def cost(config: Mapping[str, Any]) -> float:
            return training_seconds(config, size, candidates)

        study = self._study(self.grid, Path(), cost=cost, retry=self.retry, data=size.data)
        if size.data is not None:
            study.check()
        first = study.plan()
        if not self.plateau:
            return first, 0.0
        if first.trials:
            slowest = {c["optimizer"]: c for c in sorted(self.grid.configs(), key=cost)}
            further = [{**config, "epochs": self.plateau} for config in slowest.values()]
        else:
            records = {record["id"]: record for record in study.records()}
            ended = [records[trial.id] for trial in study.trials]
            gold = read_study(self.folder)["gold"]
            further = plateau_settings(ended, gold, self.plateau, self.config.patience)
        grid = replace(self.grid, further=further)
        both = self._study(grid, Path(), cost=cost, retry=self.retry).plan()
        return first, (both.seconds or 0.0) - (first.seconds or 0.0)

    def _study(self, grid: Grid, path: Path, **more: Any) -> Study:
        return Study(
            grid,
            ParserTrial(path, self.config),
            self.folder,
            backend=self.backend,
            n_jobs=self.n_jobs,
            address=self.address,
            metric="dev_f1",
            maximize=True,
            command=self.command,
            trial_command=lambda trial: train_command(
                trial.config, seed=trial.seed, fixed=grid.fixed
            ),
            by_content=("treebank", "dev", "style", "vectors"),
            **more,
        )


def plateau_settings(
    records: Sequence[Mapping[str, Any]], gold: Sequence[int] | None, epochs: int, patience: int
) -> list[dict[str, Any]]:
    """The setting of each optimizer to train further, with other epochs and patience.

    Of the settings whose dev F1 is within noise of the best, that is the one with the least loss:
    steps too short to change any tree also keep dev F1 where it was.

    Args:
        records: in a reproducible order, as from `Study.run`; the first of equal settings wins.
        gold: the number of gold brackets in each dev sentence.
        epochs, patience: of the returned settings.
    """
    scored = {"name": "dev_f1", "maximize": True}
    about: dict[str, Any] = {"space": {"axes": {}}, "gold": gold, "metric": scored}
    settings = []
    for optimizer in dict.fromkeys(record["config"]["optimizer"] for record in records):
        own = [record for record in records if record["config"]["optimizer"] == optimizer]
        setting = _farthest(Results(Path(), about, own, diagnose_all(own)))
        if setting is not None:
            settings.append({**setting.config, "epochs": epochs, "patience": patience})
    return settings


def _farthest(results: Results) -> Setting | None:
    """Of the best setting and those within noise of it with a comparable loss: the least loss."""
    best = results.best
    if best is None or results.metrics[0].name != "dev_f1":
        return None

    def loss(setting: Setting) -> float:
        ended = [results.records[i] for i in setting.trials]
        ends = [r["epochs"][-1].get("loss") for r in ended if r["status"] == "finished"]
        return math.inf if None in ends else sum(ends) / len(ends)

    scale = [best.config.get(name) for name in LOSS_AXES]
    near = [x for x in results.near if [x.config.get(name) for name in LOSS_AXES] == scale]
    return min([best, *near], key=loss)


def training_seconds(config: Mapping[str, Any], size: Size, candidates: int) -> float:
    """Estimated CPU seconds of a training run.

    Args:
        config: of the trial.
        size: of its data.
        candidates: the number of candidates per sentence.
    """
    word = (_WORD + _COMPONENT * config["dim"]) * math.sqrt(candidates / 100)
    updates = math.ceil(size.sentences / config["batch_size"])
    update = _UPDATE.get(config["optimizer"], _OTHER_UPDATE)
    return float(config["epochs"] * (word * size.words + updates * update))


def list_seconds(size: Size) -> float:
    """Estimated CPU seconds for making the k-best lists."""
    return _LIST * size.words
