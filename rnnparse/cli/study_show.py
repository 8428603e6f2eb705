"""`rnnparse study show`: what a study has found, on the terminal."""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rnnparse.cli.text import columns, positive, print_json

if TYPE_CHECKING:
    from rnnparse.study.report.results import Results

NAME = "show"
HELP = "print what a study has found, also while it runs"
DESCRIPTION = """\
Print what a study has found so far: how many settings have which diagnosis, with the advice for
one of each; the best settings; the command that trains with the best; and what to bear in mind."""
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
        help=f"settings in the table (default: {_ROWS})",
    )
    parser.add_argument(
        "--advice", action="store_true", help="with the advice for each setting in the table"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with all settings")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    from rnnparse.study.report.results import load_results

    results = load_results(args.folder)
    show(results, as_json=args.json, rows=args.rows, advice=args.advice)
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
    """The findings as plain values: settings from the best on, those without a score last."""
    from rnnparse.study.report import narrative as finding
    from rnnparse.study.report.causes import causes

    records = results.records
    return {
        "name": results.about["name"],
        "trials": {
            "expected": finding.expected_trials(results),
            "ended": len(records),
            **Counter(record["status"] for record in records),
        },
        "seconds": round(sum(record["seconds"] for record in records), 3),
        "diagnoses": dict(finding.label_counts(results)),
        "causes": causes(results),
        "best": None if results.best is None else _setting(results, results.best),
        "settings": [_setting(results, i) for i in _order(results)],
        "warnings": finding.warnings(results),
        "failures": finding.failures(results),
    }


def _setting(results: Results, i: int) -> dict[str, Any]:
    row, compared = results.settings[i], results.compared[i]
    means = {m.name: results.means[k][i][0] for k, m in enumerate(results.metrics)}
    return {
        "config": row["config"],
        "seeds": [results.records[t]["seed"] for t in row["trials"]],
        **means,
        "epoch": row["epoch"],
        "diagnosis": row["label"],
        "advice": results.diagnosis(i).advice,
        "below_best": None if compared is None else compared.difference,
        "within_noise": i == results.best or results.alike[i],
        "command": results.command(row["trials"][0]),
    }


def _order(results: Results) -> list[int]:
    """Settings from the best on."""
    places = list(range(len(results.settings)))
    sign = -1 if results.metrics[0].higher else 1
    means = [mean for mean, _ in results.means[0]]
    return sorted(places, key=lambda i: (means[i] is None, sign * (means[i] or 0.0)))


def _parts(results: Results, rows: int, advice: bool) -> Iterator[str]:
    """The paragraphs of the text."""
    from rnnparse.study.report import narrative as finding
    from rnnparse.study.report.causes import causes

    records = results.records
    expected = max(finding.expected_trials(results), len(records))
    seconds = sum(record["seconds"] for record in records)
    yield (
        f"{results.about['name']}: {len(records)} of {expected} runs have ended; together they "
        f"took {finding.duration(seconds)}"
    )
    yield _wrapped(finding.lead(results))
    if basis := finding.basis(results):
        yield _wrapped(basis)
    if not records:
        return
    yield "\n".join(_reasons(results))
    for cause in causes(results):
        yield _wrapped(cause)
    yield _table(results, rows)
    if advice:
        for i in _order(results)[:rows]:
            found = _setting(results, i)
            yield _wrapped(f"{results.name(i)}: {found['diagnosis']}. {found['advice']}")
    card = finding.best_card(results)
    if card is not None:
        values = ", ".join(f"{name} {value}" for name, value, varies in card["settings"] if varies)
        head = f"{card['title']}: {values}." if values else f"{card['title']}:"
        yield "\n".join(_wrapped(text) for text in (head, *card["sentences"]))
        if card["command"]:
            yield f"to train it:\n  {card['command']}"
    for failure in finding.failures(results):
        yield _wrapped(f"{failure['count']} × {failure['error']} (first: {failure['first']})")
    for warning in finding.warnings(results):
        yield _wrapped(f"note: {warning}")


def _reasons(results: Results) -> Iterator[str]:
    """Diagnoses with what is typical of their settings, and the advice for one of them."""
    from rnnparse.study.report import narrative as finding

    found = finding.reasons(results)
    width = max(len(reason["label"]) for reason in found)
    for reason in found:
        head = f"{reason['label']:<{width}}  {reason['count']:>3}  "
        example = f"{reason['example']}: " if reason["example"] else ""
        text = [f"{reason['typical']}."] if reason["typical"] else []
        lines = [*text, f"{example}{reason['advice']}"]
        wrapped = [_wrapped(part, _LINE - len(head)) for part in lines]
        yield textwrap.indent("\n".join(wrapped), " " * len(head)).replace(" " * len(head), head, 1)


def _table(results: Results, rows: int) -> str:
    """The best settings with their metrics and diagnoses."""
    from rnnparse.study.report import narrative as finding
    from rnnparse.study.report.results import text, title

    axes = [axis for axis in results.axes if len(axis.values) > 1]
    metrics = range(min(2, len(results.metrics)))
    order = _order(results)
    lines = []
    for i in order[:rows]:
        row = results.settings[i]
        mark = "best" if i == results.best else "within noise" if results.alike[i] else ""
        lines.append(
            [
                *(text(row["config"].get(axis.name)) for axis in axes),
                *(finding.measure(results, i, k) for k in metrics),
                row["label"],
                mark,
            ]
        )
    names = [title(axis.name) for axis in axes]
    measured = [title(results.metrics[k].name) for k in metrics]
    head = [*names, *measured, "diagnosis", "against the best"]
    table = columns(head, lines)
    more = len(order) - rows
    return f"{table}\n... and {finding.counted(more, 'more setting')}" if more > 0 else table


def _wrapped(text: str, width: int = _LINE) -> str:
    # A number stays with its sign: lines break at plain spaces only.
    kept = textwrap.fill(text.replace(" %", "\xa0%"), width, break_on_hyphens=False)
    return kept.replace("\xa0", " ")
