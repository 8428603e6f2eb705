"""What a study shows on the terminal while it runs."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from rnnparse.study.curve import Curve
from rnnparse.study.schema import STATUSES
from rnnparse.study.search_space import Trial

_SECONDS = 1.0  # between two looks at the running trials
_RUNNING, _ENDED = 8, 4  # rows of the table


class Metric:
    """A quantity of curves by which trials are compared, such as dev F1.

    Args:
        name: of the quantity, as epochs or updates have it; the latest value counts.
        maximize: whether more is better.
    """

    def __init__(self, name: str = "objective", maximize: bool = False) -> None:
        self.name, self.maximize = name, maximize

    def of(self, record: Mapping[str, Any]) -> float | None:
        """The latest value in a record, or None."""
        return Curve(record["updates"], record["epochs"]).last(self.name)

    def better(self, value: float | None, than: float | None) -> bool:
        """Whether a value is the better one; anything is better than None."""
        if value is None or than is None:
            return value is not None
        return value > than if self.maximize else value < than


class Progress:
    """A bar with the time left, and on a terminal a table of running trials and the latest ended.

    Args:
        trials: all of the study, those too that have ended before.
        ended: id, status and value of those.
        metric: by which the best trial is chosen.
        signs: folder in which running trials leave signs of life under their ids, or None.
        show: False to show nothing.
        file: where to write.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        ended: Iterable[Mapping[str, Any]],
        metric: Metric,
        signs: Path | None,
        *,
        show: bool = True,
        file: TextIO | None = None,
    ) -> None:
        self.metric, self.signs, self.file = metric, signs, file or sys.stderr
        self._trials = {trial.id: trial for trial in trials}
        self._varying = _varying(trials)
        self._counts: Counter[str] = Counter()
        self._best: tuple[str, float | None] = ("", None)
        self._ended: list[list[str]] = []
        for head in ended:
            self._count(head["id"], head["status"], head["value"])
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

    def note(self, record: Mapping[str, Any]) -> None:
        """Take note of a trial that has ended."""
        value = self.metric.of(record)
        self._count(record["id"], record["status"], value)
        updates = max(map(len, record["updates"].values()), default=0)
        row = [record["status"], *self._cells(record["id"]), str(updates), _number(value)]
        self._ended = [*self._ended, row][-_ENDED:]
        self._bar.set_postfix_str(self._summary(), refresh=False)
        self._bar.update()

    def _count(self, trial: str, status: str, value: float | None) -> None:
        self._counts[status] += 1
        if status == "finished" and self.metric.better(value, self._best[1]):
            self._best = trial, value

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
        """The lines of the table: names, running trials, the latest that have ended."""
        names = ["", *self._varying, "updates", self.metric.name]
        rows = [names, *self._running()[:_RUNNING], *self._ended]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]

    def _running(self) -> list[list[str]]:
        if self.signs is None:
            return []
        rows = []
        for sign in sorted(self.signs.iterdir()):
            with contextlib.suppress(OSError, ValueError):  # it has just gone, or is being written
                numbers = json.loads(sign.read_text(encoding="utf-8"))
                value = _number(numbers.get(self.metric.name))
                rows.append(["running", *self._cells(sign.name), str(numbers["updates"]), value])
        return rows

    def _cells(self, trial: str) -> list[str]:
        """The settings of a trial that others do not share."""
        found = self._trials.get(trial)
        if found is None:
            return []
        values = {**found.config, "seed": found.seed}
        return [_number(values.get(name)) for name in self._varying]


def _varying(trials: Sequence[Trial]) -> list[str]:
    """The names of settings, and the seed, in which trials differ."""
    settings = [{**trial.config, "seed": trial.seed} for trial in trials]
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({str(values.get(name)) for values in settings}) > 1]


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
