"""`rnnparse parse`: every line is answered in its turn, whatever is in it."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nltk.tree import Tree

import rnnparse.ranking
from rnnparse.cli import main
from rnnparse.cli.console_text import Numbers, _guarded
from rnnparse.input_sentences import LONGEST_TEXT
from rnnparse.parser import load
from rnnparse.trees.brackets import load_trees, read_trees, unescape_token
from rnnparse.trees.tokenizer import tokenize

PROGRAM = [sys.executable, "-m", "rnnparse"]
FORKS = (
    "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN udon)) (PP (IN with) (NP (NNS forks)))) (. .)))"
)
CHICKEN = (
    "(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NP (NN udon)) (PP (IN with) (NP (NN chicken)))))"
    " (. .)))"
)
LINES = [
    "They ate udon with forks.",
    "",
    "They ate udon with chicken.",
    "Solano(r) called (713)853-7041 at 3:30 p.m.",
    " \t ",
    "Hello",
    "“Naïve” [Ärzte] {saw} it’s — 日本語 👩‍🔬!",
]

Parse = Callable[..., Any]
"""Runs the command on lines; the result has what it printed as `out` and `err`."""


@pytest.fixture
def parse(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Parse:
    def run(lines: list[str], *options: str) -> Any:
        file = tmp_path / "in.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        assert main(["parse", str(trained), str(file), *options]) == 0
        return capsys.readouterr()

    return run


def plain_words(line: str) -> list[str]:
    """The words of a tree in brackets as people write them."""
    return [unescape_token(word) for word in Tree.fromstring(line).leaves()]


def test_the_words_decide_the_attachment(parse: Parse) -> None:
    assert parse([LINES[0], LINES[2]]).out == f"{FORKS}\n{CHICKEN}\n"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_tree_a_line_in_order(parse: Parse, jobs: str) -> None:
    printed = parse(LINES * 3, "--jobs", jobs).out.splitlines()
    assert len(printed) == len(LINES) * 3
    for line, tree in zip(LINES * 3, printed, strict=True):
        tokens = tokenize(line)
        assert tree == "(())" if not tokens else plain_words(tree) == tokens


def test_batches_of_several_threads_keep_the_order(
    parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rnnparse.ranking, "CHUNK", 3)
    printed = parse([f"They ate {n} forks." for n in range(20)], "--jobs", "2").out.splitlines()
    assert [plain_words(tree)[2] for tree in printed] == [str(n) for n in range(20)]


def test_written_trees_read_back(parse: Parse, tmp_path: Path) -> None:
    lines = [line for line in LINES if line.strip()]
    assert parse(lines, "--out", str(tmp_path / "trees.mrg.gz")).out == ""
    trees = load_trees(tmp_path / "trees.mrg.gz")
    assert [tuple(map(unescape_token, tree.leaves())) for tree in trees] == [
        tuple(tokenize(line)) for line in lines
    ]


def test_n_best_lists_end_in_an_empty_line(parse: Parse) -> None:
    printed = parse(LINES[:3], "--n-best", "3").out
    blocks = [block.split("\n") for block in printed.removesuffix("\n\n").split("\n\n")]
    assert [len(block) for block in blocks] == [2, 1, 2] or all(map(len, blocks))
    assert blocks[0][0] == FORKS and blocks[1] == ["(())"] and blocks[2][0] == CHICKEN
    assert 2 <= len(blocks[0]) <= 3 and len(set(blocks[0])) == len(blocks[0])


def test_json_has_everything(parse: Parse, trained: Path) -> None:
    printed = parse(LINES[:3], "--format", "json", "--n-best", "2").out
    forks, empty, chicken = map(json.loads, printed.splitlines())
    assert empty == {
        "sentence": 2, "tokens": [], "offsets": [], "glued": False, "divided": False, "trees": [],
    }  # fmt: skip
    assert (forks["sentence"], chicken["sentence"]) == (1, 3)
    assert forks["tokens"] == ["They", "ate", "udon", "with", "forks", "."]
    assert forks["offsets"] == [[0, 4], [5, 8], [9, 13], [14, 18], [19, 24], [24, 25]]
    assert forks["trees"][0]["constituents"][1]["characters"] == [0, 25]
    assert forks["trees"][0]["tree"] == FORKS and chicken["trees"][0]["tree"] == CHICKEN
    model = load(trained)
    for scored in forks["trees"]:
        total = scored["rnn_score"] + model.beta * scored["log_probability"]
        assert scored["score"] == pytest.approx(total)
        assert scored["rnn_score"] == pytest.approx(
            model.score(Tree.fromstring(scored["tree"])), abs=1e-5
        )
    assert forks["trees"][0]["score"] >= forks["trees"][1]["score"]


def test_the_pcfg_alone_ranks_by_probability(parse: Parse) -> None:
    options = ("--format", "json", "--n-best", "5", "--scorer", "pcfg")
    (line,) = parse(LINES[:1], *options).out.splitlines()
    trees = json.loads(line)["trees"]
    assert [tree["score"] for tree in trees] == [tree["log_probability"] for tree in trees]
    assert trees == sorted(trees, key=lambda tree: -tree["score"]) and len(trees) > 1


def test_drawings(parse: Parse) -> None:
    printed = parse(LINES[:2], "--format", "pretty").out
    assert "They ate udon with     forks  ." in printed and printed.endswith("\n\n(())\n\n")
    ranked = parse(LINES[:1], "--format", "pretty", "--n-best", "2").out
    assert ranked.startswith("1, tree 1: score ") and "\n1, tree 2: score " in ranked


def test_tokens_are_taken_as_they_are(parse: Parse) -> None:
    line = "Solano(r) ( ate\u00a0all -LRB- 'udon' can't ."
    printed = parse([line], "--tokenized").out
    (tree,) = read_trees(io.StringIO(printed))
    assert tree.leaves() == [
        "Solano-LRB-r-RRB-", "-LRB-", "ate\u00a0all", "-LRB-", "'udon'", "can't", ".",
    ]  # fmt: skip


def test_glued_sentences_are_counted_and_marked(parse: Parse) -> None:
    printed = parse(["They ate.", "", "with with", "ate ate"], "--format", "json")
    assert [json.loads(line)["glued"] for line in printed.out.splitlines()] == [
        False, False, True, True,
    ]  # fmt: skip
    assert printed.err == (
        "rnnparse: the grammar cannot span 2 sentence(s); their trees are glued from "
        "partial trees: 3, 4\n"
    )


def test_sentences_over_the_budget_are_counted_and_marked_apart_from_glued_ones(
    parse: Parse,
) -> None:
    lines = ["They ate.", "with with", LINES[2] * 2, LINES[0]]
    printed = parse(lines, "--format", "json", "--max-length", "6", "--n-best", "2")
    results = [json.loads(line) for line in printed.out.splitlines()]
    flags = [(result["glued"], result["divided"]) for result in results]
    assert flags == [(False, False), (True, False), (True, True), (False, False)]
    assert [len(result["trees"]) for result in results[2:]] == [1, 2]
    glued = (
        "rnnparse: the grammar cannot span 1 sentence(s); their trees are glued from "
        "partial trees: 2\n"
    )
    divided = "rnnparse: 1 sentence(s) exceeded the budget and were parsed in parts: 3\n"
    assert printed.err == glued + divided
    assert parse(lines, "--max-length", "6").err == glued + divided  # brackets cannot show it
    drawn = parse(lines, "--format", "pretty", "--max-length", "6").out
    assert drawn.count("exceeded the budget") == 1
    assert "\n3: exceeded the budget and was parsed in parts\n" in drawn
    assert "exceeded" not in "".join(parse(lines, "--format", "pretty"))


@pytest.mark.parametrize(
    "budget", [("--max-length", "5"), ("--max-memory", "1"), ("--max-seconds", "0.001")]
)
def test_every_budget_divides_and_keeps_all_tokens(parse: Parse, budget: tuple[str, str]) -> None:
    lines = [" ".join(["they ate udon with the man that met Anna in a park ,"] * 30), "They ate ."]
    printed = parse(lines, "--tokenized", *budget)
    assert [plain_words(tree) for tree in printed.out.splitlines()] == [li.split() for li in lines]
    assert printed.err == (
        "rnnparse: 1 sentence(s) exceeded the budget and were parsed in parts: 1\n"
    )


def test_an_exact_search_finds_the_best_tree_of_the_grammar(parse: Parse) -> None:
    options = ("--format", "json", "--scorer", "pcfg")
    lines = [line for line in LINES if line.strip()]
    printed = [parse(lines, *options, *more).out.splitlines() for more in ((), ("--exact",))]
    pruned, exact = (
        [json.loads(line)["trees"][0]["score"] for line in answers] for answers in printed
    )
    assert all(best >= found - 1e-9 for best, found in zip(exact, pruned, strict=True))
    assert exact[0] == pytest.approx(pruned[0])


def test_long_sentences_and_single_words(parse: Parse) -> None:
    lines = [" ".join(["they ate udon with the man that met Anna in a park"] * 27), "udon", "?"]
    printed = parse(lines).out.splitlines()
    assert [plain_words(tree) for tree in printed] == [line.split() for line in lines]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_standard_input_and_bytes_of_all_kinds(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    data = b"\xef\xbb\xbfThey ate.\r\nThey \xff\xe9ate\r.\n\nThey\0ate."
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["parse", str(trained), "--jobs", jobs]) == 0
    out, err = capsys.readouterr()
    assert [plain_words(line) for line in out.splitlines()] == [
        ["They", "ate", "."], ["They", "��ate", "."], [], ["They�ate", "."],
    ]  # fmt: skip
    assert "read as � on 2 line(s) of -: 2, 4" in err


def test_compressed_input(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = gzip.compress(b"They ate udon with forks.\n")
    (tmp_path / "in.gz").write_bytes(data)
    assert main(["parse", str(trained), str(tmp_path / "in.gz")]) == 0
    assert capsys.readouterr().out == FORKS + "\n"
    (tmp_path / "in.gz").write_bytes(data[:-10])
    assert main(["parse", str(trained), str(tmp_path / "in.gz")]) == 2
    assert "in.gz: cannot read: " in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_lines_that_cannot_be_parsed_are_answered_in_their_place(
    parse: Parse, tmp_path: Path, jobs: str
) -> None:
    word, text = "x" * (LONGEST_TEXT + 1), "x y " * (LONGEST_TEXT // 4 + 1)
    lines = ["They ate udon with forks.", word, "", text, "They ate udon with chicken."]
    out = tmp_path / "trees.mrg"
    printed = parse(lines, "--jobs", jobs, "--out", str(out))
    assert out.read_text() == f"{FORKS}\n(())\n(())\n(())\n{CHICKEN}\n"
    assert printed.err == (
        f"rnnparse: warning: 2 line(s) of {tmp_path / 'in.txt'} could not be parsed; their "
        "output is (()): 2, 4; the first: the sentence has more than 1,048,576 characters; split "
        "it into sentences\n"
    )
    shown = parse(lines, "--jobs", jobs, "--format", "json", "--tokenized").out.splitlines()
    errors = [json.loads(line).get("error", "") for line in shown]
    assert [bool(error) for error in errors] == [False, True, False, True, False]
    assert "1,048,576 characters" in errors[1] and errors[1] == errors[3]
    assert json.loads(shown[1])["trees"] == json.loads(shown[1])["tokens"] == []
    several = parse(lines[:2], "--jobs", jobs, "--n-best", "2").out
    assert several.endswith("\n\n(())\n\n")


def test_a_message_about_many_lines_takes_no_more_memory_than_one_about_a_few() -> None:
    few, many = Numbers(range(1, 12)), Numbers(range(1, 10**5))
    assert (len(few), len(many)) == (11, 99_999)
    assert str(few) == str(many) == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"
    assert str(Numbers([3, 9])) == "3, 9" and not Numbers()
    assert len(pickle.dumps(many)) <= len(pickle.dumps(few)) + 8


def test_an_endless_line_takes_no_more_memory_than_a_long_one() -> None:
    class Endless(io.StringIO):
        """A stream of `count` characters in one line, and a line after it."""

        count = 10**9

        def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
            assert 0 < size <= LONGEST_TEXT + 1
            size, self.count = min(size, self.count), max(0, self.count - size * 50)
            return "x" * size if size else super().readline()

    lines = list(_guarded(Endless("\nThey ate.\n"), "-", LONGEST_TEXT))
    assert [len(line) for line in lines] == [LONGEST_TEXT + 1, 10]


def test_binary_input_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_bytes("They ate.\n".encode("utf-16"))
    assert main(["parse", str(trained), str(tmp_path / "in.txt")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "in.txt:1: NUL character" in err


def test_empty_input_gives_empty_output(parse: Parse) -> None:
    assert parse([]) == ("", "")


def test_the_former_name_of_n_best_is_refused_with_the_present_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["parse", "model", "--kbest", "5"])
    assert "argument --kbest: the former name; use --n-best 5\n" in capsys.readouterr().err


def test_output_appears_when_it_is_complete(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.mrg"
    out.write_text("old")
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"They ate.\n" * 3)[:-10])
    assert main(["parse", str(trained), str(tmp_path / "in.gz"), "--out", str(out)]) == 2
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.gz", "out.mrg"]
    (tmp_path / "in.txt").write_bytes(b"They ate.\n")
    assert main(["parse", str(trained), str(tmp_path / "in.txt"), "--out", "/dev/null/x"]) == 2
    assert "/dev/null/x: cannot write: not a directory" in capsys.readouterr().err


def test_each_line_is_answered_before_the_next_is_read(trained: Path) -> None:
    run = subprocess.Popen(
        [*PROGRAM, "parse", trained], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdin is not None and run.stdout is not None
    for line, tree in zip(LINES[:3], (FORKS, "(())", CHICKEN), strict=True):
        run.stdin.write(line + "\n")
        run.stdin.flush()
        assert run.stdout.readline() == tree + "\n"
    assert run.communicate()[0] == "" and run.returncode == 0


@pytest.mark.parametrize("jobs", ["2", pytest.param("1", marks=pytest.mark.slow)])
def test_a_reader_who_leaves_is_no_error(trained: Path, tmp_path: Path, jobs: str) -> None:
    (tmp_path / "in.txt").write_text("They ate udon with forks.\n" * 300)
    run = subprocess.Popen(
        [*PROGRAM, "parse", trained, tmp_path / "in.txt", "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None and run.stderr is not None
    assert run.stdout.readline() == FORKS + "\n"
    run.stdout.close()
    assert run.stderr.read() == "" and run.wait() == 141


def test_a_tree_is_there_without_tensorflow(trained: Path) -> None:
    code = "import sys; from rnnparse.cli import main; status = main(sys.argv[1:])"
    code += "; sys.exit(status or 9 * ('tensorflow' in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, "parse", trained],
        input="They ate udon with forks.\n",
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, FORKS + "\n")
