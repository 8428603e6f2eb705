"""What a report of a study costs: CPU seconds to write it, and milliseconds in the browser.

    python benchmarks/bench_report.py [--trials 100 1000 10000] [--rounds 5] [--folder FOLDER]

Studies are made up (tests/study/made_up.py): trials of five epochs on 60 dev sentences, with five
curves each. The browser is Chromium without a window (Debian's package chromium); times are medians
over the rounds, by the page's own clock. Rows:

    write       CPU seconds of `write_report`: reading, diagnosing, comparing, writing
    MB          size of report.html
    open        from the request until the page is ready: map, curves and table are drawn
    sort        from a click on a column's head until the table is on the screen
    filter      the same for a word in the filter
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rnnparse.study.report import write_report
from tests.study.made_up import TEN_THOUSAND, study_folder
from tests.study.report.browser import Browser, find_browser

_SEEN = "await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));"


def make(folder: Path, trials: int) -> Path:
    """A study of about so many trials: the 10,000 with fewer rates and batch sizes."""
    share = math.sqrt(trials / 10_000)
    axes = {name: list(values) for name, values in TEN_THOUSAND.items()}
    for name in ("learning_rate", "l2", "batch_size"):
        part = share if name == "learning_rate" else math.sqrt(share)
        count = max(1, round(len(axes[name]) * part))
        axes[name] = axes[name][:: -(-len(axes[name]) // count)]
    return study_folder(folder, axes)


def timed(browser: Browser, code: str) -> float:
    """Milliseconds of a piece of JavaScript until what it changes is on the screen."""
    body = f"const start = performance.now(); {code}; {_SEEN} return performance.now() - start;"
    return float(browser.run(f"(async () => {{ {body} }})()"))


def measure(browser: Browser, report: Path, rounds: int) -> dict[str, float]:
    """Medians of opening, sorting and filtering."""
    times: dict[str, list[float]] = {"open": [], "sort": [], "filter": []}
    for _ in range(rounds):
        browser.open(report)
        timing = browser.run("performance.getEntriesByType('navigation')[0].duration")
        times["open"].append(float(timing))
        for column in (3, 4):
            click = f"document.querySelector('#head th:nth-child({column}) button').click()"
            times["sort"].append(timed(browser, click))
        write = (
            "const box = document.getElementById('filter'); box.value = 'adam 0.01';"
            "box.dispatchEvent(new Event('input'))"
        )
        times["filter"].append(timed(browser, write))
    assert not browser.complaints
    return {name: median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trials", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keep the studies here")
    args = parser.parse_args()
    program = find_browser()
    if program is None:
        sys.exit("needs Chromium: apt-get install chromium")
    print("| trials | write, CPU s | MB | open, ms | sort, ms | filter, ms |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        base = args.folder or Path(temporary)
        with Browser(program, Path(temporary) / "profile") as browser:
            for trials in args.trials:
                folder = make(base / str(trials), trials)
                count = (folder / "records.jsonl").read_bytes().count(b"\n")
                start = time.process_time()
                report = write_report(folder)
                seconds = time.process_time() - start
                size = report.stat().st_size / 1e6
                times = measure(browser, report, args.rounds)
                cells = " | ".join(f"{value:.0f}" for value in times.values())
                print(f"| {count:,} | {seconds:.2f} | {size:.1f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
