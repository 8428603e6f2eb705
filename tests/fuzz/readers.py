"""Targets that read one file of text."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.errors import RnnparseError
from rnnparse.evaluation import EvalbParams, evaluate
from rnnparse.json_text import to_json
from rnnparse.models.vectors import read_vectors
from rnnparse.trees.brackets import format_tree, load_trees, read_trees
from rnnparse.trees.cleaning import clean, words
from rnnparse.trees.heads import HeadTable
from rnnparse.trees.tokenizer import tokenize
from tests.fuzz.commands import command, strict_json
from tests.fuzz.harness import Target
from tests.fuzz.text_mutations import mutate_file
from tests.fuzz.tree_mutations import mutate_trees

TREES = """\
( (S (NP-SBJ (PRP They)) (VP (VBD ate) (NP (NN udon)) (PP (IN with) (NP (NNS forks)))) (. .)) )
(TOP (S (NP (-NONE- *T*-1)) (VP (VB go)) (. .)))
(S (NP|CD (-LRB- -LRB-)
   (NN 3\\/4) (-RRB- -RRB-)) (ADVP=2 (RB so)))
"""
SENTENCES = """\
They ate udon with forks.
"He can't," she said, "won't go" -- e.g. to Solano(r) at 5:30 p.m. for $3.50...
l'été 'tis cannot gonna (713)853-7041 http://x.org/a?b=c U.S. Mr. Smith's dogs' don't
"""
_VECTORS = "the 0.1 -0.2 0.3\nof 1e-3 2 -.5\n, 0 0 0\nudon 0.5 1.25 -3e2\n. . . 1 2 3\n"
_PRM = """\
DEBUG 0
MAX_ERROR 10
CUTOFF_LEN 40
LABELED 1
DELETE_LABEL TOP
DELETE_LABEL -NONE-
DELETE_LABEL_FOR_LENGTH -NONE-
QUOTE_LABEL POS
EQ_LABEL ADVP PRT
EQ_WORD a an
"""
_HEADS = "# rules\n* left\nNP right-any NN NNS\nNP left NP\nPP right IN TO\nPP right\n"


def text_target(
    name: str,
    samples: dict[str, str],
    check: Callable[[Path], None],
    hard: Sequence[bytes] = (),
) -> Target:
    """A target of files of text, one of which is changed in a case."""

    def make(folder: Path) -> None:
        for file, text in samples.items():
            (folder / file).write_text(text, encoding="utf-8")

    def mutate(folder: Path, rng: random.Random) -> None:
        file = folder / rng.choice(sorted(samples))
        if file.suffix == ".mrg":
            mutate_trees(file, rng)
        else:
            mutate_file(file, rng, hard)

    return Target(name, make, mutate, check)


def check_trees(folder: Path) -> None:
    """Trees that are read can be written, and are the same when they are read again."""
    trees = list(read_trees(folder / "trees.mrg"))
    again = folder / "again.mrg"
    lines = [format_tree(tree) for tree in trees]
    again.write_text("\n".join(lines), encoding="utf-8")
    if trees:  # compared as text: trees compare themselves by recursion
        assert [format_tree(tree) for tree in read_trees(again)] == lines, "other trees come back"
    for tree in trees:
        cleaned = clean(tree)
        assert cleaned is None or all(words(cleaned))


def check_sentences(folder: Path) -> None:
    """Tokens stand alone, and lose no letter or digit."""
    text = (folder / "sentences.txt").read_text(encoding="utf-8", errors="replace")
    for line in text.replace("\0", "\ufffd").splitlines():
        tokens = tokenize(line)
        assert all(token and not set(token) & set(" \t\n\r\f\v") for token in tokens)
        kept, given = ("".join(filter(str.isalnum, text)) for text in ("".join(tokens), line))
        assert kept == given, "letters or digits were lost"


def check_vectors(folder: Path) -> None:
    """Words are unique, and each has its finite numbers."""
    names, matrix = read_vectors(folder / "vectors.txt")
    assert len(set(names)) == len(names) == len(matrix) and matrix.dtype == np.float32
    assert matrix.shape[1] >= 1 and np.isfinite(matrix).all()


def check_params(folder: Path) -> None:
    """Parameters that are read can be used."""
    params = EvalbParams.load(folder / "params.prm")
    trees = [tree for tree in read_trees(folder / "gold.mrg") if clean(tree)]
    assert evaluate(trees, trees, params).summary()["sentences"] <= len(trees)


def check_heads(folder: Path) -> None:
    """A table is the same after writing, and finds a head."""
    table = HeadTable.load(folder / "rules.heads")
    assert HeadTable.from_text(table.to_text()) == table
    assert table.find("NP", ["DT", "NN"]) in (0, 1)
    table.compile(["NP", "NN", "PP"])


def check_evalb(folder: Path) -> None:
    """The table is printed, or an error in one line; JSON is JSON."""
    gold, test = str(folder / "gold.mrg"), str(folder / "test.mrg")
    command(["evalb", gold, test, "-p", str(folder / "params.prm")], (0, 1))
    strict_json(command(["evalb", gold, test, "--json"], (0, 1)))


def check_options(folder: Path) -> None:
    """Options are refused in one line, or make settings that go through JSON."""
    import argparse

    from rnnparse.cli import train

    words_of_line = (folder / "options").read_text("utf-8", "replace").split()
    parser = argparse.ArgumentParser(exit_on_error=False)
    train.add_arguments(parser)
    try:
        given, _ = parser.parse_known_args(words_of_line)
    except (argparse.ArgumentError, SystemExit):
        return
    names = set(TrainingConfig().to_dict())
    config = TrainingConfig.from_dict({k: v for k, v in vars(given).items() if k in names})
    assert TrainingConfig.from_dict(config.to_dict()) == config


def check_config(folder: Path) -> None:
    """Settings of any JSON are refused, or are the same after they went through JSON."""
    try:
        values = json.loads((folder / "config.json").read_bytes())
    except (ValueError, RecursionError):
        return
    if isinstance(values, dict):
        config = TrainingConfig.from_dict(values)
        assert TrainingConfig.from_dict(strict_json(to_json(config.to_dict()))) == config


def check_compressed(folder: Path) -> None:
    """The same readers on archives."""
    for read, name in ((read_vectors, "vectors.txt.gz"), (load_trees, "trees.mrg.gz")):
        with contextlib.suppress(RnnparseError):
            read(folder / name)


def _make_compressed(folder: Path) -> None:
    for name, text in (("vectors.txt.gz", _VECTORS), ("trees.mrg.gz", TREES)):
        (folder / name).write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))


def _mutate_compressed(folder: Path, rng: random.Random) -> None:
    mutate_file(folder / rng.choice(("vectors.txt.gz", "trees.mrg.gz")), rng)


_PAIR = "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN udon))) (. .)))\n" * 3
_OPTIONS = (
    "--candidates 5 --dim 5 --epochs 1 --patience 2 --batch-size 25 --learning-rate 0.02 --l2 1e-4 "
    "--kappa 0.1 --folds 2 --jackknife 2 --seed 0 --jobs 1 --freeze W --freeze-epochs 1\n"
)

READERS = (
    text_target("trees", {"trees.mrg": TREES}, check_trees),
    text_target("sentences", {"sentences.txt": SENTENCES}, check_sentences, (b"'s" * 4000,)),
    text_target("vectors", {"vectors.txt": _VECTORS}, check_vectors, (b"400000 50", b"3 3\n")),
    text_target("prm", {"params.prm": _PRM, "gold.mrg": _PAIR}, check_params),
    text_target("heads", {"rules.heads": _HEADS}, check_heads),
    text_target("evalb", {"params.prm": _PRM, "gold.mrg": _PAIR, "test.mrg": _PAIR}, check_evalb),
    Target("compressed", _make_compressed, _mutate_compressed, check_compressed),
    text_target(
        "config",
        {"config.json": to_json(TrainingConfig(freeze=("W",), dev="d", vectors="v").to_dict())},
        check_config,
        (b"null", b"{}", b"[]", b'"x"', b"1e999", b"NaN", b"9" * 400),
    ),
    text_target("options", {"options": _OPTIONS}, check_options),
)
