"""Parameter files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnparse.errors import ConfigError
from rnnparse.evaluation import EvalbParams


def load(folder: Path, text: str) -> EvalbParams:
    path = folder / "a.prm"
    path.write_text(text)
    return EvalbParams.load(path)


def test_built_in_collins_equals_the_file(shared: Path) -> None:
    assert EvalbParams.load(shared / "evalb-cases" / "COLLINS.prm") == EvalbParams.collins()


def test_all_keywords(tmp_path: Path) -> None:
    text = """## a comment
DEBUG 1

MAX_ERROR   7\t
CUTOFF_LEN 15
LABELED 0
DELETE_LABEL #
DELETE_LABEL ''
DELETE_LABEL_FOR_LENGTH -NONE-
QUOTE_LABEL POS
EQ_LABEL ADVP PRT
EQ_WORD  Colour color
"""
    assert load(tmp_path, text) == EvalbParams(
        debug=1,
        max_error=7,
        cutoff_len=15,
        labeled=False,
        delete_labels=("#", "''"),
        delete_labels_for_length=("-NONE-",),
        quote_labels=("POS",),
        eq_labels=(("ADVP", "PRT"),),
        eq_words=(("Colour", "color"),),
    )


def test_defaults_are_evalbs_own(tmp_path: Path) -> None:
    params = load(tmp_path, "")
    assert params == EvalbParams()
    assert (params.max_error, params.cutoff_len, params.labeled) == (10, 40, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("DELETE_LABLE TOP", r"unknown keyword 'DELETE_LABLE'.*DELETE_LABEL"),
        ("DELETE_LABEL", "needs one label, not 0"),
        ("DELETE_LABEL , :", "needs one label, not 2"),
        ("EQ_LABEL ADVP", "needs two values, not 1"),
        ("EQ_WORD a b c", "needs two values, not 3"),
        ("MAX_ERROR many", "needs a whole number, not 'many'"),
        ("CUTOFF_LEN 40 70", "needs one whole number, not 2 values"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"a\.prm:3: .*{message}"):
        load(tmp_path, f"# one\nDEBUG 0\n{line}\n")


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.prm: cannot read"):
        EvalbParams.load(tmp_path / "none.prm")


def test_equality_goes_both_ways_but_not_in_chains() -> None:
    params = EvalbParams(eq_labels=(("A", "B"), ("B", "C")), eq_words=(("x", "y"),))
    assert params.labels_equal("A", "B") and params.labels_equal("B", "A")
    assert not params.labels_equal("A", "C")
    assert params.words_equal("y", "x") and not params.words_equal("A", "B")


def test_what_equals_a_deleted_label_is_deleted() -> None:
    params = EvalbParams(delete_labels=("PRT",), eq_labels=(("ADVP", "PRT"),))
    assert params.deleted_brackets == {"ADVP", "PRT"}
    assert params.deleted_tags == {"PRT"}
