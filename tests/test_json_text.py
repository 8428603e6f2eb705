"""JSON is that of the standard, whatever it has to hold; and no other place writes it."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

import rnnparse
from rnnparse.files import write_json
from rnnparse.json_text import to_json
from tests.fuzz.commands import strict_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": math.nan, "b": [1.5, math.inf], "c": -math.inf}, {"a": None, "b": [1.5, None]}),
        ([np.float64("nan"), np.float64(2)], [None, 2.0]),
        ({"text": "NaN α\n"}, {"text": "NaN α\n"}),
    ],
)
def test_numbers_that_are_not_finite_are_null(value: object, expected: object) -> None:
    for indent in (None, 2):
        read = strict_json(to_json(value, indent))
        if isinstance(read, dict):
            assert read.pop("c", None) is None
        assert read == expected


def test_names_that_are_not_utf8_come_back(tmp_path: Path) -> None:
    name = os.fsdecode(b"tree\xffb\xc3\xa4nk.mrg")
    write_json(tmp_path / "x.json", {"treebank": name})
    text = (tmp_path / "x.json").read_text("utf-8")
    assert json.loads(text) == {"treebank": name} and "bänk" in text


def test_json_is_written_in_one_place() -> None:
    """Elsewhere only with allow_nan=False, or text alone."""
    folder = Path(rnnparse.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        for line in re.findall(r".*json\.dump.*", file.read_text("utf-8")):
            sound = file.name == "json_text.py" or "allow_nan=False" in line
            assert sound or "json.dumps(name)" in line, f"{file}: {line}"
