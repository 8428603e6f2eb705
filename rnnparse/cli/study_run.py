"""`rnnparse study run`: train with every configuration of a grid, and print the results."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnparse.cli.console_text import columns, positive, print_json, setting, warn
from rnnparse.cli.train import (
    OBJECTIVE_HELP,
    TIE_HELP,
    add_candidates,
    add_treebank,
    option,
)
from rnnparse.cli.treebank_style import add_style, given_style
from rnnparse.errors import StudyError

if TYPE_CHECKING:
    from rnnparse.parser_study.grid import Grid
    from rnnparse.parser_study.study import ParserStudy

NAME = "run"
HELP = "start or resume a study"
DESCRIPTION = """\
Train with every configuration of a grid for a few epochs. All trials use the same candidate lists,
and each trial is recorded with its curve. The same command resumes a study that was stopped. A grid
with more values adds trials to a study; those with a record do not run again (with --retry-failed,
failed ones do). In the end the command writes a report (report.html, report.csv, logs for
TensorBoard) and prints a table of the results."""
EPILOG = """\
Separate values by commas. log:1e-4:1:9 stands for nine values from 0.0001 to 1 by equal factors,
lin:0:1:5 for five values from 0 to 1 at equal distances. Optimizers: sgd, momentum (sgd with
momentum 0.9), adagrad (as in Socher et al. 2013, without an initial accumulator), keras-adagrad,
adam, and any other optimizer of Keras. Presets:

  quick      sgd with learning rates 1, 0.3 and 0.1, adagrad with 0.1, 0.03 and 0.01, adam with
             0.03, 0.01 and 0.003; four epochs each
  question   sgd, adagrad and adam, each with learning rates 0.1, 0.01 and 0.001, batch sizes 256,
             512 and 1024, and L2 strengths 0.1, 0.01 and 0.001; five epochs each. After the grid,
             it trains the best configuration of each optimizer again until dev F1 stops rising.
             Best means: among the configurations within noise of the highest dev F1, the one with
             the lowest training loss.

A grid file in TOML looks like this. The preset fills in the axes that the file does not set, and
[training] has settings of rnnparse train that all trials share:

  preset = "question"
  [grid]
  learning_rate = "log:1e-4:1:9"
  [training]
  candidates = 50

examples:
  rnnparse study run train.mrg --dev dev.mrg --preset question --out question
  rnnparse study run --optimizer adam --lr log:1e-4:1:9 --seeds 0,1,2 --out adam
  rnnparse study run --grid grid.toml --dry-run
"""

_AXES = (
    ("--optimizer", "NAMES", "optimizers"),
    ("--lr", "RATES", "learning rates α"),
    ("--batch-size", "NUMBERS", "sentences per update"),
    ("--l2", "WEIGHTS", "strengths λ of the L2 penalty λ/2 ‖θ‖²"),
    ("--kappa", "MARGINS", "margins κ for each wrong bracket of a candidate"),
    ("--dim", "NUMBERS", "sizes of word and phrase vectors"),
    ("--objective", "NAMES", OBJECTIVE_HELP),
    ("--tie", "NAMES", TIE_HELP),
    ("--epochs", "NUMBERS", "passes over the training sentences (default: 5)"),
    ("--seeds", "NUMBERS", "random seeds; one trial per configuration and seed (default: 0)"),
)
_SHARED = ("treebank", "dev", "vectors", "candidates", "heads", "jackknife", "patience", "freeze")
_SHOWN = 100  # trials that --dry-run lists


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; those for the grid are absent unless they are given."""
    add_treebank(parser)
    group = parser.add_argument_group("grid")
    source = group.add_mutually_exclusive_group()
    source.add_argument(
        "--preset", metavar="NAME", help="quick or question (default: quick if no values are given)"
    )
    source.add_argument("--grid", metavar="FILE", help="read the grid from a TOML file")
    for flag, metavar, text in _AXES:
        flags = (flag, "--learning-rate") if flag == "--lr" else (flag,)
        name = flags[-1].removeprefix("--").replace("-", "_")
        group.add_argument(*flags, metavar=metavar, dest=name, default=argparse.SUPPRESS, help=text)
    group.add_argument(
        "--plateau",
        action=argparse.BooleanOptionalAction,
        help="after the grid, train the best configuration of each optimizer again until dev F1 "
        "stops rising (default: only with --preset question)",
    )
    group.add_argument(
        "--plateau-epochs",
        type=positive,
        default=40,
        metavar="N",
        help="maximum number of epochs for --plateau (default: 40)",
    )
    add_shared(parser, "settings that all trials share")
    _add_running(parser)


