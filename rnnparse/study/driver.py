"""Runs trials on a pool of workers until each has a record, also those that kill their workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rnnparse.errors import StudyError
from rnnparse.study.curve import Curve
from rnnparse.study.pool import Pool, WorkerDied
from rnnparse.study.records import make_record
from rnnparse.study.search_space import Trial
from rnnparse.study.worker import Task, versions

_ATTEMPTS = 3


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
        """Run trials, which start in their order.

        Raises:
            StudyError: no worker lives long enough to begin a trial.
        """
        waiting = deque(trials)
        while waiting:
            left, died = self._attempt(waiting)
            begun = self._begun(left)
            suspects = begun or left
            waiting.extendleft(reversed([trial for trial in left if trial not in suspects]))
            if died is not None and len(begun) == 1:
                self._blame(begun[0], died)
            else:
                for trial in suspects:
                    self._run_alone(trial)

    def _run_alone(self, trial: Trial) -> None:
        for _ in range(_ATTEMPTS):
            left, died = self._attempt(deque([trial]), alone=True)
            if not left:
                return
            if self._begun(left) and died is not None:
                self._blame(trial, died)
                return
        raise StudyError(f"workers die before they begin a trial: {died or 'without a word'}")

    def _attempt(
        self, waiting: deque[Trial], alone: bool = False
    ) -> tuple[list[Trial], WorkerDied | None]:
        """Run trials until a worker dies.

        Returns:
            The trials that were taken and have no record, and how the worker died. Now and then
            joblib just stops when one has, without a word. It throws away the records that nobody
            has read by then, which is some hundredths of a second's: these trials run again.
        """
        taken: dict[str, Trial] = {}
        try:
            with closing(self.pool.run(self._tasks(waiting, taken), alone=alone)) as records:
                for record in records:
                    del taken[record["id"]]
                    self.keep(record)
        except WorkerDied as died:
            return list(taken.values()), died
        return list(taken.values()), None

    def _tasks(self, waiting: deque[Trial], taken: dict[str, Trial]) -> Iterator[Task]:
        while waiting:
            trial = waiting.popleft()
            taken[trial.id] = trial
            yield self.make_task(trial)

    def _begun(self, taken: Sequence[Trial]) -> list[Trial]:
        """Those of the trials that had begun, by their signs, which are removed.

        Those that give no signs are among them.
        """
        begun = []
        for trial in taken:
            sign = self.make_task(trial).sign
            if sign is None or Path(sign).exists():
                begun.append(trial)
            if sign is not None:
                Path(sign).unlink(missing_ok=True)
        return begun

    def _blame(self, trial: Trial, died: WorkerDied) -> None:
        self.keep(
            make_record(
                trial.config,
                trial.seed,
                died.status,
                Curve(),
                error=died.error,
                data=self.make_task(trial).data,
                versions=versions(),
            )
        )
