"""Compare records but for what equal trials differ in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def without_times(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without the values that differ between equal trials."""
    kept = {name: value for name, value in record.items() if name not in ("seconds", "host")}
    kept["epochs"] = [
        {name: value for name, value in epoch.items() if name != "seconds"}
        for epoch in record["epochs"]
    ]
    return kept
