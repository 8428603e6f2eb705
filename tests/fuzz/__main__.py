"""`python -m tests.fuzz`; see the description of the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.harness import FAILED, fuzz, run_case
from tests.fuzz.targets import TARGETS, find_target


def main() -> int:
    """Fuzz; the status is 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--only", action="append", metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="failed cases")
    parser.add_argument("--case", metavar="SEED/CASE", help="run one case again, in this process")
    args = parser.parse_args()
    names = args.only or list(TARGETS)
    if args.case:
        return _again(names[0], *map(int, args.case.split("/")))
    failed = 0
    for name in names:
        report = fuzz(name, args.seed, args.keep, seconds=args.seconds / len(names))
        print(report, flush=True)
        failed += report.counts[FAILED]
    return 1 if failed else 0


def _again(name: str, seed: int, case: int) -> int:
    target = find_target(name)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        sample = Path(folder, "sample")
        sample.mkdir()
        target.make(sample)
        outcome = run_case(target, sample, Path(folder, "work"), seed, case)
    print(outcome.result, outcome.kind, outcome.detail, sep="\n")
    return 1 if outcome.result == FAILED else 0


sys.exit(main())
