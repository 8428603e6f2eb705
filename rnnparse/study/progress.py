"""The progress bar and the table that a study shows on the terminal."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from rnnparse.study.schema import STATUSES, Entry, Metric
from rnnparse.study.search_space import Trial, varying

_SECONDS = 1.0  # between two updates of the table
_RUNNING, _ENDED = 8, 4  # rows of the table


class Progress:
    """A progress bar; on a terminal also a table of running trials and of the latest that ended.

    Args:
        trials: all trials of the study.
        ended: the entries of those that have ended before.
        metric: by which the best trial is chosen.
        heartbeats: folder of heartbeat files, which running trials name by their ids; or None.
        show: False to show nothing.
        file: where to write; None for standard error.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        ended: Iterable[Entry],
        metric: Metric,
        heartbeats: Path | None,
        *,
        show: bool = True,
        file: TextIO | None = None,
    ) -> None:
        self.metric, self.heartbeats, self.file = metric, heartbeats, file or sys.stderr
        self._trials = {trial.id: trial for trial in trials}
        self._varying = varying(trials)
        self._counts: Counter[str] = Counter()
        self._best: tuple[str, float | None] = ("", None)
        self._ended: deque[list[str]] = deque(maxlen=_ENDED)
        for entry in ended:
            self._count(entry)
        self._show = show
        self._table = show and self.file.isatty()
        self._stop = threading.Event()

    def __enter__(self) -> Progress:
        self._bar = tqdm(
            total=len(self._trials),
            initial=sum(self._counts.values()),
            desc="trials",
            unit="trial",
            disable=not self._show,
            file=self.file,
            dynamic_ncols=True,
            smoothing=0,
        )
        self._rows: list[tqdm] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._bar.set_postfix_str(self._summary())
        if self._table:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._table:
            self._thread.join()
        for row in reversed(self._rows):
            row.close()
        self._bar.close()

    def note(self, entry: Entry) -> None:
        """Count a trial that has just ended."""
        self._count(entry)
        value = _number(entry.latest(self.metric.name))
        self._ended.append([entry.status, *self._cells(entry.id), str(entry.count), value])
        self._bar.set_postfix_str(self._summary(), refresh=False)
        self._bar.update()

    def _count(self, entry: Entry) -> None:
        value = entry.latest(self.metric.name)
        rank = self.metric.rank
        self._counts[entry.status] += 1
        if entry.status == "finished" and rank(value) < rank(self._best[1]):
            self._best = entry.id, value

    def _summary(self) -> str:
        parts = [f"{self._counts[status]} {status}" for status in STATUSES if self._counts[status]]
        if self._best[0]:
            settings = " ".join(self._cells(self._best[0]))
            parts.append(f"best {self.metric.name} {_number(self._best[1])}: {settings}")
        return "; ".join(parts)

    def _watch(self) -> None:
        while True:
            self._draw(self.table())
            if self._stop.wait(_SECONDS):
                return

    def _draw(self, lines: Sequence[str]) -> None:
        columns = shutil.get_terminal_size().columns - 1
        while len(self._rows) < len(lines):
            place = 1 + len(self._rows)
            self._rows.append(
                tqdm(total=0, position=place, bar_format="{desc}", leave=False, file=self.file)
            )
        for i, row in enumerate(self._rows):
            row.set_description_str(lines[i][:columns] if i < len(lines) else "")

    def table(self) -> list[str]:
        """The lines of the table: names, running trials, the latest trials that have ended."""
        names = ["", *self._varying, "updates", self.metric.name]
        rows = [names, *self._running()[:_RUNNING], *list(self._ended)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]

    def _running(self) -> list[list[str]]:
        rows = []
        for path in sorted(self.heartbeats.iterdir()) if self.heartbeats else ():
            with contextlib.suppress(OSError, ValueError):  # just removed, or being written
                latest = json.loads(path.read_text(encoding="utf-8"))
                value = _number(latest.get(self.metric.name))
                rows.append(["running", *self._cells(path.name), str(latest["updates"]), value])
        return rows

    def _cells(self, trial_id: str) -> list[str]:
        """The settings of a trial, for the axes that vary."""
        trial = self._trials.get(trial_id)
        if trial is None:
            return []
        return [_number(trial.settings.get(name)) for name in self._varying]


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
