"""What diagnoses say: one snapshot has all sentences, and the docs describe all evidence."""

from __future__ import annotations

from rnnparse.study.diagnosis import EVIDENCE, LABELS, RULES
from rnnparse.study.diagnosis.evidence import evidence_table
from rnnparse.study.diagnosis.wording import SENTENCES as WORDING
from tests.study.diagnosis import snapshots
from tests.study.diagnosis.synthetic_curves import MAKERS


def test_the_sentences_are_those_of_the_snapshot() -> None:
    assert snapshots.SENTENCES.read_text("utf-8") == snapshots.sentences()


def test_the_snapshot_has_every_code() -> None:
    derived = {"update_length_times"}  # of `update_length`
    assert {note.code for note in snapshots.SAMPLES} == set(WORDING) - derived


def test_the_rules_and_the_evidence_have_words() -> None:
    assert set(RULES) == set(MAKERS) | {"failed"} == set(LABELS)
    assert all(rule.endswith((".", ".)")) for rule in RULES.values())
    assert all(EVIDENCE.values())


def test_the_docs_describe_the_evidence() -> None:
    assert evidence_table() in snapshots.PAGE.read_text("utf-8")
