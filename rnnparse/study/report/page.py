"""The report of a study: a single page with its findings, map, curves and configurations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from rnnparse.errors import MissingExtraError
from rnnparse.files import write_atomically
from rnnparse.study.diagnosis import RULES
from rnnparse.study.manifest import require_own
from rnnparse.study.report import narrative
from rnnparse.study.report.causes import causes
from rnnparse.study.report.formatting import counted, duration, readable, value_text
from rnnparse.study.report.layout import best_of_each
from rnnparse.study.report.page_data import ReportData, script_json
from rnnparse.study.report.results import Results, Source, load_results
from rnnparse.study.report.wording import say, say_difference, say_traits

REPORT = "report.html"
TEMPLATES = Path(__file__).parent / "templates"
_SCRIPTS = (
    *("dom.js", "data.js", "picture.js", "chart.js", "curves.js", "heatmap.js", "detail.js"),
    *("table.js", "page.js"),
)
_METHODS = (
    "Dev F1 is that of a trial's best epoch. The objective is the end of the line through the last "
    "half of its curve. Other metrics are those of the last epoch. Trials that did not finish have "
    "no metrics.",
    "A configuration has one trial per seed. Its metrics are means over these trials with 95 % "
    "intervals (Student's t). Its diagnosis is the most frequent one.",
    "The best configuration is compared with every other by dev F1, with a paired bootstrap over "
    "the sentences of the dev set and over the seeds. Intervals and p-values are adjusted for the "
    "number of configurations (Bonferroni): with a probability of at least 95 %, the truly best "
    "configuration is within noise of the one that seems best. Without counts by sentence, "
    "Welch's test compares the seeds.",
    "Axes explain shares of the variance between configurations. Where axes vary together, as when "
    "each optimizer has its own rates, their joint share is divided between them, so shares sum to "
    "at most 100 %.",
    "Seconds are the time of the epochs, or of the whole trial if epochs are not timed. The total "
    "counts whole trials.",
    "Where a trial diverged, the axis ends at ten times the start of the other trials (a hundred "
    "times if it is logarithmic), or at the highest value of the others. ↑ gives the greatest "
    "value of a line that leaves the chart.",
    "Long curves are divided into bins, each drawn as its mean, minimum and maximum. Colours of "
    "the map go from the best value to the worst, or to the value three times as far from the best "
    "as the median.",
)


def write_report(study: Source) -> Path:
    """Write `report.html` of a study: a single file that works offline.

    Args:
        study: its folder, or its results. Trials may still be running.

    Returns:
        The path of the report.

    Raises:
        MissingExtraError: Jinja2 is not installed.
        StudyError: there is no study, it is damaged, or another program's file has that name.

    Example:
        >>> write_report("study")
        PosixPath('study/report.html')
    """
    template = _template()
    results = load_results(study)
    path = results.folder / REPORT
    require_own(path, b" converge, and why the others do not</title>")  # of any version
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
    environment.filters |= {
        "say": say,
        "say_difference": say_difference,
        "say_traits": say_traits,
        "value": value_text,
    }
    return environment.get_template("report.html.j2")


def _context(results: Results) -> dict[str, Any]:
    from markupsafe import Markup

    data = ReportData(results)
    settings = results.settings
    return {
        "results": results,
        "facts": list(_facts(results)),
        "narrative": narrative,
        "reasons": narrative.reasons(results),
        "causes": causes(results),
        "each": best_of_each(results),
        "failures": narrative.failures(results),
        "rules": RULES,
        "methods": _METHODS,
        "origins": list(_origins(results)),
        "convex": "bound" in data.series["epochs"],
        "several": any(len(setting.trials) > 1 for setting in settings),
        "binned": data.binned,
        "compared": any(setting.comparison for setting in settings),
        "alike": bool(results.near),
        "study": Markup(script_json(data.study())),
        "details": (Markup(line) for line in data.details()),
        "scripts": _SCRIPTS,
    }


def _facts(results: Results) -> Iterator[str]:
    """The line below the title."""
    records, missing = results.records, results.missing
    ended = f"{len(records)} of {len(records) + missing} trials"
    yield ended if missing else counted(len(records), "trial")
    yield counted(len(results.settings), "configuration")
    seeds = {record["seed"] for record in records}
    if len(seeds) > 1:
        yield f"{len(seeds)} seeds"
    yield f"{duration(sum(record['seconds'] for record in records))} in total"
    yield f"started {datetime.fromisoformat(results.about['created']):%Y-%m-%d %H:%M %Z}"


def _origins(results: Results) -> Iterator[tuple[str, str]]:
    """Where the numbers come from."""
    about = results.about
    if about.get("command"):
        yield "command", about["command"]
    for name, value in about["space"]["fixed"].items():
        yield f"{name} (all trials)", value_text(value)
    yield from about["versions"].items()
    for name, value in (about["data"] or {}).items():
        yield f"hash of {name}", value_text(value)
    hosts = sorted({record["host"] for record in results.records} - {""})
    if hosts:
        yield "ran on", ", ".join(hosts)
