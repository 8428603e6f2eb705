"""Look up the notes of a diagnosis by their codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnparse.study.diagnosis import Diagnosis


def codes(diagnosis: Diagnosis) -> list[str]:
    """The codes of all notes, in order."""
    return [note.code for note in diagnosis.notes]


def values_of(diagnosis: Diagnosis, code: str) -> Mapping[str, Any]:
    """The values of the only note with this code."""
    (only,) = [note for note in diagnosis.notes if note.code == code]
    return only.values
