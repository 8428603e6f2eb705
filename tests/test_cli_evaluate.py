"""`rnnparse evaluate` and `rnnparse evalb`: the same numbers, in EVALB's words or in ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rnnparse.cli import main
from rnnparse.input_sentences import LONGEST_TEXT
from rnnparse.trees.brackets import load_trees
from rnnparse.trees.embedded import embedded_treebank

TEST = embedded_treebank("test")


def printed_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict:
    assert main([*map(str, arguments), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert isinstance(scores, dict)
    return scores


@pytest.mark.parametrize("scorer", ["pcfg", "cvg"])
def test_scores_are_those_of_evalb_on_the_written_trees(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], scorer: str
) -> None:
    out = tmp_path / "trees.mrg"
    ours = printed_json(capsys, "evaluate", trained, TEST, "--scorer", scorer, "--out", out)
    theirs = printed_json(capsys, "evalb", TEST, out)
    assert theirs.items() <= {**ours, "stopped": False}.items()
    assert ours["scorer"] == scorer and ours["sentences"] == 200 and ours["errors"] == 0
    assert [tree.leaves() for tree in load_trees(out)] == [
        tree.leaves() for tree in load_trees(TEST)
    ]


def test_the_network_halves_the_wrong_attachments(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pcfg = tmp_path / "pcfg.mrg"
    options = ["--attachments", "--by-label", "--by-length"]
    base = printed_json(
        capsys, "evaluate", trained, TEST, "--scorer", "pcfg", "--out", pcfg, *options
    )
    cvg = printed_json(capsys, "evaluate", trained, TEST, "--against", pcfg, *options)
    wrong = [scores["attachments"]["all"] for scores in (base, cvg)]
    assert wrong[0]["total"] == wrong[1]["total"]
    assert 2 * (wrong[1]["total"] - wrong[1]["correct"]) <= wrong[0]["total"] - wrong[0]["correct"]
    assert sum(row["gold"] for row in cvg["by_label"]) == cvg["gold_brackets"]
    assert sum(row["sentences"] for row in cvg["by_length"]) == 200
    assert cvg["against"]["f1"] == base["f1"]
    assert cvg["against"]["difference"] == pytest.approx(cvg["f1"] - base["f1"])
    assert cvg["against"]["p_value"] < 0.05


def test_tables_for_people(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = tmp_path / "gold.mrg"
    gold.write_text("".join(TEST.read_text().splitlines(keepends=True)[:20]))
    options = ["--attachments", "--by-label", "--by-length", "--against", str(gold)]
    assert main(["evaluate", str(trained), str(gold), *options]) == 0
    out = capsys.readouterr().out
    titles = [part.split("\n")[0].split("  ")[0] for part in out.split("\n\n")]
    assert titles == ["scorer: cvg", "label", "words", "attachment of", f"against {gold}"]
    assert re.search(r"\nF1 of the other trees +100\.00\n", out)


def test_gold_trees_of_other_looks(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Traces, function tags, other roots, brackets as they are, and a tree of traces alone."""
    gold = tmp_path / "gold.mrg"
    gold.write_text(
        "( (S (NP-SBJ (PRP They)) (VP (VBD ate)\n  (NP (NN udon)) (NP (-NONE- *T*-1))) (. .)) )\n"
        "(ROOT (NP (-NONE- *)))\n(ROOT (S (NP (PRP They)) (VP (VBD ate)) (-RRB- )) (. .)))\n"
        "(NN udon)\n"
    )
    scores = printed_json(capsys, "evaluate", trained, gold, "--out", tmp_path / "out.mrg")
    assert (scores["sentences"], scores["errors"], scores["skipped"]) == (4, 0, 1)
    assert scores["gold_brackets"] == 4 + 3
    leaves = [tree.leaves() for tree in load_trees(tmp_path / "out.mrg", keep_empty=True)]
    assert leaves == [["They", "ate", "udon", "."], [], ["They", "ate", "-RRB-", "."], ["udon"]]


