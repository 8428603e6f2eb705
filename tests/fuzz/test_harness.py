"""The fuzzing harness notices all that can go wrong; and a short run of every reader."""

from __future__ import annotations

import ctypes
import random
import time
from pathlib import Path

import pytest

from rnnparse.errors import ConfigError
from tests.fuzz.harness import ACCEPTED, FAILED, REFUSED, Target, fuzz, run_case
from tests.fuzz.readers import READERS


def _make(folder: Path) -> None:
    (folder / "number").write_text("0")


def _mutate(folder: Path, rng: random.Random) -> None:
    (folder / "number").write_text(str(rng.randrange(1, 7)))


def _check(folder: Path) -> None:
    match (folder / "number").read_text():
        case "1":
            raise ConfigError("refused")
        case "2":
            raise KeyError("a traceback")
        case "3":
            ctypes.string_at(0)
        case "4":
            time.sleep(60)
        case "5":
            bytearray(1 << 34)


WORST = Target("worst", _make, _mutate, _check, seconds=1.0, memory=1 << 30)
"""Each number from 1 to 5 ends in another way; with seed 84 the first six cases have all six."""


@pytest.mark.slow
def test_every_kind_of_failure_is_recorded(tmp_path: Path) -> None:
    report = fuzz("tests.fuzz.test_harness:WORST", 84, tmp_path, cases=6)
    assert report.counts == {ACCEPTED: 1, REFUSED: 1, FAILED: 4}
    kinds = " ".join(report.kinds)
    for sign in ("KeyError", "SIGSEGV", "no end in 1 s", "MemoryError"):
        assert sign in kinds
    for place in tmp_path.iterdir():
        assert (place / "number").read_text() in "2345"
        assert (place / "failure.txt").read_text()
    assert len(list(tmp_path.iterdir())) == len(report.kinds) == 4


def test_the_same_seed_gives_the_same_case(tmp_path: Path) -> None:
    sample = tmp_path / "sample"
    sample.mkdir()
    READERS[0].make(sample)
    texts = []
    for work in (tmp_path / "a", tmp_path / "b"):
        run_case(READERS[0], sample, work, 3, 14)
        texts.append((work / "trees.mrg").read_bytes())
    assert texts[0] == texts[1] != (sample / "trees.mrg").read_bytes()


@pytest.mark.parametrize("target", READERS, ids=lambda target: target.name)
def test_readers_accept_or_refuse(target: Target, tmp_path: Path) -> None:
    sample = tmp_path / "sample"
    sample.mkdir()
    target.make(sample)
    target.check(sample)
    for case in range(40):
        outcome = run_case(target, sample, tmp_path / str(case), 0, case)
        assert outcome.result != FAILED, f"case 0/{case}: {outcome.detail}"
