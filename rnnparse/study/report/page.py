"""The report of a study: one page that explains, and a table for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from rnnparse.errors import MissingExtraError
from rnnparse.files import write_atomically
from rnnparse.study.diagnosis import EVIDENCE, RULES
from rnnparse.study.manifest import require_own
from rnnparse.study.report.causes import causes
from rnnparse.study.report.narrative import (
    basis,
    best_card,
    best_of_each,
    counted,
    duration,
    expected_trials,
    failures,
    label_counts,
    lead,
    reasons,
    warnings,
)
from rnnparse.study.report.page_data import ReportData, script_json
from rnnparse.study.report.results import Results, Source, load_results, readable, text

REPORT, TABLE = "report.html", "report.csv"
TEMPLATES = Path(__file__).parent / "templates"
_SCRIPTS = (
    *("dom.js", "data.js", "chart.js", "curves.js", "heatmap.js", "detail.js", "table.js"),
    "page.js",
)
_METHODS = (
    "Dev F1 is that of a trial's best epoch. The objective is the end of the line through the last "
    "half of its curve. Other numbers are those of the last epoch. Trials that did not finish have "
    "none.",
    "A setting is all trials that differ in the seed only: its numbers are means with 95 % "
    "intervals (Student's t), its diagnosis is the most frequent one.",
    "“Within noise of the best”: the 95 % interval of the difference in dev F1 has 0 in it. It "
    "comes from a paired bootstrap over the sentences of the development set, and over the seeds "
    "where there are several; without counts by sentence, from the seeds (Welch). As the best of "
    "many is so partly by luck, intervals and p-values allow for the number of the others "
    "(Bonferroni): the setting that is truly best is not called worse in 95 % of studies.",
    "Seconds of a setting are those of its epochs, the mean of its seeds, without what a process "
    "needs to start; of the whole trial where epochs do not tell. The seconds in all are of whole "
    "trials.",
    "Where a trial diverged, what goes beyond ten times the start of the others (a hundred times "
    "on a logarithmic axis) and beyond all others is cut off; ↑ has the greatest value of the "
    "line.",
    "Long curves are drawn together in stretches, as their mean with the least and the greatest "
    "value. Colours of the map go from the best value to the worst, or to what is three times as "
    "far from the best as the middle one.",
)


def write_report(study: Source) -> Path:
    """Write `report.html` of a study: a single file, which needs no network.

    Args:
        study: its folder, or its results; its trials need not all have ended.

    Returns:
        The path of the report.

    Raises:
        MissingExtraError: Jinja2 is not installed.
        StudyError: there is no study, it is damaged, or a file of something else has that name.

    Example:
        >>> write_report("study")
        PosixPath('study/report.html')
    """
    template = _template()
    results = load_results(study)
    path = results.folder / REPORT
    require_own(path, b"which settings converge, and why the others do not</title>")
    parts = (readable(part).encode("utf-8") for part in template.generate(_context(results)))
    write_atomically(path, lambda file: file.writelines(parts))
    return path


def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("jinja2", "study") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _context(results: Results) -> dict[str, Any]:
    from markupsafe import Markup

    data = ReportData(results)
    return {
        "name": results.about["name"],
        "facts": list(_facts(results)),
        "lead": lead(results),
        "basis": basis(results),
        "best": best_card(results),
        "warnings": warnings(results),
        "counts": label_counts(results),
        "reasons": reasons(results),
        "causes": causes(results),
        "each": best_of_each(results),
        "failures": failures(results),
        "rules": RULES,
        "methods": _METHODS,
        "origins": list(_origins(results)),
        "shown": bool(results.records),
        "convex": "bound" in data.series["epochs"],
        "several": any(len(row["trials"]) > 1 for row in results.settings),
        "stretched": any(n > data.points for ns in data.lengths.values() for n in ns),
        "alike": any(results.alike),
        "example": _example(results),
        "study": Markup(script_json(data.study())),
        "details": (Markup(line) for line in data.details()),
        "scripts": _SCRIPTS,
    }


def _facts(results: Results) -> Iterator[str]:
    """What stands under the title."""
    about, records = results.about, results.records
    ended, expected = len(records), expected_trials(results)
    yield f"{ended} of {expected} trials" if ended < expected else counted(ended, "trial")
    yield counted(len(results.settings), "setting")
    seeds = sorted({record["seed"] for record in records})
    if len(seeds) > 1:
        yield f"{len(seeds)} seeds"
    yield f"{duration(sum(record['seconds'] for record in records))} in all"
    yield f"begun {datetime.fromisoformat(about['created']):%Y-%m-%d %H:%M %Z}"


def _origins(results: Results) -> Iterator[tuple[str, str]]:
    """Where the numbers come from."""
    about = results.about
    if about.get("command"):
        yield "command", about["command"]
    for name, value in about["space"]["fixed"].items():
        yield f"{name} (all trials)", text(value)
    for name, version in about["versions"].items():
        yield name, version
    for name, found in (about["data"] or {}).items():
        yield f"hash of {name}", text(found)
    hosts = sorted({record["host"] for record in results.records} - {""})
    if hosts:
        yield "ran on", ", ".join(hosts)


def _example(results: Results) -> str:
    """What can be written into the filter."""
    axes = [results.axes[i] for i in results.varying[:2]]
    return " ".join(f"{axis.name}={text(axis.values[0])}" for axis in axes)


def write_csv(study: Source) -> Path:
    """Write `report.csv` of a study: a line for each trial, with its diagnosis and the evidence.

    Columns are `id`, the axes, `seed`, `status`, `diagnosis`, `advice`, `error`, `seconds`, then
    `final_…` for what the trial ended with, and `evidence_…`.

    Args:
        study: its folder, or its results.

    Returns:
        The path of the table.

    Raises:
        StudyError: there is no study, it is damaged, or a file of something else has that name.
    """
    results = load_results(study)
    path = results.folder / TABLE
    require_own(path, b",seed,status,diagnosis,advice,error,seconds,")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_columns(results))
    writer.writerows(_line(results, trial) for trial in range(len(results.records)))
    write_atomically(path, lambda file: file.write(readable(text.getvalue()).encode("utf-8")))
    return path


def _columns(results: Results) -> list[str]:
    return [
        "id",
        *(axis.name for axis in results.axes),
        *("seed", "status", "diagnosis", "advice", "error", "seconds"),
        *(f"final_{metric.name}" for metric in results.metrics),
        *(f"evidence_{name}" for name in EVIDENCE),
    ]


def _line(results: Results, trial: int) -> list[Any]:
    """The cells of a trial, in the order of the columns."""
    record, found = results.records[trial], results.diagnoses[trial]
    error = record["error"]
    return [
        record["id"],
        *(_cell(record["config"].get(axis.name)) for axis in results.axes),
        *(record["seed"], record["status"], found.label, found.advice),
        f"{error['type']}: {error['message']}" if error else None,
        record["seconds"],
        *(results.value(trial, metric.name) for metric in results.metrics),
        *(found.evidence.get(name) for name in EVIDENCE),
    ]


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else text(value)
