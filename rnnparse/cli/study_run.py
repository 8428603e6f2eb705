"""`rnnparse study run`: train with every setting of a grid, and tell what came of it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnparse.cli.text import columns, positive, print_json, setting, warn
from rnnparse.cli.train import add_candidates, add_treebank, option
from rnnparse.cli.treebank_style import add_style, given_style
from rnnparse.config import OBJECTIVES, TIES
from rnnparse.errors import StudyError

if TYPE_CHECKING:
    from rnnparse.parser_study.grid import Grid
    from rnnparse.parser_study.study import ParserStudy

NAME = "run"
HELP = "run a study, or go on with it"
DESCRIPTION = """\
Train with every setting of a grid for a few epochs. All runs share one set of forests, and each
leaves a record with its curve. Runs that have a record are never run again: the same command goes
on with a study that was stopped, and another grid adds what is new in it. At the end come a report
(report.html, report.csv, logs for TensorBoard) and a table of what was found."""
EPILOG = """\
Values are separated by commas; log:1e-4:1:9 are nine from 0.0001 to 1 by equal factors, lin:0:1:5
five by equal steps. Optimizers: sgd, momentum (0.9), adagrad (as in the paper), keras-adagrad,
adam, and any other of Keras. Presets:

  quick      sgd at the rates 1, 0.3 and 0.1, adagrad at 0.1, 0.03 and 0.01, adam at 0.03, 0.01
             and 0.003, four epochs each
  question   sgd, adagrad and adam at the rates 0.1, 0.01 and 0.001 with the batch sizes 256, 512
             and 1024 and L2 0.1, 0.01 and 0.001, five epochs each; then the best of each
             optimizer to its plateau (of those within noise of it, that with the least loss)

A file has the same names: a table [grid] with learning_rate = "log:1e-4:1:9" and so on, and a
table [training] with settings of rnnparse train that all share; preset = "question" on top.

examples:
  rnnparse study run train.mrg --dev dev.mrg --preset question --out question
  rnnparse study run --optimizer adam --lr log:1e-4:1:9 --seeds 0,1,2 --out adam
  rnnparse study run --grid grid.toml --dry-run
"""

_AXES = (
    ("--optimizer", "NAMES", "optimizers"),
    ("--lr", "RATES", "learning rates α"),
    ("--batch-size", "NUMBERS", "sentences a step"),
    ("--l2", "WEIGHTS", "weights λ of λ/2 times the squared weights"),
    ("--kappa", "MARGINS", "margins κ for each wrong bracket of a candidate"),
    ("--dim", "NUMBERS", "sizes of word and phrase vectors"),
    ("--objective", "NAMES", f"what is minimised: {', '.join(OBJECTIVES)}"),
    ("--tie", "NAMES", f"which of several worst candidates counts: {', '.join(TIES)}"),
    ("--epochs", "NUMBERS", "passes over the sentences (default: 5)"),
    ("--seeds", "NUMBERS", "every setting runs once with each (default: 0)"),
)
_SHARED = ("treebank", "dev", "vectors", "candidates", "heads", "jackknife", "patience", "freeze")
_SHOWN = 100  # trials that --dry-run lists


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; those for the grid are absent unless they are given."""
    add_treebank(parser)
    group = parser.add_argument_group("grid")
    source = group.add_mutually_exclusive_group()
    source.add_argument(
        "--preset", metavar="NAME", help="quick or question (default: quick, without other values)"
    )
    source.add_argument("--grid", metavar="FILE", help="a grid in TOML")
    for flag, metavar, text in _AXES:
        flags = (flag, "--learning-rate") if flag == "--lr" else (flag,)
        name = flags[-1].removeprefix("--").replace("-", "_")
        group.add_argument(*flags, metavar=metavar, dest=name, default=argparse.SUPPRESS, help=text)
    group.add_argument(
        "--plateau",
        action=argparse.BooleanOptionalAction,
        help="then train the best setting of each optimizer again, until dev F1 does not rise any "
        "more (default: with --preset question)",
    )
    group.add_argument(
        "--plateau-epochs",
        type=positive,
        default=40,
        metavar="N",
        help="limit of epochs for that (default: 40)",
    )
    add_shared(parser)
    _add_running(parser)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Declare the settings that all runs share; also for `rnnparse study range`."""
    group = parser.add_argument_group("settings that all runs share")
    option(group, "--dev", "trees to tune on (default: a tenth, by chance)", "TREEBANK")
    option(group, "--vectors", "word vectors to begin with: text in GloVe's format", "FILE")
    add_candidates(group)
    option(
        group,
        "--head-rules",
        "head children: english, left (the first), right (the last), or a file of rules",
        "RULES",
        dest="heads",
    )
    option(group, "--jackknife", "see rnnparse train", "N")
    group.add_argument(
        "--freeze",
        metavar="PATTERN",
        action="append",
        default=argparse.SUPPRESS,
        help="do not train these weights, see rnnparse train (may be given several times)",
    )
    add_style(parser)


def _add_running(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("running")
    group.add_argument(
        "--out", metavar="STUDY", default="study", help="folder of the study (default: study)"
    )
    group.add_argument(
        "--patience",
        type=positive,
        metavar="N",
        default=argparse.SUPPRESS,
        help="end a run after N epochs without a better dev F1 (default: not before its last, and "
        "after 5 on the way to a plateau)",
    )
    group.add_argument(
        "--jobs", type=setting("n_jobs"), default=0, metavar="N", help="runs at once, 0: one a core"
    )
    group.add_argument(
        "--backend",
        default="processes",
        metavar="NAME",
        help="where runs go: processes, or a cluster of ray or dask (default: processes)",
    )
    group.add_argument("--address", metavar="ADDRESS", help="of the cluster (default: start one)")
    group.add_argument(
        "--cache",
        metavar="DIR",
        help="keep forests here, where all machines of a cluster see them (default: your cache "
        "folder)",
    )
    group.add_argument(
        "--retry-failed",
        action="store_true",
        help="run those again, too, that failed or ran out of memory",
    )
    group.add_argument(
        "--dry-run", action="store_true", help="list the runs and estimate how long they take"
    )
    group.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run what has no record yet, write the report, print what was found."""
    from rnnparse.cli.study_report import write_all
    from rnnparse.cli.study_show import show
    from rnnparse.study.report.results import load_results
    from rnnparse.study.schema import FAILURES

    _check_folder(Path(args.out))
    study = _study(args)
    if args.dry_run:
        _print_plan(args, study)
        return 0
    records = study.run(sys.stderr.isatty(), warn)
    results = load_results(args.out)
    show(results, as_json=args.json)
    sys.stdout.flush()
    written = write_all(results, remind=False)
    warn(f"the report is ready: {written[0]}")
    if all(record["status"] in FAILURES for record in records):
        raise StudyError("every run failed; the errors are above; --retry-failed runs them again")
    return 0


