"""Head rules: what they choose, their text format, and the compiled kernel against `find`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.errors import ConfigError
from rnnparse.trees.head_kernel import find_head
from rnnparse.trees.heads import DIRECTIONS, HeadRule, HeadTable

LABELS = [*"ABCDEFGH", "#", "@X", "PRP$"]
PARENTS = [*"ABCD", "@X"]

labels = st.sampled_from(LABELS)
rules = st.one_of(
    st.builds(
        HeadRule,
        st.sampled_from(DIRECTIONS),
        st.lists(labels, min_size=1, max_size=4).map(tuple),
    ),
    st.builds(HeadRule, st.sampled_from(["left", "right"]), st.just(())),
)
tables = st.builds(
    HeadTable,
    st.dictionaries(st.sampled_from(PARENTS), st.lists(rules, min_size=1, max_size=4).map(tuple)),
    st.sampled_from(["left", "right"]),
)


@pytest.mark.parametrize(
    ("direction", "names", "children", "head"),
    [
        ("left", "AB", "CBAXA", 2),
        ("right", "AB", "CBAXA", 4),
        ("left-any", "AB", "CBAXA", 1),
        ("right-any", "AB", "CABX", 2),
        ("left", "", "CAB", 0),
        ("right", "", "CAB", 2),
        ("left", "D", "CAB", None),
        ("right-any", "D", "CAB", None),
    ],
)
def test_directions(direction, names, children, head):
    assert HeadRule(direction, tuple(names)).find(list(children)) == head


def test_rules_in_order_then_default():
    rules = {"P": (HeadRule("left", ("A",)), HeadRule("right-any", ("B", "C")))}
    assert HeadTable(rules, "right").find("P", ["B", "A", "C"]) == 1
    assert HeadTable(rules, "right").find("P", ["B", "C", "D"]) == 1
    assert HeadTable(rules, "right").find("P", ["D", "D"]) == 1
    assert HeadTable(rules, "left").find("P", ["D", "D"]) == 0
    assert HeadTable(rules, "right").find("Q", ["A", "D"]) == 1
    assert HeadTable.left().find("P", ["A", "B"]) == 0
    assert HeadTable.right().find("P", ["A", "B"]) == 1
    with pytest.raises(ValueError):
        HeadTable.left().find("P", [])


@pytest.mark.parametrize(
    ("parent", "children", "head"),
    [
        ("S", "NP VP .", "VP"),
        ("S", "NP , S", "S"),
        ("VP", "MD ADVP VP", "MD"),
        ("VP", "TO VP", "TO"),
        ("NP", "DT JJ NN NNS", "NNS"),
        ("NP", "NP PP SBAR", "NP"),
        ("NP", "NNP NNP POS", "POS"),
        ("NP", "DT CD JJ", "CD"),
        ("NP", "DT $ CD", "$"),
        ("NP", "NP , NP CC NP", "NP"),
        ("NP", "DT ,", ","),
        ("NP", "JJ NML", "NML"),
        ("NML", "JJ NN HYPH", "NN"),
        ("PP", "ADVP IN NP", "IN"),
        ("SBAR", "WHNP S", "WHNP"),
        ("SBAR", "ADVP IN S", "IN"),
        ("ADJP", "RB JJ PP", "JJ"),
        ("QP", "IN CD", "IN"),
        ("QP", "JJR IN CD", "IN"),
        ("WHPP", "IN WHNP", "IN"),
        ("SINV", "PP VP NP .", "VP"),
        ("PRN", "-LRB- NP -RRB-", "NP"),
        ("FRAG", "NP : NP .", "NP"),
        ("UCP", "ADJP CC NP .", "NP"),
        ("HEADING", "NP .", "NP"),
        ("TOP", "`` S", "S"),
    ],
)
def test_english(parent, children, head):
    head_index = HeadTable.english().find(parent, children.split())
    assert children.split()[head_index] == head


def test_english_takes_the_first_of_coordinated_noun_phrases():
    assert HeadTable.english().find("NP", ["NP", "CC", "NP"]) == 0


def test_text_format():
    text = "# comment\n\n* right\nA left B C\n  A right-any # $\nB right\n"
    table = HeadTable.from_text(text)
    assert table == HeadTable(
        {
            "A": (HeadRule("left", ("B", "C")), HeadRule("right-any", ("#", "$"))),
            "B": (HeadRule("right", ()),),
        },
        "right",
    )
    assert table.to_text() == "* right\nA left B C\nA right-any # $\nB right\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* left\nA\n", "f:2: expected a parent label and a direction, found 'A'"),
        ("* left\n\nA up B\n", "f:3: unknown direction 'up'"),
        ("* left\nA left-any\n", "f:2: a head rule 'left-any' needs at least one label"),
        ("* left\n* right\n", "f:2: expected the line '[*]' once"),
        ("* left B\n", "f:1: expected the line '[*]' once, with left or right alone"),
        ("A left B\n", "f: the line '[*] left' or '[*] right'"),
        ("", "f: the line"),
        ("* left-any A\n", "f:1"),
    ],
)
def test_malformed_text(text, message):
    with pytest.raises(ConfigError, match=message):
        HeadTable.from_text(text, "f")


def test_files(tmp_path):
    path = tmp_path / "rules"
    path.write_bytes(b"\xef\xbb\xbf* left\r\nA right B\r\n")
    assert HeadTable.load(path) == HeadTable({"A": (HeadRule("right", ("B",)),)}, "left")
    path.write_bytes(b"* left\nA left \xff\n")
    with pytest.raises(ConfigError, match="cannot read head rules"):
        HeadTable.load(path)
    with pytest.raises(ConfigError, match=r"no\.heads: cannot read head rules: No such file"):
        HeadTable.load(tmp_path / "no.heads")


def test_what_the_format_cannot_hold():
    for parent in ("", "a b", "#", "*"):
        with pytest.raises(ConfigError):
            HeadTable({parent: (HeadRule("left", ()),)})
    for bad in ("", "a b"):
        with pytest.raises(ConfigError):
            HeadRule("left", (bad,))
    with pytest.raises(ConfigError):
        HeadTable({}, "middle")


@given(tables)
def test_round_trip_of_the_text_format(table):
    assert HeadTable.from_text(table.to_text()) == table


def test_round_trip_of_the_english_table():
    table = HeadTable.english()
    assert HeadTable.from_text(table.to_text()) == table


@given(tables, st.permutations(LABELS), st.integers(1, len(LABELS)), st.data())
def test_compiled_heads_agree(table, order, known, data):
    names = order[:known]
    compiled = table.compile(names)
    ids = st.integers(0, known - 1)
    parent = data.draw(ids)
    kids = data.draw(st.lists(ids, min_size=1, max_size=6))
    expected = table.find(names[parent], [names[kid] for kid in kids])
    padded = np.array([*kids, 0, 0], np.int32)
    assert find_head(parent, padded, len(kids), *compiled.arrays) == expected


def test_compiled_heads_of_unknown_parents():
    compiled = HeadTable({"A": (HeadRule("left", ("B",)),)}, "right").compile(["A", "B"])
    kids = np.array([1, 0], np.int32)
    assert find_head(0, kids, 2, *compiled.arrays) == 0
    assert find_head(-1, kids, 2, *compiled.arrays) == 1
    assert find_head(7, kids, 2, *compiled.arrays) == 1


def test_imports_stay_light():
    modules = ("heads", "binarization", "brackets")
    code = "; ".join(f"import sys, rnnparse.trees.{name}; print(*sys.modules)" for name in modules)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    by_heads, *others = (set(line.split()) for line in done.stdout.splitlines())
    assert not {"nltk", "numba"} & by_heads
    assert len(others) == 2 and not any("numba" in loaded for loaded in others)