def test_gold_without_a_word_is_an_error(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gold.mrg").write_text("(TOP (NP (-NONE- *)))\n")
    assert main(["evaluate", str(trained), str(tmp_path / "gold.mrg")]) == 2
    assert "gold.mrg: none of its trees has words" in capsys.readouterr().err


def test_sentences_missing_from_f1_are_counted_with_the_reason(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gold tags of `.` make EVALB delete other words than in the parser's trees."""
    right = "(TOP (S (NP (PRP They)) (VP (VBD ate)) (. .)))\n"
    gold = tmp_path / "gold.mrg"
    gold.write_text(right + right.replace("(. .)", "(SYM .)") * 2 + "(TOP (NP (. .)))\n")
    none = {"length mismatch": 0, "word mismatch": 0, "unbalanced brackets": 0, "no tree": 0}
    scores = printed_json(capsys, "evaluate", trained, gold)
    assert scores["missing"] == {**none, "length mismatch": 2, "no tree": 1}
    assert (scores["sentences"], scores["valid"], scores["delete_by"]) == (4, 1, "own")
    assert main(["evaluate", str(trained), str(gold)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "3 of 4 sentences are missing from F1: 2 length mismatch, 1 no tree; --delete-by "
        "gold scores those with a mismatch (punctuation with a wrong tag)"
    )
    options = ["--delete-by", "gold", "--by-label", "--by-length", "--against", str(gold)]
    by_gold = printed_json(capsys, "evaluate", trained, gold, *options)
    assert by_gold["missing"] == {**none, "no tree": 1}
    assert (by_gold["valid"], by_gold["f1"]) == (3, 100.0)
    assert sum(row["gold"] for row in by_gold["by_label"]) == by_gold["gold_brackets"] == 9
    assert by_gold["against"]["sentences"] == 3
    assert main(["evaluate", str(trained), str(gold), *options]) == 0
    out = capsys.readouterr().out
    assert re.search("^deleted by +gold tags$", out, re.MULTILINE)
    assert "\n1 of 4 sentences are missing from F1: 1 no tree\n" in out


def test_a_gold_sentence_too_long_to_parse_is_counted(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, out = tmp_path / "gold.mrg", tmp_path / "out.mrg"
    gold.write_text(f"(TOP (NP (NN udon)))\n(TOP (NP (NN {'x' * (LONGEST_TEXT + 1)})))\n")
    assert main(["evaluate", str(trained), str(gold), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "2 sentences are missing from F1: 1 no tree\n" in printed.out
    assert "1 gold sentence(s) could not be parsed; their output is (()): 2" in printed.err
    assert out.read_text().splitlines()[1] == "(())"


def test_sentences_over_the_budget_are_counted(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = tmp_path / "gold.mrg"
    long = "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN udon)))) (. .))"
    short = "(TOP (S (NP (PRP They)) (VP (VBD ate)) (. .)))"
    gold.write_text(f"{short}\n{long}\n(TOP (X (IN with) (IN with)))\n")
    options = ["evaluate", str(trained), str(gold), "--max-length", "3"]
    assert main(options) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^glued +2$\n^divided +1$", out, re.MULTILINE)
    assert "the grammar cannot span 1 sentence(s); their trees are glued from" in err
    assert "1 sentence(s) exceeded the budget and were parsed in parts: 2\n" in err
    scores = printed_json(capsys, *options)
    assert (scores["glued"], scores["divided"]) == ([2, 3], [2])


def test_trees_that_cannot_be_written_are_refused_before_the_work(
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rnnparse.parser.parse_nodes", lambda *_, **__: pytest.fail("parsed"))
    for out, reason in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "out.mrg", "no such file"),
    ):
        assert main(["evaluate", str(trained), str(TEST), "--out", str(out)]) == 2
        assert f"{out}: cannot write: {reason}" in capsys.readouterr().err


def test_words_are_compared_in_the_form_of_the_gold_trees(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, out = tmp_path / "gold.mrg", tmp_path / "out.mrg"
    gold.write_text(
        "".join(
            f"(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (CD {half}) (NN udon))) (. .)))\n"
            for half in ("1/2", "1\\/2", "-LCB-", "{", "“")
        )
    )
    scores = printed_json(capsys, "evaluate", trained, gold, "--delete-by", "gold", "--out", out)
    assert (scores["valid"], sum(scores["missing"].values())) == (5, 0)
    assert [t.leaves() for t in load_trees(out)] == [t.leaves() for t in load_trees(gold)]


# ---- evalb ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", ["sample", "errors", "mutated", "wsj-dev"])
def test_evalb_prints_what_evalb_prints(
    shared: Path, capfdbinary: pytest.CaptureFixture[bytes], case: str
) -> None:
    folder = shared / "evalb-cases"
    arguments = ["evalb", str(folder / f"{case}.gld"), str(folder / f"{case}.tst")]
    if case == "sample":
        arguments += ["-p", str(folder / "sample.prm")]
    assert main(arguments) == (1 if case == "errors" else 0)
    out, err = capfdbinary.readouterr()
    assert out == (folder / f"{case}.rsl").read_bytes()
    assert err == (folder / f"{case}.err").read_bytes()


def test_too_many_errors_stop_evalb_unless_they_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, test = tmp_path / "gold", tmp_path / "test"
    gold.write_text("(TOP (NP (NN a)))\n" * 15)
    test.write_text("(TOP (NP (NN b)))\n" * 14 + "(TOP (NP (NN a)))\n")
    assert main(["evalb", str(gold), str(test), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["stopped"] is True and len(err.splitlines()) == 12
    scores = printed_json(capsys, "evalb", gold, test, "--max-error", "1000")
    assert (scores["stopped"], scores["errors"], scores["valid"], scores["f1"]) == (
        False,
        14,
        1,
        100.0,
    )
    assert main(["evalb", str(gold), str(test), "-e", "1000"]) == 0
    assert "Number of Error sentence  =     14" in capsys.readouterr().out
