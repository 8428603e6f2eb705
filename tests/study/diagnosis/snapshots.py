"""Write `sentences.txt`, all sentences of diagnoses, and the evidence table of docs/studies.md.

    python -m tests.study.diagnosis.snapshots

Run it after a change of wording, and read the difference.
"""

from __future__ import annotations

import re
from pathlib import Path

from rnnparse.study.diagnosis.advice import Advice, Finding
from rnnparse.study.diagnosis.evidence import evidence_table
from rnnparse.study.diagnosis.wording import advice_text

SENTENCES = Path(__file__).with_name("sentences.txt")
PAGE = Path(__file__).parents[3] / "docs" / "studies.md"
_TABLE = re.compile(r"^\| name \| meaning .*\n(\|.*\n)*", re.MULTILINE)

SAMPLES: list[Finding] = [
    Finding("out_of_memory"),
    Advice("less_memory"),
    Finding("no_objective"),
    Advice("yield_objective"),
    Finding("raised", error="ValueError"),
    Advice("run_alone"),
    Finding("broke_at_start"),
    Advice("check_data"),
    Finding("broke", place="update 7"),
    Finding("grew", times=23.456),
    Finding("rose"),
    Finding("update_length", ratio=0.0456),
    Finding("update_length", ratio=12.3),
    Advice("best_rate", rate="learning rate 0.1"),
    Advice("change_rate", factor=0.1, rate=30.0),
    Advice("change_rate", factor=3.0, rate=None),
    Finding("overfits", metric="dev_f1", drop=2.125, epoch=4.0),
    Finding("overfits", metric="val_loss", drop=0.0321, epoch=4.0),
    Advice("stop", epoch=4.0),
    Advice("raise_l2"),
    Advice("regularize"),
    Finding("swings", share=0.456),
    Finding("flat", share=0.0167, unit="epoch"),
    Finding("level"),
    Finding("gap", gap=0.2434, optimum=1.0),
    Finding("decay", exponent=0.52, low=0.51, high=0.53),
    Finding("zero_gradients"),
    Advice("check_units"),
    Finding("saturated", share=0.9),
    Finding("stands_still"),
    Finding("updates_shrank", share=1.4e-5),
    Advice("slower_schedule"),
    Finding("never_low"),
    Advice("other_start"),
    Finding("too_few_to_tell", count=3, unit="epoch"),
    Finding("too_few_updates", count=1, unit="update"),
    Finding("moved", share=0.016),
    Finding("went", share=0.031),
    Advice("more_updates"),
    Advice("times_updates", times=30.0),
    Finding("went_in", share=0.998, count=3, unit="epoch"),
    Advice("see_more_epochs"),
    Finding("above_start"),
    Finding("still_falls", share=0.38, unit="update"),
    Finding("dev_rests", metric="dev_f1", epochs=5.0),
    Finding("dev_rests", metric="val_loss", epochs=5.0),
    Advice("stop_here"),
    Finding("nears_optimum"),
    Advice("more_epochs"),
    Advice("times_epochs", times=3.0),
    Advice("decaying_rate"),
    Finding("l2_term", share=0.999),
    Finding("l2_fall", share=0.98),
    Finding("loss_falls", start=0.6289, end=0.0266),
    Finding("loss_stays", start=0.6289, end=0.63),
    Finding("loss_rises", start=0.6289, end=2.0),
    Advice("judge_by_loss"),
    Advice("lower_l2"),
    Advice("watch_loss"),
]
"""Every code, with values as they occur."""

TEXTS: list[list[Finding]] = [
    [Finding("stands_still"), Advice("more_updates"), Advice("raise_l2"), Finding("rose")],
]
"""How sentences follow each other."""


def sentences() -> str:
    """The contents of `sentences.txt`."""
    texts = [[note] for note in SAMPLES] + TEXTS
    return "".join(f"{' '.join(map(_call, text))}\n    {advice_text(text)}\n" for text in texts)


def _call(note: Finding) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in note.values.items())
    return f"{note.code}({values})"


def page_with_table() -> str:
    """docs/studies.md with its table as the evidence is declared."""
    return _TABLE.sub(lambda _: evidence_table(), PAGE.read_text("utf-8"), count=1)


if __name__ == "__main__":
    SENTENCES.write_text(sentences(), "utf-8")
    PAGE.write_text(page_with_table(), "utf-8")
