"""The drop-in for EVALB: its text, its messages and its exit status."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from rnnparse.errors import RnnparseError, TreebankError
from rnnparse.evaluation import EvalbParams, evalb_files, evaluate_files

# Printed by the C program for these files; every count was checked by hand. Sentence 1 needs the
# repair of a quotation mark, 2 has ADVP for PRT and a wrong tag, 3 a gold line cut short, and 4
# matches nothing, so that the F measure of the short sentences is 0/0.
PARAMETERS = """\
# comment
CUTOFF_LEN 2
DELETE_LABEL TOP
DELETE_LABEL ''
DELETE_LABEL .
QUOTE_LABEL ''
QUOTE_LABEL POS
EQ_LABEL ADVP PRT
"""
GOLD = """\
(TOP (S (NP (NP (NNS dogs) (POS ')) (NN food)) (VP (VBZ rots)) (. .)))
(TOP (S (NP-SBJ (NN rain)) (VP (VBZ falls) (ADVP (RP down)))))
(TOP (NP (NN rain))
(TOP (FRAG (X y)))
"""
TEST = """\
(TOP (S (NP (NNS dogs) ('' ')) (VP (NN food) (VP (VBZ rots))) (. .)))
(TOP (S (NP (NN rain)) (VP (VBD falls) (PRT (RP down)))))
(TOP (NP (NN rain)))
(TOP (NP (X y)))
"""
TABLE = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================
   1    5    0   75.00  75.00     3      4    4      1      4     3    75.00
   2    3    0  100.00 100.00     4      4    4      0      3     2    66.67
   3    1    1  100.00 100.00     1      1    1      0      1     1   100.00
   4    1    0    0.00   0.00     0      1    1      0      1     1   100.00
============================================================================
                 77.78  77.78      7     9     9      1      8     6    75.00
=== Summary ===

-- All --
Number of sentence        =      4
Number of Error sentence  =      1
Number of Skip  sentence  =      0
Number of Valid sentence  =      3
Bracketing Recall         =  77.78
Bracketing Precision      =  77.78
Bracketing FMeasure       =  77.78
Complete match            =  33.33
Average crossing          =   0.33
No crossing               =  66.67
2 or less crossing        = 100.00
Tagging accuracy          =  75.00

-- len<=2 --
Number of sentence        =      2
Number of Error sentence  =      1
Number of Skip  sentence  =      0
Number of Valid sentence  =      1
Bracketing Recall         =   0.00
Bracketing Precision      =   0.00
Bracketing FMeasure       =   -nan
Complete match            =   0.00
Average crossing          =   0.00
No crossing               = 100.00
2 or less crossing        = 100.00
Tagging accuracy          = 100.00
"""
MESSAGE = "3 : Bracketing is unbalanced (too many open bracket)\n"


def write(folder: Path, gold: str | bytes, test: str | bytes) -> tuple[Path, Path]:
    paths = folder / "gold", folder / "test"
    for path, text in zip(paths, (gold, test), strict=True):
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return paths


def run(
    gold: Path, test: Path, params: EvalbParams, max_error: int | None = None
) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = evalb_files(gold, test, params, max_error=max_error, out=out, err=err)
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("case", "prm", "status"),
    [
        ("wsj-dev", "COLLINS", 0),
        ("mutated", "COLLINS", 0),
        ("errors", "COLLINS", 1),
        ("sample", "sample", 0),
    ],
)
def test_equals_the_c_program_byte_for_byte(shared: Path, case: str, prm: str, status: int) -> None:
    folder = shared / "evalb-cases"
    params = EvalbParams.load(folder / f"{prm}.prm")
    result = run(folder / f"{case}.gld", folder / f"{case}.tst", params)
    expected = [(folder / f"{case}.{kind}").read_bytes().decode() for kind in ("rsl", "err")]
    assert result == (status, *expected)


def test_own_case_equals_the_c_program(tmp_path: Path) -> None:
    (tmp_path / "own.prm").write_text(PARAMETERS)
    params = EvalbParams.load(tmp_path / "own.prm")
    assert run(*write(tmp_path, GOLD, TEST), params) == (0, TABLE, MESSAGE)


def test_carriage_returns_byte_order_mark_and_missing_last_newline(tmp_path: Path) -> None:
    (tmp_path / "own.prm").write_text(PARAMETERS)
    params = EvalbParams.load(tmp_path / "own.prm")
    gold = b"\xef\xbb\xbf" + GOLD.replace("\n", "\r\n").encode()
    assert run(*write(tmp_path, gold, TEST.rstrip("\n")), params) == (0, TABLE, MESSAGE)


def test_words_go_through_as_bytes(tmp_path: Path) -> None:
    paths = write(tmp_path, b"(S (N caf\xe9))\n(S (N \xc3\xa9))\n", b"(S (N cafe))\n(S (N e))\n")
    with open(tmp_path / "err", "w", encoding="ascii") as err:
        evalb_files(*paths, EvalbParams(), out=io.StringIO(), err=err)
    expected = b"1 : Words unmatch (caf\xe9|cafe)\n2 : Words unmatch (\xc3\xa9|e)\n"
    assert (tmp_path / "err").read_bytes() == expected


def test_standard_streams_are_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write(tmp_path, "(S (N a))\n", "(S (N b))\n")
    assert evalb_files(*paths, EvalbParams()) == 0
    captured = capsys.readouterr()
    assert captured.err == "1 : Words unmatch (a|b)\n"
    assert captured.out.startswith("  Sent.")


@pytest.mark.parametrize(("limit", "messages", "rows"), [(10, 12, 11), (0, 2, 1), (-1, 1, 0)])
def test_stops_at_too_many_errors(tmp_path: Path, limit: int, messages: int, rows: int) -> None:
    paths = write(tmp_path, "(S (N a))\n" * 13, "(S (N b))\n" * 13)
    status, out, err = run(*paths, EvalbParams(max_error=limit))
    assert status == 1
    assert err.splitlines()[-1] == f"{messages} : Words unmatch (a|b)"
    assert len(out.splitlines()) == 3 + rows  # no line of sums, no summary


def test_max_error_overrides_the_parameters(tmp_path: Path) -> None:
    paths = write(tmp_path, "(S (N a))\n" * 13, "(S (N b))\n" * 13)
    status, out, err = run(*paths, EvalbParams(max_error=10), max_error=1000)
    assert (status, len(err.splitlines())) == (0, 13)
    assert "Number of Error sentence  =     13\n" in out
    assert run(*paths, EvalbParams(max_error=1000), max_error=11)[0] == 1
    assert run(*paths, EvalbParams(max_error=1000), max_error=12)[0] == 0


def test_unequal_numbers_of_lines_end_in_a_message_and_a_summary(tmp_path: Path) -> None:
    one, two = "(S (N a))\n", "(S (N a))\n(S (N a))\n"
    status, out, err = run(*write(tmp_path, two, one), EvalbParams())
    assert (status, err) == (0, "2 : Number of lines unmatch (too many lines in gold file)\n")
    assert "Number of sentence        =      1\n" in out
    status, out, err = run(*write(tmp_path, one, two), EvalbParams())
    assert (status, err) == (0, "2 : Number of lines unmatch (too many lines in test file)\n")
    assert "Number of sentence        =      1\n" in out


def test_unequal_numbers_of_lines_count_as_an_error(tmp_path: Path) -> None:
    paths = write(tmp_path, "(S (N a))\n", "(S (N a))\n(S (N a))\n")
    status, out, _ = run(*paths, EvalbParams(), max_error=-1)
    assert status == 1 and "Summary" not in out


def test_debug_prints_words_and_brackets(tmp_path: Path) -> None:
    paths = write(tmp_path, "(TOP (S (N a) (V-1 b)))\n", "(TOP (S-1 (N a) (X (V b))))\n")
    _, out, _ = run(*paths, EvalbParams(debug=1, delete_labels=("TOP",)))
    lines = out.splitlines()[4:13]
    assert [line.rstrip() for line in lines] == [
        "-<1>---(wn1=  2, bn1=  2)-           -<2>---(wn2=  2, bn2=  3)-",
        "  0 : 1 : N       a                       0 : 1 : N       a",
        "  1 : 0 : V-1     b                       1 : 0 : V       b",
        "",
        "  0 : 5 :   0    2  TOP           0 : 5 :   0    2  TOP",
        "  1 : 1 :   0    2  S             1 : 1 :   0    2  S",
        "                                  2 : 0 :   1    2  X",
        "",
        "========",
    ]


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        ("(S (N a)))", ":2:10:", "extra closing bracket"),
        ("(S (N a b))", ":2:7:", "'a'"),
        ("(S stray (N a))", ":2:4:", "'stray'"),
        ("text", ":2:1:", "'text'"),
        (") (S (N a))", ":2:1:", "extra closing bracket"),
    ],
)
def test_what_makes_evalb_loop_or_crash_is_a_clear_error(
    tmp_path: Path, line: str, place: str, words: str
) -> None:
    good = "(S (N a))"
    for gold, test, culprit in ((line, good, "gold"), (good, line, "test")):
        paths = write(tmp_path, f"{good}\n{gold}\n", f"{good}\n{test}\n")
        out = io.StringIO()
        with pytest.raises(TreebankError) as caught:
            evalb_files(*paths, EvalbParams(), out=out)
        assert str(caught.value).startswith(f"{tmp_path / culprit}{place}")
        assert words in str(caught.value)
        assert out.getvalue() == ""


def test_a_tree_over_several_lines_is_a_clear_error(tmp_path: Path) -> None:
    paths = write(tmp_path, "(S (N a)\n   (V b))\n", "(S (N a) (V b))\n(S (N c))\n")
    with pytest.raises(TreebankError, match=r"gold:2:9: .*must have its own line"):
        evalb_files(*paths, EvalbParams())


def test_missing_and_empty_files(tmp_path: Path) -> None:
    good, empty = write(tmp_path, "(S (N a))\n", "")
    for paths in ((empty, good), (good, empty)):
        with pytest.raises(TreebankError, match="test: the file is empty"):
            evaluate_files(*paths, EvalbParams())
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(RnnparseError, match="cannot read"):
            evaluate_files(path, good, EvalbParams())


def test_long_sentences_words_and_labels_fit(tmp_path: Path) -> None:
    word, label = "w" * 300, "L" * 100
    line = f"(S ({label} " + f"(N {word}) " * 400 + "))\n"
    evaluation = evaluate_files(*write(tmp_path, line, line), EvalbParams())
    assert evaluation.summary()["f1"] == 100.0
    assert evaluation.sentences[0].length == 400


def test_command_path_imports_neither_nltk_nor_numpy() -> None:
    code = (
        "import sys; from rnnparse.evaluation import EvalbParams, evalb_files, evaluate_files; "
        "assert not {'nltk', 'numpy', 'tensorflow'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
