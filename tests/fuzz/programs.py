"""Targets that are whole commands on a small model."""

from __future__ import annotations

import random
from pathlib import Path

from rnnparse.trees.brackets import read_trees
from tests.fuzz.commands import command, strict_json
from tests.fuzz.harness import Target
from tests.fuzz.readers import SENTENCES, TREES
from tests.fuzz.text_mutations import mutate_file
from tests.fuzz.tree_mutations import mutate_trees
from tests.small_parser import small_parser

_LONGEST = 400  # bytes of a line


def _make(folder: Path) -> None:
    small_parser().save(folder / "model")
    (folder / "sentences.txt").write_text(SENTENCES, encoding="utf-8")
    (folder / "gold.mrg").write_text(TREES, encoding="utf-8")


def _mutate_sentences(folder: Path, rng: random.Random) -> None:
    file = folder / "sentences.txt"
    mutate_file(file, rng)
    # Time and memory of a sentence are those of its length, cubed and squared.
    file.write_bytes(b"\n".join(line[:_LONGEST] for line in file.read_bytes().split(b"\n")))


def _mutate_gold(folder: Path, rng: random.Random) -> None:
    mutate_trees(folder / "gold.mrg", rng)


def check_parse(folder: Path) -> None:
    """Each line is answered by one tree that reads back, in both forms of output."""
    model, file = str(folder / "model"), folder / "sentences.txt"
    lines = file.read_bytes().removesuffix(b"\n").count(b"\n") + 1 if file.stat().st_size else 0
    for options in ([], ["--tokenized"]):
        out = command(["parse", model, str(file), "--jobs", "1", *options])
        assert out.count("\n") == lines, f"{lines} lines gave {out.count(chr(10))}"
        (folder / "out.mrg").write_text(out, encoding="utf-8")
        list(read_trees(folder / "out.mrg"))
        arguments = [model, str(file), "--format", "json", "--n-best", "2", "--jobs", "1", *options]
        for line in command(["parse", *arguments]).splitlines():
            strict_json(line)


def check_evaluate(folder: Path) -> None:
    """Scores, or an error in one line."""
    everything = ["--by-label", "--by-length", "--attachments", "--json", "--jobs", "1"]
    report = strict_json(
        command(["evaluate", str(folder / "model"), str(folder / "gold.mrg"), *everything])
    )
    f1 = report["f1"]
    if f1 is not None and not 0 <= f1 <= 100:
        raise AssertionError(f"F1 {f1}")


PROGRAMS = (
    Target("parse", _make, _mutate_sentences, check_parse, seconds=60),
    Target("evaluate", _make, _mutate_gold, check_evaluate, seconds=60),
)
