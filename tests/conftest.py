"""Paths to data that lies outside the project; tests that need it skip where it is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real treebanks, vectors and EVALB outputs, or skip."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared with real treebanks is absent")
    return SHARED
