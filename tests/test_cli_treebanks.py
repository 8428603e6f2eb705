"""Real treebanks on the command line: empty and malformed trees, traces, encodings, depth."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from rnnparse.cli import main
from rnnparse.cli.treebank_style import add_style, given_style
from rnnparse.evaluation import EvalbParams, evaluate_files
from rnnparse.trees.brackets import format_tree, load_trees
from rnnparse.trees.cleaning import words
from tests.grammar.small import trees

EMPTY = "( (S (NP-SBJ (-NONE- *pro*)) (VP (-NONE- *?*))) )"


def evaluation(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[dict, str]:
    assert main(["evaluate", *map(str, arguments), "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def test_trees_without_words_keep_their_place(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full, plain, out = tmp_path / "full.mrg", tmp_path / "plain.mrg", tmp_path / "out.mrg"
    sentences = [format_tree(tree) for tree in trees(6)]
    plain.write_text("\n".join(sentences))
    full.write_text("\n".join([EMPTY, *sentences[:3], "(())", *sentences[3:], EMPTY, ""]))
    options = ["--attachments", "--by-label", "--by-length"]
    expected, _ = evaluation(capsys, model, plain, *options)
    scores, messages = evaluation(capsys, model, full, "--out", out, *options)
    assert "3 gold tree(s) without words do not count: 1, 5, 9" in messages
    lines = out.read_text().splitlines()
    assert [i for i, line in enumerate(lines) if line == "(())"] == [0, 4, 8]
    assert len(lines) == 9 == scores["sentences"]
    for name in ("f1", "words", "gold_brackets", "complete_match", "attachments", "by_label"):
        assert scores[name] == expected[name]
    assert (scores["skipped"], expected["skipped"]) == (3, 0)
    evalb = evaluate_files(full, out, EvalbParams.collins()).summary()
    assert evalb["f1"] == scores["f1"] and evalb["skipped"] == 3 and evalb["errors"] == 0
    against, _ = evaluation(capsys, model, full, "--against", out)
    assert against["against"]["difference"] == 0 and against["against"]["sentences"] == 6


def test_malformed_gold_trees_are_skipped_unless_strict(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, out = tmp_path / "gold.mrg", tmp_path / "out.mrg"
    sentences = [format_tree(tree) for tree in trees(3)]
    gold.write_text("\n".join([sentences[0], "(S (N a b))", *sentences[1:]]))
    _, messages = evaluation(capsys, model, gold, "--out", out)
    assert f"warning: {gold}:2:9: expected ')' after the word 'a' of (N, found a sec" in messages
    assert "skipped 1 malformed tree(s)" in messages
    assert len(load_trees(out)) == 3
    assert main(["evaluate", str(model), str(gold), "--strict"]) == 2
    assert capsys.readouterr().err.startswith(f"rnnparse: error: {gold}:2:9: ")


def test_bare_traces_in_gold_trees(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, bare, out = tmp_path / "plain.mrg", tmp_path / "bare.mrg", tmp_path / "out.mrg"
    tree = trees(1)[0]
    plain.write_text(format_tree(tree))
    bare.write_text(f"( (CODE <x>) (NP-SBJ *con*) {format_tree(tree)} (ID 1,.2))")
    expected, _ = evaluation(capsys, model, plain)
    scores, messages = evaluation(capsys, model, bare, "--out", out)
    assert scores["f1"] == expected["f1"] and scores["words"] == expected["words"]
    assert "removed 2 node(s) labelled CODE, ID (--drop) and 1 trace(s)" in messages
    assert words(load_trees(out)[0]) == words(tree)


def test_a_gold_tree_with_other_separators(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, marked = tmp_path / "plain.mrg", tmp_path / "marked.mrg"
    tree = trees(1)[0]
    plain.write_text(format_tree(tree))
    marked.write_text(format_tree(tree).replace("(NP ", "(NP*OC ").replace("(S ", "(S##x-y "))
    expected, _ = evaluation(capsys, model, plain)
    scores, _ = evaluation(capsys, model, marked, "--label-separators=default,*,##")
    assert scores["f1"] == expected["f1"]
    assert evaluation(capsys, model, marked)[0]["f1"] != expected["f1"]


def test_encodings_of_gold_trees(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "(TOP (S (NP (NN piñata)) (VP (VBD fiel)) (. .)))\n"
    gold, out = tmp_path / "gold.mrg", tmp_path / "out.mrg"
    gold.write_text(text, encoding="latin-1")
    evaluation(capsys, model, gold, "--encoding", "latin-1", "--out", out)
    assert words(load_trees(out)[0])[0] == "piñata"
    assert main(["evaluate", str(model), str(gold)]) == 2
    assert "gold.mrg:1:19: the byte 0xF1 does not fit the encoding; name" in capsys.readouterr().err
    assert main(["evaluate", str(model), str(gold), "--encoding", "utf-9"]) == 2
    assert "error: unknown encoding 'utf-9'" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8"])
def test_encodings_of_evalb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    gold = tmp_path / "gold.mrg"
    other = tmp_path / "other.mrg"
    gold.write_text("(TOP (S (NN piñata)))\n(TOP (S (NN ß)))\n", encoding=encoding)
    other.write_text("(TOP (S (NN pinata)))\n(TOP (S (NN ß)))\n", encoding=encoding)
    assert main(["evalb", str(gold), str(other), "--encoding", encoding]) == 0
    captured = capsys.readouterr()
    assert captured.err == "1 : Words unmatch (piñata|pinata)\n"
    gold.write_bytes(b"(TOP (S (NN a)))\n(TOP (S (NN \xf1)))\n")
    if encoding == "utf-8":
        assert main(["evalb", str(gold), str(gold), "--encoding", encoding]) == 2
        assert f"{gold}:2:13: the byte 0xF1 is invalid in utf-8" in capsys.readouterr().err
        assert main(["evalb", str(gold), str(gold)]) == 0


def test_a_tree_a_thousand_levels_deep(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, out = tmp_path / "gold.mrg", tmp_path / "out.mrg"
    gold.write_text("(X (NP " * 1500 + "(NN a)" + "))" * 1500 + "\n(S (NN a) (NN b))\n")
    options = ["--attachments", "--by-label", "--by-length", "--against", out]
    out.write_text("(S (NN a))\n(S (NN a) (NN b))\n")
    scores, _ = evaluation(capsys, model, gold, *options)
    assert scores["sentences"] == 2 and scores["errors"] == 0


def test_training_with_conventions_of_the_treebank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.mrg"
    lines = [format_tree(tree).replace("(NP ", "(NP*X ") for tree in trees(12)]
    file.write_text("\n".join([*lines, "# end", EMPTY, "(S (NN ñ)", ""]), encoding="latin-1")
    options = [
        *("--candidates", "5", "--dim", "3", "--epochs", "1", "--cache", str(tmp_path / "cache")),
        *("--encoding", "latin-1", "--label-separators", "default,*"),
    ]
    assert main(["train", str(file), "--out", str(tmp_path / "model"), *options]) == 0
    messages = capsys.readouterr().err
    assert f"{file}:15:1: the tree that begins here is not closed" in messages
    assert "skipped 1 malformed tree(s)" in messages
    assert f"{file}: 1 tree(s) hold only traces" in messages
    settings = json.loads((tmp_path / "model" / "config.json").read_text())["about"]["config"]
    assert settings["style"] == {"encoding": "latin-1", "separators": ["-", "=", "|", "*"]}
    plain = tmp_path / "plain.mrg"
    plain.write_text("\n".join(line.replace("*X", "") for line in lines))
    assert main(["train", str(plain), "--out", str(tmp_path / "plain"), *options[:8]]) == 0
    grammars = [(tmp_path / name / "grammar.npz").read_bytes() for name in ("model", "plain")]
    assert grammars[0] == grammars[1]
    assert (
        "style"
        not in json.loads((tmp_path / "plain" / "config.json").read_text())["about"]["config"]
    )


def test_options_of_a_style() -> None:
    def given(*arguments: str) -> dict:
        parser = argparse.ArgumentParser()
        add_style(parser)
        return given_style(parser.parse_args(arguments))

    assert given() == {}
    assert given("--traces", "", "--drop=", "--strict")["style"] == {
        "traces": [], "drop": [], "strict": True
    }  # fmt: skip
    assert given("--treebank-style", "cess", "--encoding", "utf-8")["style"] == {
        "encoding": "utf-8", "lemmas": True
    }  # fmt: skip
    assert given("--label-separators=-,##")["style"] == {"separators": ["-", "##"]}
