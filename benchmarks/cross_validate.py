r"""F1 of a parser by cross-validation over contiguous blocks of a treebank.

    python benchmarks/cross_validate.py TREEBANK [--blocks 5] [--seeds 0 1 2] [--results FILE] \
        [OPTIONS]

Settings chosen on the development set fit it better than other text. So choose them here: each
block is parsed by a parser that `rnnparse train OPTIONS` trains on the other blocks. The parser
never sees the block: it tunes its epoch and weights on a contiguous tenth of the other blocks, or
by cross-validation if OPTIONS have `--folds`. Blocks are contiguous, so that sentences of a
document stay together.

The table has, for each seed, EVALB's F1 (COLLINS.prm) over all blocks together, F1 by the base
grammar alone, F1 on the tuning part, which is flattered, and CPU seconds. Results are appended to
FILE, one JSON line for each block and seed; a second run goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse import load, train
from rnnparse.cli import train as train_command
from rnnparse.config import TrainingConfig
from rnnparse.evaluation import evaluate
from rnnparse.training import blocks, load_clean
from rnnparse.trees import format_tree, words

COUNTS = ("matched_brackets", "gold_brackets", "test_brackets")


def cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def run_block(
    trees: list[Any], held: range, settings: dict[str, Any], scorers: list[str]
) -> dict[str, Any]:
    """Train on the trees outside of a block and score the block."""
    rest = [tree for i, tree in enumerate(trees) if i not in held]
    gold = [trees[i] for i in held]
    with tempfile.TemporaryDirectory() as folder:
        treebank = Path(folder) / "rest.mrg"
        treebank.write_text("".join(format_tree(tree) + "\n" for tree in rest), "utf-8")
        began = cpu_seconds()
        config = TrainingConfig.from_dict({**settings, "treebank": str(treebank)})
        report = train(config, Path(folder) / "model", progress=sys.stderr.isatty())
        trained = cpu_seconds()
        parser = load(Path(folder) / "model")
    row: dict[str, Any] = {"tuned": report.to_dict()["cvg_f1"], "train_cpu": trained - began}
    for scorer in scorers:
        start = time.process_time()
        results = list(parser.parse_many([words(tree) for tree in gold], scorer=scorer, n_jobs=1))
        row[f"{scorer}_cpu_ms"] = 1000 * (time.process_time() - start) / len(gold)
        summary = evaluate(gold, [result.trees[0].tree for result in results]).summary()
        row[scorer] = [summary[name] for name in COUNTS]
    return row


def f1(rows: list[dict[str, Any]], scorer: str) -> float:
    matched, gold, test = np.sum([row[scorer] for row in rows], axis=0)
    return float(200 * matched / (gold + test))


def main() -> None:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("treebank")
    parser.add_argument("--blocks", type=int, default=5, help="number of blocks (default: 5)")
    parser.add_argument("--only", type=int, nargs="+", help="blocks to run, from 0 (default: all)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--results", type=Path, help="file of results to continue")
    args, options = parser.parse_known_args()
    command = argparse.ArgumentParser()
    train_command.add_arguments(command)
    known = TrainingConfig().to_dict()
    given = {k: v for k, v in vars(command.parse_args(options)).items() if k in known}
    scorers = ["pcfg", "cvg"]
    trees = load_clean(args.treebank)
    done: list[dict[str, Any]] = []
    if args.results and args.results.exists():
        done = [json.loads(line) for line in args.results.read_text("utf-8").splitlines()]
    wanted = args.only if args.only is not None else range(args.blocks)
    print("seed  blocks  base F1      F1  tuned F1  train CPU s     ms")
    scores = []
    for seed in args.seeds:
        rows = []
        for number in wanted:
            row = next((r for r in done if (r["seed"], r["block"]) == (seed, number)), None)
            if row is None:
                held = blocks(len(trees), args.blocks)[number]
                row = {"seed": seed, "block": number}
                row |= run_block(trees, held, {**given, "seed": seed}, scorers)
                if args.results:
                    with args.results.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
            rows.append(row)
        scores.append(f1(rows, "cvg"))
        tuned, seconds, milliseconds = (
            statistics.mean(row[name] for row in rows)
            for name in ("tuned", "train_cpu", "cvg_cpu_ms")
        )
        print(
            f"{seed:4}{len(rows):8}{f1(rows, 'pcfg'):9.2f}{scores[-1]:8.2f}{tuned:10.2f}"
            f"{seconds:13.0f}{milliseconds:7.1f}",
            flush=True,
        )
    if len(scores) > 1:
        mean, deviation = statistics.mean(scores), statistics.stdev(scores)
        print(f"mean F1 {mean:.2f}, standard deviation {deviation:.2f}")


if __name__ == "__main__":
    main()
