"""The process in which cases run: `python -m tests.fuzz.worker TARGET SEED FIRST LAST FOLDER`."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import sys
from pathlib import Path

from tests.fuzz.harness import FAILED, Target, run_case, tell, work_folder
from tests.fuzz.targets import find_target


def main(name: str, seed: int, first: int, last: int, folder: Path) -> None:
    """Run cases in a row, and tell of each on standard output, which nothing else can reach."""
    faulthandler.enable()
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    target = find_target(name)
    sample = folder / "sample"
    if not sample.exists():
        sample.mkdir()
        target.make(sample)
    warm_up(target, sample)
    limit_memory(target.memory)
    report.write(json.dumps({"seconds": target.seconds}) + "\n")
    for case in range(first, last):
        work = work_folder(folder, case)
        outcome = run_case(target, sample, work, seed, case)
        if outcome.result != FAILED:
            shutil.rmtree(work, ignore_errors=True)
        tell(report, outcome)


def warm_up(target: Target, sample: Path) -> None:
    """Read the sample itself: it must be accepted, and imports and compiling are done then."""
    target.check(sample)


def limit_memory(more: int) -> None:
    """Let this process have so many bytes more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    name, seed, first, last, folder = sys.argv[1:]
    main(name, int(seed), int(first), int(last), Path(folder))
