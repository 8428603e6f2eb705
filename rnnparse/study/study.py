"""A study: trials over a space of settings, run in parallel, each with its curve on record."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import cloudpickle
from joblib import cpu_count

from rnnparse.errors import ConfigError, StudyError
from rnnparse.folders import remove_known
from rnnparse.study.curve import plain
from rnnparse.study.driver import Driver
from rnnparse.study.manifest import STUDY, check_about, read_study, write_study
from rnnparse.study.pool import check_backend, open_pool
from rnnparse.study.progress import Metric, Progress
from rnnparse.study.records import RecordFile, canonical, data_hash
from rnnparse.study.schema import FAILURES
from rnnparse.study.search_space import Space, Trial
from rnnparse.study.worker import Task, versions

_SIGNS = ".running"


@dataclass(frozen=True)
class Plan:
    """What `Study.run` would do.

    Attributes:
        trials: those without a record, in the order in which they would start.
        ended: how many trials have one.
        jobs: trials at once; 0 for as many as a cluster has cores.
        seconds: an estimate of the time that the trials take, or None if there is nothing to go
            by.
    """

    trials: list[Trial]
    ended: int
    jobs: int
    seconds: float | None


class Study:
    """Runs a function for all settings of a space, and records a curve for each.

    Finished trials are never run again: a study that was stopped, or killed, goes on where it was,
    and one whose space has grown runs what is new. A trial that raises, runs out of memory or
    diverges is recorded as such, and the others go on.

    Args:
        space: the settings and seeds; a mapping has lists of values, for the seed 0.
        objective_fn: called as `objective_fn(config, seed)`, in another process, which has one
            thread of TensorFlow. It returns a `Curve`, or what Keras's `fit` returns; or it yields
            what `Curve.add` takes, entry by entry, which is shown as it comes and is ended early if
            it diverges. It seeds what is random. It may be a lambda or a local function; what it
            needs is sent along.
        folder: where the study is kept; see `rnnparse.study.records`.
        backend: `processes` on this machine, or joblib's for a cluster, `ray` or `dask`.
        jobs: trials at once; 0 for one a core.
        address: of the cluster; None starts one on this machine.
        name: of the study; None for that of the folder.
        data: hashes of the data, by names such as `train`; a study goes on only with the same.
        sizes: for reports, how many examples each part of the data has, such as `train`.
        gold: brackets of each dev sentence, by which reports compare settings.
        baselines: for reports, by a name, what `measure` is without any training.
        metric: name of the metric by which the progress table compares trials, such as `dev_f1`.
        maximize: whether a higher value of it is better.
        cost: the seconds that a trial takes, from its config, up to a common factor if some
            trials have been timed; for `plan`.
        command: how to start the study again, for messages and the report.
        trial_command: the command that repeats a trial by itself, for the report.
        retry: run those trials again, too, that failed or ran out of memory, once.
        by_content: fixed settings that may change as long as `data` does not, such as paths.

    Raises:
        ConfigError: an unknown backend, a function that cannot be sent, or a name, path or other
            text that is not UTF-8.

    Example:
        >>> def descend(config, seed):
        ...     x = 1.0
        ...     for _ in range(20):
        ...         yield x * x
        ...         x -= config["rate"] * 2 * x
        >>> study = Study({"rate": [0.1, 0.5, 1.5]}, descend, "parabola")
        >>> {r["config"]["rate"]: r["status"] for r in study.run(progress=False)}
        {0.1: 'finished', 0.5: 'finished', 1.5: 'diverged'}
    """

    def __init__(
        self,
        space: Space | Mapping[str, Sequence[Any]],
        objective_fn: Callable[[dict[str, Any], int], Any],
        folder: str | os.PathLike[str],
        *,
        backend: str = "processes",
        jobs: int = 0,
        address: str | None = None,
        name: str | None = None,
        data: Mapping[str, str] | None = None,
        sizes: Mapping[str, int] | None = None,
        gold: Sequence[int] | None = None,
        baselines: Mapping[str, float] | None = None,
        metric: str = "objective",
        maximize: bool = False,
        cost: Callable[[dict[str, Any]], float] | None = None,
        command: str | None = None,
        trial_command: Callable[[Trial], str] | None = None,
        retry: bool = False,
        by_content: Container[str] = (),
    ) -> None:
        check_backend(backend, jobs, address)
        self.space = space if isinstance(space, Space) else Space(space)
        self.folder, self.file = Path(folder), RecordFile(folder)
        self.backend, self.jobs, self.address = backend, jobs, address
        self.name = name or self.folder.resolve().name
        self.data, self.gold, self.command = plain(dict(data or {})), plain(gold), command
        self.sizes, self.baselines = (_known(found or {}) for found in (sizes, baselines))
        self.metric, self.cost = Metric(metric, maximize), cost
        self.trials, self.retry, self.by_content = self.space.trials(), retry, by_content
        self.commands = {}
        if trial_command is not None:
            self.commands = {trial.id: trial_command(trial) for trial in self.trials}
        check_about(self._about(_now(), self.commands))
        self._function = _pickled(objective_fn)

    def run(self, progress: bool = True) -> list[dict[str, Any]]:
        """Run the trials that have no record.

        Args:
            progress: show a bar and, on a terminal, a table of trials on standard error.

        Returns:
            The records of all trials of the space, in the order of `Space.trials`.

        Raises:
            StudyError: the folder is in use or damaged, has a study of other data, or workers
                cannot load the function.
            KeyboardInterrupt: by Ctrl-C; the records so far are kept.
        """
        with self.file:
            self._describe()
            ended, again = self._ended()
            if again:
                self.file.remove(again)
            waiting = [trial for trial in self.trials if trial.id not in ended]
            if waiting:
                here = [ended[trial.id] for trial in self.trials if trial.id in ended]
                self._run(waiting, here, progress)
            records = {record["id"]: record for record in self.file.load()}
        return [records[trial.id] for trial in self.trials]

    def records(self) -> list[dict[str, Any]]:
        """All records of the folder, those too of trials that the space no longer has."""
        return self.file.load()

    def plan(self) -> Plan:
        """What `run` would do, and how long it would take.

        Seconds are the mean of the trials that have finished, or `cost`, scaled to them.
        """
        ended, _ = self._ended()
        waiting = [trial for trial in self.trials if trial.id not in ended]
        jobs = self.jobs or (cpu_count() if self.backend == "processes" else 0)
        timed = [head for head in ended.values() if head["status"] == "finished"]
        costs = self._seconds(waiting, timed)
        seconds = None
        if costs is not None:
            seconds = max([sum(costs) / max(jobs, 1), *costs], default=0.0)
        return Plan(waiting, len(self.trials) - len(waiting), jobs, seconds)

    def _ended(self) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """The heads of the records there are, by id, and the ids of trials to run again."""
        heads = {head["id"]: head for head in self.file.heads(self.metric.name)}
        expected = data_hash(self.data)
        if any(head["data"] != expected for head in heads.values()) and expected is not None:
            raise StudyError(f"{self.folder}: records there are of other data; give another folder")
        failed = {name for name, head in heads.items() if head["status"] in FAILURES}
        again = {trial.id for trial in self.trials if trial.id in failed} if self.retry else set()
        return {name: head for name, head in heads.items() if name not in again}, again

    def _seconds(
        self, trials: Iterable[Trial], timed: Sequence[Mapping[str, Any]]
    ) -> list[float] | None:
        """What each trial is likely to take."""
        total = sum(head["seconds"] for head in timed)
        if self.cost is None:
            return [total / len(timed) for _ in trials] if timed else None
        expected = sum(self.cost(dict(head["config"])) for head in timed)
        factor = total / expected if timed and expected else 1.0
        return [factor * self.cost(dict(trial.config)) for trial in trials]

    def check(self) -> str | None:
        """Raise StudyError where the folder has a study of other data or settings.

        Returns:
            When the study there was begun; None if there is none.
        """
        if not (self.folder / STUDY).exists():
            return None
        old = read_study(self.folder)
        _require_same(self.folder, "data", old["data"], self.data)
        before, now = (
            {name: value for name, value in fixed.items() if name not in self.by_content}
            for fixed in (old["space"]["fixed"], self.space.fixed)
        )
        _require_same(self.folder, "settings", before, now)
        return str(old["created"])

    def _describe(self) -> None:
        """Write what the study is about. StudyError where the folder has one of other data."""
        created = self.check()
        before = read_study(self.folder).get("commands", {}) if created else {}
        write_study(self.folder, self._about(created or _now(), {**before, **self.commands}))

    def _about(self, created: str, commands: Mapping[str, str]) -> dict[str, Any]:
        """What `study.json` says."""
        return {
            "name": self.name,
            "space": self.space.to_dict(),
            "created": created,
            "versions": versions(),
            "data": self.data,
            "sizes": self.sizes,
            "gold": self.gold,
            "baselines": self.baselines,
            "metric": {"name": self.metric.name, "maximize": self.metric.maximize},
            "command": self.command,
            "trials": [trial.id for trial in self.trials],
            "commands": dict(commands),
        }

    def _run(
        self, waiting: Sequence[Trial], ended: Sequence[Mapping[str, Any]], show: bool
    ) -> None:
        hashed = data_hash(self.data)
        with _one_interrupt(), ExitStack() as stack:
            pool = stack.enter_context(open_pool(self.backend, self.jobs, self.address))
            signs = stack.enter_context(self._signs()) if pool.local else None
            progress = stack.enter_context(
                Progress(self.trials, ended, self.metric, signs, show=show)
            )

            def make_task(trial: Trial) -> Task:
                if signs is None:
                    return Task(trial, self._function, hashed)
                return Task(trial, self._function, hashed, str(signs / trial.id), os.getpid())

            def keep(record: dict[str, Any]) -> None:
                self.file.append(record)
                progress.note(record)

            try:
                Driver(pool, make_task, keep).run(waiting)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(self._way_on()) from None

    @contextmanager
    def _signs(self) -> Iterator[Path]:
        """A folder for signs of life. One from before was left by a driver that was killed."""
        signs = self.folder / _SIGNS
        names = {trial.id for trial in self.trials}
        remove_known(signs, names.__contains__)
        signs.mkdir(exist_ok=True)
        try:
            yield signs
        finally:
            remove_known(signs, names.__contains__)

    def _way_on(self) -> str:
        ended = self.file.finished_ids() & {trial.id for trial in self.trials}
        how = f": {self.command}" if self.command else ""
        return (
            f"{len(ended)} of {len(self.trials)} trials are kept in {self.folder}; "
            f"the same command runs the others{how}"
        )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Let Ctrl-C interrupt once: another would break off the end of the workers, and hang."""
    before = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if not here or before is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _known(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as JSON has them, without those that are not finite."""
    found = {name: plain(number) for name, number in numbers.items()}
    return {name: number for name, number in found.items() if number is not None}


def _pickled(function: Callable[..., Any]) -> bytes:
    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        raise ConfigError(
            f"the trial function cannot be sent to other processes: {type(error).__name__}: {error}"
        ) from None


def _require_same(
    folder: Path, what: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    for name in {**before, **now}:
        if canonical(before.get(name)) != canonical(now.get(name)):
            raise StudyError(
                f"{folder}: the study there has other {what}: {name} was {before.get(name)}, now "
                f"it is {now.get(name)}; give another folder"
            )
