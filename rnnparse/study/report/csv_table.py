"""The trials of a study as a table for other programs."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from rnnparse.files import write_atomically
from rnnparse.study.diagnosis import EVIDENCE
from rnnparse.study.manifest import require_own
from rnnparse.study.report.formatting import readable, value_text
from rnnparse.study.report.results import Results, Source, load_results

TABLE = "report.csv"
_COLUMNS = ("seed", "status", "diagnosis", "advice", "error", "seconds")


def write_csv(study: Source) -> Path:
    """Write `report.csv` of a study: a line for each trial, with its diagnosis and the evidence.

    Columns are `id`, the axes, `seed`, `status`, `diagnosis`, `advice`, `error`, `seconds`, then
    `final_…` for the metrics of the trial, and `evidence_…`.

    Args:
        study: its folder, or its results.

    Returns:
        The path of the table.

    Raises:
        StudyError: there is no study, it is damaged, or another program's file has that name.
    """
    results = load_results(study)
    path = results.folder / TABLE
    require_own(path, f",{','.join(_COLUMNS)},".encode())
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    axes = [axis.name for axis in results.axes]
    finals = [f"final_{metric.name}" for metric in results.metrics]
    writer.writerow(["id", *axes, *_COLUMNS, *finals, *(f"evidence_{name}" for name in EVIDENCE)])
    writer.writerows(_line(results, trial) for trial in range(len(results.records)))
    write_atomically(path, lambda file: file.write(readable(text.getvalue()).encode("utf-8")))
    return path


def _line(results: Results, trial: int) -> list[Any]:
    """The cells of a trial, in the order of the columns."""
    record, diagnosis = results.records[trial], results.diagnoses[trial]
    error = record["error"]
    return [
        record["id"],
        *(_cell(record["config"].get(axis.name)) for axis in results.axes),
        *(record["seed"], record["status"], diagnosis.label, diagnosis.advice),
        f"{error['type']}: {error['message']}" if error else None,
        record["seconds"],
        *(results.value(trial, metric.name) for metric in results.metrics),
        *(diagnosis.evidence.get(name) for name in EVIDENCE),
    ]


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else value_text(value)
