"""All sentences are in one snapshot, and the docs describe all evidence."""

from __future__ import annotations

from rnnparse.study.diagnosis import EVIDENCE, LABELS, RULES
from rnnparse.study.diagnosis.advice import SENTENCES
from tests.study.diagnosis import snapshots
from tests.study.diagnosis.synthetic_curves import MAKERS


def test_the_snapshots_are_up_to_date() -> None:
    assert snapshots.SENTENCES.read_text("utf-8") == snapshots.sentences()
    assert snapshots.PAGE.read_text("utf-8") == snapshots.page()
    assert "| `update_ratio` |" in snapshots.page() and "\n| stalled | The" in snapshots.page()


def test_the_snapshot_has_every_code() -> None:
    codes = {note.code for notes in snapshots.samples().values() for note in notes}
    assert codes == set(SENTENCES)


def test_the_rules_and_the_evidence_have_words() -> None:
    assert set(RULES) == set(MAKERS) | {"failed"} == set(LABELS)
    assert all(rule.endswith((".", ".)")) for rule in RULES.values())
    assert all(EVIDENCE.values())
