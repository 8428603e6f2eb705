"""A study: train with every setting of a search space, in parallel, and record every curve."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cloudpickle
import msgspec

from rnnparse.errors import ConfigError, StudyError
from rnnparse.executors import check_backend
from rnnparse.study.curve import plain
from rnnparse.study.manifest import STUDY, check_about, read_study, write_study
from rnnparse.study.pool import BACKENDS, Runner, open_pool
from rnnparse.study.progress import Progress
from rnnparse.study.records import RecordFile, canonical, data_hash
from rnnparse.study.schema import FAILURES, Entry, Metric
from rnnparse.study.search_space import Space, Trial
from rnnparse.study.worker import Task, versions
from rnnparse.threads import job_count


@dataclass(frozen=True)
class Plan:
    """What `Study.run` would do.

    Attributes:
        trials: those that would run, in the order in which they would start.
        ended: how many trials have a record.
        n_jobs: trials at once; 0 for one per core of a cluster.
        seconds: an estimate of the run time; None if there is no basis for one.
    """

    trials: list[Trial]
    ended: int
    n_jobs: int
    seconds: float | None


class Study:
    """Runs a function for all configurations and seeds of a space, and records a curve for each.

    A trial that has finished never runs again. A study that was stopped or killed resumes, and one
    whose space has grown runs what is new. A trial that raises an error, runs out of memory or
    diverges is recorded as such, and the others go on.

    Args:
        space: the settings and seeds; a mapping gives lists of values, and the seed is 0.
        objective_fn: called as `objective_fn(config, seed)` in another process, in which TensorFlow
            has one thread. It returns a `Curve` or a Keras `History`, or yields entries for
            `Curve.add`, which are shown at once and end when the trial diverges. It seeds its
            random generators itself. It may be a lambda or a local function: it is pickled with
            whatever it refers to.
        folder: where the study is stored; see `rnnparse.study.records`.
        backend: `processes` on this machine, or `ray` or `dask` for a cluster.
        n_jobs: trials at once; 0 or -1 for one per processor core.
        address: of the cluster; None starts one on this machine.
        name: of the study; None for the name of the folder.
        data: hashes of the data, by names such as `train`; a study resumes only with the same.
        sizes: for reports, the number of examples in each part of the data.
        gold: for reports, the number of gold brackets in each dev sentence.
        baselines: for reports, by name, values of the metric without any training.
        metric: name of the metric by which trials are compared, such as `dev_f1`.
        maximize: whether higher values of the metric are better.
        cost: estimated seconds of a trial, given its config; for `plan`. Once trials have ended,
            estimates are scaled to their run time.
        command: the command that resumes the study, for messages and the report.
        trial_command: returns the command that repeats a trial by itself, for the report.
        retry: run trials again, once, that failed or ran out of memory.
        by_content: fixed settings that may change as long as `data` does not, such as paths.

    Raises:
        ConfigError: an unknown backend, a function that cannot be pickled, or text that is not
            Unicode.

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
        n_jobs: int = 0,
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
        check_backend(backend, n_jobs, address, BACKENDS)
        self.space = space if isinstance(space, Space) else Space(space)
        self.folder, self.file = Path(folder), RecordFile(folder)
        self.trials, self.metric = self.space.trials(), Metric(metric, maximize)
        self.backend, self.n_jobs, self.address = backend, n_jobs, address
        self.cost, self.retry, self.by_content = cost, retry, by_content
        self._about = {
            "name": name or self.folder.resolve().name,
            "space": self.space.to_dict(),
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(),
            "data": plain(dict(data or {})),
            "sizes": _finite(sizes),
            "gold": plain(gold),
            "baselines": _finite(baselines),
            "metric": msgspec.to_builtins(self.metric),
            "command": command,
            "trials": [trial.id for trial in self.trials],
            "commands": {t.id: trial_command(t) for t in self.trials if trial_command},
        }
        check_about(self._about)
        self._data = data_hash(self._about["data"])
        self._function = _pickled(objective_fn)

    def __repr__(self) -> str:
        return f"Study({str(self.folder)!r}, {len(self.trials)} trials)"

    def run(self, progress: bool = True) -> list[dict[str, Any]]:
        """Run the trials that have no record.

        Args:
            progress: show a progress bar and, on a terminal, a table of trials on standard error.

        Returns:
            The records of all trials of the space, in the order of `Space.trials`.

        Raises:
            StudyError: the folder is in use or damaged or holds a study of other data; or workers
                cannot load the function.
            KeyboardInterrupt: on Ctrl-C; the records so far are kept.
        """
        with self.file:
            old = self.check()
            about = dict(self._about)
            if old is not None:
                about["created"] = old["created"]
                # Trials that the space no longer has keep their commands.
                about["commands"] = {**old.get("commands", {}), **about["commands"]}
            write_study(self.folder, about)
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
        """All records of the folder, including those of trials that the space no longer has."""
        return self.file.load()

    def plan(self) -> Plan:
        """What `run` would do, and an estimate of how long it would take.

        The estimate is the mean run time of the trials that have finished, or `cost` scaled to it.
        """
        ended, _ = self._ended()
        waiting = [trial for trial in self.trials if trial.id not in ended]
        local = self.backend == "processes"
        n_jobs = job_count(self.n_jobs) if local else max(self.n_jobs, 0)
        timed = [entry for entry in ended.values() if entry.status == "finished"]
        costs = self._seconds(waiting, timed)
        seconds = None
        if costs is not None:
            seconds = max([sum(costs) / max(n_jobs, 1), *costs], default=0.0)
        return Plan(waiting, len(self.trials) - len(waiting), n_jobs, seconds)

    def check(self) -> dict[str, Any] | None:
        """Check that the folder has no study of other data or settings.

        Returns:
            What `study.json` has; None without it.

        Raises:
            StudyError: it has other data or settings.
        """
        if not (self.folder / STUDY).exists():
            return None
        old = read_study(self.folder)
        _require_same(self.folder, "data", old["data"] or {}, self._about["data"])
        before, now = (
            {name: value for name, value in fixed.items() if name not in self.by_content}
            for fixed in (self.space.with_present_names(old["space"]["fixed"]), self.space.fixed)
        )
        _require_same(self.folder, "settings", before, now)
        return old

    def _ended(self) -> tuple[dict[str, Entry], set[str]]:
        """The entries of trials that have ended, by id, and the ids of trials to retry."""
        entries = {entry.id: entry for entry in self.file.entries()}
        if self._data is not None and any(e.data != self._data for e in entries.values()):
            raise StudyError(f"{self.folder}: its records are of other data; give another folder")
        failed = {name for name, entry in entries.items() if entry.status in FAILURES}
        again = {trial.id for trial in self.trials if trial.id in failed} if self.retry else set()
        return {name: entry for name, entry in entries.items() if name not in again}, again

    def _seconds(self, trials: Iterable[Trial], timed: Sequence[Entry]) -> list[float] | None:
        """The estimated run time of each trial."""
        total = sum(entry.seconds for entry in timed)
        if self.cost is None:
            return [total / len(timed) for _ in trials] if timed else None
        expected = sum(self.cost(dict(entry.config)) for entry in timed)
        factor = total / expected if timed and expected else 1.0
        return [factor * self.cost(dict(trial.config)) for trial in trials]

    def _run(self, waiting: Sequence[Trial], ended: Sequence[Entry], show: bool) -> None:
        with _one_interrupt(), ExitStack() as stack:
            heartbeats = None
            if self.backend == "processes":
                folder = TemporaryDirectory(prefix="rnnparse-", ignore_cleanup_errors=True)
                heartbeats = Path(stack.enter_context(folder))
            pool = stack.enter_context(open_pool(self.backend, self.n_jobs, self.address))
            progress = stack.enter_context(
                Progress(self.trials, ended, self.metric, heartbeats, show=show)
            )

            def make_task(trial: Trial) -> Task:
                local = (str(heartbeats / trial.id), os.getpid()) if heartbeats else ()
                return Task(trial, self._function, self._data, *local)

            def keep(record: dict[str, Any]) -> None:
                progress.note(self.file.append(record))

            try:
                Runner(pool, make_task, keep).run(waiting)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(self._how_to_resume()) from None

    def _how_to_resume(self) -> str:
        ids = {trial.id for trial in self.trials}
        count = sum(entry.id in ids for entry in self.file.entries())
        command = f": {self._about['command']}" if self._about["command"] else ""
        return (
            f"{count} of {len(ids)} trials are kept in {self.folder}; the same command runs the "
            f"others{command}"
        )


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Let Ctrl-C interrupt only once: a second one would break off the shutdown of the workers."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or before is not signal.default_int_handler:
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


def _finite(numbers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Numbers in plain types, without those that are not finite."""
    known = {name: plain(number) for name, number in (numbers or {}).items()}
    return {name: number for name, number in known.items() if number is not None}


def _pickled(function: Callable[..., Any]) -> bytes:
    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        raise ConfigError(
            f"the trial function cannot be pickled for other processes: {type(error).__name__}: "
            f"{error}"
        ) from None


def _require_same(
    folder: Path, what: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    for name in {**before, **now}:
        if canonical(before.get(name)) != canonical(now.get(name)):
            raise StudyError(
                f"{folder}: its study has other {what}: {name} was {before.get(name)}, now it is "
                f"{now.get(name)}; give another folder"
            )
