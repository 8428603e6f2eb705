"""Conventions of treebanks: what is a trace, what is no part of a sentence, where labels end."""

from __future__ import annotations

import io
import json
import logging

import pytest
from nltk.tree import Tree

from rnnparse.errors import ConfigError
from rnnparse.trees.brackets import format_tree, read_trees
from rnnparse.trees.cleaning import clean, prune
from rnnparse.trees.corpus import read_clean
from rnnparse.trees.style import DROP, STYLES, TRACES, TreebankStyle

ICELANDIC = (
    "( (IP-MAT (NP-SBJ *con*) (CODE <P_2>) (VBDI fór-fara) (CP-REL (WNP-1 0) (C sem-sem) "
    "(IP-SUB (NP-SBJ *T*-1) (VBDI sá-sjá))) (. .-.)) (ID 1150.X,.2))"
)


def cleaned(text: str, **style: object) -> list[str]:
    pairs = read_clean(io.StringIO(text), TreebankStyle.from_dict(style))
    return [format_tree(tree) for _, tree in pairs if tree is not None]


def test_ids_codes_and_bare_traces_go():
    expected = "(TOP (IP (VBDI fór-fara) (CP (C sem-sem) (IP (VBDI sá-sjá))) (. .-.)))"
    assert cleaned(ICELANDIC) == [expected]
    assert cleaned("(S (sn.e-SUJ *0*) (grup.verb (vsip3s0 Es)))") == [
        "(TOP (S (grup.verb (vsip3s0 Es))))"
    ]


@pytest.mark.parametrize(
    "leaf",
    [
        "(-NONE- anything)", "(NP *con*)", "(NP-SBJ *pro*)", "(IP-SUB *ICH*-2)", "(NP-1 *T*-12)",
        "(NP *speaker+hearer*)", "(NP-SBJ *hearer*)", "(NP *exp*)", "(NP-OB1 *arb*)", "(sn.e *0*)",
        "(NP-SBJ *-1)", "(C 0)", "(WNP-2 0)", "(WADVP 0)", "(P 0)", "(NP-SBJ *)", "(ADVP *)",
    ],
)  # fmt: skip
def test_traces(leaf):
    assert clean(Tree.fromstring(f"(IP {leaf})")) is None


@pytest.mark.parametrize(
    "leaf",
    [
        "(CD 0)", "(Z 0)", "(NUM 0)", "(: *)", "(Fz *)", "(NFP *)", "(SYM *)", "(NN *)", "(RB **)",
        "(RB *really*)", "(RB *NOT*)", "(NN *U*)", "(UH *sigh*)", "(CD 1/0)", "(NN T*)", "(NNP P*)",
        "(NFP ***)", "(VBP *)",
    ],
)  # fmt: skip
def test_asterisks_and_noughts_that_are_words(leaf):
    assert clean(Tree.fromstring(f"(IP {leaf})")) is not None


def test_what_is_left_out_and_what_looks_like_it_is_counted(caplog):
    text = "(S (NP *odd*) (NP (RB *so*)) (X 0) (X (CD 0)) (: *) (V a))\n" * 2
    with caplog.at_level(logging.WARNING, "rnnparse"):
        assert len(cleaned(ICELANDIC + text + "( (NP (-NONE- *)))")) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "<text>: 1 tree(s) hold only traces",
        "<text>: removed 2 node(s) labelled CODE, ID (--drop) and 3 trace(s) such as (NP *con*), "
        "(WNP 0), (NP *T*-1) (--traces)",
        "<text>: kept 6 word(s) that look like traces such as (NP *odd*), (RB *so*), (X 0); if "
        "they are traces, remove them with --traces",
    ]


def test_no_warning_where_there_is_nothing_to_tell(caplog):
    assert cleaned("(S (NP-SBJ (-NONE- *)) (CD 0) (: *))") == ["(TOP (S (CD 0) (: *)))"]
    assert not caplog.records


def test_patterns_and_labels_as_settings():
    text = "(S (NP (N a)) (ID x) (X (N b)) (NP *con*) (NP @1))"
    assert cleaned(text, traces=[r"@\d"], drop=["X"]) == ["(TOP (S (NP (N a)) (ID x) (NP *con*)))"]
    assert cleaned(text, traces=["default", "NP @1"], drop=["default", "X"]) == [
        "(TOP (S (NP (N a))))"
    ]
    kept = ["(TOP (S (NP (N a)) (ID x) (X (N b)) (NP *con*) (NP @1)))"]
    assert cleaned(text, traces=[], drop=[]) == kept
    assert cleaned("(X (N b))", drop=["X"]) == []


def test_label_separators():
    text = "(ADJP*OC (JJ#case=nom big) (# #) (NN##x a) (NP-SBJ (NN b)))"
    assert cleaned(text) == ["(TOP (ADJP*OC (JJ#case big) (# #) (NN##x a) (NP (NN b))))"]
    assert cleaned(text, separators=["default", "*", "#"]) == [
        "(TOP (ADJP (JJ big) (# #) (NN a) (NP (NN b))))"
    ]
    assert cleaned(text, separators=["##"]) == [
        "(TOP (ADJP*OC (JJ#case=nom big) (# #) (NN a) (NP-SBJ (NN b))))"
    ]
    assert cleaned("(S-A (N a))", separators=[]) == ["(TOP (S-A (N a)))"]


def test_gold_trees_keep_their_labels_but_for_further_separators():
    (tree,) = read_trees(io.StringIO(ICELANDIC))
    pruned = prune(tree)
    assert pruned is not None
    assert format_tree(pruned) == (
        "( (IP-MAT (VBDI fór-fara) (CP-REL (C sem-sem) (IP-SUB (VBDI sá-sjá))) (. .-.)) )"
    )
    (tree,) = read_trees(io.StringIO("(S-X (NP-A*B (NN-1 a)) (-NONE- *))"))
    pruned = prune(tree, TreebankStyle(separators=("default", "*")))
    assert pruned == Tree.fromstring("(S-X (NP-A (NN-1 a)))")


def test_a_style_goes_through_json():
    for style in (*STYLES.values(), TreebankStyle(strict=True, separators=("*",))):
        assert TreebankStyle.from_dict(json.loads(json.dumps(style.to_dict()))) == style
    assert TreebankStyle().to_dict() == {}
    assert TreebankStyle(traces=("default", "x"), drop="default").traces == (*TRACES, "x")
    assert TreebankStyle(drop="default").drop == DROP


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"encoding": "utf-9"}, "unknown encoding 'utf-9'"),
        ({"encoding": "rot13"}, "unknown encoding"),
        ({"encoding": 8}, "unknown encoding 8"),
        ({"traces": ["(a"]}, r"the trace pattern '\(a' is not a regular expression"),
        ({"traces": [1]}, "traces must be a list of strings"),
        ({"drop": 3}, "drop must be a list of strings"),
        ({"separators": [""]}, "must not be empty"),
        ({"strict": "yes"}, "strict must be true or false"),
        ({"codec": "utf-8"}, "unknown settings of a treebank style: codec"),
        ("latin-1", "must be a table"),
    ],
)
def test_wrong_settings(values, words):
    with pytest.raises(ConfigError, match=words):
        TreebankStyle.from_dict(values)