def add_shared(parser: argparse.ArgumentParser, title: str) -> None:
    """Declare the settings that all trials share. `rnnparse study range` has them, too."""
    group = parser.add_argument_group(title)
    option(group, "--dev", "development set (default: a contiguous tenth of TREEBANK)", "TREEBANK")
    option(group, "--vectors", "pre-trained word vectors in GloVe's text format", "FILE")
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
        help="do not train these weights; see rnnparse train (repeatable)",
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
        help="end a trial after N epochs without a better dev F1 (default: never, or 5 with "
        "--plateau)",
    )
    group.add_argument(
        "--jobs",
        type=setting("n_jobs"),
        default=0,
        metavar="N",
        help="trials at once; 0 or -1 for one per core (default: 0)",
    )
    group.add_argument(
        "--backend",
        default="processes",
        metavar="NAME",
        help="where to run: processes, or a ray or dask cluster (default: processes)",
    )
    group.add_argument(
        "--address", metavar="ADDRESS", help="address of the cluster (default: start one)"
    )
    group.add_argument(
        "--cache",
        metavar="DIR",
        help="folder for candidate lists, which all machines of a cluster must be able to read "
        "(default: your cache folder)",
    )
    group.add_argument(
        "--retry-failed",
        action="store_true",
        help="run failed trials again, including those that ran out of memory",
    )
    group.add_argument(
        "--dry-run", action="store_true", help="list the trials and estimate their time"
    )
    group.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run the trials without a record, write the report, and print the results."""
    from rnnparse.cli.study_report import load, write_all
    from rnnparse.cli.study_show import show
    from rnnparse.study.schema import FAILURES

    _check_folder(Path(args.out))
    study = _study(args)
    if args.dry_run:
        _print_plan(args, study)
        return 0
    records = study.run(sys.stderr.isatty(), warn)
    results = load(args.out)
    show(results, as_json=args.json)
    sys.stdout.flush()
    written = write_all(results, remind=False)
    warn(f"the report is ready: {written[0]}")
    if all(record["status"] in FAILURES for record in records):
        raise StudyError("every trial failed, see above; --retry-failed runs them again")
    return 0


def _check_folder(folder: Path) -> None:
    """Raise StudyError for a folder that is not a study, whose files a report might replace."""
    from rnnparse.study.manifest import STUDY
    from rnnparse.study.records import LOCK, RECORDS

    if not folder.is_dir() or any((folder / name).exists() for name in (LOCK, RECORDS, STUDY)):
        return
    if any(folder.iterdir()):
        raise StudyError(f"{folder}: not the folder of a study; give a new one with --out")


def _study(args: argparse.Namespace) -> ParserStudy:
    from rnnparse.parser_study.study import ParserStudy

    plateau = args.preset == "question" if args.plateau is None else args.plateau
    return ParserStudy(
        _grid(args),
        args.out,
        cache=args.cache,
        plateau=args.plateau_epochs if plateau else 0,
        backend=args.backend,
        n_jobs=args.jobs,
        address=args.address,
        command=args.command_line,
        retry=args.retry_failed,
    )


def _grid(args: argparse.Namespace) -> Grid:
    """The grid of the options, which override those of a file."""
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
    """Print the trials that would start, and an estimate of their time."""
    from rnnparse.parser_study.study import START_SECONDS, list_seconds
    from rnnparse.study.report.formatting import counted, duration

    size = study.size()
    plan, plateau = study.plan(size)
    seconds = plan.seconds + START_SECONDS if plan.trials and plan.seconds is not None else 0.0
    lists = list_seconds(size)
    if args.json:
        trials = [trial._asdict() for trial in plan.trials]
        times = {"seconds": seconds, "plateau_seconds": plateau, "list_seconds": lists}
        print_json({"trials": trials, "ended": plan.ended, "jobs": plan.n_jobs, **times})
        return
    print(_trial_table(plan.trials))
    at_once = f"{plan.n_jobs} at once" if plan.n_jobs else "one at once per core of the cluster"
    print(f"\n{counted(len(plan.trials), 'trial')} to go, {plan.ended} have ended; {at_once}")
    print(f"they take about {duration(seconds)}")
    if study.plateau:
        print(f"then the best configuration of each optimizer again: up to {duration(plateau)}")
    print(
        f"before that, unless they are cached, candidate lists take {duration(lists)} on one core"
    )
    if not plan.ended:
        print(
            f"\nThese are rough estimates for {size.words:,} words, measured on another machine. "
            "They become more accurate once a trial has ended."
        )


def _trial_table(trials: list[Any]) -> str:
    """One line per trial with the settings that vary, and one line with those that do not."""
    if not trials:
        return "nothing to run"
    from rnnparse.study.search_space import varying

    names = varying(trials)
    shared = ", ".join(f"{name} {v}" for name, v in trials[0].settings.items() if name not in names)
    rows = [[trial.settings[name] for name in names] for trial in trials[:_SHOWN]]
    lines = [columns(names, rows)]
    if len(trials) > _SHOWN:
        lines.append(f"... and {len(trials) - _SHOWN} more")
    return "\n".join([*(lines if names else []), f"\nall: {shared}"])
