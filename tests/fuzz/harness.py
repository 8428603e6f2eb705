"""Runs the cases of a target in a process of its own, and records those that fail."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rnnparse.errors import RnnparseError

_ROOT = Path(__file__).parents[2]
ACCEPTED, REFUSED, FAILED = "accepted", "refused", "failed"
_START_SECONDS = 300  # for imports and compiling
_RESTART = 2000  # cases that one process runs


@dataclass(frozen=True)
class Target:
    """Something that reads input.

    Attributes:
        name: for the command line.
        make: writes a good sample into an empty folder; called once a process.
        mutate: changes a copy of the sample in place, by the given random numbers alone.
        check: reads the copy. Raises RnnparseError where the reader refuses it, AssertionError
            where what was read cannot be right; any other exception is a failure as well.
        seconds: a case that takes longer is a failure.
        memory: bytes that a case may take beyond what the process has before the first one.
    """

    name: str
    make: Callable[[Path], None]
    mutate: Callable[[Path, random.Random], None]
    check: Callable[[Path], None]
    seconds: float = 20.0
    memory: int = 2 << 30


@dataclass(frozen=True)
class Outcome:
    """How a case ended; `kind` is what failures at the same place share, `detail` tells more."""

    case: int
    result: str
    kind: str = ""
    detail: str = ""


@dataclass
class Report:
    """Outcomes of a target: how many of each, and the failures by kind with the first's place."""

    target: str
    counts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    kept: dict[str, Path | None] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.counts[name]} {name}" for name in (ACCEPTED, REFUSED, FAILED))
        lines = [f"{self.target}: {self.counts.total()} cases, {counts}"]
        for kind, count in self.kinds.most_common():
            lines += [f"  {count} x {kind}", f"      {self.kept[kind]}"]
        return "\n".join(lines)


def run_case(target: Target, sample: Path, work: Path, seed: int, case: int) -> Outcome:
    """Mutate a copy of the sample, the folder `work`, and read it."""
    shutil.copytree(sample, work, symlinks=True)
    target.mutate(work, random.Random(f"{seed}/{case}"))
    try:
        target.check(work)
    except RnnparseError:
        return Outcome(case, REFUSED)
    except Exception as error:
        return Outcome(case, FAILED, _kind(error), traceback.format_exc())
    return Outcome(case, ACCEPTED)


def _kind(error: BaseException) -> str:
    """The type of an error and the last place in the package that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_ROOT / "rnnparse")]
    last = (ours or frames)[-1]
    message = f": {str(error)[:80]}" if isinstance(error, AssertionError) else ""
    return f"{type(error).__name__}{message} at {last.filename}:{last.lineno} in {last.name}"


def fuzz(
    target: str, seed: int, keep: Path | None, *, seconds: float = 1e9, cases: int = 1 << 62
) -> Report:
    """Run the cases of a target from 0 on, for so long or so many.

    Args:
        target: a name, or MODULE:ATTRIBUTE.
        seed: of all mutations.
        keep: folder for failed cases, or None.
    """
    report = Report(target)
    until, next_case = time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while next_case < cases and time.monotonic() < until:
            last = min(cases, next_case + _RESTART)
            for outcome in _run_process(target, seed, next_case, last, Path(folder), until):
                next_case = outcome.case + 1
                work = work_folder(Path(folder), outcome.case)
                report.counts[outcome.result] += 1
                if outcome.result == FAILED:
                    report.kinds[outcome.kind] += 1
                    if outcome.kind not in report.kept:
                        report.kept[outcome.kind] = _keep(keep, target, seed, outcome, work)
                    shutil.rmtree(work, ignore_errors=True)
    return report


def _keep(keep: Path | None, target: str, seed: int, outcome: Outcome, work: Path) -> Path | None:
    if keep is None:
        return None
    place = keep / f"{target.rpartition(':')[2]}-{seed}-{outcome.case}"
    shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(shutil.Error):  # of pipes and the like; the rest is copied
        shutil.copytree(work, place, symlinks=True)
    (place / "failure.txt").write_text(f"{outcome.kind}\n\n{outcome.detail}", errors="replace")
    return place


def _run_process(
    target: str, seed: int, first: int, last: int, folder: Path, until: float
) -> Iterator[Outcome]:
    """Outcomes of cases that one process runs, until it ends, crashes or hangs."""
    command = [sys.executable, "-m", "tests.fuzz.worker", target, str(seed), str(first), str(last)]
    log = folder / "stderr"
    with open(log, "wb") as stderr:
        process = subprocess.Popen(
            [*command, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=_ROOT,
        )
    assert process.stdout is not None
    lines = os.fdopen(os.dup(process.stdout.fileno()), "rb", buffering=0)
    case, patience = first, float(_START_SECONDS)
    try:
        while case == first or time.monotonic() < until:  # compiling may take all the time
            line = _read_line(lines, patience)
            if line is None:
                process.send_signal(signal.SIGABRT)  # faulthandler writes where it is
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                yield Outcome(case, FAILED, f"no end in {patience:g} s", _end_of(log))
                return
            if not line:
                code = process.wait()
                if code:
                    kind = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                    yield Outcome(case, FAILED, f"the process ended: {kind}", _end_of(log))
                return
            told = json.loads(line)
            if "seconds" in told:
                patience = told["seconds"]
                continue
            case = told["case"] + 1
            yield Outcome(**told)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        lines.close()


def _read_line(stream: object, seconds: float) -> bytes | None:
    """A line, empty at the end; None where none comes in time. Lines are written at once."""
    ready, _, _ = select.select([stream], [], [], seconds)
    return stream.readline() if ready else None  # type: ignore[attr-defined]


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-8000:]


def work_folder(folder: Path, case: int) -> Path:
    """Where a case is made; a folder that is left there is of a case that failed."""
    return folder / f"case-{case}"


def tell(stream: object, outcome: Outcome) -> None:
    """Write an outcome as `_run_process` reads it."""
    stream.write(json.dumps(asdict(outcome)) + "\n")  # type: ignore[attr-defined]
