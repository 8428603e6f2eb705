"""Scoring of trees: against hand counts, against plain counting, and against the file path."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.evaluation import EvalbParams, Evaluation, evalb, evaluate, evaluate_files, spans
from tests.evaluation.strategies import plain_counts, plain_spans, tree_pairs

DELETED = {"TOP", "-NONE-", ",", ":", "``", "''", "."}


def parse(text: str) -> Tree:
    return Tree.fromstring(text)


def test_numbers_counted_by_hand() -> None:
    gold = [
        parse(
            "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN udon)) (PP (IN with) (NP (NNS forks))))"
            " (. .)))"
        ),
        parse("(TOP (S (NP (NN rain)) (VP (VBZ falls))))"),
        parse("(TOP (NP (NN rain)))"),
        parse("(TOP (NP (NN rain)))"),
    ]
    test = [
        parse(
            "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NP (NN udon)) (PP (IN with)"
            " (NP (NNP forks))))) (. .)))"
        ),
        gold[1],
        parse("(TOP (NP (NN snow)))"),
        Tree("TOP", []),
    ]
    evaluation = evaluate(gold, test)
    # S, NP, VP, NP(udon), PP, NP(forks) in gold; the test tree has one NP more.
    first = evaluation.sentences[0]
    assert (first.id, first.length, first.status) == (1, 6, 0)
    assert (first.matched, first.gold, first.test, first.crossing) == (6, 6, 7, 0)
    assert (first.words, first.correct_tags) == (5, 4)
    assert [row.status for row in evaluation.sentences] == [0, 0, 1, 2]
    assert evaluation.messages == ["3 : Words unmatch (rain|snow)"]
    summary = evaluation.summary()
    assert summary.pop("len<=40") == summary
    assert summary == {
        "f1": pytest.approx(200 * 9 / 19),
        "precision": 90.0,
        "recall": 100.0,
        "complete_match": 50.0,
        "average_crossing": 0.0,
        "no_crossing": 100.0,
        "two_or_less_crossing": 100.0,
        "tagging_accuracy": pytest.approx(600 / 7),
        "sentences": 4,
        "errors": 1,
        "skipped": 1,
        "valid": 2,
        "matched_brackets": 9,
        "gold_brackets": 9,
        "test_brackets": 10,
        "crossing_brackets": 0,
        "words": 7,
        "correct_tags": 6,
    }


def test_crossing_is_counted_in_test_brackets() -> None:
    gold = parse("(S (A (N a) (N b) (N c)) (B (N d) (N e) (N f)))")
    test = parse("(S (A (N a) (N b)) (X (N c) (N d)) (Y (N e) (Z (N f))))")
    # X crosses both A and B of gold and counts once; Y and Z lie within B.
    row = evaluate([gold], [test], EvalbParams()).sentences[0]
    assert (row.crossing, row.matched, row.gold, row.test) == (1, 1, 3, 5)


def test_punctuation_and_traces_are_out_of_the_spans_but_not_of_the_length() -> None:
    tree = parse("(TOP (S (NP-SBJ (-NONE- *)) (VP (VB Go) (, ,) (ADVP=2 (RB now))) (. !)))")
    assert spans(tree) == [("S", 0, 2), ("VP", 0, 2), ("ADVP", 1, 2)]
    row = evaluate([tree], [tree]).sentences[0]
    assert (row.length, row.words) == (4, 2)


def test_cutoff_counts_the_length() -> None:
    short, long = parse("(S (N a))"), parse("(S (N a) (N b) (N c))")
    summary = evaluate([short, long], [short, long], EvalbParams(cutoff_len=2)).summary()
    assert (summary["sentences"], summary["len<=2"]["sentences"]) == (2, 1)
    assert "len<=40" not in summary


def test_unlabelled_comparison() -> None:
    gold, test = parse("(S (A (N a) (N b)) (N c))"), parse("(X (Y (N a) (N b)) (N c))")
    assert evaluate([gold], [test]).summary()["f1"] == 0.0
    assert evaluate([gold], [test], EvalbParams(labeled=False)).summary()["f1"] == 100.0


def test_undefined_numbers_are_null_in_json() -> None:
    no_brackets = Tree("N", ["a"])
    summary = json.loads(json.dumps(evaluate([no_brackets], [no_brackets]).summary()))
    assert (summary["f1"], summary["precision"], summary["recall"]) == (None, None, None)
    assert summary["tagging_accuracy"] == 100.0
    nothing = evaluate([], []).summary()
    assert nothing["complete_match"] is None and nothing["average_crossing"] is None
    assert nothing["tagging_accuracy"] is None
    one_sided = evaluate([parse("(S (N a))")], [no_brackets]).summary()
    assert (one_sided["f1"], one_sided["precision"], one_sided["recall"]) == (0.0, None, 0.0)


def test_trees_in_error_do_not_stop_the_run() -> None:
    gold, test = [parse("(S (N a))")] * 30, [parse("(S (N b))")] * 30
    evaluation = evaluate(gold, test)
    assert (evaluation.summary()["errors"], evaluation.stopped) == (30, False)


def test_the_example_in_the_documentation() -> None:
    failed, attempted = doctest.testmod(evalb)
    assert failed == 0 and attempted > 0


def test_bad_arguments() -> None:
    tree = parse("(S (N a))")
    with pytest.raises(TreebankError, match="2 gold trees cannot be compared with 1 test trees"):
        evaluate([tree, tree], [tree])
    with pytest.raises(TreebankError, match=r"test tree 2: the word 'a' under S has siblings"):
        evaluate([tree, tree], [tree, Tree("S", ["a", tree])])


@settings(max_examples=60, deadline=None)
@given(tree_pairs())
def test_counts_equal_plain_counting(pair: tuple[Tree, Tree]) -> None:
    gold, test = pair
    row = evaluate([gold], [test]).sentences[0]
    if row.status == 2:
        assert all(tag in DELETED for _, tag in test.pos())
        return
    assert row.status == 0
    assert (row.matched, row.gold, row.test, row.crossing) == plain_counts(gold, test, DELETED)
    renamed = [("ADVP" if a == "PRT" else a, b, c) for a, b, c in spans(gold)]
    assert sorted(renamed) == sorted(plain_spans(gold, DELETED))


@settings(max_examples=40, deadline=None)
@given(st.lists(tree_pairs(), min_size=1, max_size=5))
def test_identity_and_swap(pairs: list[tuple[Tree, Tree]]) -> None:
    gold, test = [list(side) for side in zip(*pairs, strict=True)]
    same = evaluate(gold, gold).summary()
    assert same["f1"] in (100.0, None) and same["complete_match"] in (100.0, None)
    assert same["crossing_brackets"] == 0
    there, back = evaluate(gold, test).summary(), evaluate(test, gold).summary()
    assert (there["precision"], there["recall"]) == (back["recall"], back["precision"])
    assert there["f1"] == back["f1"]


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(tree_pairs(), min_size=1, max_size=5), labeled=st.booleans())
def test_trees_score_as_their_written_form(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[Tree, Tree]], labeled: bool
) -> None:
    params = replace(EvalbParams.collins(), labeled=labeled, debug=1)
    folder = tmp_path_factory.mktemp("pairs")
    for side, name in enumerate(("gold", "test")):
        lines = [" ".join(str(pair[side]).split()) for pair in pairs]
        (folder / name).write_text("\n".join(lines) + "\n")
    from_trees = evaluate([gold for gold, _ in pairs], [test for _, test in pairs], params)
    from_files = evaluate_files(folder / "gold", folder / "test", params)
    assert isinstance(from_trees, Evaluation)
    assert from_trees.sentences == from_files.sentences
    assert from_trees.format_table() == from_files.format_table()


def test_gold_tags_decide_which_words_are_deleted() -> None:
    gold = parse("(TOP (S (NP (NN rain)) (NP (-NONE- *T*)) (VP (VBZ falls)) (, --) (. .)))")
    test = parse("(TOP (S (NP (NN rain)) (, falls) (VP (NN --) (SYM .))))")
    assert evaluate([gold], [test]).missing()["length mismatch"] == 1
    params = replace(EvalbParams.collins(), delete_by="gold")
    result = evaluate([gold], [test], params)
    (row,) = result.sentences
    assert (row.status, row.reason, row.words, row.correct_tags, row.length) == (0, "", 2, 1, 4)
    assert (row.matched, row.gold, row.test) == (2, 3, 2)  # the VP holds deleted words alone
    assert not any(result.missing().values())
    same = evaluate([gold], [gold], params)
    assert same.sentences == evaluate([gold], [gold]).sentences
    other = parse("(TOP (S (NP (NN snow)) (VP (VBZ falls)) (, --) (. .)))")
    assert evaluate([gold], [other], params).missing()["word mismatch"] == 1
    assert evaluate([gold], [Tree("TOP", [])], params).missing()["no tree"] == 1
