"""CPU seconds to score as many sentences as the Penn Treebank's section 23 has.

    python benchmarks/bench_evalb.py GOLD TEST

repeats the lines of two files of trees (one a line) up to 2,416 and prints what the file path
(`evalb_files`) and the path over `nltk.Tree` objects (`evaluate`) take, and the peak memory.
"""

from __future__ import annotations

import argparse
import io
import itertools
import resource
import sys
import tempfile
import time
from pathlib import Path

from nltk.tree import Tree

from rnnparse.evaluation import EvalbParams, evalb_files, evaluate

SENTENCES = 2416


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gold", type=Path)
    parser.add_argument("test", type=Path)
    options = parser.parse_args(arguments)
    sides = []
    for path in (options.gold, options.test):
        lines = path.read_text(encoding="utf-8").splitlines()
        sides.append(list(itertools.islice(itertools.cycle(lines), SENTENCES)))
    with tempfile.TemporaryDirectory() as folder:
        gold_file, test_file = Path(folder, "gold"), Path(folder, "test")
        for path, lines in zip((gold_file, test_file), sides, strict=True):
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        start = time.process_time()
        params = EvalbParams.collins()
        evalb_files(gold_file, test_file, params, out=io.StringIO(), err=io.StringIO())
        print(f"evalb_files: {time.process_time() - start:.2f} CPU s, {SENTENCES} sentences")
    gold, test = ([Tree.fromstring(line) for line in lines] for lines in sides)
    start = time.process_time()
    evaluate(gold, test)
    print(f"evaluate:    {time.process_time() - start:.2f} CPU s, {SENTENCES} sentences")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {peak:.0f} MB, the trees included")


if __name__ == "__main__":
    main(sys.argv[1:])
