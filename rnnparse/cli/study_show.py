"""`rnnparse study show`: what a study has found, on the terminal."""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rnnparse.cli.console_text import columns, positive, print_json
from rnnparse.cli.study_report import load

if TYPE_CHECKING:
    from rnnparse.study.report.narrative import Failure
    from rnnparse.study.report.results import Results
    from rnnparse.study.report.settings import Setting

NAME = "show"
HELP = "print the results of a study, even while it runs"
DESCRIPTION = """\
Print the results of a study so far: how many configurations have each diagnosis, with advice for
the best of them; a table of the best configurations; the command that trains with the best one; and
notes on the limits of the results (noise, a single seed, a best value at the edge of the grid)."""
EPILOG = """\
examples:
  rnnparse study show question
  rnnparse study show question --rows 81 --advice
  rnnparse study show question --json
"""

_LINE = 88
_ROWS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="STUDY", help="a folder that rnnparse study run wrote")
    parser.add_argument(
        "--rows",
        type=positive,
        default=_ROWS,
        metavar="N",
        help=f"configurations in the table (default: {_ROWS})",
    )
    parser.add_argument(
        "--advice", action="store_true", help="add the advice for each configuration in the table"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with all configurations")


def run(args: argparse.Namespace) -> int:
    """Print the findings."""
    show(load(args.folder), as_json=args.json, rows=args.rows, advice=args.advice)
    return 0


def show(
    results: Results, *, as_json: bool = False, rows: int = _ROWS, advice: bool = False
) -> None:
    """Print what a study has found."""
    if as_json:
        print_json(as_dict(results))
    else:
        print("\n\n".join(_parts(results, rows, advice)))


def as_dict(results: Results) -> dict[str, Any]:
    """The findings as plain values; configurations from the best to those without a score."""
    from rnnparse.study.report import narrative
    from rnnparse.study.report.causes import causes
    from rnnparse.study.report.wording import say

    records = results.records
    return {
        "name": results.about["name"],
        "trials": {
            "expected": len(records) + results.missing,
            "ended": len(records),
            **Counter(record["status"] for record in records),
        },
        "seconds": round(sum(record["seconds"] for record in records), 3),
        "diagnoses": narrative.label_counts(results),
        "causes": [say(cause) for cause in causes(results)],
        "best": None if results.best is None else _as_dict(results, results.best),
        "settings": [_as_dict(results, setting) for setting in results.ranking],
        "warnings": [say(warning) for warning in narrative.warnings(results)],
        "failures": [
            {"error": failure.message, "count": failure.count, "first": _first(results, failure)}
            for failure in narrative.failures(results)
        ],
    }


def _as_dict(results: Results, setting: Setting) -> dict[str, Any]:
    compared = setting.comparison
    metrics = zip(results.metrics, setting.scores, strict=True)
    return {
        "config": dict(setting.config),
        "seeds": [results.records[trial]["seed"] for trial in setting.trials],
        **{metric.name: score.mean for metric, score in metrics},
        "epoch": setting.best_epoch,
        "diagnosis": setting.label,
        "advice": setting.diagnosis.advice,
        "below_best": None if compared is None else compared.difference,
        "within_noise": bool(results.verdict(setting)),
        "command": results.command(setting.trials[0]),
    }


def _first(results: Results, failure: Failure) -> str:
    """The first trial that a failure ended."""
    return f"{results.name(failure.setting)}, seed {failure.seed}"


def _parts(results: Results, rows: int, advice: bool) -> Iterator[str]:
    """The paragraphs of the text."""
    from rnnparse.study.report import narrative
    from rnnparse.study.report.causes import causes
    from rnnparse.study.report.formatting import duration, readable
    from rnnparse.study.report.wording import say

    records = results.records
    seconds = sum(record["seconds"] for record in records)
    yield (
        f"{readable(results.about['name'])}: {len(records)} of {len(records) + results.missing} "
        f"trials have ended; total time {duration(seconds)}"
    )
    yield _wrapped(say(narrative.lead(results)))
    if basis := list(narrative.basis(results)):
        yield _wrapped(" ".join(map(say, basis)))
    if not records:
        return
    yield "\n".join(_reasons(results))
    for cause in causes(results):
        yield _wrapped(say(cause))
    yield _table(results, rows)
    if advice:
        for setting in results.ranking[:rows]:
            diagnosis = setting.diagnosis
            yield _wrapped(f"{results.name(setting)}: {diagnosis.label}. {diagnosis.advice}")
    if results.best is not None:
        yield "\n".join(map(_wrapped, _best(results, results.best)))
        if command := results.command(results.best.trials[0]):
            yield f"to train it:\n  {command}"
    for failure in narrative.failures(results):
        first = _first(results, failure)
        yield _wrapped(f"{failure.count} × {failure.message} (first: {first})")
    for warning in narrative.warnings(results):
        yield _wrapped(f"note: {say(warning)}")


def _reasons(results: Results) -> Iterator[str]:
    """Diagnoses with what is typical of their configurations, and the advice for one of them."""
    from rnnparse.study.report.narrative import reasons
    from rnnparse.study.report.wording import say_traits

    all_reasons = reasons(results)
    width = max(len(reason.label) for reason in all_reasons)
    for reason in all_reasons:
        head = f"{reason.label:<{width}}  {reason.count:>3}  "
        name = f"{results.name(reason.example)}: " if len(results.settings) > 1 else ""
        typical = [f"{say_traits(reason.traits)}."] if reason.traits else []
        lines = [*typical, f"{name}{reason.example.diagnosis.advice}"]
        wrapped = "\n".join(_wrapped(line, _LINE - len(head)) for line in lines)
        yield head + textwrap.indent(wrapped, " " * len(head)).lstrip(" ")


def _best(results: Results, best: Setting) -> Iterator[str]:
    """The best configuration, and what there is to know of it."""
    from rnnparse.study.report.formatting import value_text
    from rnnparse.study.report.narrative import about_best
    from rnnparse.study.report.wording import say

    values = ", ".join(
        f"{axis.title} {value_text(best.config[axis.name])}"
        for axis in results.axes
        if len(axis.values) > 1 and axis.name in best.config
    )
    yield f"Best configuration by {results.metrics[0].title}:{f' {values}.' if values else ''}"
    yield from map(say, about_best(results))


def _table(results: Results, rows: int) -> str:
    """The best configurations with their metrics and diagnoses."""
    from rnnparse.study.report.formatting import counted, value_text

    axes = [axis for axis in results.axes if len(axis.values) > 1]
    metrics = range(min(2, len(results.metrics)))
    lines = [
        [
            *(value_text(setting.config.get(axis.name)) for axis in axes),
            *(results.score(setting, m) for m in metrics),
            setting.label,
            results.verdict(setting),
        ]
        for setting in results.ranking[:rows]
    ]
    titles = [*(axis.title for axis in axes), *(results.metrics[m].title for m in metrics)]
    table = columns([*titles, "diagnosis", "against the best"], lines)
    more = len(results.settings) - rows
    return f"{table}\n... and {counted(more, 'more configuration')}" if more > 0 else table


def _wrapped(text: str, width: int = _LINE) -> str:
    # Lines break at ordinary spaces only, so a number stays with its sign.
    kept = textwrap.fill(text.replace(" %", "\xa0%"), width, break_on_hyphens=False)
    return kept.replace("\xa0", " ")
