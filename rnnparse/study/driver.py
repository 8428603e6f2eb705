"""Runs trials on a pool of workers until each has a record, also those that kill their workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rnnparse.study.backends import Pool, WorkerDied
from rnnparse.study.curve import Curve
from rnnparse.study.records import make_record
from rnnparse.study.space import Trial
from rnnparse.study.worker import Task, versions


class Driver:
    """Runs trials; each ends in a record.

    When a worker dies, all workers are started anew. The trials that were running then are tried
    again one by one: who dies alone is to blame.

    Args:
        pool: the workers.
        make_task: what a worker is sent for a trial.
        keep: called with each record, at once.
    """

    def __init__(
        self,
        pool: Pool,
        make_task: Callable[[Trial], Task],
        keep: Callable[[dict[str, Any]], None],
    ) -> None:
        self.pool, self.make_task, self.keep = pool, make_task, keep

    def run(self, trials: Sequence[Trial]) -> None:
        """Run trials, which start in their order."""
        waiting = deque(trials)
        while waiting:
            taken: dict[str, Trial] = {}
            try:
                with closing(self.pool.run(self._tasks(waiting, taken))) as records:
                    for record in records:
                        del taken[record["id"]]
                        self.keep(record)
            except WorkerDied as died:
                suspects = self._suspects(list(taken.values()))
                others = [trial for trial in taken.values() if trial not in suspects]
                waiting.extendleft(reversed(others))
                if len(suspects) == 1:
                    self._blame(suspects[0], died)
                else:
                    self._try_alone(suspects)

    def _tasks(self, waiting: deque[Trial], taken: dict[str, Trial]) -> Iterator[Task]:
        while waiting:
            trial = waiting.popleft()
            taken[trial.id] = trial
            yield self.make_task(trial)

    def _suspects(self, taken: Sequence[Trial]) -> list[Trial]:
        """Those of the trials that were running: their signs are still there, if they give any."""
        running = []
        for trial in taken:
            sign = self.make_task(trial).sign
            if sign is not None and Path(sign).exists():
                Path(sign).unlink()
                running.append(trial)
        return running or list(taken)

    def _try_alone(self, suspects: Sequence[Trial]) -> None:
        for trial in suspects:
            try:
                with closing(self.pool.run([self.make_task(trial)], alone=True)) as records:
                    for record in records:
                        self.keep(record)
            except WorkerDied as died:
                self._blame(trial, died)

    def _blame(self, trial: Trial, died: WorkerDied) -> None:
        task = self.make_task(trial)
        if task.sign is not None:
            Path(task.sign).unlink(missing_ok=True)
        self.keep(
            make_record(
                trial.config,
                trial.seed,
                died.status,
                Curve(),
                error=died.error,
                data=task.data,
                versions=versions(),
            )
        )
