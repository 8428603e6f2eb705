from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.errors import ConfigError
from rnnparse.optim.name_patterns import match_names

NAMES = ("<rare>", "NP", "NP,VP", "NP,PP", "VP,NP", "vp")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["NP"], ["NP"]),
        (["NP,*"], ["NP,VP", "NP,PP"]),
        (["*,NP"], ["VP,NP"]),
        (["?P"], ["NP"]),
        (["NP,[VX]P"], ["NP,VP"]),
        (["<rare>", "VP,NP"], ["<rare>", "VP,NP"]),
        (["*"], list(NAMES)),
        ([], []),
        ("NP", ["NP"]),
    ],
)
def test_patterns_match_as_in_a_shell(patterns: list[str], expected: list[str]) -> None:
    chosen = match_names(patterns, NAMES)
    assert chosen.dtype == bool
    assert [NAMES[i] for i in np.flatnonzero(chosen)] == expected


def test_every_occurrence_of_a_name_is_matched() -> None:
    assert match_names(["a"], ["a", "b", "a"]).tolist() == [True, False, True]


@given(st.lists(st.text("ab[]*?!-,", min_size=1), min_size=1))
def test_a_name_matches_itself_whatever_is_in_it(names: list[str]) -> None:
    for name in names:
        assert match_names([name], names)[names.index(name)]


def test_special_characters_can_be_meant_as_they_are() -> None:
    names = ["X", "*", "?", "["]
    for i, pattern in enumerate(("[*]", "[?]", "[[]"), start=1):
        assert np.flatnonzero(match_names([pattern], names)).tolist() == [i]


def test_a_pattern_without_a_match_names_what_comes_close() -> None:
    with pytest.raises(ConfigError, match=r"no row of W matches 'NP,VPP'; did you mean NP,VP"):
        match_names(["NP", "NP,VPP"], NAMES, "row of W")


def test_a_pattern_far_from_everything_names_the_first_names() -> None:
    names = [f"name{i}" for i in range(20)]
    with pytest.raises(ConfigError, match=r"'###'; known are name0, .*, name7 and 12 more$"):
        match_names(["###"], names)
    with pytest.raises(ConfigError, match=r"known are NP, VP$"):
        match_names(["###"], ["NP", "VP", "NP"])
    with pytest.raises(ConfigError, match="there are no names"):
        match_names(["*"], [])


def test_patterns_do_not_wait_for_tensorflow() -> None:
    code = "import sys, rnnparse.optim.name_patterns; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
