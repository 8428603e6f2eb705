"""Generates the embedded treebank: `python -m treebanks.generate [--check | --stats]`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nltk.tree import Tree

from .ambiguities import find_sites
from .lexicon import FOLDER, load_frames, load_lexicon
from .phrases import Chooser
from .sentences import Sentences

SEED = 20130804
SIZES = {"train": 1600, "dev": 200, "test": 200}
MIN_TOKENS, MAX_TOKENS = 4, 25
# Kept out of every part, so that a trained parser can show them as sentences it has never seen.
SHOWN = ("They ate udon with forks .", "They ate udon with chicken .")


def generate(seed: int = SEED) -> dict[str, list[Tree]]:
    """The trees of each part; no sentence occurs twice, in whichever parts."""
    lexicon, frames, chooser = load_lexicon(), load_frames(), Chooser(seed)
    seen = set(SHOWN)
    parts: dict[str, list[Tree]] = {}
    for part, size in SIZES.items():
        grammar = Sentences(lexicon, frames, chooser, held_back=part != "train")
        trees = parts.setdefault(part, [])
        while len(trees) < size:
            tree = grammar.sentence()
            sentence = " ".join(tree.leaves())
            if MIN_TOKENS <= len(tree.leaves()) <= MAX_TOKENS and sentence not in seen:
                seen.add(sentence)
                trees.append(tree)
    return parts


def render(trees: list[Tree]) -> str:
    """One tree a line."""
    return "".join(tree.pformat(margin=sys.maxsize) + "\n" for tree in trees)


def read(path: Path) -> list[Tree]:
    return [Tree.fromstring(line) for line in path.read_text(encoding="utf-8").splitlines()]


def differing_parts(folder: Path) -> list[str]:
    """Names of the parts whose file is absent or is not what the grammar generates."""
    names = []
    for part, trees in generate().items():
        path = folder / f"{part}.mrg"
        if not path.is_file() or path.read_text(encoding="utf-8") != render(trees):
            names.append(part)
    return names


def statistics(folder: Path) -> Iterator[str]:
    """Lines that describe the three files."""
    known: set[str] = set()
    for part in SIZES:
        trees = read(folder / f"{part}.mrg")
        words = [word.lower() for tree in trees for word in tree.leaves()]
        types = set(words)
        known = known or types
        lengths = [len(tree.leaves()) for tree in trees]
        yield (
            f"{part}: {len(trees)} trees, {len(words)} tokens, {len(types)} types, "
            f"{len(types - known)} types ({sum(word not in known for word in words)} tokens) "
            f"not in train, {min(lengths)}-{max(lengths)} tokens a sentence, "
            f"mean {len(words) / len(trees):.1f}"
        )
        readings = Counter((site.kind, site.reading) for tree in trees for site in find_sites(tree))
        yield f"  {sum(readings.values())} ambiguous attachments"
        for kind in sorted({kind for kind, _ in readings}):
            counts = {reading: n for (k, reading), n in sorted(readings.items()) if k == kind}
            yield f"  {kind:<13}" + "  ".join(f"{name} {n}" for name, n in counts.items())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare the files, write nothing")
    mode.add_argument("--stats", action="store_true", help="describe the files, write nothing")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: this folder")
    options = parser.parse_args(arguments)
    if options.stats:
        print("\n".join(statistics(options.folder)))
        return 0
    if options.check:
        names = differing_parts(options.folder)
        for name in names:
            print(f"{options.folder / name}.mrg is not what the grammar generates", file=sys.stderr)
        return 1 if names else 0
    for part, trees in generate().items():
        (options.folder / f"{part}.mrg").write_text(render(trees), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