def _check_folder(folder: Path) -> None:
    """Raise StudyError for a folder of something else, whose files a report might replace."""
    from rnnparse.study.manifest import STUDY
    from rnnparse.study.records import LOCK, RECORDS

    if not folder.is_dir() or any((folder / name).exists() for name in (LOCK, RECORDS, STUDY)):
        return
    if any(folder.iterdir()):
        raise StudyError(f"{folder}: the folder has other files; give a new one with --out")


def _study(args: argparse.Namespace) -> ParserStudy:
    from rnnparse.parser_study.study import ParserStudy

    plateau = args.preset == "question" if args.plateau is None else args.plateau
    return ParserStudy(
        _grid(args),
        args.out,
        cache=args.cache,
        plateau=args.plateau_epochs if plateau else 0,
        backend=args.backend,
        jobs=args.jobs,
        address=args.address,
        command=args.command_line,
        retry=args.retry_failed,
    )


def _grid(args: argparse.Namespace) -> Grid:
    """The grid of the options; they go before those of a file."""
    from rnnparse.parser_study.grid import AXES, Grid

    given = vars(args)
    axes = {name: given[name] for name in (*AXES, "seeds") if name in given}
    shared = {name: given[name] for name in _SHARED if name in given} | given_style(args)
    if args.grid is not None:
        grid = Grid.from_toml(args.grid, axes)
        return replace(grid, fixed={**grid.fixed, **shared})
    preset = args.preset or (None if axes else "quick")
    return Grid.from_options(axes, preset=preset, fixed=shared)


def _print_plan(args: argparse.Namespace, study: ParserStudy) -> None:
    """Print the runs that would start, and how long they would take."""
    from rnnparse.parser_study.study import START_SECONDS, list_seconds
    from rnnparse.study.report.formatting import counted, duration

    size = study.size()
    plan, plateau = study.plan(size)
    seconds = plan.seconds + START_SECONDS if plan.trials and plan.seconds is not None else 0.0
    lists = list_seconds(size)
    if args.json:
        trials = [trial._asdict() for trial in plan.trials]
        times = {"seconds": seconds, "plateau_seconds": plateau, "list_seconds": lists}
        print_json({"trials": trials, "ended": plan.ended, "jobs": plan.jobs, **times})
        return
    print(_trial_table(plan.trials))
    at_once = f"{plan.jobs} at once" if plan.jobs else "as many at once as the cluster has cores"
    print(f"\n{counted(len(plan.trials), 'run')} to go, {plan.ended} have ended; {at_once}")
    print(f"they take about {duration(seconds)}")
    if study.plateau:
        print(f"then the best of each optimizer to its plateau: up to {duration(plateau)}")
    print(f"unless the cache has the forests, these come first: {duration(lists)} on one core")
    if not plan.ended:
        print(
            f"\nThese are rough figures, for {size.words:,} words at the speed of one machine; "
            "once a run has ended, they rest on this one."
        )


def _trial_table(trials: list[Any]) -> str:
    """A line for each trial with what the trials do not share, and a line with what they do."""
    if not trials:
        return "nothing to run"
    rows = [{**trial.config, "seed": trial.seed} for trial in trials]
    varying = [name for name in rows[0] if len({str(row[name]) for row in rows}) > 1]
    shared = ", ".join(f"{name} {v}" for name, v in rows[0].items() if name not in varying)
    lines = [columns(varying, [[row[name] for name in varying] for row in rows[:_SHOWN]])]
    if len(rows) > _SHOWN:
        lines.append(f"... and {len(rows) - _SHOWN} more")
    return "\n".join([*(lines if varying else []), f"\nall: {shared}"])
